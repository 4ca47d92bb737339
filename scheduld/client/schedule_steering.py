"""The verbs that steer schedules: pause, resume, trigger, skip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduld.calendar.bounds import range_text
from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.calendar.preview import local_text
from scheduld.client.schedule_changing import check_whole
from scheduld.client.schedule_reading import find, find_whole
from scheduld.client.schedule_records import Resumed, SchedulePause, Skip, Triggered
from scheduld.errors import InvalidInput, OutcomeUnknown
from scheduld.names import new_id
from scheduld.store import croncalls
from scheduld.store.cronanswers import Steered, Ticked
from scheduld.store.croncalls import Gap
from scheduld.timezones import load_zone

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.client.schedule_reading import Found
    from scheduld.client.verbs import Scope, Verb
    from scheduld.schedule import Schedule

    Bounds = Callable[[Schedule], tuple[int, int]]
    """Reads a range of instants, first and last ms, in the zone of a schedule."""

_OUTCOMES = {
    Ticked.FIRED: "fired",
    Ticked.QUEUED: "queued",
    Ticked.OVERLAP: "skipped",
    Ticked.COALESCED: "coalesced",
    Ticked.BACKLOG: "backlog",
    Ticked.EXISTS: "fired",
}


def pause(scope: Scope, name: str, reason: str, who: str) -> Verb[SchedulePause]:
    """Stop the ticks of a schedule, or give its pause another reason."""
    known = yield from find(scope, name)
    call = croncalls.pause(scope.caller, scope.type(known.type), name, reason=reason, who=who)
    answer = yield call
    check_whole(name, answer.code)
    return SchedulePause(name, reason, who, answer.at_ms)


@dataclass(slots=True)
class Resume:
    """One resume. `passed_over` and `is_sent` outlive attempts: an earlier one may have done it."""

    catch_up: bool
    is_sent: bool = False
    passed_over: int = 0

    def verb(self, scope: Scope, name: str) -> Verb[Resumed]:
        """Let ticks come again; what was passed over meanwhile is told in the history."""
        found = yield from find_whole(scope, name)
        gap = None if self.catch_up else _gap(found)
        keys = scope.type(found.known.type)
        call = croncalls.resume(scope.caller, keys, name, catch_up=self.catch_up, gap=gap)
        try:
            answer = yield call
        except OutcomeUnknown:
            self.is_sent, self.passed_over = True, gap.count if gap else 0
            raise
        check_whole(name, answer.code)
        if answer.code is Steered.DONE:
            return Resumed(name, was_paused=True, passed_over=gap.count if gap else 0)
        return Resumed(name, was_paused=self.is_sent, passed_over=self.passed_over)


def _gap(found: Found) -> Gap | None:
    """What a paused schedule has passed over so far."""
    record = found.record
    if record.paused_ms is None:
        return None
    try:
        rule = rule_of_schedule(found.schedule)
    except InvalidInput:
        return None  # it fires no more, but its pause can be ended
    first = rule.after(record.mark_ms)
    if first is None or first > record.now_ms:
        return None
    (last,) = rule.newest(record.mark_ms, record.now_ms, 1)
    return Gap(first, last, rule.count(record.mark_ms, record.now_ms), "paused")


@dataclass(slots=True)
class Trigger:
    """One trigger by hand. Its id is made once, so that a repeat makes no second task."""

    payload: bytes
    suffix: str

    @classmethod
    def new(cls, payload: bytes, now_ms: int) -> Trigger:
        """Make one with an id of its own."""
        return cls(payload, new_id(now_ms))

    def verb(self, scope: Scope, name: str) -> Verb[Triggered]:
        """Make a task of the schedule now."""
        known = yield from find(scope, name)
        task_id = f"{name}@manual-{self.suffix}"
        code = yield croncalls.trigger(
            scope.caller,
            scope.type(known.type),
            name,
            raw_id=task_id.encode(),
            payload=self.payload,
        )
        if code not in _OUTCOMES:
            check_whole(name, code)
        return Triggered(name, known.type, task_id, _OUTCOMES[code])


def skip(scope: Scope, name: str, bounds: Bounds) -> Verb[list[Skip]]:
    """Have the ticks of a range left out; raises InvalidInput if there are none to come."""
    found = yield from find_whole(scope, name)
    first, last = bounds(found.schedule)
    _check_hit(found, first, last)
    call = croncalls.skips(scope.caller, scope.type(found.known.type), name, add=[(first, last)])
    return (yield from _skips(name, call))


def unskip(scope: Scope, name: str, bounds: Bounds) -> Verb[list[Skip]]:
    """Have the ticks of a range fire again."""
    found = yield from find_whole(scope, name)
    keys = scope.type(found.known.type)
    call = croncalls.skips(scope.caller, keys, name, remove=[bounds(found.schedule)])
    return (yield from _skips(name, call))


def skips(scope: Scope, name: str) -> Verb[list[Skip]]:
    """Read what is left out."""
    found = yield from find_whole(scope, name)
    return [Skip(*bounds) for bounds in found.record.skips]


def _skips(name: str, call: object) -> Verb[list[Skip]]:
    answer = yield call  # type: ignore[misc]
    check_whole(name, answer.code)
    return [Skip(*bounds) for bounds in answer.ranges]


def _check_hit(found: Found, first: int, last: int) -> None:
    """Refuse a range that takes nothing out: it was meant to."""
    record, schedule = found.record, found.schedule
    rule, zone = rule_of_schedule(schedule), load_zone(schedule.timezone)
    base = max(first - 1, record.mark_ms)
    at = rule.after(base)
    if at is not None and at <= last:
        return
    told = range_text(first, last, zone)
    hint = (
        "it fires no more" if at is None else f"its next tick from there is {local_text(at, zone)}"
    )
    if last <= record.mark_ms:
        raise InvalidInput(f"there is nothing to skip {told}: that is past", hint=hint)
    raise InvalidInput(f"schedule {schedule.name} has no tick {told}", hint=hint)
