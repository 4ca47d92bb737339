"""`cancel` and `requeue`: the end of a task, and a new life after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from scheduld.cli.common import COMMON, common, session
from scheduld.cli.completing import task_refs, type_names
from scheduld.cli.confirming import NotConfirmed
from scheduld.cli.output import say, say_json, telling_done
from scheduld.cli.several import REFS, look_first, of_each, repeat
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput, OutcomeUnknown
from scheduld.model import State
from scheduld.when import describe_shortly

if TYPE_CHECKING:
    from scheduld.cli.common import Session
    from scheduld.model import Task

_CANCEL_EXAMPLES = """\b
Examples:
  scheduld cancel hello/welcome-42
  scheduld cancel welcome-42 --json
  scheduld cancel mail/weekly --this-run
"""
_REQUEUE_EXAMPLES = """\b
Examples:
  scheduld requeue hello/welcome-42
  scheduld requeue --dead --type hello --error "connection refused" --canary --yes
"""


@click.command("cancel", epilog=_CANCEL_EXAMPLES)
@REFS
@click.option(
    "--this-run",
    is_flag=True,
    help="Of a periodic task: only its run, or its next occurrence; the series goes on.",
)
@COMMON
def cancel_command(refs: tuple[str, ...], this_run: bool) -> None:
    """Cancel tasks, or ask their runs to stop.

    Prints TYPE/ID and "cancelled", or "cancelling" where it runs. With --this-run: "next at" and
    when, where it waits for its next occurrence.
    """
    with session() as opened:

        def cancel(type_name: str, task_id: str) -> tuple[Task, str]:
            ref = f"{type_name}/{task_id}"
            try:
                task = opened.client.cancel(type_name, task_id, this_run=this_run)
            except OutcomeUnknown as exc:
                if this_run:
                    # A repeat could be of the occurrence after it.
                    may = "its next occurrence may be cancelled or not"
                    raise look_first(exc, "show", [ref], may=may) from None
                raise repeat(exc, "cancel", [ref], may="it may be cancelled or not") from None
            return task, _cancelled(task, opened.settings.timezone)

        of_each(opened, refs, cancel)


def _cancelled(task: Task, zone: str | None) -> str:
    if task.state is State.SCHEDULED and task.due_ms is not None:
        return f"next at {describe_shortly(task.due_ms, task.timezone or zone)}"
    return "cancelling" if task.state is State.RUNNING else "cancelled"


@dataclass(frozen=True, slots=True)
class Given:
    """The options of `requeue` as they were typed."""

    refs: tuple[str, ...]
    dead: bool
    type_name: str | None
    error: str | None
    limit: int | None
    canary: bool
    canary_wait: str | None
    yes: bool


@click.command("requeue", epilog=_REQUEUE_EXAMPLES)
@click.argument("refs", metavar="TYPE/ID...", nargs=-1, shell_complete=task_refs)
@click.option("--dead", is_flag=True, help="Dead tasks of --type, instead of those named.")
@click.option(
    "--type", "type_name", metavar="TYPE", shell_complete=type_names, help="With --dead: its type."
)
@click.option("--error", metavar="TEXT", help="With --dead: only where the error contains this.")
@click.option("--limit", type=int, metavar="N", help="With --dead: at most so many, the oldest.")
@click.option(
    "--canary", is_flag=True, help="With --dead: one first, the rest only if it succeeds."
)
@click.option(
    "--canary-wait", metavar="DURATION", help="With --canary: wait so long for its end; default 1m."
)
@click.option("--yes", is_flag=True, help="With --dead: do it, for more than one task.")
@COMMON
def requeue_command(**given: Any) -> None:
    """Schedule ended tasks again.

    Done, cancelled or dead ones: due now, their counters at zero. Prints TYPE/ID and "scheduled".
    With --dead many at once: shows how many, and needs --yes.
    """
    asked = Given(**given)
    _check(asked)
    with session() as opened:
        if asked.dead:
            _requeue_dead(opened, asked)
        else:
            _requeue(opened, asked.refs)


def _check(given: Given) -> None:
    if given.dead:
        if given.refs:
            raise InvalidInput("--dead takes no TYPE/ID", hint="one of the two")
        if given.type_name is None:
            raise InvalidInput("--dead needs --type", hint="such as requeue --dead --type hello")
        if given.canary_wait is not None:
            if not given.canary:
                raise InvalidInput("--canary-wait is for --canary", hint="leave it out")
            parse_duration_ms(given.canary_wait, what="--canary-wait")
        return
    if not given.refs:
        raise InvalidInput("there is no TYPE/ID", hint="or --dead --type TYPE for many")
    only = {
        "--type": given.type_name is not None,
        "--error": given.error is not None,
        "--limit": given.limit is not None,
        "--canary": given.canary,
        "--canary-wait": given.canary_wait is not None,
        "--yes": given.yes,
    }
    wrong = next((name for name, is_given in only.items() if is_given), None)
    if wrong:
        raise InvalidInput(f"{wrong} is for --dead", hint="leave it out")


def _requeue(opened: Session, refs: tuple[str, ...]) -> None:
    def requeue(type_name: str, task_id: str) -> tuple[Task, str]:
        try:
            task = opened.client.requeue(type_name, task_id)
        except OutcomeUnknown as exc:
            # A repeat could run it once more, if it was requeued and has ended again since.
            ref, may = f"{type_name}/{task_id}", "it may be scheduled again or not"
            raise look_first(exc, "show", [ref], may=may) from None
        return task, "scheduled"

    of_each(opened, refs, requeue)


def _requeue_dead(opened: Session, given: Given) -> None:
    name = given.type_name or ""
    if not given.yes:
        count, is_all = _counted(opened, given)
        if count > 1:
            raise NotConfirmed(count, "dead", name, "requeued", is_all=is_all)
    try:
        done = opened.client.requeue_dead(
            name,
            error=given.error,
            # Without --yes for one: others may have died since they were counted.
            limit=given.limit if given.yes else min(1, 1 if given.limit is None else given.limit),
            canary=given.canary,
            canary_wait_s=parse_duration_ms(given.canary_wait or "1m") / 1000,
        )
    except OutcomeUnknown as exc:
        options = {"--type": name, "--error": given.error}
        may = "some may be scheduled again or not"
        raise look_first(exc, "dead", [], may=may, options=options) from None
    with telling_done(f"{done.requeued} requeued"):
        if common().json:
            canary = done.canary.to_dict() if done.canary else None
            say_json({"type": name, "requeued": done.requeued, "canary": canary})
        else:
            said = [f"{done.canary.ref} succeeded"] if done.canary else []
            say("\n".join([*said, f"{done.requeued} requeued"]))


def _counted(opened: Session, given: Given) -> tuple[int, bool]:
    """Count what would be requeued, up to a bound; whether that is all of it."""
    from scheduld.client.verbs import LIST_LIMIT

    most = LIST_LIMIT if given.limit is None else given.limit
    if given.error is None:
        (stats,) = opened.client.stats(given.type_name)
        return (stats.dead if given.limit is None else min(stats.dead, most)), True
    found = len(opened.client.dead(given.type_name, error=given.error, limit=most))
    return found, given.limit is not None or found < most
