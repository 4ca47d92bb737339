"""Durations: texts such as "1h30m", numbers of seconds and timedeltas, as whole milliseconds.

Strict where libraries guess: ASCII digits, lower-case units, each unit once, no sign.
Years and months are no durations here: their length depends on where they start.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction

from scheduld.errors import WhenError
from scheduld.names import printable

UNITS_MS = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
"""Length of each unit in ms, the largest first; a day is 24 hours, a week 7 days."""
LONGEST_MS = 36_500 * UNITS_MS["d"]
"""Longest duration accepted, in ms: 36,500 days."""

_LONGEST_TEXT = 100
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_HINT = 'use a duration such as "500ms", "10s", "1h30m"'
# Weeks are read but not written: "30d" says more than "4w2d".
_WRITTEN = {unit: size for unit, size in UNITS_MS.items() if unit != "w"}
_SIZES = tuple(_WRITTEN.values())


def parse_duration_ms(value: str | int | float | timedelta, *, what: str = "duration") -> int:
    """Read a duration as whole milliseconds, parts of one rounded up.

    Texts have the units `ms s m h d w`; numbers are seconds. `what` names the value in
    the message of the WhenError raised for anything else, and beyond `LONGEST_MS`.
    """
    exact = _exact_ms(value, what)
    if exact < 0:
        raise _refusal(f"{what} is negative")
    if exact > LONGEST_MS:
        raise _refusal(f"{what} is longer than {format_ms(LONGEST_MS)}")
    return math.ceil(exact)


def _exact_ms(value: object, what: str) -> Fraction:
    if isinstance(value, str):
        return _text_ms(value, what)
    if isinstance(value, timedelta):
        return Fraction(value // timedelta(microseconds=1), 1_000)
    if isinstance(value, float):
        return _float_ms(value, what)
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value) * 1_000
    raise _refusal(f"{what} is a {type(value).__name__}, not a text or a number of seconds")


def _float_ms(value: float, what: str) -> Fraction:
    if not math.isfinite(value):
        raise _refusal(f"{what} is {float(value)}, which is no length of time")
    # By its shortest decimal form: the binary value of 0.1 is above 100 ms.
    return Fraction(float.__repr__(value)) * 1_000


def _text_ms(text: str, what: str) -> Fraction:
    body = text.strip(" \t")
    shown = f"{what} {printable(body[:60])!r}"
    if len(body) > _LONGEST_TEXT:
        raise _refusal(f"{shown}... is longer than {_LONGEST_TEXT} characters")
    if not _WHOLE.fullmatch(body):
        raise _refusal(f"{shown} {_text_fault(body)}")
    parts = _PART.findall(body)
    units = [unit for _, unit in parts]
    for unit in units:
        if units.count(unit) > 1:
            raise _refusal(f"{shown} has the unit {unit} twice")
    return sum((Fraction(number) * UNITS_MS[unit] for number, unit in parts), Fraction())


def _text_fault(body: str) -> str:
    if not body:
        return "is empty"
    if body[0] in "+-":
        return "has a sign"
    if re.fullmatch(r"[0-9.]+", body):
        return f'has no unit; as text write it with one, such as "{body}s"'
    if re.search(r"[0-9](?:mo|y)", body):
        return "has a calendar unit; months and years have no fixed length"
    if re.search(r"[a-z0-9]\s+[a-z0-9]", body):
        return "has a blank inside"
    return "is not a duration; its units are ms s m h d w"


def _refusal(message: str) -> WhenError:
    return WhenError(message, hint=_HINT)


def format_ms(ms: int) -> str:
    """Write milliseconds as a text that `parse_duration_ms` reads back: 5400000 is "1h30m".

    A negative length, which the parser refuses, gets a minus sign.
    """
    return ("-" if ms < 0 else "") + ("".join(_parts(abs(ms))) or "0s")


def _parts(ms: int) -> list[str]:
    rest, parts = ms, []
    for unit, size in _WRITTEN.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return parts


def in_words(ms: int) -> str:
    """Tell people how far away something is: "in 3d 2h", "5m 10s ago" or "now".

    `ms` is negative for the past. Rounded to the second of the two units shown.
    """
    if not ms:
        return "now"
    length = abs(ms)
    if length >= UNITS_MS["s"]:
        largest = next(index for index, size in enumerate(_SIZES) if length >= size)
        # Seconds are shown without ms: what was added as +5s is 4990 ms away when told.
        grain = max(_SIZES[largest + 1], UNITS_MS["s"])
        length = (length + grain // 2) // grain * grain
    text = " ".join(_parts(length))
    return f"in {text}" if ms > 0 else f"{text} ago"
