"""Answers for wake-ups, over a connection of its own: earlier due times, cancels, schedules.

A wake-up is a hint: one that is lost costs at most the type's empty-poll timeout. After every
(re)subscription all pollers and the schedules look once: what was said before went unheard.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis.asyncio
from redis import exceptions as redis_errors
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scheduld.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

_LOST = (redis_errors.RedisError, OSError, TimeoutError)
_QUIET_S = 15.0
"""After so long without a message a ping tells whether the connection is alive."""


class Listener:
    """The loop that listens to `ns:wake`.

    `on_due(type or None for all, ms)`, `on_cancel(type, raw id)` and `on_cron(schedule or None
    for all)` are called for messages.
    """

    name = "listener"

    def __init__(
        self,
        url: Callable[[], str],
        channel: str,
        *,
        timeout_s: float,
        on_due: Callable[[str | None, int | None], None],
        on_cancel: Callable[[str, bytes], None],
        on_cron: Callable[[str | None], None],
    ) -> None:
        self._url = url
        self._channel = channel
        self._timeout_s = timeout_s
        self._on_due = on_due
        self._on_cancel = on_cancel
        self._on_cron = on_cron
        self._client: Any = None
        self._pubsub: Any = None

    def is_over(self) -> bool:
        """Never by itself: it is cancelled last, so that wake-ups are heard to the end."""
        return False

    async def run_once(self) -> None:
        """Wait for a message and pass it on; raises Unreachable if it cannot subscribe."""
        if self._pubsub is None:
            await self._subscribe()
        try:
            await self._hear(await self._pubsub.get_message(timeout=_QUIET_S))
        except _LOST:
            # Not told as an outage: the next turn subscribes anew, and knows if Redis is away.
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; the next turn opens another."""
        pubsub, client = self._pubsub, self._client
        self._pubsub = self._client = None
        with suppress(*_LOST):
            if pubsub is not None:
                await pubsub.aclose()
            if client is not None:
                await client.aclose()

    async def _subscribe(self) -> None:
        self._client = redis.asyncio.Redis.from_url(
            self._url(),
            protocol=2,
            socket_timeout=self._timeout_s,
            socket_connect_timeout=self._timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        self._pubsub = self._client.pubsub()
        try:
            await self._pubsub.subscribe(self._channel)
        except _LOST as error:
            await self.aclose()
            raise Unreachable(f"no connection for wake-ups: {error}") from None

    async def _hear(self, message: dict[str, Any] | None) -> None:
        if message is None:
            await self._pubsub.ping()
            # The answer, or a message that crossed it: a sign of life as well.
            message = await self._pubsub.get_message(timeout=self._timeout_s)
        if message is None:
            raise TimeoutError("no answer to a ping")
        if message["type"] == "subscribe":
            self._on_due(None, None)
            self._on_cron(None)
        elif message["type"] == "message":
            self._read(message["data"])

    def _read(self, data: bytes) -> None:
        words = data.split(b" ", 2)
        with suppress(ValueError, OverflowError):
            if len(words) == 3 and words[1] == b"cancel":
                self._on_cancel(words[0].decode(), words[2])
            elif len(words) == 3 and words[1] == b"cron":
                self._on_cron(words[2].decode())
            elif len(words) == 2:
                self._on_due(words[0].decode(), int(float(words[1])))
