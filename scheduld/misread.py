"""What a refused WHEN text could have meant, and how to write that.

Nothing here accepts a text: it only chooses the words of the refusal.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

FORMS = (
    'write "2026-12-24T09:00+01:00", "2026-12-24 09:00" (in the time zone), "today 09:00", '
    '"tomorrow 09:00", "+2h15m" or "@1798099200"'
)
"""The accepted forms, by example."""

_WORDS = (
    r"mon|tue|wed|thu|fri|sat|sun|monday|tuesday|wednesday|thursday|friday|saturday|sunday|jan|feb"
    r"|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|january|february|march|april|june|july|august"
    r"|september|october|november|december"
)
_ISO_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ISO = rf"({_ISO_DAY})[Tt ]([0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.,][0-9]+)?)?)"
_NO_DAY = "has no date: it could be today or any other day"
_NUMBER = "is a bare number"

# Pattern (whole text, any case), what is wrong, what would be right (with its groups).
_READINGS = (
    (r"", "is empty", FORMS),
    (r"now", "is not a text for a time", "--now runs a task at once; in code leave `at` out"),
    (r"today|tomorrow", "has no time of day", 'write "today 09:00" or "tomorrow 09:00"'),
    (
        r"(?:today|tomorrow)\b.*",
        "is not today or tomorrow and HH:MM or HH:MM:SS",
        'write "today 09:00" or "tomorrow 21:30:00", without an offset; the zone is --timezone',
    ),
    (
        r"([01][0-9]|2[0-3])(:[0-5][0-9](?::[0-5][0-9])?)",
        _NO_DAY,
        r'say "today \1\2" or "tomorrow \1\2"',
    ),
    (
        r"([0-9])(:[0-5][0-9](?::[0-5][0-9])?)",
        _NO_DAY,
        r'say "today 0\1\2" or "tomorrow 0\1\2"',
    ),
    (
        r"[0-9:]+ ?[ap]m|[0-9]{1,2}:.*",
        _NO_DAY,
        'say "today 09:00" or "tomorrow 21:00", with hours 00 to 23',
    ),
    (
        rf"({_ISO_DAY})",
        "has no time of day: it could be the start or the end of the day",
        r"write \1T00:00 or \1T23:59",
    ),
    (r"[0-9]{4}-[0-9]{1,2}", "is a month, not a time", FORMS),
    (
        r"([0-9]{4})[/.]([0-9]{2})[/.]([0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}).*)?",
        "is not a date of the form YYYY-MM-DD",
        r'write \1-\2-\3 and the time, such as "\1-\2-\3T09:00"',
    ),
    (
        r"(19|20|21)([0-9]{2})(0[1-9]|1[0-2])([0-3][0-9])",
        _NUMBER,
        r'for the date write "\1\2-\3-\4T09:00", for epoch seconds "@\1\2\3\4"',
    ),
    (
        r"@?([0-9]{9,10})[0-9]{3}",
        "looks like milliseconds",
        r'"@" takes epoch seconds, at most 11 digits: @\1',
    ),
    (r"@.*", "is not @ and epoch seconds of at most 11 digits", "such as @1798099200"),
    (
        r"([0-9]{1,7})",
        _NUMBER,
        r'for that long from now write "+\1s" or "+\1m", for a day write "2026-12-24 09:00"',
    ),
    (
        r"([0-9]{1,11})",
        _NUMBER,
        r'for epoch seconds write "@\1", for seconds from now "+\1s"',
    ),
    (r"[0-9]+", _NUMBER, FORMS),
    (r"\+([0-9]{1,12})", "has no unit", r'write "+\1s", "+\1m", "+\1h" or "+\1d"'),
    (
        r"\+[0-9]+(?:mo|y).*|\+.*(?:month|year).*",
        "counts months or years, whose length varies",
        'write the date, or days such as "+30d"',
    ),
    (
        r"(?:in )?((?:[0-9]+[smhdw])+)",
        "is a duration, not a time",
        r'for that long from now write "+\1"',
    ),
    (r"-((?:[0-9]+[smhdw])+)", "lies in the past", r'write "+\1" for that long from now'),
    (r"[+-].*", "is not + and whole numbers of s m h d w", 'such as "+2h15m"'),
    (
        rf"({_ISO_DAY})[Tt ]24:00(?::00)?.*",
        "has hour 24: a day ends at 00:00 of the next",
        r"\1",
    ),
    (rf"({_ISO_DAY})[Tt ][0-9]{{2}}:[0-9]{{2}}:60.*", "has second 60", "seconds are 00 to 59"),
    (
        rf"{_ISO} ?UTC([+-])([0-9]{{1,2}})(?::?([0-9]{{2}}))?",
        "has a signed UTC, which is read both ways",
        r"write the offset itself: \1T\2+HH:MM is ahead of UTC, \1T\2-HH:MM behind it",
    ),
    (
        rf"{_ISO} ?([A-Za-z_]+/[A-Za-z_/+-]+)",
        "has the zone inside",
        r'write "\1T\2" and --timezone \3',
    ),
    (
        rf"{_ISO} +(Z|[+-][0-9]{{2}}:[0-9]{{2}})",
        "has a blank before its offset",
        r'write "\1T\2\3"',
    ),
    (
        rf"{_ISO}(?:Z| ?UTC|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?",
        "is not of the form YYYY-MM-DDTHH:MM[:SS[.ffffff]]Z",
        "hours are 00 to 23, minutes and seconds 00 to 59, fractions up to 6 digits, T and Z upper",
    ),
    (rf"{_ISO} ?[+-].*", "has no offset of the form +HH:MM", r'such as "\1T\2+01:00"'),
    (
        rf"{_ISO} ?[A-Za-z]{{1,5}}",
        "has a zone abbreviation, which several places share",
        r'write "\1T\2Z", an offset such as "\1T\2+01:00", or give --timezone',
    ),
    (
        rf"(?:next )?(?:{_WORDS})\b.*|[0-9]{{1,2}}\.? ?(?:{_WORDS})\b.*",
        "names a day or month in words",
        'write the date with numbers: "2026-12-24 09:00"',
    ),
)
_SLASHED = re.compile(r"([0-9]{1,2})[/.-]([0-9]{1,2})[/.-]([0-9]{4}|[0-9]{2})(?:[T ,].*)?")


def explain(text: str) -> tuple[str, str]:
    """Say what is wrong with a text that is no accepted WHEN, and what would be right.

    The two parts go behind the text itself and into the hint. `text` is ASCII, trimmed,
    and at most 100 characters.
    """
    if match := _SLASHED.fullmatch(text):
        return _numeric_date(match[1], match[2], match[3])
    for pattern, fault, hint in _READINGS:
        # Compiled only here: for most texts never.
        if match := re.fullmatch(pattern, text, re.IGNORECASE):
            if fault.startswith("has hour 24"):
                return fault, _next_midnight(match[1])
            return fault, match.expand(hint)
    return "is not a time", FORMS


def _day(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _numeric_date(one: str, two: str, last: str) -> tuple[str, str]:
    year = last if len(last) == 4 else f"20{last}"
    readings = [_day(year, two, one), _day(year, one, two)]
    if len(one) == len(last) == 2:
        readings.append(_day(f"20{one}", two, last))
    days = list(dict.fromkeys(str(day) for day in readings if day))
    if not days:
        return "is not a date", FORMS
    forms = " or ".join(f'"{day}T09:00"' for day in days)
    if len(days) == 1:
        return "is not a date of the form YYYY-MM-DD", f"write {forms}"
    return f"could be {' or '.join(days)}", f"write {forms}"


def _next_midnight(text: str) -> str:
    day = _day(*text.split("-"))
    if day is None or day.year > 2200:
        return FORMS
    return f'write "{day + timedelta(days=1)}T00:00"'
