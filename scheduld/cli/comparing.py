"""`config diff`: what another config would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scheduld.cli.common import CONFIG, JSON, common
from scheduld.cli.completing import files
from scheduld.cli.loading import load_checked, print_problems
from scheduld.cli.output import note, say, say_json
from scheduld.errors import ConfigError
from scheduld.names import printable

if TYPE_CHECKING:
    from scheduld.config.compare import Change, Side
    from scheduld.config.load import Loaded

_EXAMPLES = """\b
Examples:
  scheduld config diff new.toml
  scheduld config diff new.toml --config /etc/scheduld/scheduld.toml --json
"""
_LEFT_TYPE = "; its tasks stay, and nobody works on them"
_LEFT_SCHEDULE = "; 10 minutes later its waiting tasks are cancelled"


@click.group("config", no_args_is_help=False)
@CONFIG
@JSON
def config_command() -> None:
    """Compare config files."""


@config_command.command("diff", epilog=_EXAMPLES)
@click.argument("new", metavar="NEW", shell_complete=files)
@CONFIG
@JSON
def diff_command(new: str) -> None:
    """Tell what another config would change.

    Compares the config in force, found as always, with the file NEW, which is checked as "check"
    does. The same value written in another way is no difference. Of schedules it is told which
    next times move. What may be a secret (options, payloads, passwords in URLs) is not shown.
    With --json one change a line.
    """
    before, after = _both(new)
    from scheduld.clock import wall_ms
    from scheduld.config.compare import compare
    from scheduld.config.moving import moves

    changes = [*compare(before, after), *moves(before.config, after.config, wall_ms())]
    if common().json:
        for change in changes:
            say_json(_dict(change))
    elif changes:
        say("\n".join(printable(_line(change)) for change in changes))
        note("scheduld: a daemon takes the new config when it is restarted")
    else:
        say("no difference")


def _both(new: str) -> tuple[Loaded, Loaded]:
    from scheduld.config.load import load_whole

    try:
        # The handlers of the old one are not asked for: only a daemon needs them.
        before = load_whole(common().config)
        for text in before.config.notes:
            note(f"scheduld: {printable(text)}")
        return before, load_checked(new)
    except ConfigError as exc:
        if common().json:
            raise
        print_problems(exc)
        click.get_current_context().exit(exc.exit_code)


def _line(change: Change) -> str:
    if change.key is None:
        left = ""
        if change.what == "removed":
            left = _LEFT_SCHEDULE if change.table.startswith("schedules.") else _LEFT_TYPE
        return f"[{change.table}]: {change.what}{left}"
    place = f"[{change.table}] {change.key}: "
    if change.old and change.new:
        one, other = str(change.old), str(change.new)
        return place + (f"{one} -> {other}" if one != other else f"changed, {other}")
    if change.key == "next":
        return f"{place}{change.new}"
    return place + f"{change.what} {change.old or change.new}"


def _dict(change: Change) -> dict[str, Any]:
    return {
        "change": change.what,
        "table": change.table,
        "key": change.key,
        "old": _side(change.old),
        "new": _side(change.new),
        "restart": True,
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {"value": side.value, "default": side.is_default, "hidden": side.is_hidden}
