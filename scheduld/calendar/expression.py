"""Cron expressions: a strict parser, and what an expression means in words.

Two dialects. `vixie` is what Debian's cron reads: five fields. `extended` has six, seconds
first, and knows `L` as a day, `5L` and `5#2` as weekdays. What cron would read in a way that
people do not expect is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, get_args

from scheduld.calendar import fields, refusals
from scheduld.calendar.days import MonthDays
from scheduld.calendar.wording import explain as explain
from scheduld.errors import CronError
from scheduld.schedule import CronDialect

if TYPE_CHECKING:
    from scheduld.calendar.fields import Parsed

_LONGEST = 1_000
_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_KINDS = (fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, fields.WEEKDAY)


@dataclass(frozen=True, slots=True)
class CronSpec:
    """A cron expression that was read: the numbers each field names, sorted.

    `wild` (the minute or hour field begins with `*`) says how it meets a change of the clock;
    `or_rule` (neither day field begins with `*`) that a day may match by date or by weekday.
    Weekdays count from 0, Sunday. `text` is the canonical form, which reads back as the same.
    """

    text: str
    dialect: CronDialect
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    days: MonthDays
    wild: bool

    @property
    def or_rule(self) -> bool:
        """Whether one of the two day fields is enough."""
        return self.days.or_rule

    def __str__(self) -> str:
        return self.text


def parse(text: str, dialect: CronDialect = "vixie") -> CronSpec:
    """Read a cron expression.

    Raises CronError, whose hint says what to write instead, for all that is not exactly of
    the dialect, and for what no date will ever match.
    """
    if not isinstance(text, str):
        raise refusals.not_a_text(text)
    if dialect not in get_args(CronDialect):
        known = " or ".join(get_args(CronDialect))
        raise CronError(f"unknown cron dialect {refusals.shown(str(dialect))}", hint=f"use {known}")
    if len(text) > _LONGEST:
        raise refusals.refuse(f"it is longer than {_LONGEST} characters", "use ranges and steps")
    return _parse(text, dialect)


@lru_cache(maxsize=256)
def _parse(text: str, dialect: CronDialect) -> CronSpec:
    extended = dialect == "extended"
    texts = _split(text, extended=extended)
    second = fields.Parsed((0,), "0")
    if extended:
        second = fields.parse_field(texts.pop(0), fields.SECOND, extended=True)
    minute, hour, day, month, weekday = (
        fields.parse_field(part, kind, extended=extended)
        for part, kind in zip(texts, _KINDS, strict=True)
    )
    spec = CronSpec(
        text=" ".join(
            part.text
            for part in ([second] if extended else []) + [minute, hour, day, month, weekday]
        ),
        dialect=dialect,
        seconds=second.numbers,
        minutes=minute.numbers,
        hours=hour.numbers,
        months=month.numbers,
        days=_month_days(day, weekday),
        wild=minute.star or hour.star,
    )
    if not spec.days.ever(spec.months):
        raise refusals.never(_impossible(day, month, weekday))
    return spec


def _split(text: str, *, extended: bool) -> list[str]:
    body = text.strip(" \t")
    if not body:
        raise refusals.refuse("it is empty", refusals.SIX if extended else refusals.FIVE)
    if not body.isascii():
        raise refusals.refuse(
            "it has a character that is not ASCII", "use ASCII digits and letters"
        )
    if not body.replace("\t", " ").isprintable():
        raise refusals.refuse(
            "it has a control character", "write it in one line, fields separated by blanks"
        )
    if body.startswith("@"):
        if body.lower() not in _ALIASES:
            raise refusals.macro(body, tuple(_ALIASES))
        body = ("0 " if extended else "") + _ALIASES[body.lower()]
    found = body.split()
    if len(found) != (6 if extended else 5):
        raise refusals.wrong_count(found, extended=extended)
    return found


def _month_days(day: Parsed, weekday: Parsed) -> MonthDays:
    return MonthDays(
        days=frozenset(day.numbers),
        last_day=bool(day.last),
        weekdays=frozenset(weekday.numbers),
        last_weekdays=frozenset(weekday.last),
        nth_weekdays=frozenset(weekday.nth),
        or_rule=not (day.star or weekday.star),
    )


def _impossible(day: Parsed, month: Parsed, weekday: Parsed) -> str:
    if weekday.last or weekday.nth:
        return f"no day {day.text} of month {month.text} is a weekday {weekday.text}"
    return f"there is no day {day.text} in month {month.text}"
