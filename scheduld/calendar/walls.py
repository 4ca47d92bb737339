"""The wall-clock times that a cron expression names, whatever the zone.

Forward they are found by croniter, which is given plain lists of numbers and naive times
only: what it makes of other texts, of zones and of the past is not what cron does. Counting
and going back use the same numbers, without visiting each time.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import date, datetime
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from scheduld.calendar.rule import later
from scheduld.calendar.zones import DAY_MS, FIRST_MS, LAST_MS, from_datetime, to_datetime
from scheduld.errors import RuleBroken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduld.calendar.expression import CronSpec

_SURE_MS = LAST_MS - 50 * 366 * DAY_MS
"""Until here each expression has a next match: the rarest come back after 40 years."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class Walls:
    """The matching wall times of one expression, in ms."""

    def __init__(self, spec: CronSpec) -> None:
        self._spec = spec
        self._times = _DayTimes(spec.hours, spec.minutes, spec.seconds)
        self._months = frozenset(spec.months)
        days = spec.days
        # croniter gets date rules that the five fields can say; others it would read otherwise.
        self._marked = bool(days.last_day or days.last_weekdays or days.nth_weekdays)
        self._known = (0, 0)
        self._engine: Any = None
        self._lock = Lock()

    def next(self, wall: int) -> int | None:
        """The first match strictly later than `wall`; None if there is none in the calendar."""
        asked, found = self._known
        if asked <= wall < found:
            return found  # the last answer holds for all questions up to it
        answer = later(self._find(wall), wall, self._spec)
        if answer is not None:
            self._known = (wall, answer)
        return answer

    def count(self, low: int, high: int, most: int) -> int:
        """How many matches there are in `low <= wall < high`, at most `most`."""
        first, last = low // DAY_MS, high // DAY_MS
        if low >= high:
            return 0
        found = -self._times.before(low % DAY_MS) if self._on(first) else 0
        for _ in self._days(first, last - 1):
            found += self._times.size
            if found >= most:
                return most
        if self._on(last):
            found += self._times.before(high % DAY_MS)
        return min(found, most)

    def back(self, low: int, high: int) -> Iterator[int]:
        """The matches in `low <= wall < high`, the latest first."""
        for day in self._days_back(low // DAY_MS, (high - 1) // DAY_MS):
            start = day * DAY_MS
            end = self._times.before(high - start) if high - start < DAY_MS else self._times.size
            for rank in range(end - 1, -1, -1):
                wall = start + self._times.at(rank)
                if wall < low:
                    return
                yield wall

    def _find(self, wall: int) -> int | None:
        found = self._ask(max(wall, FIRST_MS))
        if found is None or not self._marked or self._on(found // DAY_MS):
            return found
        for day in self._days(found // DAY_MS, LAST_MS // DAY_MS):
            return self._ask(day * DAY_MS - 1)
        return None

    def _ask(self, wall: int) -> int | None:
        if wall >= LAST_MS:
            return None
        # A croniter keeps its place in itself, so two threads must not ask at once.
        with self._lock:
            if self._engine is None:
                self._engine = self._build()
            try:
                found = self._engine.get_next(datetime, start_time=to_datetime(wall))
            except (ValueError, OverflowError) as error:  # those of croniter are ValueErrors
                if wall < _SURE_MS:
                    raise RuleBroken(f"no next time of {self._spec} is found: {error}") from error
                return None  # there is none up to the end of the calendar
        return from_datetime(found)

    def _build(self) -> Any:
        from croniter import croniter  # most daemons have no expression, and it takes 20 ms

        spec, days = self._spec, self._spec.days
        dates, weekdays = "*", "*"
        # croniter takes a full list for `*`, which then would no longer match on its own.
        every_day = days.or_rule and (len(days.days) == 31 or len(days.weekdays) == 7)
        if not self._marked and not every_day:
            dates = _listed(sorted(days.days), 31)
            weekdays = _listed(sorted(days.weekdays), 7)
        parts = [_listed(spec.minutes, 60), _listed(spec.hours, 24), dates]
        parts += [_listed(spec.months, 12), weekdays]
        if spec.seconds != (0,):
            parts.append(_listed(spec.seconds, 60))
        start = to_datetime(0)  # naive; each question brings its own
        return croniter(" ".join(parts), start, ret_type=datetime, day_or=days.or_rule)

    def _on(self, day: int) -> bool:
        on = date.fromordinal(day + _EPOCH_DAY)
        return on.month in self._months and on.day in self._spec.days.of(on.year, on.month)

    def _days(self, first: int, last: int) -> Iterator[int]:
        """The matching days from `first` to `last`, counted from 1970-01-01."""
        for start, days in self._per_month(first, last, 1):
            for day in days:
                if first <= start + day <= last:
                    yield start + day

    def _days_back(self, first: int, last: int) -> Iterator[int]:
        for start, days in self._per_month(last, first, -1):
            for day in reversed(days):
                if first <= start + day <= last:
                    yield start + day

    def _per_month(self, first: int, last: int, step: int) -> Iterator[tuple[int, Sequence[int]]]:
        """The months from one day to another: the day before the month, and the days in it."""
        begin, end = (date.fromordinal(day + _EPOCH_DAY) for day in (first, last))
        index, stop = (on.year * 12 + on.month - 1 for on in (begin, end))
        while (stop - index) * step >= 0:
            year, month = index // 12, index % 12 + 1
            if month in self._months:
                start = date(year, month, 1).toordinal() - _EPOCH_DAY - 1
                yield start, self._spec.days.of(year, month)
            index += step


@lru_cache(maxsize=2_048)
def walls_of(spec: CronSpec) -> Walls:
    """The wall times of an expression, one for all zones and schedules that have it."""
    return Walls(spec)


class _DayTimes:
    """The times of a day: all combinations of hours, minutes and seconds, by their rank."""

    def __init__(
        self, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]
    ) -> None:
        self._hours, self._minutes, self._seconds = hours, minutes, seconds
        self._hourly = len(minutes) * len(seconds)
        self.size = len(hours) * self._hourly

    def at(self, rank: int) -> int:
        """The time of a rank, in ms of the day."""
        hour, rest = divmod(rank, self._hourly)
        minute, second = divmod(rest, len(self._seconds))
        return (
            self._hours[hour] * 3_600 + self._minutes[minute] * 60 + self._seconds[second]
        ) * 1_000

    def before(self, ms: int) -> int:
        """How many times are earlier than `ms` of the day."""
        hour, rest = divmod(-(-ms // 1_000), 3_600)
        minute, second = divmod(rest, 60)
        rank = bisect_left(self._hours, hour) * self._hourly
        if hour in self._hours:
            rank += bisect_left(self._minutes, minute) * len(self._seconds)
            if minute in self._minutes:
                rank += bisect_left(self._seconds, second)
        return rank


def _listed(numbers: Sequence[int], size: int) -> str:
    return "*" if len(numbers) == size else ",".join(map(str, numbers))
