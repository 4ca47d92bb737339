"""What a worker process writes: read as it comes, and its end kept."""

from __future__ import annotations

import asyncio
import os
from enum import Enum

OUTPUT_KEPT = 8 * 1024
"""Bytes kept of what a run writes: the last ones."""
_CHUNK = 64 * 1024
_BURST = 16
_PAUSE_S = 0.1


class _Piece(Enum):
    NONE, SOME, END = range(3)


class Output:
    """Reads a pipe in the loop, never more than about 10 MB a second: who writes more waits.

    Without that a handler that prints without end would keep the daemon busy.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._tail = bytearray()
        self._total = 0
        self._chunks = 0
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(fd, self._readable)

    def forget(self) -> None:
        """Keep nothing of what came so far: another run begins."""
        if self._total:
            self._tail.clear()
            self._total = 0

    def take(self) -> str:
        """Read what is there, and return the last of it, with a note of what was left out."""
        for _ in range(_BURST):
            if self._read() is not _Piece.SOME:
                break
        if not self._total:
            return ""
        tail = bytes(self._tail)
        dropped = self._total - len(tail)
        self.forget()
        if not dropped:
            return tail.decode(errors="replace")
        # The cut may have split a character; what is left of it is not worth a "?".
        text = tail.lstrip(bytes(range(0x80, 0xC0))).decode(errors="replace")
        return f"({dropped} bytes left out)\n{text}"

    def close(self) -> None:
        """Read nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _readable(self) -> None:
        if self._read() is _Piece.END:
            self._is_over = True
            self._loop.remove_reader(self._fd)
            return
        self._chunks += 1
        if self._timer is None:
            self._timer = self._loop.call_later(_PAUSE_S, self._go_on)
        if self._chunks >= _BURST:
            self._loop.remove_reader(self._fd)

    def _go_on(self) -> None:
        self._timer = None
        if self._chunks >= _BURST and not self._is_over:
            self._loop.add_reader(self._fd, self._readable)
        self._chunks = 0

    def _read(self) -> _Piece:
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return _Piece.NONE
        if not data:
            return _Piece.END
        self._total += len(data)
        self._tail += data
        del self._tail[:-OUTPUT_KEPT]
        return _Piece.SOME
