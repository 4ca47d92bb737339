"""A second opinion on when cron fires: every minute of a window is looked at, one by one.

Nothing here comes from the package. An expression is read in the few forms that the tests
use; the rules of Debian's cron are applied to a table of which wall time each minute shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from datetime import tzinfo

_LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
MINUTE = timedelta(minutes=1)


def _numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last or first))
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


@dataclass
class Expression:
    """An expression of five numeric fields."""

    text: str

    def __post_init__(self) -> None:
        self.fields = self.text.split()
        sets = [_numbers(part, *limits) for part, limits in zip(self.fields, _LIMITS, strict=True)]
        self.minutes, self.hours, self.days, self.months, weekdays = sets
        self.weekdays = {number % 7 for number in weekdays}
        self.wild = self.fields[0][0] == "*" or self.fields[1][0] == "*"
        self.either = self.fields[2][0] != "*" and self.fields[4][0] != "*"

    def on(self, wall: datetime) -> bool:
        """Whether the date of a wall time matches."""
        date, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return wall.month in self.months and (date or weekday if self.either else date and weekday)

    def at(self, wall: datetime) -> bool:
        """Whether a wall time matches."""
        return wall.minute in self.minutes and wall.hour in self.hours and self.on(wall)


@dataclass
class Window:
    """The minutes of a window in a zone, and what its clocks show at each."""

    zone: tzinfo
    start: datetime
    end: datetime
    shown: dict[datetime, list[datetime]] = field(default_factory=dict)
    """Each wall time of the window, and the instants that show it."""
    skips: list[tuple[datetime, list[datetime]]] = field(default_factory=list)
    """The instants before which the clocks skipped something, and the wall times skipped."""

    def __post_init__(self) -> None:
        minute, expected = self.start, None
        while minute < self.end:
            wall = minute.astimezone(self.zone).replace(tzinfo=None)
            self.shown.setdefault(wall, []).append(minute)
            if expected is not None and wall > expected:
                skipped = [expected + MINUTE * n for n in range((wall - expected) // MINUTE)]
                self.skips.append((minute, skipped))
            minute, expected = minute + MINUTE, wall + MINUTE

    def ticks(self, cron: Expression, gap: str = "shift", overlap: str = "first") -> list[datetime]:
        """The instants at which Debian's cron would start the job, in UTC."""
        fired: set[datetime] = set()
        for wall, instants in self.shown.items():
            if cron.at(wall):
                first, *later = instants
                if cron.wild or overlap == "both":
                    fired.update(instants)
                else:
                    fired.add(later[0] if later and overlap == "second" else first)
        for instant, skipped in self.skips:
            moved = not cron.wild and gap == "shift" and len(skipped) < 180
            if moved and any(cron.at(wall) for wall in skipped):
                fired.add(instant)
        return sorted(fired)


@cache
def changes(zone: tzinfo, first: int = 2005, last: int = 2037) -> list[datetime]:
    """The minutes, in UTC, at which a zone has another offset than the minute before."""
    start, end = datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC)
    days = _differing(zone, start, (end - start).days, timedelta(days=1))
    hours = [hour for day in days for hour in _differing(zone, day, 24, timedelta(hours=1))]
    return [minute + MINUTE for hour in hours for minute in _differing(zone, hour, 60, MINUTE)]


def _differing(zone: tzinfo, start: datetime, number: int, step: timedelta) -> list[datetime]:
    """The starts of those of so many steps at whose ends the offsets differ."""
    found = []
    before = start.astimezone(zone).utcoffset()
    for count in range(number):
        after = (start + (count + 1) * step).astimezone(zone).utcoffset()
        if after != before:
            found.append(start + count * step)
        before = after
    return found


def expression(dice: random.Random, near: datetime) -> str:
    """An expression that has a good chance to fire in the hours around a wall time."""
    hour = near.hour + dice.choice((-1, 0, 0, 1))
    minute = dice.choice(
        ("0", "30", "*", "*/15", "*/7", "15,45", str(dice.randrange(60)), "5-50/9", "0-59")
    )
    hours = dice.choice(
        (
            "*",
            "*/2",
            "0-23/2",
            "0-23",
            str(hour % 24),
            str(hour % 24),
            f"{min(hour % 24, 20)}-23",
            "0,1,2,3",
        )
    )
    day = dice.choice(("*", "*", "*", "*/2", str(near.day), "1-31", f"{near.day},31"))
    month = dice.choice(("*", "*", str(near.month), f"1,{near.month}"))
    weekday = dice.choice(("*", "*", "*", "*/2", str(near.isoweekday()), "0", "1-5"))
    return " ".join((minute, hours, day, month, weekday))


ZONES = (
    "Europe/Madrid",
    "America/New_York",
    "America/St_Johns",  # half an hour off
    "Australia/Lord_Howe",  # moves by half an hour
    "Antarctica/Troll",  # moves by two hours
    "Pacific/Apia",  # skipped a day
    "Pacific/Chatham",  # 45 minutes
    "America/Santiago",  # at midnight
    "America/Sao_Paulo",  # at midnight, until 2019
    "Asia/Beirut",
    "Africa/Casablanca",  # Ramadan
    "Asia/Tehran",
    "Asia/Gaza",
    "America/Caracas",  # half an hour for good
    "Asia/Pyongyang",
    "Europe/Moscow",
    "America/Asuncion",
    "Africa/Cairo",
    "America/Havana",
    "Asia/Kathmandu",
)
