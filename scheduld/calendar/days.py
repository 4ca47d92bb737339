"""Which days of a month match the two day fields of a cron expression."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass, field

# After 28 years without a missing leap year the calendar repeats.
_CYCLE = range(2000, 2028)


@dataclass(frozen=True, slots=True)
class MonthDays:
    """The day fields: dates, weekdays (0 is Sunday), and the marks of the extended dialect."""

    days: frozenset[int]
    weekdays: frozenset[int]
    or_rule: bool
    last_day: bool = False
    last_weekdays: frozenset[int] = frozenset()
    nth_weekdays: frozenset[tuple[int, int]] = frozenset()
    # A month is its length and its first weekday: there are 28 of them.
    _found: dict[tuple[int, int], tuple[int, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def of(self, year: int, month: int) -> tuple[int, ...]:
        """The days of a month that match, in order."""
        shape = monthrange(year, month)
        found = self._found.get(shape)
        if found is None:
            first, length = shape
            matching = (day for day in range(1, length + 1) if self._matches(day, first, length))
            found = self._found[shape] = tuple(matching)
        return found

    def ever(self, months: tuple[int, ...]) -> bool:
        """Whether any date in these months matches."""
        return any(self.of(year, month) for year in _CYCLE for month in months)

    def _matches(self, day: int, first: int, length: int) -> bool:
        # monthrange counts from Monday 0, cron from Sunday 0.
        weekday = (first + day) % 7
        by_date = day in self.days or (self.last_day and day == length)
        by_weekday = (
            weekday in self.weekdays
            or (weekday in self.last_weekdays and day > length - 7)
            or (weekday, (day + 6) // 7) in self.nth_weekdays
        )
        return (by_date or by_weekday) if self.or_rule else (by_date and by_weekday)
