"""What makes a task come again, in words, and when it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld.errors import InvalidInput
from scheduld.model import State, iso
from scheduld.when import describe_shortly, instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.calendar.period import Coming
    from scheduld.model import Task

_SHOWN = 3
_MOST = 10


def in_short(task: Task) -> str:
    """Say in a word or two that a task comes again; empty for one that does not."""
    if task.series is not None:
        return "series"
    return f"every {task.every}" if task.every else ""


def repetition(task: Task, zone: str | None, now_ms: int) -> Iterator[tuple[str, str]]:
    """Tell it as facts: label and text, empty ones included."""
    if task.every is None and task.series is None:
        return
    yield "every", task.every or ""
    if task.series is not None:
        offsets = ", ".join(str(offset) for offset in task.series["offsets"])
        yield "series", f"{offsets} around the payload's {task.series['anchor']}"
    until = _until_ms(task)
    yield "until", "" if until is None else describe_shortly(until, zone)
    bound = f" of {task.max_runs}" if task.max_runs else ""
    yield "runs", f"{task.runs or 0}{bound}"
    yield "missed", str(task.missed) if task.missed else ""
    yield "moved", "" if task.grid_ms in (None, task.due_ms) else _moved(task, zone)
    yield "next", "" if task.next_ms is None else describe_shortly(task.next_ms, zone)
    yield "ended by", task.ends or ""
    if task.state in (State.SCHEDULED, State.RUNNING):
        yield "then", then(task, zone, now_ms)


def upcoming(task: Task, now_ms: int, *, most: int = _MOST) -> Coming | None:
    """When a task is due after its next occurrence, or after the one that runs; None: never.

    An occurrence that an edit has put between those (`next_ms`) is not told. Raises InvalidInput
    if its stored period or payload make no sense.
    """
    from scheduld.calendar.period import Period, Series, coming

    if task.due_ms is None or (task.every is None and task.series is None):
        return None
    if task.cancelling is not None and not task.cancelling["this_run"]:
        return None
    series = task.series and Series(tuple(task.series["offsets"]), task.series["anchor"])
    period = Period(
        every=task.every,
        series=series or None,
        until_ms=_until_ms(task),
        max_runs=task.max_runs,
        zone=task.timezone,
        anchor_ms=task.anchor_ms,
    ).begun_at(task.grid_ms or task.due_ms)
    payload = task.payload if isinstance(task.payload, dict) else {}
    # As the end of the run will have it: it cannot be before the due or before now.
    after_ms = max(task.grid_ms or 0, task.due_ms, now_ms)
    # The one that is ahead, or runs, counts too.
    runs = (task.runs or 0) + 1
    if task.next_ms is not None:
        # It stands for the first instant of the grid, if there is one.
        first = coming(period, payload, after_ms, most=1, runs=runs).first
        after_ms, runs = max(task.next_ms, after_ms, *first), runs + 1
    return coming(period, payload, after_ms, most=most, runs=runs)


def upcoming_dict(task: Task, now_ms: int) -> dict[str, Any]:
    """The same as `show --json` adds it to a task: up to ten instants."""
    try:
        found = upcoming(task, now_ms)
    except InvalidInput:
        found = None
    return {} if found is None else {"upcoming": [iso(ms) for ms in found.first]}


def then(task: Task, zone: str | None, now_ms: int) -> str:
    """Say when it is due after that: of a series all, else the first few."""
    most = _MOST if task.series is not None else _SHOWN
    try:
        found = upcoming(task, now_ms, most=most)
    except InvalidInput as exc:
        return f"cannot be told: {exc.message}"
    if found is None or not found.first:
        return "no more"
    shown = ", ".join(describe_shortly(ms, zone) for ms in found.first)
    if found.count is not None and found.count <= len(found.first):
        return shown
    return f"{shown} ..." if found.count is None else f"{shown} ... ({found.count} in all)"


def _moved(task: Task, zone: str | None) -> str:
    assert task.grid_ms is not None  # noqa: S101 - of one that was moved
    return f"from {describe_shortly(task.grid_ms, zone)}"


def _until_ms(task: Task) -> int | None:
    if task.until is None:
        return None
    try:
        return instant_ms(task.until, allow_past=True)
    except InvalidInput:  # somebody else wrote it
        return None
