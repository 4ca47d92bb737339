"""The config file itself: found, read and parsed, with words for all that can be wrong there."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tomli

from scheduld.config.locate import line_of, locate
from scheduld.errors import ConfigError, Problem
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scheduld.config.faults import KeyPath

LARGEST = 1024 * 1024
"""Largest config file that is read, in bytes."""
LOCAL_PLACES = ("scheduld.toml", "config/scheduld.toml")
SYSTEM_PLACE = "/etc/scheduld/scheduld.toml"
NO_FILE_HINT = "scheduld init writes one; --config or $SCHEDULD_CONFIG names another"


@dataclass(frozen=True)
class Source:
    """A parsed file: `name` is how messages call it, `path` is absolute.

    `path` is None for the empty source of a client that was given a URL only.
    """

    name: str | None
    path: str | None
    text: str
    data: dict[str, Any]
    notes: tuple[str, ...] = ()

    @cached_property
    def lines(self) -> dict[KeyPath, int]:
        """Line of each key path."""
        return locate(self.text)

    def line(self, path: KeyPath) -> int | None:
        """Line of a key path, or of what is nearest around it."""
        return line_of(self.lines, path)


@dataclass(frozen=True)
class Search:
    """Where the file is, None if nowhere; `searched` and `notes` are for people."""

    path: str | None
    searched: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def not_found(self) -> ConfigError:
        """Say that there is no file, and why those that are there were not taken."""
        why = f"no config file found (searched {', '.join(self.searched)})"
        problems = [Problem(note) for note in self.notes]
        return ConfigError([Problem(why), *problems], hint=NO_FILE_HINT)


def search(path: str | Path | None, env: Mapping[str, str]) -> Search:
    """Find the file: `path`, `$SCHEDULD_CONFIG`, the working folder, the system's place.

    The file that is named is taken as it is, whether it exists or not. One that just lies in
    the working folder is taken only if nobody else could have put it there.
    """
    if path is not None:
        return _named("--config", str(path))
    if "SCHEDULD_CONFIG" in env:
        return _named("$SCHEDULD_CONFIG", env["SCHEDULD_CONFIG"])
    searched = (*(f"./{place}" for place in LOCAL_PLACES), SYSTEM_PLACE)
    notes: list[str] = []
    for place in LOCAL_PLACES:
        if not _exists(place):
            continue
        fault = distrust(place)
        if not fault:
            return Search(place, searched, tuple(notes))
        notes.append(f"./{place} was skipped: {fault}; name it with --config to use it")
    found = SYSTEM_PLACE if _exists(SYSTEM_PLACE) else None
    return Search(found, searched, tuple(notes))


def _named(name: str, path: str) -> Search:
    if not path:
        raise ConfigError([Problem("is empty; name a file or leave it out", path=name)])
    return Search(path, (path,))


def _exists(place: str) -> bool:
    """Whether something is there, also if it cannot be looked at: then reading says why."""
    try:
        os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def distrust(place: str) -> str | None:
    """Say why a file of the working folder is not to be trusted; None if it is."""
    try:
        found = [os.lstat(place), os.stat(place)]
    except OSError as exc:
        return f"it cannot be read ({exc.strerror})"
    if any(info.st_uid not in {0, os.geteuid()} for info in found):
        return "it belongs to another user"
    # The mode of a symbolic link says nothing, the one of the file behind it does.
    if found[1].st_mode & stat.S_IWOTH:
        return "everybody can write to it"
    return None


def read(found: Search) -> Source:
    """Read and parse the file that was found; raises ConfigError with its name and line."""
    if found.path is None:
        raise found.not_found()
    name = printable(found.path)
    text = _decoded(name, _content(name, found.path))
    # Editors of some systems put a mark in front, which TOML does not know.
    text = text.removeprefix("\ufeff")
    return Source(name, os.path.abspath(found.path), text, _parsed(name, text), found.notes)


def _fault(name: str, message: str, *, line: int | None = None) -> ConfigError:
    return ConfigError([Problem(message, file=name, line=line)])


def _content(name: str, path: str) -> bytes:
    try:
        return read_regular(path, LARGEST)
    except OSError as exc:
        raise _fault(name, f"cannot be read: {exc.strerror or exc}") from None
    except ValueError as exc:
        raise _fault(name, f"cannot be read: {exc}") from None


def read_regular(path: str, largest: int) -> bytes:
    """Read a whole regular file of at most `largest` bytes.

    Raises OSError, or ValueError with the reason for what is no such file.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ValueError(f"it is larger than {largest // 1024} KB")
    return data


def _open_at_once(path: str, flags: int) -> int:
    # Plain opening of a pipe would wait for a writer.
    return os.open(path, flags | os.O_NONBLOCK)


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise _fault(name, "is not UTF-8; save it as UTF-8", line=line) from None


def _parsed(name: str, text: str) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as exc:
        message = f"no valid TOML: {printable(exc.msg)} (column {exc.colno})"
        raise _fault(name, message, line=exc.lineno) from None
    except RecursionError:
        raise _fault(name, "no valid TOML: arrays or tables nested too deeply") from None
    except ValueError:
        raise _fault(name, "no valid TOML: a number with too many digits") from None
