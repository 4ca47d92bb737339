"""Intervals: either of the calendar (`d w mo y`) or of the clock (`h m s ms`).

The former keep the wall-clock time, and their days may have 23 or 25 hours; the latter are
elapsed time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dateutil.relativedelta import relativedelta

from scheduld.calendar.zones import DAY_MS, FIRST_MS, LAST_MS, from_datetime, to_datetime
from scheduld.duration import LONGEST_MS, UNITS_MS, parse_duration_ms
from scheduld.errors import WhenError
from scheduld.names import printable

if TYPE_CHECKING:
    from datetime import timedelta

_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|mo|[smhdwy])", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_CALENDAR = {"d", "w", "mo", "y"}
_HINT = 'use an interval such as "15m", "1h30m", "7d", "2w", "1mo" or "1y"'
_MONTH_DAYS = 30.436875
"""Mean length of a month in days."""


@dataclass(frozen=True, slots=True)
class Every:
    """An interval: months and days by the calendar, or ms of elapsed time."""

    months: int = 0
    days: int = 0
    ms: int = 0

    @property
    def calendar(self) -> bool:
        """Whether it keeps the wall-clock time, and so needs a time zone."""
        return not self.ms

    def __str__(self) -> str:
        """Write it as `parse_every` reads it; days stay days, hours do not become days."""
        if self.ms:
            return _clock_text(self.ms)
        years, months = divmod(self.months, 12)
        parts = ((years, "y"), (months, "mo"), (self.days, "d"))
        return "".join(f"{number}{unit}" for number, unit in parts if number)


def _clock_text(ms: int) -> str:
    text = ""
    for unit in ("h", "m", "s", "ms"):
        number, ms = divmod(ms, UNITS_MS[unit])
        text += f"{number}{unit}" if number else ""
    return text


def parse_every(value: str | int | float | timedelta, *, what: str = "every") -> Every:
    """Read an interval: a text such as "7d" or "1h30m", seconds, or a timedelta.

    Numbers and timedeltas are elapsed time, also in whole days: "7d" keeps the wall-clock
    time, timedelta(days=7) is 168 hours. Parts of a ms are rounded up. Raises WhenError for
    all else, for nothing, and for more than 36,500 days.
    """
    if isinstance(value, str):
        return read_interval(value.strip(" \t"), what)
    ms = parse_duration_ms(value, what=what)
    if not ms:
        raise WhenError(f"{what} is 0", hint=_HINT)
    return Every(ms=ms)


def read_interval(text: str, what: str) -> Every:
    """Read the text of an interval, without a sign."""
    shown = f"{what} {printable(text[:60])!r}"
    if len(text) > 100:
        raise WhenError(f"{shown}... is longer than 100 characters", hint=_HINT)
    if not _WHOLE.fullmatch(text):
        raise WhenError(f"{shown} {_fault(text)}", hint=_HINT)
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    if twice := next((unit for unit in units if units.count(unit) > 1), None):
        raise WhenError(f"{shown} has the unit {twice} twice", hint=_HINT)
    of_calendar = _CALENDAR.intersection(units)
    if of_calendar and len(of_calendar) < len(units):
        raise WhenError(
            f"{shown} mixes calendar units (d w mo y) and clock units (h m s ms)",
            hint='days keep the wall-clock time, hours are elapsed: use one kind, as "36h" or "2d"',
        )
    every = (
        _of_calendar(parts, shown) if of_calendar else Every(ms=parse_duration_ms(text, what=what))
    )
    if every == Every():
        raise WhenError(f"{shown} is 0", hint=_HINT)
    if mean_ms(every) > LONGEST_MS:
        raise WhenError(f"{shown} is longer than 36500d", hint=_HINT)
    return every


def _of_calendar(parts: list[tuple[str, str]], shown: str) -> Every:
    if any("." in number for number, _ in parts):
        raise WhenError(f"{shown} has a part of a day", hint='use whole days, or hours as in "36h"')
    count = {unit: int(number) for number, unit in parts}
    return Every(
        months=count.get("mo", 0) + 12 * count.get("y", 0),
        days=count.get("d", 0) + 7 * count.get("w", 0),
    )


def _fault(text: str) -> str:
    if not text:
        return "is empty"
    if text[0] in "+-":
        return "has a sign"
    if re.fullmatch(r"[0-9.]+", text, re.ASCII):
        return f'has no unit; as text write it with one, such as "{text[:20]}s"'
    if re.search(r"[a-z0-9]\s+[a-z0-9]", text):
        return "has a blank inside"
    return "is not an interval; its units are ms s m h (elapsed) and d w mo y (calendar)"


def shifted(wall: int, every: Every, times: int) -> int:
    """The wall time so many calendar intervals later, month ends clipped; days are added last.

    Outside the calendar: one of its ends.
    """
    if every.months:
        try:
            moved = to_datetime(wall) + relativedelta(months=every.months * times)
        except (ValueError, OverflowError):
            return LAST_MS if times > 0 else FIRST_MS
        wall = from_datetime(moved)
    return max(FIRST_MS, min(LAST_MS, wall + every.days * times * DAY_MS))


def mean_ms(every: Every) -> int:
    """Mean length of an interval, in ms."""
    return every.ms or round((every.months * _MONTH_DAYS + every.days) * DAY_MS)
