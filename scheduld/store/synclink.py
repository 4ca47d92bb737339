"""Calls over blocking connections: what `link` is, for threads and for programs without a loop.

Imports neither asyncio nor redis-py: `scheduld add` would spend half its time on that.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from scheduld.clock import ServerClock
from scheduld.errors import ScheduldError
from scheduld.store.blocking import BlockingLine, BlockingLines
from scheduld.store.durable import confirmed
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


class SyncLink:
    """A few blocking connections to one server; safe to share between threads.

    `timeout_s` bounds each wait for the socket. `server` learns the server's clock.
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
        self._lines = BlockingLines(url, timeout_s=timeout_s, limit=max_connections)

    def greet(self, format_key: str) -> ServerInfo:
        """Check server and format; raises Unreachable or Unusable."""
        return self._drive(greet(format_key, self.server), writes=False)

    def run(self, call: Call[T]) -> T:
        """Carry one call out; raises Unreachable, OutcomeUnknown or what the call means."""
        timeout_ms = self.timeout_s * 1000
        writes = call.script.writes
        replies = self._exchange([command(call, self.server, timeout_ms)], writes=writes)
        if is_done(replies[0]):
            return read(call, replies[0], self.server)  # type: ignore[no-any-return]
        conversation = converse([call], self.server, timeout_ms, replies)
        (result,) = self._drive(conversation, writes=writes)
        if isinstance(result, ScheduldError):
            raise result
        return result  # type: ignore[no-any-return]

    def run_all(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Carry calls out in one exchange; errors of single calls stand among the results."""
        conversation = converse(calls, self.server, self.timeout_s * 1000)
        return self._drive(conversation, writes=any_writes(calls))

    def run_confirmed(
        self, calls: Sequence[Call[Any]], confirm: Confirm
    ) -> list[tuple[Any, OutcomeUnknown | None]]:
        """Carry calls out as `durable.confirmed` says."""
        conversation = confirmed(calls, self.server, self.timeout_s * 1000, confirm)
        return self._drive(conversation, writes=True)

    def run_ahead(self, calls: Iterable[Call[Any]]) -> list[Any]:
        """Carry calls out as `pipeline` says; raises Unreachable if nothing could be sent."""
        steps = pipeline(calls, self.server, self.timeout_s * 1000)
        try:
            line = self._lines.lend()
        except Interrupted as stop:
            raise from_interruption(stop, writes=False) from None
        is_good = False
        try:
            results, is_good = self._ahead(steps, line)
        finally:
            (self._lines.give_back if is_good else self._lines.drop)(line)
        return results

    def _ahead(self, steps: Ahead, line: BlockingLine) -> tuple[list[Any], bool]:
        counts: deque[int] = deque()
        replies: list[Any] | None = None
        stop: Interrupted | None = None
        is_good = True
        while True:
            try:
                commands = steps.throw(stop) if stop else steps.send(replies)
            except StopIteration as end:
                return end.value, is_good
            replies = stop = None
            try:
                if commands is None:
                    replies = line.read(counts.popleft())
                    is_good = is_good and not any(map(drops_connection, replies))
                else:
                    counts.append(len(commands))
                    line.send(pack(commands))
            except Interrupted as exc:
                stop, is_good = exc, False

    def commands(self, *commands: Command, writes: bool = False) -> list[Any]:
        """Send plain commands in one exchange; raises on the first error."""
        return checked(self._exchange(list(commands), writes=writes), commands)

    def close(self) -> None:
        """Close all connections."""
        self._lines.close()

    def _drive(self, conversation: Conversation[T], *, writes: bool) -> T:
        replies: list[Any] | None = None
        while True:
            try:
                commands = next(conversation) if replies is None else conversation.send(replies)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            replies = self._exchange(commands, writes=writes)

    def _exchange(self, commands: list[Command], *, writes: bool) -> list[Any]:
        packed = pack(commands)
        lines = self._lines
        try:
            line = lines.lend()
            try:
                line.send(packed)
                replies = line.read(len(commands))
            except BaseException:
                lines.drop(line)
                raise
        except Interrupted as stop:
            raise from_interruption(stop, writes=writes) from None
        if any(map(drops_connection, replies)):
            lines.drop(line)
        else:
            lines.give_back(line)
        return replies
