"""`edit` and `run-now`: another payload or time for a task that has not run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from scheduld.cli.common import COMMON, REF, common, session
from scheduld.cli.completing import zones
from scheduld.cli.instants import at_text, check_one, due_of
from scheduld.cli.output import say, say_json, telling_done
from scheduld.cli.payloads import SHORT_PAYLOAD, STDIN, collect, payload_options
from scheduld.cli.recurring import replanning
from scheduld.cli.several import REFS, look_first, of_each, repeat
from scheduld.errors import InvalidInput, OutcomeUnknown
from scheduld.model import State

if TYPE_CHECKING:
    from datetime import datetime

    from scheduld.cli.common import Session
    from scheduld.model import Task

_EDIT_EXAMPLES = """\b
Examples:
  scheduld edit hello/welcome-42 --at "2026-12-24 09:00" --timezone Europe/Madrid
  scheduld edit hello/welcome-42 message=Hi tries:=3 --unset draft
  scheduld edit hello/welcome-42 --payload '{"message": "Hi"}' --if-revision 2
  scheduld edit hello/weekly --every 14d --until 2027-06-30
  make-payload | scheduld edit hello/welcome-42 -
"""
_RUN_NOW_EXAMPLES = """\b
Examples:
  scheduld run-now hello/welcome-42
"""


@dataclass(frozen=True, slots=True)
class Given:
    """The options of `edit` as they were typed."""

    ref: str
    entries: tuple[str, ...]
    at: str | None
    delay: str | None
    now: bool
    timezone: str | None
    payload: str | None
    payload_file: str | None
    unset: tuple[str, ...]
    if_revision: int | None
    allow_past: bool
    every: str | None
    until: str | None
    max_runs: int | None


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to be changed: a payload or a merge patch, and the due time."""

    payload: dict[str, Any] | None
    merge: dict[str, Any] | None
    at: datetime | str | None
    delay: str | None


@click.command("edit", epilog=_EDIT_EXAMPLES)
@REF
@click.option(
    "--at",
    metavar="WHEN",
    help="2026-12-24T09:00[Z|+01:00], 'today|tomorrow 09:00', +1h30m or @SECONDS.",
)
@click.option("--in", "delay", metavar="DURATION", help="So long from now, such as 1h30m.")
@click.option("--now", is_flag=True, help="Due at once.")
@click.option(
    "--timezone", metavar="ZONE", shell_complete=zones, help="Zone of an --at without offset."
)
@payload_options("A JSON object in place of the payload.", 'The same from a file; "-" is stdin.')
@replanning
@click.option("--unset", multiple=True, metavar="KEY", help="Remove a key of the payload.")
@click.option(
    "--if-revision", type=int, metavar="N", help="Only if it was edited N times so far (see show)."
)
@click.option("--allow-past", is_flag=True, help="Take an --at in the past: run at once.")
@COMMON
@click.argument("entries", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON | -]...")
def edit_command(**given: Any) -> None:
    """Change a task that is scheduled, or what follows the run of a periodic one.

    KEY=VALUE and KEY:=JSON are merged into the stored payload: objects deeply, and null removes
    the key. With --payload, --payload-file or - (stdin) they go into that one, which takes its
    place. Also while the task waits for a retry.
    """
    _edit(Given(**given))


def _edit(given: Given) -> None:
    check_one(given.at, given.delay, given.now)
    with session() as opened:
        zone = given.timezone or opened.settings.timezone
        at = due_of(given.at, given.delay, given.timezone, zone=zone, allow_past=given.allow_past)
        edit = Edit(*_payload(given), at, "0s" if given.now else given.delay)
        is_replanned = (given.every, given.until, given.max_runs) != (None, None, None)
        if edit == Edit(None, None, None, None) and not is_replanned:
            raise InvalidInput(
                "nothing is to be changed",
                hint="give KEY=VALUE, --payload, --at, --in, --now, --every, --until or --max-runs",
            )
        task = _edited(opened, given, edit)
    with telling_done(f"{task.ref} is edited"):
        _tell(task, zone)


def _payload(given: Given) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the new payload, or the merge patch for the stored one."""
    collected = collect(given.entries, given.payload, given.payload_file)
    if given.payload is not None or given.payload_file is not None or STDIN in given.entries:
        if given.unset:
            raise InvalidInput("--unset is for the stored payload", hint="leave the key out")
        return collected.payload, None
    both = [key for key in given.unset if key in collected.payload]
    if both:
        raise InvalidInput(f"the key {both[0]!r} is set and unset", hint="one of the two")
    merge = {**collected.payload, **dict.fromkeys(given.unset)}
    return None, merge or None


def _edited(opened: Session, given: Given, edit: Edit) -> Task:
    type_name, task_id = opened.task_named(given.ref)
    try:
        return opened.client.edit(
            type_name,
            task_id,
            payload=edit.payload,
            merge=edit.merge,
            at=edit.at,
            delay=edit.delay,
            every=given.every,
            until=given.until,
            max_runs=given.max_runs,
            timezone=given.timezone,
            if_revision=given.if_revision,
            allow_past=given.allow_past,
        )
    except OutcomeUnknown as exc:
        ref, may = f"{type_name}/{task_id}", "it may be edited or not"
        if given.if_revision is not None:
            # The revision has moved if it was edited: the repeat would seem refused.
            raise look_first(exc, "show", [ref], may=may) from None
        options, entries = _repeated(given, edit)
        words = [*(f"--unset={key}" for key in given.unset), "--", ref, *entries]
        raise repeat(exc, "edit", words, may=may, options=options) from None


def _repeated(given: Given, edit: Edit) -> tuple[dict[str, str | bool | None], tuple[str, ...]]:
    """Return options and entries that mean the same edit, without a payload that fills screens."""
    options = {
        "--at": at_text(edit.at),
        "--in": given.delay,
        "--now": given.now,
        "--allow-past": given.allow_past,
        "--every": given.every,
        "--until": given.until,
        "--max-runs": None if given.max_runs is None else str(given.max_runs),
        "--timezone": given.timezone,
    }
    text = "" if edit.payload is None else json.dumps(edit.payload)
    if text and len(text) <= SHORT_PAYLOAD:
        return {**options, "--payload": text}, ()
    options |= {"--payload": given.payload, "--payload-file": given.payload_file}
    return options, given.entries


def _tell(task: Task, zone: str | None) -> None:
    if common().json:
        say_json(task.to_dict())
        return
    from scheduld.clock import wall_ms
    from scheduld.when import describe

    lines = [f"{task.ref} edited, revision {task.revision}"]
    if task.state is State.RUNNING:
        lines.append("it runs now, and the change is for its next occurrence")
        if task.next_ms is not None:
            lines.append(f"next due {describe(task.next_ms, zone, wall_ms())}")
    elif task.due_ms is not None:
        lines.append(f"due {describe(task.due_ms, zone, wall_ms())}")
    say("\n".join(lines))


@click.command("run-now", epilog=_RUN_NOW_EXAMPLES)
@REFS
@COMMON
def run_now_command(refs: tuple[str, ...]) -> None:
    """Make scheduled tasks due now.

    Also those that wait for a retry; what they have counted stays. For what has ended there is
    "requeue". Prints TYPE/ID and "due now".
    """
    with session() as opened:

        def run_now(type_name: str, task_id: str) -> tuple[Task, str]:
            try:
                task = opened.client.run_now(type_name, task_id)
            except OutcomeUnknown as exc:
                # It may have run, failed, and wait again by now.
                ref = f"{type_name}/{task_id}"
                raise look_first(exc, "show", [ref], may="it may be due now or not") from None
            return task, "due now"

        of_each(opened, refs, run_now)
