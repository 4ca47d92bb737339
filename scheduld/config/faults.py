"""Faults of config values, and how the words about them are made."""

from __future__ import annotations

import datetime as dt
import re
from typing import TypeAlias

from scheduld.errors import InvalidInput
from scheduld.names import printable

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value is: `("types", "email", "retry", "attempts")`."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class BadValue(InvalidInput):
    """A value that a setting cannot have.

    `generic` says the same, in full, without any part of the value: for values that came out
    of the environment or a file and may be secrets. Only needed if the words quote the value.
    """

    kind = "config"

    def __init__(
        self, message: str, *, hint: str | None = None, generic: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.generic = generic or self.words

    @property
    def words(self) -> str:
        """Message and hint in one line."""
        return with_hint(self.message, self.hint)


def with_hint(message: str, hint: str | None) -> str:
    """Put what would be right behind what is wrong."""
    return f"{message}; {hint}" if hint else message


def show_path(path: KeyPath) -> str:
    """Write a key path as it could stand in the file: `types.email.retry`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if _BARE.fullmatch(part) else f'"{printable(part)}"'
            text += f".{shown}" if text else shown
    return text


def toml_kind(value: object) -> str:
    """Name the TOML type of a value."""
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "a boolean"),
        (str, "a text"),
        (int, "a whole number"),
        (float, "a number with a fraction"),
        ((dt.date, dt.time), "a date or time"),
        (list, "an array"),
        (dict, "a table"),
    ]
    return next((name for kind, name in kinds if isinstance(value, kind)), type(value).__name__)


def wrong_type(wanted: str, value: object, *, quoted: bool = False) -> BadValue:
    """Say that a value has the wrong type; `quoted` adds that quotes are the cause."""
    hint = "write it without quotes" if quoted and isinstance(value, str) else None
    return BadValue(f"must be {wanted}, not {toml_kind(value)}", hint=hint)
