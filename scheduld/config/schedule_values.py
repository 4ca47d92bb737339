"""Parsers of single values that only schedules have."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from scheduld import payload
from scheduld.calendar.bounds import bound_ms
from scheduld.calendar.every import parse_every
from scheduld.config.faults import BadValue, wrong_type
from scheduld.config.values import Text
from scheduld.errors import InvalidInput, WhenError

_RELATIVE = re.compile(r"\+|today|tomorrow|now")
_BOUND_HINT = 'write a date or a time, such as "2026-12-24" or "2026-12-24 09:00"'


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    kind = "true or false"

    def __call__(self, value: object) -> bool:
        """Return the flag."""
        if not isinstance(value, bool):
            raise wrong_type("true or false", value, quoted=True)
        return value


@dataclass(frozen=True, slots=True)
class Payload:
    """A table that can be the payload of a task."""

    kind = "table"

    def __call__(self, value: object) -> object:
        """Return the table; how large it may be is a setting of another table."""
        if not isinstance(value, dict):
            raise wrong_type("a table", value)
        try:
            payload.encode_json(value)
        except InvalidInput as exc:
            raise BadValue(exc.message) from None
        return value


@dataclass(frozen=True, slots=True)
class Period:
    """A period of a grid, calendar units included."""

    kind = "period, such as 15m, 7d, 1mo"

    def __call__(self, value: object) -> str:
        """Return the period in its canonical text."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise wrong_type("a period", value)
        try:
            return str(parse_every(Text()(value) if isinstance(value, str) else value))
        except InvalidInput as exc:
            generic = f"is no period; {exc.hint}"
            raise BadValue(exc.message, hint=exc.hint, generic=generic) from None


@dataclass(frozen=True, slots=True)
class TimeOrDate:
    """A time or a date, which become an instant once the zone is known."""

    kind = "time or date"

    def __call__(self, value: object) -> str | dt.date:
        """Return it as it was given."""
        return value if isinstance(value, dt.date) else Text()(value)


def bound(value: str | dt.date, timezone: str, *, is_end: bool) -> int:
    """Make an instant, in ms, of a time or a date: of a date the first of its day, or the last.

    Raises BadValue, also for what depends on the moment the file is read.
    """
    if isinstance(value, str) and _RELATIVE.match(value.strip()):
        raise BadValue("is another time whenever the file is read", hint=_BOUND_HINT)
    try:
        return bound_ms(value, timezone, is_end=is_end)
    except WhenError as exc:
        raise BadValue(exc.message, hint=exc.hint, generic="is no time") from None
