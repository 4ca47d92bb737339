"""Tasks in words: pure functions from what is stored to lines for people."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from scheduld.cli.repetition import in_short, repetition
from scheduld.duration import in_words
from scheduld.model import State, iso
from scheduld.names import printable
from scheduld.when import describe, describe_shortly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.client.dead import DeadGroup
    from scheduld.client.events import Event
    from scheduld.client.steering import Node, TypePause
    from scheduld.model import Task

_ENDED = (State.DONE, State.CANCELLED, State.DEAD)
_LONGEST_CELL = 60
_IDS_SHOWN = 8


def story(task: Task, zone: str | None, now_ms: int) -> list[str]:
    """Tell a task at `now_ms`, instants in its zone or in `zone`; one line each, all escaped."""
    facts = [(label, text) for label, text in _facts(task, zone, now_ms) if text]
    width = max((len(label) for label, _ in facts), default=0)
    lines = [f"{task.ref} {_headline(task, now_ms)}"]
    lines += [f"  {label:{width}}  {text}" for label, text in facts]
    lines += [f"    | {line}" for line in _error_lines(task, "traceback")]
    lines += [f"    > {line}" for line in _error_lines(task, "output")]
    lines += [f"    . {line}" for line in _log(task)]
    return [printable(line) for line in lines]


def row(task: Task, zone: str | None, now_ms: int) -> tuple[str, str, str, str]:
    """Tell a task in the cells of a list: task, state, due, what happens or happened."""
    # Without the distance, which the last cell tells, and without the second clock.
    due = "" if task.due_ms is None else describe_shortly(task.due_ms, task.timezone or zone)
    return task.ref, task.state.value, due, _shortened(_what(task, now_ms))


def dead_row(task: Task, now_ms: int) -> tuple[str, str, str, str]:
    """Tell a dead task in the cells of a list: task, when it died, failed runs, why."""
    died = "" if task.finished_ms is None else in_words(task.finished_ms - now_ms)
    return task.ref, died, str(task.failed), _shortened(error_text(task))


def group_row(group: DeadGroup, now_ms: int) -> tuple[str, str, str, str, str]:
    """Tell how often an error occurs, in the cells of a table."""
    newest = in_words(group.newest_ms - now_ms)
    example = f"{group.type}/{group.example_id}"
    return str(group.count), group.type, newest, example, _shortened(group.error)


def pause_text(pause: TypePause, now_ms: int) -> str:
    """Tell in one line that a type is paused, since when, by whom and why."""
    who = f", by {pause.who}" if pause.who else ""
    why = f": {pause.reason}" if pause.reason else ""
    ago = in_words(min(0, pause.since_ms - now_ms))  # clocks differ
    return printable(f"{pause.type} is paused ({ago}{who}){why}")


def pause_dict(pause: TypePause) -> dict[str, Any]:
    """A pause as `--json` prints it."""
    return {**asdict(pause), "since": iso(pause.since_ms)}


def event_line(event: Event, task_id: str | None) -> str:
    """Tell an event in one line: when, type, what, which tasks, who, and why.

    Of many tasks a few are named, or `task_id` alone.
    """
    shown = event.ids[:_IDS_SHOWN] if task_id is None else (task_id,)
    more = len(event.ids) + event.more - len(shown)
    ids = " ".join([*shown, *([f"+{more} more"] if more > 0 else [])])
    node = f" ({event.node})" if event.node else ""
    errors = f": {'; '.join(event.errors)}" if event.errors else ""
    facts = [iso(event.at_ms) or "", event.type, event.kind, ids]
    return printable("  ".join(filter(None, facts)) + node + errors)


def event_dict(event: Event) -> dict[str, Any]:
    """An event as `--json` prints it."""
    return {"at": iso(event.at_ms), **asdict(event)}


def node_row(node: Node, now_ms: int) -> tuple[str, ...]:
    """Tell a replica in the cells of a table."""
    seen = in_words(node.seen_ms - now_ms)
    types = " ".join(node.types)
    return node.id, node.host, str(node.pid), node.version, seen, str(node.schedules), types


def node_dict(node: Node) -> dict[str, Any]:
    """A replica as `--json` prints it."""
    return {**asdict(node), "seen": iso(node.seen_ms)}


def _headline(task: Task, now_ms: int) -> str:
    if task.state is State.RUNNING:
        only = " (this run only)" if task.cancelling and task.cancelling["this_run"] else ""
        return f"is running{_since(task, now_ms)}{_asked(task)}{only}"
    if task.state is State.DEAD:
        return "is dead: it is not tried again"
    if task.state is State.SCHEDULED and task.failed:
        return f"is scheduled to be tried again, after {_count(task.failed, 'failed run')}"
    return f"is {task.state.value}"


def _facts(task: Task, zone: str | None, now_ms: int) -> Iterator[tuple[str, str]]:
    known = task.timezone or zone

    def moment(ms: int | None) -> str:
        return "" if ms is None else describe(ms, known, now_ms)

    yield "due", moment(task.due_ms)
    yield "added", moment(task.added_ms)
    yield "expires", moment(task.expires_ms)
    yield "priority", str(task.priority) if task.priority else ""
    yield "key", task.key or ""
    yield "waits", _waits(task, moment)
    yield "payload", "cannot be read" if task.payload is None else _text(task.payload)
    yield "revision", _count(task.revision, "edit") if task.revision else ""
    yield "attempt", "" if task.attempt is None else str(task.attempt)
    yield "failed", _count(task.failed, "run") if task.failed else ""
    yield "given back", _count(task.releases, "time") + ", by a stop" if task.releases else ""
    yield "interrupted", _interrupted(task)
    yield "owner", task.owner or ""
    yield "started", moment(task.started_ms)
    yield "ended", moment(task.finished_ms)
    yield "outcome", task.outcome or ""
    yield "result", "" if task.result is None else _text(task.result)
    yield "progress", "" if task.progress is None else _text(task.progress)
    yield from repetition(task, known, now_ms)
    yield "schedule", task.schedule or ""
    yield "successor", _successor(task, moment)
    yield "last error", error_text(task)


def _waits(task: Task, moment: Any) -> str:
    if task.waits_until_ms is None:
        return ""
    reason = "others of its key" if task.key else "what is more urgent"
    return f"for {reason}; looked at again by {moment(task.waits_until_ms)}"


def _successor(task: Task, moment: Any) -> str:
    if not task.successor:
        return ""
    due, payload = task.successor.get("due_ms"), task.successor.get("payload")
    return f"takes over when this run ends: due {moment(due)}, payload {_text(payload)}"


def _interrupted(task: Task) -> str:
    if not task.interruptions:
        return ""
    return _count(task.interruptions, "time") + ", its lease ran out"


def error_text(task: Task) -> str:
    """Tell the last error of a task; foreign writers may have left anything there."""
    error: object = task.error
    if not error:
        return ""
    if not isinstance(error, dict):
        return _text(error)
    parts = [error.get("kind"), error.get("message")]
    return ": ".join(str(part) for part in parts if part)


def _error_lines(task: Task, member: str) -> list[str]:
    error: object = task.error
    text = error.get(member) if isinstance(error, dict) else None
    return text.rstrip("\n").split("\n") if isinstance(text, str) else []


def _log(task: Task) -> Iterator[str]:
    """Tell the lines of the log with their times; foreign writers may have left anything there."""
    for line in task.log or []:
        at_ms = line["at_ms"]
        at = iso(at_ms) if isinstance(at_ms, int) else ""
        for part in str(line["text"]).split("\n"):
            yield f"{at}  {part}"


def _what(task: Task, now_ms: int) -> str:
    if task.state is State.RUNNING:
        again = in_short(task)
        return f"attempt {task.attempt}{_since(task, now_ms)}{_asked(task)}" + (
            f", {again}" if again else ""
        )
    if task.state in _ENDED:
        ended = "" if task.finished_ms is None else in_words(task.finished_ms - now_ms)
        return ": ".join(part for part in (ended, error_text(task)) if part)
    due = "" if task.due_ms is None else in_words(task.due_ms - now_ms)
    due = f"due {due}" if due.endswith("ago") else due
    due = ", ".join(filter(None, (due, in_short(task))))
    return f"{due}, {_count(task.failed, 'failed run')}" if task.failed else due


def _since(task: Task, now_ms: int) -> str:
    return "" if task.started_ms is None else f", started {in_words(task.started_ms - now_ms)}"


def _asked(task: Task) -> str:
    return "" if task.cancelling is None else ", asked to stop"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 3] + "..."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
