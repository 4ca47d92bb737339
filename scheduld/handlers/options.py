"""Reading a built-in handler's options: all that is wrong is collected, then raised at once."""

from __future__ import annotations

import difflib
import os
import ssl
from typing import TYPE_CHECKING, Any

from scheduld.config.faults import BadValue
from scheduld.config.values import Size
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput, WhenError
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_LONGEST_WORD = 80


class BadOptions(InvalidInput):
    """Options that a handler cannot work with; `problems` has one text for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the known word nearest to `word`, or all of them if none is."""
    words = list(known)
    near = difflib.get_close_matches(word[:_LONGEST_WORD].lower(), words, n=1)
    return f" (did you mean {near[0]!r}?)" if near else f" (known: {', '.join(words)})"


class OptionReader:
    """Takes options out of a table, one typed method per kind of value.

    Each method answers a usable value even for a faulty option, so that reading goes on;
    `finish` raises BadOptions if anything was wrong. Values never appear in the messages:
    any of them may be a secret.
    """

    def __init__(self, options: Mapping[str, Any], known: Sequence[str]) -> None:
        self._options = options
        self._problems: list[str] = []
        for key in options:
            if key not in known:
                self.wrong(key, f"is unknown{did_you_mean(key, known)}")

    def wrong(self, key: str, fault: str) -> None:
        """Record that option `key` has a fault, a text such as `is missing`."""
        self._problems.append(f"options.{printable(key)} {fault}")

    def finish(self) -> None:
        """Raise BadOptions if anything was wrong."""
        if self._problems:
            raise BadOptions(self._problems)

    def text(self, key: str, *, example: str, required: bool = False) -> str:
        """Text of option `key`; `""` if it is absent."""
        value = self._options.get(key)
        if value is None:
            if required:
                self.wrong(key, f"is missing, such as {example!r}")
            return ""
        if not isinstance(value, str) or not value or not value.isprintable():
            self.wrong(key, f"must be a text, such as {example!r}")
            return ""
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        """One of `choices`; the first if the option is absent."""
        value = self._options.get(key, choices[0])
        if value in choices:
            return str(value)
        self.wrong(key, f"must be one of {', '.join(choices)}")
        return choices[0]

    def duration_ms(self, key: str, default_ms: int) -> int:
        """Milliseconds of a duration above zero; `default_ms` if the option is absent."""
        value = self._options.get(key)
        if value is None:
            return default_ms
        try:
            duration = parse_duration_ms(value, what=f"options.{key}")
        except WhenError as exc:
            self._problems.append(f"{exc.message}; {exc.hint}" if exc.hint else exc.message)
            return default_ms
        if duration <= 0:
            self.wrong(key, "must be above zero")
        return duration

    def flag(self, key: str) -> bool:
        """A boolean; False if the option is absent."""
        value = self._options.get(key, False)
        if not isinstance(value, bool):
            self.wrong(key, "must be true or false")
        return value is True

    def size(self, key: str, default: int, *, most: int) -> int:
        """A number of bytes from 1 to `most`; `default` if the option is absent."""
        value = self._options.get(key)
        if value is None:
            return default
        try:
            return Size(1, most)(value)
        except BadValue as exc:
            self.wrong(key, exc.words)
            return default

    def file(self, key: str) -> str:
        """Absolute path of a file that can be read; `""` if the option is absent."""
        path = self.text(key, example="/etc/ssl/certs/internal-ca.pem")
        if path and not (os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.R_OK)):
            self.wrong(key, "must be the absolute path of a file that can be read")
            return ""
        return path

    def trust(self, key: str, path: str) -> ssl.SSLContext | None:
        """Context of TLS that trusts the certificates of a file, and no others."""
        try:
            return ssl.create_default_context(cafile=path)
        except (ssl.SSLError, OSError):
            self.wrong(key, "has no certificates in PEM form")
            return None

    def folder(self, key: str, *, example: str) -> str:
        """Absolute path of a folder that exists; `""` if the option is absent."""
        path = self.text(key, example=example)
        if path and not (os.path.isabs(path) and os.path.isdir(path)):
            self.wrong(key, "must be the absolute path of a folder that exists")
            return ""
        return path

    def texts(self, key: str, *, example: str, required: bool = True) -> list[str]:
        """List of texts without NUL, the first one not empty; empty if it may be absent, and is."""
        value = self._options.get(key)
        if value is None:
            if required:
                self.wrong(key, f"is missing, such as {example}")
            return []
        good = isinstance(value, list | tuple) and value and value[0] and all(map(_passable, value))
        if not good:
            self.wrong(key, f"must be a list of texts, such as {example}")
            return []
        return list(value)

    def table(self, key: str) -> dict[str, str]:
        """Table of texts without NUL; empty if the option is absent."""
        value = self._options.get(key, {})
        if not isinstance(value, dict):
            self.wrong(key, "must be a table of texts")
            return {}
        for name in [name for name, item in value.items() if not _passable(item)]:
            self.wrong(f"{key}.{name}", "must be a text without NUL")
        return {name: item for name, item in value.items() if _passable(item)}


def _passable(value: object) -> bool:
    """Whether `value` is a text that can be handed to another program."""
    return isinstance(value, str) and "\0" not in value
