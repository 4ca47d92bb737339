"""Connections to the server, blocking and asyncio: bytes out, replies in, never sent twice.

redis-py's own retries are off: a script whose answer was lost may have been carried out, and
only who called it knows how to repeat it. Each exchange has a deadline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import redis
import redis.asyncio
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduld.clock import ServerClock
from scheduld.errors import InvalidInput, ScheduldError
from scheduld.store.trouble import Interrupted, drops_connection, from_interruption, from_reply
from scheduld.store.wire import Command, Conversation, ServerInfo, converse, greet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.store.calls import Call

T = TypeVar("T")
# UnicodeError: a host name that no name server can be asked for.
_LOST = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    OSError,
    TimeoutError,
    UnicodeError,
)


def _options(timeout_s: float, max_connections: int) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "max_connections": max_connections,
        "timeout": timeout_s,
        # RESP3 over TCP makes redis-py skip its check for a closed idle connection.
        "protocol": 2,
    }


class AsyncLink:
    """A pool of asyncio connections to one server.

    `timeout_s` is the deadline of each exchange. `server` learns the server's clock.
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
        try:
            self._pool = redis.asyncio.BlockingConnectionPool.from_url(
                url, retry=AsyncRetry(NoBackoff(), 0), **_options(timeout_s, max_connections)
            )
        except (ValueError, TypeError):
            raise InvalidInput(
                "redis_url cannot be used", hint="see docs/configuration.md"
            ) from None

    async def greet(self, format_key: str) -> ServerInfo:
        """Check server and format; raises Unreachable or Unusable."""
        return await self._drive(greet(format_key, self.server), writes=False)

    async def run(self, call: Call[T]) -> T:
        """Carry one call out; raises Unreachable, OutcomeUnknown or what the call means."""
        (result,) = await self.run_all([call])
        if isinstance(result, ScheduldError):
            raise result
        return result  # type: ignore[no-any-return]

    async def run_all(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Carry calls out in one exchange; errors of single calls stand among the results."""
        conversation = converse(calls, self.server, self.timeout_s * 1000)
        return await self._drive(conversation, writes=_any_writes(calls))

    async def commands(self, *commands: Command, writes: bool = False) -> list[Any]:
        """Send plain commands in one exchange; raises on the first error."""
        replies = await self._exchange(list(commands), writes=writes)
        return _checked(replies)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.disconnect()

    async def _drive(self, conversation: Conversation[T], *, writes: bool) -> T:
        replies: list[Any] | None = None
        while True:
            try:
                commands = next(conversation) if replies is None else conversation.send(replies)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            replies = await self._exchange(commands, writes=writes)

    async def _exchange(self, commands: list[Command], *, writes: bool) -> list[Any]:
        deadline = asyncio.get_running_loop().time() + self.timeout_s
        try:
            connection = await self._connection(deadline)
            return await self._talk(connection, commands, deadline)
        except Interrupted as stop:
            raise from_interruption(stop, writes=writes) from None

    async def _connection(self, deadline: float) -> Any:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._pool.get_connection()  # type: ignore[no-untyped-call]
        except (*_LOST, redis_errors.RedisError) as exc:
            raise Interrupted(exc, sent=False) from None

    async def _talk(self, connection: Any, commands: list[Command], deadline: float) -> list[Any]:
        is_good = False
        try:
            async with asyncio.timeout_at(deadline):
                packed = connection.pack_commands(commands)
                await connection.send_packed_command(packed, check_health=False)
                replies = [await self._reply(connection) for _ in commands]
            is_good = not any(drops_connection(reply) for reply in replies)
            return replies
        except _LOST as exc:
            raise Interrupted(exc, sent=True) from None
        finally:
            if not is_good:
                await connection.disconnect(nowait=True)
            await self._pool.release(connection)

    async def _reply(self, connection: Any) -> Any:
        try:
            # LOADING is an answer: more may follow it, redis-py would hang up.
            return await connection.read_response(disconnect_on_error=False)
        except (redis_errors.ResponseError, redis_errors.BusyLoadingError) as exc:
            return exc


class SyncLink:
    """A pool of blocking connections to one server; safe to share between threads.

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
        try:
            self._pool = redis.BlockingConnectionPool.from_url(
                url, retry=Retry(NoBackoff(), 0), **_options(timeout_s, max_connections)
            )
        except (ValueError, TypeError):
            raise InvalidInput(
                "redis_url cannot be used", hint="see docs/configuration.md"
            ) from None

    def greet(self, format_key: str) -> ServerInfo:
        """Check server and format; raises Unreachable or Unusable."""
        return self._drive(greet(format_key, self.server), writes=False)

    def run(self, call: Call[T]) -> T:
        """Carry one call out; raises Unreachable, OutcomeUnknown or what the call means."""
        (result,) = self.run_all([call])
        if isinstance(result, ScheduldError):
            raise result
        return result  # type: ignore[no-any-return]

    def run_all(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Carry calls out in one exchange; errors of single calls stand among the results."""
        conversation = converse(calls, self.server, self.timeout_s * 1000)
        return self._drive(conversation, writes=_any_writes(calls))

    def commands(self, *commands: Command, writes: bool = False) -> list[Any]:
        """Send plain commands in one exchange; raises on the first error."""
        return _checked(self._exchange(list(commands), writes=writes))

    def close(self) -> None:
        """Close all connections."""
        self._pool.disconnect()

    def _drive(self, conversation: Conversation[T], *, writes: bool) -> T:
        replies: list[Any] | None = None
        while True:
            try:
                commands = next(conversation) if replies is None else conversation.send(replies)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            replies = self._exchange(commands, writes=writes)

    def _exchange(self, commands: list[Command], *, writes: bool) -> list[Any]:
        try:
            return self._talk(commands)
        except Interrupted as stop:
            raise from_interruption(stop, writes=writes) from None

    def _talk(self, commands: list[Command]) -> list[Any]:
        try:
            connection = self._pool.get_connection()  # type: ignore[no-untyped-call]
        except (*_LOST, redis_errors.RedisError) as exc:
            raise Interrupted(exc, sent=False) from None
        is_good = False
        try:
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
            replies = [self._reply(connection) for _ in commands]
            is_good = not any(drops_connection(reply) for reply in replies)
            return replies
        except _LOST as exc:
            raise Interrupted(exc, sent=True) from None
        finally:
            if not is_good:
                connection.disconnect()
            self._pool.release(connection)  # type: ignore[no-untyped-call]

    def _reply(self, connection: Any) -> Any:
        try:
            return connection.read_response(disconnect_on_error=False)
        except (redis_errors.ResponseError, redis_errors.BusyLoadingError) as exc:
            return exc


def _any_writes(calls: Sequence[Call[Any]]) -> bool:
    return any(call.script.writes for call in calls)


def _checked(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, redis_errors.RedisError):
            raise from_reply(reply)
    return replies
