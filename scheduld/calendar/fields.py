"""One field of a cron expression: what may stand in it, read into a set of numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scheduld.calendar import refusals
from scheduld.names import printable

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_TERM = re.compile(r"(?:(\*)|([0-9]+|[a-z]{3})(?:-([0-9]+|[a-z]{3}))?)(?:/([0-9]+))?", re.ASCII)
_LAST = re.compile(r"([0-9]+|[a-z]{3})l", re.ASCII)
_NTH = re.compile(r"([0-9]+|[a-z]{3})#([0-9]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Field:
    """A kind of field: its name, the numbers it takes, and the names for them."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many different values it has: Sunday is one of them."""
        return self.high - self.low + (self.name != "weekday")

    def has_step(self, text: str) -> bool:
        """Whether a text is a step that fits in: at least 1, and not larger than the range."""
        digits = text.lstrip("0")
        return text.isdigit() and 0 < len(digits) <= 2 and int(digits) <= self.size

    def number(self, text: str) -> int | None:
        """Read a number or name; None if it is neither, or out of range."""
        if text in self.names:
            return self.names.index(text) + self.low
        # int() itself would read other digits, and refuse a text of thousands.
        if (
            not text.isdigit()
            or len(text.lstrip("0")) > 2
            or not self.low <= int(text) <= self.high
        ):
            return None
        return int(text)


SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day", 1, 31)
MONTH = Field("month", 1, 12, _MONTHS)
WEEKDAY = Field("weekday", 0, 7, _WEEKDAYS)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a field says: numbers, the marks of the extended dialect, and its canonical text."""

    numbers: tuple[int, ...]
    text: str
    last: tuple[int, ...] = ()
    """Weekdays of which the last in the month is meant; 0 in a day field: the last day."""
    nth: tuple[tuple[int, int], ...] = ()
    """Weekdays, and which one in the month is meant."""

    @property
    def star(self) -> bool:
        """Whether the field begins with `*`, which is all that cron looks at."""
        return self.text.startswith("*")


def parse_field(text: str, field: Field, *, extended: bool) -> Parsed:
    """Read one field; CronError says what is wrong with which term, and what to write instead."""
    numbers: set[int] = set()
    last: set[int] = set()
    nth: set[tuple[int, int]] = set()
    canonical = []
    for term in text.lower().split(","):
        if extended and (special := _special(term, field)) is not None:
            weekday, which, written = special
            if which:
                nth.add((weekday, which))
            else:
                last.add(weekday)
        else:
            found, written = _term(term, text, field)
            numbers.update(found)
        canonical.append(written)
    return Parsed(
        tuple(sorted(numbers)), ",".join(canonical), tuple(sorted(last)), tuple(sorted(nth))
    )


def _special(term: str, field: Field) -> tuple[int, int, str] | None:
    """Read `L`, `5L` or `5#2` as number, which one (0: the last) and text; None if it is none."""
    if field is DAY and term == "l":
        return 0, 0, "L"
    if field is not WEEKDAY:
        return None
    if (match := _LAST.fullmatch(term)) and (day := field.number(match[1])) is not None:
        return day % 7, 0, f"{day % 7}L"
    if (match := _NTH.fullmatch(term)) and (day := field.number(match[1])) is not None:
        if match[2] not in {"1", "2", "3", "4", "5"}:
            raise refusals.refuse(f"weekday {term!r} is no week of a month", "use #1 to #5, or L")
        return day % 7, int(match[2]), f"{day % 7}#{match[2]}"
    return None


def _term(term: str, text: str, field: Field) -> tuple[range | set[int], str]:
    match = _TERM.fullmatch(term)
    if not match:
        raise refusals.bad_term(term, text, field)
    star, first, end, step_text = match.groups()
    if star:
        low, high, written = field.low, field.high, "*"
    else:
        low = _bound(first, text, field)
        high = low if end is None else _bound(end, text, field)
        if step_text is not None and end is None:
            raise refusals.step_from_number(low, step_text, field)
        written = f"{low}-{high}" if high > low else str(low)
    step = _step(step_text, term, field)
    if low > high:
        raise refusals.wraps(term, low, high, step, field)
    if step > 1 and (star or high > low):
        written += f"/{step}"
    found = range(low, high + 1, step)
    if field is WEEKDAY:
        # 7 is Sunday too; alone it is written as 0, in a range it has to stay.
        return {number % 7 for number in found}, "0" if written == "7" else written
    return found, written


def _bound(text: str, whole: str, field: Field) -> int:
    number = field.number(text)
    if number is None:
        raise refusals.no_number(text, whole, field)
    return number


def _step(text: str | None, term: str, field: Field) -> int:
    if text is None:
        return 1
    if field.has_step(text):
        return int(text)
    said = f"{field.name} {printable(term[:40])!r}"
    if not text.strip("0"):
        raise refusals.refuse(f"{said} has a step of 0", "use 1 or more")
    raise refusals.refuse(
        f"{said} has a step larger than its range",
        f'use a step up to {field.size}; for longer intervals use every = "90m" instead of cron',
    )
