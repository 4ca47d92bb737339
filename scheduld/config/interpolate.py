"""`${VAR}` and `${file:/path}` in the string values of a config file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduld.config.faults import BadValue, KeyPath
from scheduld.config.source import read_regular
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PLACE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST = 64 * 1024
_OPEN = frozenset({"HOME", "PWD", "USER", "LOGNAME", "HOSTNAME", "TMPDIR", "STATE_DIRECTORY"})
"""Variables that hold no secret, but paths and names that messages should show."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A value that was filled in: where it stands, the whole text, and what went into it."""

    path: KeyPath
    text: str = field(repr=False)
    pieces: frozenset[str] = field(repr=False)


@dataclass
class Interpolation:
    """Fills values in. `filled` tells which paths got one, `secrets` which texts went in."""

    env: Mapping[str, str]
    report: Callable[[KeyPath, BadValue], None]
    filled: set[KeyPath] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set, repr=False)
    values: list[Filled] = field(default_factory=list, repr=False)

    def value(self, value: Any, path: KeyPath) -> Any:
        """Return the value with all strings inside it filled in; faults are reported.

        A string with a fault stays as it is.
        """
        if isinstance(value, dict):
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return self._text(value, path)
        return value

    def _text(self, text: str, path: KeyPath) -> str:
        pieces: set[str] = set()
        try:
            filled = _PLACE.sub(partial(self._one, pieces), text)
        except BadValue as exc:
            self.filled.add(path)
            self.report(path, exc)
            return text
        if any(match[0] != "$${" for match in _PLACE.finditer(text)):
            self.filled.add(path)
        if pieces:
            self.secrets.update((filled, *pieces))
            self.values.append(Filled(path, filled, frozenset(pieces)))
        return filled

    def _one(self, pieces: set[str], match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name = match[1] or ""
        if name.startswith("file:/"):
            inserted = _file(name.removeprefix("file:"))
        elif _VARIABLE.fullmatch(name):
            inserted = self._variable(name)
        else:
            # What stands there is not quoted: it may be a password with "${" in it.
            raise BadValue(
                'has a "${" that starts neither ${VARIABLE} nor ${file:/path}',
                hint="write $${ for the characters themselves",
            )
        if name not in _OPEN:
            pieces.add(inserted)
        return inserted

    def _variable(self, name: str) -> str:
        if name not in self.env:
            raise BadValue(f"environment variable {name} is not set")
        value = self.env[name]
        # What was not UTF-8 in the environment arrives as lone surrogates.
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise BadValue(f"environment variable {name} is not UTF-8")
        return value


def _file(path: str) -> str:
    shown = printable(path)
    try:
        text = read_regular(path, _LARGEST).decode()
    except UnicodeDecodeError:
        raise BadValue(f'file "{shown}" is not UTF-8') from None
    except OSError as exc:
        raise BadValue(f'file "{shown}" cannot be read: {exc.strerror}') from None
    except ValueError as exc:
        raise BadValue(f'file "{shown}" cannot be read: {exc}') from None
    # Editors and `echo` end a file with a line end that is no part of the secret.
    return text.removesuffix("\n").removesuffix("\r")
