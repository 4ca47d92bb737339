"""Where each key of a TOML document stands: the parser itself does not say.

Only documents that the parser accepted are walked, so the walk needs to know no more than
strings, brackets and line ends. It gives up quietly where it is lost: a place is a help.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import tomli

if TYPE_CHECKING:
    from scheduld.config.faults import KeyPath

_TOKEN = re.compile(
    r"""
    (?P<skip> \#[^\n]* | [ \t\r]+ )
  | (?P<text> \"{3} (?:\\.|[^\\])*? \"{3} (?!\") | '{3} .*? '{3} (?!')
            | "(?:\\.|[^"\\\n])*" | '[^'\n]*' | [^\s\#"'\[\]{}=,.]+ )
  | (?P<mark> [\[\]{}=,.\n] )
    """,
    re.VERBOSE | re.DOTALL,
)


def locate(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every key path of a valid document."""
    walk = _Walk(text)
    with contextlib.suppress(IndexError, RecursionError):
        walk.document()
    return walk.lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of a path, or of the nearest path around it that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


class _Walk:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._tokens = _tokens(text)
        self._at = 0
        self._arrays: dict[KeyPath, int] = {}
        """Number of the newest element of each `[[array of tables]]`."""

    def document(self) -> None:
        prefix: KeyPath = ()
        while self._at < len(self._tokens):
            if self._skip("\n"):
                continue
            if self._peek() == "[":
                prefix = self._header()
            else:
                self._pair(prefix)

    def _peek(self) -> str:
        return self._tokens[self._at][1]

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _skip(self, marks: str) -> bool:
        """Pass over tokens of these marks; whether there was any."""
        start = self._at
        while self._at < len(self._tokens) and self._peek() in marks:
            self._at += 1
        return self._at > start

    def _header(self) -> KeyPath:
        line = self._tokens[self._at][0]
        brackets = 0
        while self._peek() == "[":
            brackets += 1
            self._at += 1
        keys = self._key("]")
        self._skip("]")
        path = self._resolve(keys, is_array=brackets > 1)
        self._record(path, line)
        return path

    def _resolve(self, keys: KeyPath, *, is_array: bool) -> KeyPath:
        """Put the numbers of array elements into the path of a header."""
        path: KeyPath = ()
        for index, key in enumerate(keys):
            path = (*path, key)
            if is_array and index == len(keys) - 1:
                self._arrays[path] = self._arrays.get(path, -1) + 1
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path

    def _pair(self, prefix: KeyPath) -> None:
        line = self._tokens[self._at][0]
        path = prefix + self._key("=")
        self._record(path, line)
        self._value(path)

    def _key(self, end: str) -> KeyPath:
        """Read a dotted key, and the mark behind it."""
        parts: list[str] = []
        while (part := self._next()) != end:
            if part != ".":
                parts.append(_unquoted(part))
        return tuple(parts)

    def _value(self, path: KeyPath) -> None:
        opening = self._peek()
        if opening == "[":
            self._items(path)
        elif opening == "{":
            self._inline_table(path)
        else:
            self._at += 1  # always forward, so that a lost walk ends
            while self._at < len(self._tokens) and self._peek() not in "\n,]}":
                self._at += 1

    def _items(self, path: KeyPath) -> None:
        self._at += 1
        self._skip("\n,")
        index = 0
        while self._peek() != "]":
            self._record((*path, index), self._tokens[self._at][0])
            self._value((*path, index))
            self._skip("\n,")
            index += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip("\n,")
        while self._peek() != "}":
            self._pair(path)
            self._skip("\n,")
        self._at += 1

    def _record(self, path: KeyPath, line: int) -> None:
        for length in range(1, len(path)):
            self.lines.setdefault(path[:length], line)
        self.lines[path] = line


def _tokens(text: str) -> list[tuple[int, str]]:
    """Cut the document into (line, token), without blanks and comments."""
    tokens: list[tuple[int, str]] = []
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            tokens.append((line, match[0]))
        line += match[0].count("\n")
    return tokens


def _unquoted(token: str) -> str:
    if token[0] not in "\"'":
        return token
    return next(iter(tomli.loads(f"{token} = 0")))
