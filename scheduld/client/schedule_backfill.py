"""The verb that makes tasks for ticks of the past that never ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduld.calendar.bounds import range_text
from scheduld.calendar.of_schedule import rule_of_schedule, tick_id_of
from scheduld.client.schedule_changing import check_whole
from scheduld.client.schedule_reading import find_whole, server_now_ms
from scheduld.client.schedule_records import Backfill, PastTick
from scheduld.client.verbs import Commands
from scheduld.errors import InvalidInput
from scheduld.store import croncalls
from scheduld.store.cronanswers import Steered, Ticked, tick_records
from scheduld.timezones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduld.client.schedule_reading import Found
    from scheduld.client.schedule_steering import Bounds
    from scheduld.client.verbs import Scope, Verb
    from scheduld.model import Rate
    from scheduld.store.wire import Command

MOST_TICKS = 10_000
"""Most ticks that one backfill takes."""
_PAGE = 500
_MOST_RECORDS = 100_000
_RAN = frozenset({"fired", "exists", "backfilled"})


@dataclass(slots=True)
class Backfilling:
    """One backfill. `made` outlives attempts: what an earlier one has made is not found anew."""

    bounds: Bounds
    rate: Rate
    made: dict[int, int] = field(default_factory=dict)
    """Tick -> when its task is due, ms."""

    def verb(self, scope: Scope, name: str, *, dry_run: bool) -> Verb[Backfill]:
        """Make a task for each tick of the range that has none and, as far as is known, never ran.

        Raises InvalidInput for a range in the future, without ticks, or with too many.
        """
        found = yield from find_whole(scope, name)
        now_ms = yield from server_now_ms()
        ticks = _ticks(found, self.bounds, now_ms)
        known = yield from _known(scope, found, ticks)
        open_ticks = [tick for tick in ticks if tick not in known and tick not in self.made]
        dues = {tick: now_ms + self._wait_ms(index) for index, tick in enumerate(open_ticks)}
        if not dry_run:
            yield from self._add(scope, found, dues)
        planned = self.made | (dues if dry_run else {})
        schedule = found.schedule
        told = (
            PastTick(tick, tick_id_of(schedule, tick), planned.get(tick), tick not in planned)
            for tick in ticks
        )
        return Backfill(name, schedule.type, tuple(told), dry_run)

    def _wait_ms(self, index: int) -> int:
        return index * self.rate.period_ms // self.rate.count

    def _add(self, scope: Scope, found: Found, dues: dict[int, int]) -> Verb[None]:
        schedule, keys = found.schedule, scope.type(found.known.type)
        for part in _parts(list(dues), croncalls.MOST_SCHEDULES):
            wanted = [
                croncalls.PastTick(tick, dues[tick], tick_id_of(schedule, tick).encode())
                for tick in part
            ]
            answer = yield croncalls.backfill(scope.caller, keys, schedule.name, wanted)
            check_whole(schedule.name, answer.code)
            if answer.code is Steered.DONE:
                codes = zip(part, answer.ticks, strict=True)
                self.made |= {tick: dues[tick] for tick, code in codes if code is Ticked.FIRED}


def _ticks(found: Found, bounds: Bounds, now_ms: int) -> list[int]:
    schedule = found.schedule
    first, last = bounds(schedule)
    zone = load_zone(schedule.timezone)
    told = range_text(first, last, zone)
    if first > now_ms:
        raise InvalidInput(
            f"the range {told} is in the future", hint="what is to come fires by itself"
        )
    rule, last = rule_of_schedule(schedule), min(last, now_ms)
    count = rule.count(first - 1, last, MOST_TICKS + 1)
    if count > MOST_TICKS:
        raise InvalidInput(
            f"schedule {schedule.name} has more than {MOST_TICKS:,} ticks {told}",
            hint="take a shorter range, and the next one after it",
        )
    if not count:
        raise InvalidInput(f"schedule {schedule.name} has no tick {told}")
    return rule.newest(first - 1, last, count)


def _known(scope: Scope, found: Found, ticks: Sequence[int]) -> Verb[set[int]]:
    """The ticks that have a task, or have had one as far as the history goes back."""
    schedule, keys = found.schedule, scope.type(found.known.type)
    known: set[int] = set()
    for part in _parts(ticks, _PAGE):
        raw_ids = [tick_id_of(schedule, tick).encode() for tick in part]
        asked: list[Command] = [("EXISTS", keys.task(raw_id)) for raw_id in raw_ids]
        replies = yield Commands(tuple(asked))
        known |= {tick for tick, reply in zip(part, replies, strict=True) if reply}
    known |= yield from _recorded(scope, found, ticks[0])
    return known


def _recorded(scope: Scope, found: Found, first_ms: int) -> Verb[set[int]]:
    """The ticks from `first_ms` on that the history tells have become tasks."""
    ran: set[int] = set()
    before = None
    for _ in range(_MOST_RECORDS // _PAGE):
        command = croncalls.history(
            scope.type(found.known.type), found.schedule.name, limit=_PAGE, before=before
        )
        (reply,) = yield Commands((command,))
        records = tick_records(reply)
        ran |= {one.tick_ms for one in records if one.outcome in _RAN and one.tick_ms is not None}
        # A record is never older than its tick.
        if len(records) < _PAGE or records[-1].at_ms < first_ms:
            break
        before = records[-1].cursor
    return ran


def _parts(ticks: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(ticks), size):
        yield ticks[start : start + size]
