"""What both clients do alike for schedules: checked arguments, the verb to drive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld import payload as codec
from scheduld.calendar.bounds import as_day, bound_ms
from scheduld.client import schedule_reading as reading
from scheduld.client import schedule_steering as steering
from scheduld.client.adding import check_type
from scheduld.client.operations import line, who
from scheduld.client.requests import Asked
from scheduld.client.schedule_backfill import Backfilling
from scheduld.client.schedule_changing import Definer, Removal
from scheduld.client.schedule_draft import check_schedule, draft
from scheduld.clock import wall_ms
from scheduld.config.values import RateLimit
from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduld.calendar.preview import NextTick
    from scheduld.client.requests import Requests
    from scheduld.client.schedule_records import (
        Backfill,
        Resumed,
        ScheduleInfo,
        SchedulePause,
        Skip,
        Tick,
        Triggered,
    )
    from scheduld.client.schedule_steering import Bounds
    from scheduld.schedule import Schedule

_CONFLICTS = ("error", "keep", "replace")
MOST_NEXT = 10_000
MOST_RECORDS = 100_000


class ScheduleRequests:
    """Turns arguments into requests; raises before anything is sent."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._scope = requests.scope

    def add(
        self,
        name: object,
        type: object,  # noqa: A002 - the public word
        on_conflict: object,
        given: Mapping[str, Any],
        *,
        allow_unknown: bool,
    ) -> Asked[ScheduleInfo]:
        """Check an add; it may be repeated."""
        if on_conflict not in _CONFLICTS:
            raise InvalidInput(f"on_conflict is error, keep or replace, not {on_conflict!r:.60}")
        schedule = draft(name, type, given, self._requests.settings)
        definer = Definer(schedule, on_conflict, bool(allow_unknown))  # type: ignore[arg-type]
        return Asked(lambda: definer.verb(self._scope))

    def remove(self, name: object) -> Asked[int]:
        """Check a remove."""
        checked, removal = check_schedule(name), Removal()
        return Asked(lambda: removal.verb(self._scope, checked))

    def get(self, name: object) -> Asked[ScheduleInfo]:
        """Check a get."""
        checked = check_schedule(name)
        return Asked(lambda: reading.get(self._scope, checked))

    def list_schedules(self, type: object) -> Asked[list[ScheduleInfo]]:  # noqa: A002
        """Check a list."""
        wanted = None if type is None else check_type(type)
        return Asked(lambda: reading.list_schedules(self._scope, wanted))

    def pause(self, name: object, reason: object) -> Asked[SchedulePause]:
        """Check a pause."""
        checked, why = check_schedule(name), "" if reason is None else line("reason", reason)
        caller = who()
        return Asked(lambda: steering.pause(self._scope, checked, why, caller))

    def resume(self, name: object, *, catch_up: object) -> Asked[Resumed]:
        """Check a resume."""
        checked, resume = check_schedule(name), steering.Resume(bool(catch_up))
        return Asked(lambda: resume.verb(self._scope, checked))

    def trigger(self, name: object, payload: object) -> Asked[Triggered]:
        """Check a trigger."""
        checked = check_schedule(name)
        most = self._requests.settings.max_payload
        data = b"" if payload is None else codec.encode(payload, max_bytes=most)
        trigger = steering.Trigger.new(data, wall_ms())
        return Asked(lambda: trigger.verb(self._scope, checked))

    def skip(
        self, name: object, on: object, at: object, start: object, end: object
    ) -> Asked[list[Skip]]:
        """Check a skip."""
        checked, bounds = check_schedule(name), _skipped(on, at, start, end)
        return Asked(lambda: steering.skip(self._scope, checked, bounds))

    def unskip(
        self, name: object, on: object, at: object, start: object, end: object
    ) -> Asked[list[Skip]]:
        """Check an unskip."""
        checked, bounds = check_schedule(name), _skipped(on, at, start, end)
        return Asked(lambda: steering.unskip(self._scope, checked, bounds))

    def skips(self, name: object) -> Asked[list[Skip]]:
        """Check a skips."""
        checked = check_schedule(name)
        return Asked(lambda: steering.skips(self._scope, checked))

    def backfill(
        self, name: object, start: object, end: object, rate: object, *, dry_run: object
    ) -> Asked[Backfill]:
        """Check a backfill; it may be repeated."""
        checked, bounds = check_schedule(name), _range(start, end)
        filling = Backfilling(bounds, RateLimit()(rate))
        is_dry = bool(dry_run)
        return Asked(
            lambda: filling.verb(self._scope, checked, dry_run=is_dry),
            progress=lambda: len(filling.made),
        )

    def history(self, name: object, limit: object, before: object) -> Asked[list[Tick]]:
        """Check a history."""
        checked, most = check_schedule(name), _count("limit", limit, MOST_RECORDS)
        if before is not None and not (isinstance(before, str) and _is_cursor(before)):
            raise InvalidInput("before is the cursor of a record", hint="as Tick.cursor has it")
        return Asked(lambda: reading.history(self._scope, checked, most, before))

    def next(self, name: object, count: object, after: object) -> Asked[list[NextTick]]:
        """Check a next."""
        checked, most = check_schedule(name), _count("count", count, MOST_NEXT)
        zone = self._requests.settings.timezone
        after_ms = None if after is None else after_ms_of(after, zone)
        return Asked(lambda: reading.next_ticks_of(self._scope, checked, most, after_ms))


def after_ms_of(after: Any, zone: str | None) -> int:
    """Read where to look from: an instant, or a date, of which all ticks are later."""
    ms = bound_ms(after, zone or "UTC")
    return ms if as_day(after) is None else ms - 1


def _skipped(on: object, at: object, start: object, end: object) -> Bounds:
    given = [value for value in (on, at, start if start is not None else end) if value is not None]
    if len(given) != 1:
        raise InvalidInput(
            "say what to skip: on a date, at a time, or from start to end", hint="one of the three"
        )
    if on is not None:
        return _day(on)
    if at is not None:
        return _range(at, at)
    return _range(start, end)


def _day(value: object) -> Bounds:
    if as_day(value) is None:
        raise InvalidInput(
            f"on is a date, not {value!r}", hint='such as "2026-12-24"; for one tick use at'
        )
    return _range(value, value)


def _range(start: object, end: object) -> Bounds:
    if start is None or end is None:
        raise InvalidInput("a range has a start and an end", hint="dates or times, both included")
    first: Any = start
    last: Any = end
    for value in (first, last):
        # What is wrong in any zone is told before anything is sent.
        bound_ms(value, "UTC")

    def bounds(schedule: Schedule) -> tuple[int, int]:
        zone = schedule.timezone
        begin, end_ms = bound_ms(first, zone), bound_ms(last, zone, is_end=True)
        if end_ms < begin:
            told = f"the range from {first} to {last} ends before it begins"
            raise InvalidInput(told, hint="exchange the two")
        return begin, end_ms

    return bounds


def _count(what: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise InvalidInput(f"{what} is a number from 1 to {most}")
    return value


def _is_cursor(text: str) -> bool:
    ms, dash, number = text.partition("-")
    return bool(dash) and ms.isdecimal() and number.isdecimal() and text.isascii()
