"""Commands that take one task or several, and what they say when an answer is lost."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from scheduld.cli.common import common
from scheduld.cli.completing import task_refs
from scheduld.cli.output import RepeatSafely, report, say_all, telling_done
from scheduld.cli.repeating import command_line, unknown
from scheduld.errors import OutcomeUnknown, ScheduldError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduld.cli.common import Session
    from scheduld.model import Task

REFS = click.argument(
    "refs", metavar="TYPE/ID...", nargs=-1, required=True, shell_complete=task_refs
)


def of_each(
    opened: Session, refs: Sequence[str], do: Callable[[str, str], tuple[Task, str]]
) -> None:
    """Do something to each task, in order, then print each with the word for what became of it.

    What is refused by the state of one of several is told, and the rest goes on; then the
    command ends with 1. Anything else ends it at once.
    """
    done: list[tuple[Task, str]] = []
    refused = 0
    for ref in refs:
        try:
            done.append(do(*opened.task_named(ref)))
        except ScheduldError as exc:
            if len(refs) == 1 or exc.exit_code != ScheduldError.exit_code:
                with suppress(BrokenPipeError, ScheduldError):
                    _tell(done)
                raise
            report(exc, as_json=common().json)
            refused = exc.exit_code
    # At the end: when nobody reads any longer, all the same all is done.
    _tell(done)
    if refused:
        click.get_current_context().exit(refused)


def _tell(done: Sequence[tuple[Task, str]]) -> None:
    as_json = common().json
    with telling_done(f"{len(done)} of them done" if len(done) > 1 else "it is done"):
        say_all(
            json.dumps(task.to_dict()) if as_json else f"{task.ref} {word}" for task, word in done
        )


def repeat(
    error: OutcomeUnknown,
    name: str,
    rest: Sequence[str],
    *,
    may: str,
    options: Mapping[str, str | bool | None] | None = None,
) -> RepeatSafely:
    """Say what is unknown, with the command that may be repeated."""
    command = command_line(name, options or {}, common(), rest)
    return RepeatSafely(unknown(error.message, may, common()), command)


def look_first(
    error: OutcomeUnknown,
    name: str,
    rest: Sequence[str],
    *,
    may: str,
    options: Mapping[str, str | bool | None] | None = None,
) -> OutcomeUnknown:
    """Say what is unknown, with the command that tells, where a repeat could do harm."""
    command = command_line(name, options or {}, common(), rest)
    message = unknown(error.message, may, common())
    return OutcomeUnknown(message, hint=f"look first: {command}")
