"""What the clocks of a zone show, and when they are set: instants to wall times and back.

All in whole milliseconds, so that nothing is compared or subtracted by the wall clock: a
datetime does that silently when both sides have the same zone.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scheduld.timezones import first_change, offset_s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

DAY_MS = 86_400_000
DATE_LINE_MS = 3 * 3_600_000
"""A change of this length in ms, or longer, is a move over the date line, no summer time."""
FIRST_MS = -62_000_000_000_000
LAST_MS = 253_300_000_000_000
"""Bounds of the calendar, in the years 5 and 9996: some spans away from those of Python."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)
_MS = timedelta(milliseconds=1)
_SPAN_DAYS = 400
_STEP_S = 3 * 86_400
_SPAN_MS = _SPAN_DAYS * DAY_MS
# Longer than any change: a stretch cut off here cannot hide the overlap of a change after it.
_MARGIN_MS = 7 * DAY_MS


class Stretch(NamedTuple):
    """A stretch of time, in ms, in which the offset from UTC of a zone stays the same.

    It is `start <= instant < end`. `before` and `after` are the offsets on the other sides, the
    same as `offset` where a stretch was only cut to bound the search.
    """

    start: int
    end: int
    offset: int
    before: int
    after: int

    @property
    def gap(self) -> int:
        """How many ms of wall time its end skips; negative: shows twice."""
        return self.after - self.offset


@dataclass(frozen=True, slots=True)
class Settled:
    """Where a wall time falls: its instants, or the end and length in ms of the gap it is in.

    Outside the bounds of the calendar there is neither.
    """

    instants: tuple[int, ...]
    gap_end: int = 0
    gap_ms: int = 0

    def run_at(self) -> int | None:
        """The instant at which what is due at this wall time runs once, or None.

        The first if there are two; the end of a gap, unless it is a move over the date line.
        """
        if self.instants:
            return self.instants[0]
        return self.gap_end if 0 < self.gap_ms < DATE_LINE_MS else None


def to_datetime(wall: int) -> datetime:
    """Write a wall time as a naive datetime."""
    return _NAIVE_EPOCH + timedelta(milliseconds=wall)


def from_datetime(naive: datetime) -> int:
    """Read a naive datetime as a wall time, parts of a ms dropped."""
    return (naive - _NAIVE_EPOCH) // _MS


def in_zone(instant: int, zone: tzinfo) -> datetime:
    """Write an instant as an aware datetime of a zone."""
    return (_EPOCH + timedelta(milliseconds=instant)).astimezone(zone)


class WallClock:
    """The offsets of one zone, read a span of 400 days at a time and then remembered.

    Changes are found to the second. Two that undo each other within three days would be missed;
    in the tz database the shortest such time is a week (Brazil in 2000).
    """

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self._spans: dict[int, tuple[list[int], list[int]]] = {}

    def offset(self, instant: int) -> int:
        """Offset from UTC at an instant."""
        starts, offsets = self._span(instant // _SPAN_MS)
        return offsets[bisect_right(starts, instant)]

    def wall(self, instant: int) -> int:
        """Wall time that the clocks show at an instant."""
        return instant + self.offset(instant)

    def stretch(self, instant: int) -> Stretch:
        """The stretch of one offset around an instant; cut off a year or two away from it."""
        number = instant // _SPAN_MS
        starts, offsets = self._span(number)
        at = bisect_right(starts, instant)
        offset = before = after = offsets[at]
        if at:
            start, before = starts[at - 1], offsets[at - 1]
        else:
            earlier, older = self._span(number - 1)
            start = earlier[-1] if earlier else (number - 1) * _SPAN_MS
            before = older[-2] if earlier else offset
        if at < len(starts):
            end, after = starts[at], offsets[at + 1]
        else:
            later, newer = self._span(number + 1)
            end = later[0] if later else (number + 2) * _SPAN_MS - _MARGIN_MS
            after = newer[1] if later else offset
        return Stretch(start, end, offset, before, after)

    def stretches(self, first: int, last: int) -> Iterator[Stretch]:
        """The stretches from that of the instant `first` to that of `last`, in order, in a row."""
        stretch = self.stretch(max(first, FIRST_MS))
        yield stretch
        while stretch.end <= last and stretch.end < LAST_MS:
            end, stretch = stretch.end, self.stretch(stretch.end)
            if stretch.start < end:  # the end was no change
                stretch = stretch._replace(start=end, before=stretch.offset)
            yield stretch

    def stretches_back(self, first: int, last: int) -> Iterator[Stretch]:
        """The same as `stretches`, the newest first."""
        stretch = self.stretch(min(last, LAST_MS))
        yield stretch
        while stretch.start > first and stretch.start > FIRST_MS:
            start, stretch = stretch.start, self.stretch(stretch.start - 1)
            if stretch.end > start:  # the start was no change
                stretch = stretch._replace(end=start, after=stretch.offset)
            yield stretch

    def changes(self, after: int, until: int) -> Iterator[Stretch]:
        """The stretches whose end is a change of the offset later than `after`, up to `until`."""
        for stretch in self.stretches(after, until):
            if stretch.gap and stretch.end <= until:
                yield stretch

    def settle(self, wall: int) -> Settled:
        """Find the instants at which the clocks show a wall time, or the gap that skips it."""
        if not FIRST_MS < wall < LAST_MS:
            return Settled(())
        stretch = self.stretch(wall - self.offset(wall))
        # The guess is off by less than a day: the time is here, or in a neighbour.
        while wall < stretch.start + stretch.offset:
            stretch = self.stretch(stretch.start - 1)
        while wall >= stretch.end + stretch.offset and wall >= stretch.end + stretch.after:
            stretch = self.stretch(stretch.end)
        instant = wall - stretch.offset
        if instant >= stretch.end:
            return Settled((), stretch.end, stretch.gap)
        found = [instant]
        if (earlier := wall - stretch.before) < stretch.start:
            found.insert(0, earlier)
        if (later := wall - stretch.after) >= stretch.end:
            found.append(later)
        return Settled(tuple(dict.fromkeys(found)))

    def _span(self, number: int) -> tuple[list[int], list[int]]:
        """The changes in a span of 400 days, and the offsets before, between and after them."""
        known = self._spans.get(number)
        if known is None:
            known = self._spans[number] = self._read(number)
        return known

    def _read(self, number: int) -> tuple[list[int], list[int]]:
        # From a second before: a change at the first instant of the span belongs to it.
        first = number * _SPAN_MS // 1_000 - 1
        last = first + _SPAN_MS // 1_000
        offset = offset_s(first, self.zone)
        starts: list[int] = []
        offsets = [offset * 1_000]
        for start in range(first, last, _STEP_S):
            low, high = start, min(start + _STEP_S, last)
            final = offset_s(high, self.zone)
            while offset != final:
                low = first_change(low, high, self.zone)
                offset = offset_s(low, self.zone)
                starts.append(low * 1_000)
                offsets.append(offset * 1_000)
        return starts, offsets


@lru_cache(maxsize=1_024)
def _remembered(zone: tzinfo) -> WallClock:
    return WallClock(zone)


def wall_clock(zone: tzinfo) -> WallClock:
    """The clock of a zone, one for all who ask."""
    try:
        return _remembered(zone)
    except TypeError:  # somebody's own tzinfo, without a hash
        return WallClock(zone)
