"""Messages between the daemon and its workers: four bytes of length, then a JSON object.

And the two words that the daemon has for a worker's keeper.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_UP = 512 * 1024
"""Longest message of a worker, in bytes: an error with all its texts, escaped, has half of it."""
MOST_DOWN = 64 * 1024 * 1024
"""Longest message of the daemon."""
TERM, KILL = b"T", b"K"
"""What the daemon tells a keeper: send the worker's group SIGTERM; end everything."""
_HEAD = struct.Struct(">I")


class BadFrame(Exception):
    """What came is no message."""


def framed(data: bytes) -> bytes:
    """Put the length before a JSON text."""
    return _HEAD.pack(len(data)) + data


def pack(message: Mapping[str, Any]) -> bytes:
    """Write a message; as ASCII, since texts may hold lone surrogates."""
    return framed(json.dumps(message, separators=(",", ":")).encode())


class Frames:
    """Cuts a stream of bytes into messages of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages that are complete now; raises BadFrame."""
        self._data += data
        while len(self._data) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._data)
            if size > self._limit:
                raise BadFrame(f"a message of {size} bytes, at most {self._limit} are allowed")
            end = _HEAD.size + size
            if len(self._data) < end:
                return
            body = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            yield _read(body)


def _read(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BadFrame("a message that is not JSON") from None
    if not isinstance(message, dict):
        raise BadFrame("a message that is no object")
    return message
