"""Where a stretch of time begins and ends: times, or dates that stand for a whole day."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING

from scheduld.calendar.zones import DAY_MS, in_zone, wall_clock
from scheduld.errors import WhenError
from scheduld.misread import FORMS
from scheduld.timezones import as_zone
from scheduld.when import instant_ms

if TYPE_CHECKING:
    from datetime import tzinfo

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = date(1970, 1, 1)
_FIRST_YEAR, _LAST_YEAR = 1970, 2200


def bound_ms(
    value: str | date,
    timezone: str | tzinfo | None,
    *,
    is_end: bool = False,
    now: datetime | None = None,
) -> int:
    """Read a WHEN text, a datetime or a date as an instant; errors of `parse_when`, but the past.

    A date is a whole day of the zone: its first instant, or (`is_end`) its last millisecond.
    """
    day = as_day(value)
    if day is not None:
        first, last = day_ms(day, timezone)
        return last if is_end else first
    if not isinstance(value, str | datetime):
        raise WhenError(f"a time is a text, a datetime or a date, not {type(value).__name__}")
    try:
        return instant_ms(value, timezone=timezone, now=now, allow_past=True)
    except WhenError as exc:
        if exc.hint == FORMS:
            exc.hint = f'{FORMS}, or a date such as "2026-12-24"'
        raise


def day_ms(day: date, timezone: str | tzinfo | None) -> tuple[int, int]:
    """Return the first and the last ms of a day in a zone; WhenError for years far away."""
    zone = as_zone(timezone)
    if zone is None:
        raise WhenError(
            f"the day {day} has no time zone",
            hint="name one: `timezone`, or --timezone Europe/Madrid",
        )
    if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
        raise WhenError(f"{day} is not between 1970 and 2200", hint="use a year up to 2200")
    wall = (day - _EPOCH).days * DAY_MS
    return _shown_from(wall, zone), _shown_from(wall + DAY_MS, zone) - 1


def range_text(first: int, last: int, zone: tzinfo) -> str:
    """Tell a stretch of time, first and last ms, in a zone: by days where it is whole days."""
    begin, end = in_zone(first, zone), in_zone(last, zone)
    if (day_ms(begin.date(), zone)[0], day_ms(end.date(), zone)[1]) == (first, last):
        days = sorted({str(begin.date()), str(end.date())})
        return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[1]}"
    texts = [
        moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
        for moment in (begin, end)
    ]
    return f"at {texts[0]}" if first == last else f"from {texts[0]} to {texts[1]}"


def _shown_from(wall: int, zone: tzinfo) -> int:
    """The first instant at which the clocks of a zone show a wall time, or a later one."""
    settled = wall_clock(zone).settle(wall)
    return settled.instants[0] if settled.instants else settled.gap_end


def as_day(value: object) -> date | None:
    """Return the day that a date, or the text of one, names; None for times and all else."""
    if isinstance(value, date):
        return None if isinstance(value, datetime) else value
    if not isinstance(value, str) or not _DATE.fullmatch(value.strip()):
        return None
    try:
        return date.fromisoformat(value.strip())
    except ValueError:
        raise WhenError(f"there is no day {value.strip()}") from None
