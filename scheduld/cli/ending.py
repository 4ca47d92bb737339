"""`cancel` and `requeue`: the end of a task, and a new life after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduld.cli.common import COMMON, REF, common, session
from scheduld.cli.output import RepeatSafely, say, say_json
from scheduld.cli.repeating import command_line, unknown
from scheduld.errors import OutcomeUnknown
from scheduld.model import State

if TYPE_CHECKING:
    from scheduld.model import Task

_CANCEL_EXAMPLES = """\b
Examples:
  scheduld cancel hello/welcome-42
  scheduld cancel welcome-42 --json
"""
_REQUEUE_EXAMPLES = """\b
Examples:
  scheduld requeue hello/welcome-42
  scheduld list --state dead
"""


@click.command("cancel", epilog=_CANCEL_EXAMPLES)
@REF
@COMMON
def cancel_command(ref: str) -> None:
    """Cancel a task, or ask its run to stop.

    Prints TYPE/ID and "cancelled", or "cancelling" where it runs.
    """
    with session() as opened:
        type_name, task_id = opened.task_named(ref)
        try:
            task = opened.client.cancel(type_name, task_id)
        except OutcomeUnknown as exc:
            command = command_line("cancel", {}, common(), [f"{type_name}/{task_id}"])
            message = unknown(exc.message, "it may be cancelled or not", common())
            raise RepeatSafely(message, command) from None
    _tell(task, "cancelling" if task.state is State.RUNNING else "cancelled")


@click.command("requeue", epilog=_REQUEUE_EXAMPLES)
@REF
@COMMON
def requeue_command(ref: str) -> None:
    """Schedule an ended task again.

    A done, cancelled or dead one: due now, its counters at zero. Prints TYPE/ID and "scheduled".
    """
    with session() as opened:
        type_name, task_id = opened.task_named(ref)
        try:
            task = opened.client.requeue(type_name, task_id)
        except OutcomeUnknown as exc:
            # A repeat could run it once more, if it was requeued and has ended again since.
            command = command_line("show", {}, common(), [f"{type_name}/{task_id}"])
            message = unknown(exc.message, "it may be scheduled again or not", common())
            raise OutcomeUnknown(message, hint=f"look first: {command}") from None
    _tell(task, "scheduled")


def _tell(task: Task, word: str) -> None:
    if common().json:
        say_json(task.to_dict())
    else:
        say(f"{task.ref} {word}")
