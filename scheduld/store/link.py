"""Calls over asyncio connections: bytes out, replies in, never sent twice.

redis-py's own retries are off: a script whose answer was lost may have been carried out, and
only who called it knows how to repeat it. Each exchange has a deadline.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from scheduld.clock import ServerClock, monotonic
from scheduld.errors import ScheduldError
from scheduld.store.durable import confirmed
from scheduld.store.lines import Line, Lines
from scheduld.store.trouble import Interrupted, drops_connection, from_interruption
from scheduld.store.wire import (
    Ahead,
    Command,
    Conversation,
    ServerInfo,
    any_writes,
    checked,
    command,
    converse,
    greet,
    is_done,
    pack,
    pipeline,
    read,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduld.errors import OutcomeUnknown
    from scheduld.store.calls import Call
    from scheduld.store.durable import Confirm

T = TypeVar("T")


class AsyncLink:
    """A few asyncio connections to one server, used by one event loop.

    `timeout_s` is the deadline of each exchange. `server` learns the server's clock. While a
    connection is free, a call is on its way to the server before its caller first waits.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 2.0,
        max_connections: int = 8,
        server: ServerClock | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        self.server = server or ServerClock()
        self._lines = Lines(
            url, timeout_s=timeout_s, limit=max_connections, on_open=self.server.new_connection
        )

    async def greet(self, format_key: str) -> ServerInfo:
        """Check server and format; raises Unreachable or Unusable."""
        return await self._drive(greet(format_key, self.server), writes=False)

    async def run(self, call: Call[T]) -> T:
        """Carry one call out; raises Unreachable, OutcomeUnknown or what the call means."""
        timeout_ms = self.timeout_s * 1000
        writes = call.script.writes
        sent_at = monotonic()
        replies = await self._exchange([command(call, self.server, timeout_ms)], writes=writes)
        if is_done(replies[0]):
            return read(call, replies[0], self.server, sent_at)  # type: ignore[no-any-return]
        conversation = converse([call], self.server, timeout_ms, replies)
        (result,) = await self._drive(conversation, writes=writes)
        if isinstance(result, ScheduldError):
            raise result
        return result  # type: ignore[no-any-return]

    async def run_all(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Carry calls out in one exchange; errors of single calls stand among the results."""
        conversation = converse(calls, self.server, self.timeout_s * 1000)
        return await self._drive(conversation, writes=any_writes(calls))

    async def run_confirmed(
        self, calls: Sequence[Call[Any]], confirm: Confirm
    ) -> list[tuple[Any, OutcomeUnknown | None]]:
        """Carry calls out as `durable.confirmed` says."""
        conversation = confirmed(calls, self.server, self.timeout_s * 1000, confirm)
        return await self._drive(conversation, writes=True)

    async def run_ahead(self, calls: Iterable[Call[Any]]) -> list[Any]:
        """Carry calls out as `pipeline` says; raises Unreachable if nothing could be sent."""
        steps = pipeline(calls, self.server, self.timeout_s * 1000)
        deadline = asyncio.get_running_loop().time() + self.timeout_s
        try:
            line = self._lines.idle() or await self._lines.lend(deadline)
        except Interrupted as stop:
            raise from_interruption(stop, writes=False) from None
        pending: deque[asyncio.Future[list[Any]]] = deque()
        is_good = False
        try:
            results, is_good = await self._ahead(steps, line, pending)
        finally:
            for answer in pending:
                if not answer.cancel():
                    answer.exception()  # heard of, and of no interest
            if is_good:
                self._lines.give_back(line)
            else:
                line.drop()
        return results

    async def _ahead(
        self, steps: Ahead, line: Line, pending: deque[asyncio.Future[list[Any]]]
    ) -> tuple[list[Any], bool]:
        time = asyncio.get_running_loop().time
        replies: list[Any] | None = None
        stop: Interrupted | None = None
        is_good = True
        while True:
            try:
                commands = steps.throw(stop) if stop else steps.send(replies)
            except StopIteration as end:
                return end.value, is_good
            replies = stop = None
            if commands is not None:
                pending.append(line.ask(pack(commands), len(commands), time() + self.timeout_s))
                continue
            try:
                replies = await pending.popleft()
                is_good = is_good and not any(map(drops_connection, replies))
            except Interrupted as exc:
                stop, is_good = exc, False

    async def commands(self, *commands: Command, writes: bool = False) -> list[Any]:
        """Send plain commands in one exchange; raises on the first error."""
        replies = await self._exchange(list(commands), writes=writes)
        return checked(replies, commands)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._lines.aclose()

    def abandon(self) -> None:
        """Drop all connections without waiting; their event loop may be closed."""
        self._lines.abandon()

    async def _drive(self, conversation: Conversation[T], *, writes: bool) -> T:
        replies: list[Any] | None = None
        while True:
            try:
                commands = next(conversation) if replies is None else conversation.send(replies)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            replies = await self._exchange(commands, writes=writes)

    async def _exchange(self, commands: list[Command], *, writes: bool) -> list[Any]:
        lines = self._lines
        deadline = asyncio.get_running_loop().time() + self.timeout_s
        try:
            line = lines.idle() or await lines.lend(deadline)
            try:
                replies = await line.ask(pack(commands), len(commands), deadline)
            except BaseException:
                # Also of a cancelled caller: its answer would be taken for the next one's.
                line.drop()
                raise
        except Interrupted as stop:
            raise from_interruption(stop, writes=writes) from None
        if any(map(drops_connection, replies)):
            line.drop()
        else:
            lines.give_back(line)
        return replies
