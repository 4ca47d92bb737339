"""Blocking connections, lent to one thread at a time: bytes out, whole answers back.

`dial` opens a connection; what is said over it goes straight to its socket. redis-py's own
writing, reading and lending cost more than the call itself.
"""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hiredis

from scheduld.clock import monotonic
from scheduld.store.dial import check, dial
from scheduld.store.trouble import LOST, Interrupted, ServerError, TalkBroken, is_end

if TYPE_CHECKING:
    from collections.abc import Callable

_MORE = object()
_BUFFER_BYTES = 64 * 1024
_BROKEN = (*LOST, ServerError)


class BlockingLine:
    """One open connection. Answers come in the order of what was sent.

    `timeout_s` bounds each send, and each read as a whole.
    """

    def __init__(self, socket: Any, close: Callable[[], None], timeout_s: float) -> None:
        self._socket = socket
        self._close = close
        self._timeout_s = timeout_s
        self._buffer = bytearray(_BUFFER_BYTES)
        self._reader = hiredis.Reader(
            protocolError=TalkBroken, replyError=ServerError, notEnoughData=_MORE
        )
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def is_quiet(self) -> bool:
        """Whether nothing came since the last answer: not even the end of the connection."""
        return not self._reader.has_data() and not self._poll.poll(0)

    def send(self, packed: bytes) -> None:
        """Send bytes; raises Interrupted."""
        try:
            self._socket.sendall(packed)
        except _BROKEN as exc:
            raise Interrupted(exc, sent=True) from None

    def read(self, count: int) -> list[Any]:
        """Wait for so many replies; raises Interrupted."""
        replies: list[Any] = []
        until = monotonic() + self._timeout_s
        pieces = 0
        try:
            while len(replies) < count:
                reply = self._reader.gets()
                if reply is _MORE:
                    if pieces:
                        self._shorten(until)
                    self._receive()
                    pieces += 1
                elif is_end(reply):
                    raise reply
                else:
                    replies.append(reply)
        except _BROKEN as exc:
            raise Interrupted(exc, sent=True) from None
        if pieces > 1:
            self._socket.settimeout(self._timeout_s)
        return replies

    def _shorten(self, until: float) -> None:
        """Let the next wait end when the whole read must: a trickle could go on for ever."""
        left_s = until - monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer did not come in time")
        self._socket.settimeout(left_s)

    def _receive(self) -> None:
        size = self._socket.recv_into(self._buffer)
        if not size:
            raise ConnectionError("Connection closed by server.")
        self._reader.feed(self._buffer, 0, size)  # type: ignore[arg-type]

    def drop(self) -> None:
        """End the connection."""
        with suppress(*LOST):
            self._close()


class BlockingLines:
    """Up to `limit` lines to one server. `timeout_s` bounds each wait: a turn, a step, a read."""

    def __init__(self, url: str, *, timeout_s: float, limit: int) -> None:
        self._timeout_s = timeout_s
        self._idle: list[BlockingLine] = []
        self._open: set[BlockingLine] = set()
        self._room = threading.BoundedSemaphore(limit)
        check(url)
        self._url = url

    def lend(self) -> BlockingLine:
        """Lend a line, opened if need be; raises Interrupted. `give_back` or `drop` must follow."""
        if not self._room.acquire(timeout=self._timeout_s):
            busy = ConnectionError("No connection available.")
            raise Interrupted(busy, sent=False)
        try:
            return self._idle_line() or self._opened()
        except BaseException:
            self._room.release()
            raise

    def _idle_line(self) -> BlockingLine | None:
        with suppress(IndexError):  # another thread may be faster than a look
            while True:
                line = self._idle.pop()
                if line.is_quiet():
                    return line
                self._end(line)
        return None

    def _opened(self) -> BlockingLine:
        line = BlockingLine(*dial(self._url, self._timeout_s), self._timeout_s)
        self._open.add(line)
        return line

    def give_back(self, line: BlockingLine) -> None:
        """Take a line back after its exchange."""
        self._idle.append(line)
        self._room.release()

    def drop(self, line: BlockingLine) -> None:
        """Take a line back that is of no use any more."""
        self._end(line)
        self._room.release()

    def close(self) -> None:
        """End all lines; who is reading one is interrupted."""
        self._idle.clear()
        for line in list(self._open):
            self._end(line)

    def _end(self, line: BlockingLine) -> None:
        self._open.discard(line)
        line.drop()
