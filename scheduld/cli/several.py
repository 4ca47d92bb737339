"""Commands that take one task or several, and what they say when an answer is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduld.cli.common import common
from scheduld.cli.completing import task_refs
from scheduld.cli.output import RepeatSafely, report, say, say_json
from scheduld.cli.repeating import command_line, unknown
from scheduld.errors import OutcomeUnknown, ScheduldError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduld.cli.common import Session
    from scheduld.model import Task

REFS = click.argument(
    "refs", metavar="TYPE/ID...", nargs=-1, required=True, shell_complete=task_refs
)


def of_each(opened: Session, refs: Sequence[str], do: Callable[[str, str], None]) -> None:
    """Do something to each task, in order.

    What is refused by the state of one of several is told, and the rest goes on; then the
    command ends with 1. Anything else ends it at once.
    """
    refused = 0
    for ref in refs:
        try:
            do(*opened.task_named(ref))
        except ScheduldError as exc:
            if len(refs) == 1 or exc.exit_code != ScheduldError.exit_code:
                raise
            report(exc, as_json=common().json)
            refused = exc.exit_code
    if refused:
        click.get_current_context().exit(refused)


def tell(task: Task, word: str) -> None:
    """Print a task and what became of it."""
    if common().json:
        say_json(task.to_dict())
    else:
        say(f"{task.ref} {word}")


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
