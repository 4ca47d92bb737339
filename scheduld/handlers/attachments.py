"""Files that go along with a mail: which a payload may name, and how they are read.

A payload comes from anybody who may add tasks, so it reaches what lies below one folder, by a
way without links, and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import mimetypes
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld.handlers.options import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEYS = ("file", "name", "type")
MOST_FILES = 50
_NAMED = 3
"""Unknown keys of one attachment that are named."""
_LONGEST_PATH = 1_000
_LONGEST_NAME = 150
_TYPE = re.compile(r"[A-Za-z0-9][\w.+-]{0,60}/[A-Za-z0-9][\w.+-]{0,100}", re.ASCII)
_BINARY = "application/octet-stream"
# Containers have rules of their own, which a file need not keep.
_CONTAINERS = ("multipart/", "message/")
# What a mail program or a file system could read as something else than part of a name.
_UNSAFE = re.compile(r'[\\/:*?"<>|]')
_WAY = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class BadAttachment(ValueError):
    """A file that will never be sent as it is named."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that a payload names: the way below the folder, the name and type told with it."""

    way: tuple[str, ...]
    name: str
    type: str

    def __str__(self) -> str:
        return f"attachment {'/'.join(self.way)!r}"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that was read."""

    name: str
    type: str
    data: bytes


def read_wanted(value: Any, faults: list[str]) -> tuple[Wanted, ...]:
    """Read the payload's `attachments`, a list of names or of objects; adds to `faults`."""
    if value is None:
        return ()
    if not isinstance(value, list):
        faults.append("attachments must be a list of file names or objects with `file`")
        return ()
    if len(value) > MOST_FILES:
        faults.append(f"{len(value)} attachments, at most {MOST_FILES} are allowed")
        return ()
    found = [_wanted(item if isinstance(item, dict) else {"file": item}, faults) for item in value]
    return tuple(each for each in found if each)


def load(folder: str, wanted: Sequence[Wanted], limit: int) -> list[Attachment]:
    """Read the files below `folder`; raises BadAttachment beyond `limit` bytes in all.

    OSError is something that may be over later, such as missing rights.
    """
    loaded: list[Attachment] = []
    left = limit
    with _opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
        for each in wanted:
            data = _read(root, each, left)
            if len(data) > left:
                raise BadAttachment(f"{each}: the attachments have more than {limit} bytes in all")
            left -= len(data)
            loaded.append(Attachment(each.name, each.type, data))
    return loaded


def _wanted(item: dict[Any, Any], faults: list[str]) -> Wanted | None:
    before = len(faults)
    unknown = [str(key) for key in item if key not in KEYS]
    faults.extend(
        f"attachments has the key {key[:80]!r}, which is unknown{did_you_mean(key, KEYS)}"
        for key in unknown[:_NAMED]
    )
    path, name, kind = (item.get(key) for key in KEYS)
    if not isinstance(path, str) or not _is_below(path):
        faults.append(f"attachments has {str(path)[:80]!r}, which is no path below the folder")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        faults.append("attachments has a name that is no text")
    if kind is not None and not (isinstance(kind, str) and _is_type(kind)):
        faults.append("attachments has a type that is none, such as 'application/pdf'")
    if len(faults) > before:
        return None
    way = tuple(str(path).split("/"))
    shown = _safe(name or way[-1])
    return Wanted(way, shown, kind or _guess(shown))


def _is_below(path: str) -> bool:
    # An empty part is also how an absolute path begins, and how a folder's name ends.
    parts = path.split("/")
    return len(path) <= _LONGEST_PATH and path.isprintable() and not {"", ".", ".."} & set(parts)


def _is_type(text: str) -> bool:
    return bool(_TYPE.fullmatch(text)) and not text.lower().startswith(_CONTAINERS)


def _guess(name: str) -> str:
    kind, packed = mimetypes.guess_type(name, strict=False)
    return kind if kind and not packed and _is_type(kind) else _BINARY


def _safe(name: str) -> str:
    shown = "".join(char if char.isprintable() else "_" for char in _UNSAFE.sub("_", name.strip()))
    stem, suffix = os.path.splitext(shown)
    return (stem[: _LONGEST_NAME - len(suffix)] + suffix)[:_LONGEST_NAME]


@contextlib.contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(root: int, wanted: Wanted, limit: int) -> bytes:
    """Read one file, up to a byte beyond `limit`; every step is taken from the folder before.

    So nobody can put a link into the way between a check and the opening.
    """
    with contextlib.ExitStack() as opened:
        place = root
        try:
            for part in wanted.way[:-1]:
                step = os.open(part, _WAY | os.O_DIRECTORY, dir_fd=place)
                place = opened.enter_context(_opened(step))
            # Not to wait for the other end of a pipe.
            end = os.open(wanted.way[-1], _WAY | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=place)
            place = opened.enter_context(_opened(end))
        except OSError as exc:
            if fault := _FAULTS.get(exc.errno or 0):
                raise BadAttachment(f"{wanted} {fault}") from None
            raise
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise BadAttachment(f"{wanted} is no file")
        with os.fdopen(os.dup(place), "rb") as file:
            return file.read(limit + 1)


_FAULTS = {
    errno.ENOENT: "does not exist",
    errno.ELOOP: "is a link, or lies behind one",
    errno.ENOTDIR: "is a link, or lies behind one or behind a file",
    errno.ENXIO: "is no file",
    errno.ENAMETOOLONG: "has a name that is too long",
}
