"""`pause` and `resume`: whether the tasks of a type are run."""

from __future__ import annotations

import click

from scheduld.cli.common import COMMON, common, session
from scheduld.cli.completing import type_names
from scheduld.cli.output import say, say_json, telling_done
from scheduld.cli.several import repeat
from scheduld.errors import OutcomeUnknown
from scheduld.names import printable

_PAUSE_EXAMPLES = """\b
Examples:
  scheduld pause hello --reason "the mail server moves"
  scheduld stats
"""
_RESUME_EXAMPLES = """\b
Examples:
  scheduld resume hello
"""
_TYPE = click.argument("type_name", metavar="TYPE", shell_complete=type_names)


@click.command("pause", epilog=_PAUSE_EXAMPLES)
@_TYPE
@click.option("--reason", metavar="TEXT", help="Why; shown by stats, list and show.")
@COMMON
def pause_command(type_name: str, reason: str | None) -> None:
    """Start no more tasks of a type.

    On all replicas, until "resume". What runs goes on; tasks can be added, edited and cancelled.
    A second pause changes the reason.
    """
    with session() as opened:
        try:
            pause = opened.client.pause(type_name, reason=reason)
        except OutcomeUnknown as exc:
            options = {"--reason": reason}
            may = "it may be paused or not"
            raise repeat(exc, "pause", [type_name], may=may, options=options) from None
    with telling_done(f"{type_name} is paused"):
        if common().json:
            from scheduld.cli.telling import pause_dict

            say_json(pause_dict(pause))
        else:
            say(printable(f"{type_name} paused" + (f": {reason}" if reason else "")))


@click.command("resume", epilog=_RESUME_EXAMPLES)
@_TYPE
@COMMON
def resume_command(type_name: str) -> None:
    """Start tasks of a paused type again.

    What has become due meanwhile starts at once, the oldest first.
    """
    with session() as opened:
        try:
            was_paused = opened.client.resume(type_name)
        except OutcomeUnknown as exc:
            may = "it may be resumed or not"
            raise repeat(exc, "resume", [type_name], may=may) from None
    with telling_done(f"{type_name} is not paused"):
        _tell_resumed(type_name, was_paused=was_paused)


def _tell_resumed(type_name: str, *, was_paused: bool) -> None:
    if common().json:
        say_json({"type": type_name, "was_paused": was_paused})
    else:
        say(f"{type_name} {'resumed' if was_paused else 'was not paused'}")
