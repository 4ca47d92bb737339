"""Connections of asyncio: bytes out in the caller's own turn, whole answers back.

redis-py opens a connection (TLS, password, database) and is then put aside: a `Line` takes its
transport over. redis-py's own reading and writing costs four times as much an exchange, and
gives the loop to others before the first byte is sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hiredis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scheduld.errors import InvalidInput
from scheduld.store.redispy import RedisPyError, options, plain_error
from scheduld.store.trouble import LOST, Interrupted, ServerError, TalkBroken, is_end

if TYPE_CHECKING:
    from collections.abc import Callable

_MORE = object()
_BUFFER_BYTES = 64 * 1024
_BLOCKED_S = 0.05
"""A timer that is so late shows that the loop was blocked; what an answer then gets once more."""


class Line(asyncio.BufferedProtocol):
    """One open connection. Answers come in the order of what was asked.

    `on_end` is called once, when the connection has ended in any way.
    """

    def __init__(self, writer: asyncio.StreamWriter, on_end: Callable[[Line], None]) -> None:
        # The writer is kept since its end would close the transport.
        self._writer = writer
        self._transport: Any = writer.transport
        self._loop = asyncio.get_running_loop()
        self._on_end = on_end
        self._buffer = bytearray(_BUFFER_BYTES)
        # TLS fills slices of the buffer: only those of a view are the buffer itself.
        self._view = memoryview(self._buffer)
        self._reader = hiredis.Reader(
            protocolError=TalkBroken, replyError=ServerError, notEnoughData=_MORE
        )
        self._asked: deque[tuple[asyncio.Future[list[Any]], int, list[Any], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_spared = False
        self._cause: BaseException | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._transport.set_protocol(self)

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return self._cause is None and not self._transport.is_closing()

    def ask(self, packed: bytes, count: int, deadline: float) -> asyncio.Future[list[Any]]:
        """Send bytes now; the future is their `count` replies, or Interrupted.

        `deadline` (loop time): without all replies by then the line is dropped.
        """
        answer: asyncio.Future[list[Any]] = self._loop.create_future()
        if self._cause is not None:
            answer.set_exception(Interrupted(self._cause, sent=False))
            return answer
        self._asked.append((answer, count, [], deadline))
        if self._timer is None or deadline < self._timer.when():
            self._look_again(deadline)
        self._transport.write(packed)
        return answer

    def drop(self, cause: BaseException | None = None) -> None:
        """End the connection at once; what was asked is Interrupted."""
        if self._cause is not None:
            return
        self._cause = cause or ConnectionError("the connection was closed")
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        for answer, *_ in self._asked:
            if not answer.done():
                answer.set_exception(Interrupted(self._cause, sent=True))
        self._asked.clear()
        self._on_end(self)

    def abandon(self) -> None:
        """End the connection, even if the event loop is closed that would have to do it."""
        with suppress(RuntimeError):
            self.drop()
            return
        # asyncio has begun to close, and offers no other way to its socket than this one.
        socket = getattr(self._transport, "_sock", None)
        if socket is not None:
            self._transport._sock = None  # noqa: SLF001
            socket.close()

    def _look_at_clock(self) -> None:
        # One timer outlives many exchanges: starting and stopping one for each costs more.
        self._timer = None
        if not self._asked:
            return
        deadline = self._asked[0][3]
        late_s = self._loop.time() - deadline
        if late_s < 0:
            self._look_again(deadline)
        elif late_s > _BLOCKED_S and not self._is_spared:
            # Not the server was slow but this loop: the rest of the answer may be here already.
            self._is_spared = True
            self._look_again(self._loop.time() + _BLOCKED_S)
        else:
            self.drop(TimeoutError())

    def _look_again(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._look_at_clock)

    # --- what the transport calls

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where the next bytes go."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes, and hand out the answers that are whole."""
        self._reader.feed(self._buffer, 0, nbytes)  # type: ignore[arg-type]
        try:
            while self._asked and self._read():
                pass
            if not self._asked and self._reader.has_data():
                raise TalkBroken("bytes that nothing was asked for")
        except (ServerError, TalkBroken) as error:
            self.drop(error)

    def _read(self) -> bool:
        answer, count, replies, _ = self._asked[0]
        while len(replies) < count:
            reply = self._reader.gets()
            if reply is _MORE:
                return False
            if is_end(reply):
                raise reply
            replies.append(reply)
        self._asked.popleft()
        self._is_spared = False
        if not answer.done():
            answer.set_result(replies)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side, or `drop`, has ended the connection."""
        self.drop(exc or ConnectionError("Connection closed by server."))
        if not self.ended.done():
            self.ended.set_result(None)


class Lines:
    """Up to `limit` lines to one server, lent for one exchange after the other.

    `timeout_s` bounds each step of opening one. Who finds all lent waits for his turn. `on_open` is
    called for every line that is opened.
    """

    def __init__(
        self, url: str, *, timeout_s: float, limit: int, on_open: Callable[[], None] = lambda: None
    ) -> None:
        self._limit = limit
        self._on_open = on_open
        self._idle: list[Line] = []
        self._open: set[Line] = set()
        self._opening = 0
        self._waiting: deque[asyncio.Future[Line | None]] = deque()
        self._is_closed = False
        try:
            self._pool = redis.asyncio.ConnectionPool.from_url(
                url, retry=Retry(NoBackoff(), 0), **options(timeout_s)
            )
        except (ValueError, TypeError):
            raise InvalidInput(
                "redis_url cannot be used", hint="see docs/configuration.md"
            ) from None

    def idle(self) -> Line | None:
        """Lend a line that is open already; to be given back by `give_back`, or dropped."""
        while self._idle:
            line = self._idle.pop()
            if line.is_open:
                return line
        return None

    async def lend(self, deadline: float) -> Line:
        """Lend a line, opened if need be; Interrupted at `deadline` (loop time) at the latest."""
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    line = self.idle() or await self._turn()
                    if line.is_open:
                        return line
        except (*LOST, RedisPyError) as exc:
            raise Interrupted(plain_error(exc), sent=False) from None

    async def _turn(self) -> Line:
        if len(self._open) + self._opening < self._limit:
            self._opening += 1
            return await self._opened()
        turn: asyncio.Future[Line | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            line = await turn
        except BaseException:
            if turn.done() and not (turn.cancelled() or turn.exception()):
                self._refuse(turn.result())
            raise
        return line or await self._opened()

    def _refuse(self, line: Line | None) -> None:
        """Pass on what was handed to somebody who has gone."""
        if line is not None:
            self.give_back(line)
        else:
            self._opening -= 1
            self._hand_on_room()

    async def _opened(self) -> Line:
        """Open a line; room for it is taken already (`_opening`)."""
        connection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()
            if await connection.can_read():
                raise ConnectionError("Connection closed by server.")
            # redis-py offers no other way to its transport.
            writer = connection._writer  # noqa: SLF001
            connection._reader = connection._writer = None  # noqa: SLF001
            line = Line(writer, self._ended)
            self._on_open()
        except BaseException:
            await connection.disconnect(nowait=True)
            self._opening -= 1
            self._hand_on_room()
            raise
        self._opening -= 1
        self._open.add(line)
        return line

    def give_back(self, line: Line) -> None:
        """Take a line back after its exchange; the first who waits gets it."""
        if not line.is_open:
            return
        turn = self._first_waiting()
        if turn is None:
            self._idle.append(line)
        else:
            turn.set_result(line)

    async def aclose(self) -> None:
        """Drop all lines, and wait until their sockets are closed."""
        self._is_closed = True
        while (turn := self._first_waiting()) is not None:
            turn.set_exception(ConnectionError("the connections were closed"))
        ended = [line.ended for line in self._open]
        for line in list(self._open):
            line.drop()
        if ended:
            await asyncio.wait(ended, timeout=1.0)

    def abandon(self) -> None:
        """Drop all lines without waiting, as far as their event loop is still there."""
        self._is_closed = True
        for line in list(self._open):
            line.abandon()

    def _ended(self, line: Line) -> None:
        self._open.discard(line)
        if line in self._idle:
            self._idle.remove(line)
        self._hand_on_room()

    def _hand_on_room(self) -> None:
        """Let the first who waits open a line in the place of one that is gone."""
        turn = None if self._is_closed else self._first_waiting()
        if turn is not None:
            self._opening += 1
            turn.set_result(None)

    def _first_waiting(self) -> asyncio.Future[Line | None] | None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn
        return None
