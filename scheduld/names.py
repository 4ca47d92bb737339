"""Names and ids: the rules, and how ids are made."""

from __future__ import annotations

import os
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_GENERATED = re.compile(r"[a-z2-7]{20}")
_TIME_CHARS = 9
_ID_CHARS = 20
RANDOM_CHARS = _ID_CHARS - _TIME_CHARS
"""Characters of a generated id that are random."""
# 256 is a multiple of 32, so every letter is as likely as every other.
_LETTER_OF_BYTE = (_BASE32 * 8).encode()
_DIGIT_OF_LETTER = str.maketrans(_BASE32, "0123456789abcdefghijklmnopqrstuv")
# Nothing else in ASCII is a space or control character.
_PLAIN_ID = re.compile(r"[!-~]{1,200}")
ID_LIMIT = 200
"""Longest task id, in bytes of UTF-8."""


def is_name(text: str) -> bool:
    """Whether a text is a name of a namespace, type or schedule."""
    return _NAME.fullmatch(text) is not None


def check_name(kind: str, text: object) -> str:
    """Return `text` if it is a name of a namespace, type or schedule.

    Raises InvalidInput, naming the rule, otherwise.
    """
    if not isinstance(text, str) or not is_name(text):
        raise InvalidInput(
            f"{kind} {printable(str(text)[:80])!r} is not a name",
            hint="1 to 63 of a-z 0-9 _ . - and not starting with _ . or -",
        )
    return text


def id_fault(text: str) -> str | None:
    """Say what is wrong with a task id, or None if nothing is."""
    if _PLAIN_ID.fullmatch(text):
        return None
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is not UTF-8"
    if not size:
        return "is empty"
    if size > ID_LIMIT:
        return f"has {size} bytes, at most {ID_LIMIT} are allowed"
    # Zs covers every kind of space, Cc the control characters (ESC, DEL, U+0085),
    # Zl and Zp are U+2028 and U+2029: what could break a line or a `TYPE MS` message.
    if any(unicodedata.category(char) in {"Cc", "Zs", "Zl", "Zp"} for char in text):
        return "has a space or control character"
    return None


def check_id(text: object) -> str:
    """Return `text` if it can be a task id; raises InvalidInput otherwise."""
    if not isinstance(text, str):
        raise InvalidInput(f"a task id is a text, not {type(text).__name__}")
    fault = id_fault(text)
    if fault:
        raise InvalidInput(
            f"task id {printable(text[:60])!r} {fault}",
            hint="1 to 200 bytes of UTF-8 without spaces and control characters",
        )
    return text


_random: Callable[[int], bytes] = os.urandom


def draw_from(source: Callable[[int], bytes] | None) -> None:
    """Take the random part of ids from `source`, None: from the system. For the test kit."""
    global _random
    _random = os.urandom if source is None else source


def ascending(number: int) -> bytes:
    """Bytes of a random part that make the id of a higher number sort later."""
    ranks = [number >> shift & 31 for shift in range(5 * (RANDOM_CHARS - 1), -1, -5)]
    # Digits sort before letters, in the alphabet of ids they come last.
    return bytes([(rank - 6) % 32 for rank in ranks])


def new_id(now_ms: int) -> str:
    """Make a task id: 9 base32 characters of the instant, 11 random ones (55 bits)."""
    return _head(now_ms) + _random(RANDOM_CHARS).translate(_LETTER_OF_BYTE).decode("ascii")


def new_ids(now_ms: int, count: int) -> list[str]:
    """Make ids as `new_id` does, many at the price of a few."""
    head = _head(now_ms)
    letters = _random(count * RANDOM_CHARS).translate(_LETTER_OF_BYTE).decode("ascii")
    starts = range(0, count * RANDOM_CHARS, RANDOM_CHARS)
    return [head + letters[start : start + RANDOM_CHARS] for start in starts]


@lru_cache(maxsize=4)
def _head(now_ms: int) -> str:
    shifts = range(5 * (_TIME_CHARS - 1), -1, -5)
    return "".join([_BASE32[(now_ms >> shift) & 31] for shift in shifts])


def id_time_ms(text: str) -> int | None:
    """Read the instant back from an id made by `new_id`; None if the id is not such a one."""
    if not _GENERATED.fullmatch(text):
        return None
    value = int(text[:_TIME_CHARS].translate(_DIGIT_OF_LETTER), 32)
    # 2020 to 2200: any other 20 letters are somebody's own word.
    return value if 1_577_836_800_000 <= value < 7_258_118_400_000 else None


def printable(text: str) -> str:
    """Escape what could forge a line or a terminal sequence; the rest stays as it is."""
    if text.isprintable():
        return text  # as is nearly every text; a list of thousands would notice the rest
    return "".join(
        char
        if char.isprintable() or char == " "
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in text
    )
