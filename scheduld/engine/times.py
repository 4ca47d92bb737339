"""How late runs start and how long they take: counted here, added up in Redis now and then.

A run costs two additions. What is counted goes to the server every few seconds, where the
counts of all replicas come together; `stats` reads percentiles from them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from scheduld.clock import monotonic
from scheduld.engine.loop import wait_for
from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable
from scheduld.policies.histogram import bucket
from scheduld.store.times import LATE, RAN, flush_commands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduld.clock import ServerClock
    from scheduld.store.keys import Keys
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.times")
EVERY_S = 5.0
_AHEAD_S = 0.05


class Times:
    """What one type's runs took, since it was last stored: counts by bucket."""

    def __init__(self, server: ServerClock) -> None:
        self._server = server
        self._late: dict[int, int] = {}
        self._ran: dict[int, int] = {}
        self._ahead_ms = 0.0
        self._asked_at = float("-inf")

    def late_ms(self, due_ms: int, at: float) -> float:
        """How late monotonic second `at` is for a due time on the server's clock, in ms."""
        if not 0 <= at - self._asked_at < _AHEAD_S:
            # The clocks hardly move against each other: asked once for all runs of a batch.
            self._ahead_ms, self._asked_at = self._server.now_ms(at=at) - at * 1000, at
        return at * 1000 + self._ahead_ms - due_ms

    def began(self, due_ms: int, at: float) -> None:
        """Count a start at monotonic second `at` that was to be at `due_ms`."""
        number = bucket(int(self.late_ms(due_ms, at) * 1000))
        self._late[number] = self._late.get(number, 0) + 1

    def ended(self, began: float) -> None:
        """Count the end, now, of a run that began at a monotonic second."""
        number = bucket(int((monotonic() - began) * 1_000_000))
        self._ran[number] = self._ran.get(number, 0) + 1

    def take(self) -> dict[str, dict[int, int]]:
        """Take out what was counted, by kind; {} if nothing was."""
        taken = {LATE: self._late, RAN: self._ran}
        self._late, self._ran = {}, {}
        return {kind: counts for kind, counts in taken.items() if counts}

    def put_back(self, taken: Mapping[str, Mapping[int, int]]) -> None:
        """Count again what could not be stored."""
        for kind, own in ((LATE, self._late), (RAN, self._ran)):
            for number, count in taken.get(kind, {}).items():
                own[number] = own.get(number, 0) + count


class TimesKeeper:
    """The loop that stores what was counted."""

    name = "times"

    def __init__(self, link: AsyncLink, keys: Keys, times: Mapping[str, Times]) -> None:
        self._link = link
        self._keys = keys
        self._times = times
        self._stop = asyncio.Event()

    def is_over(self) -> bool:
        """Whether the replica is on its way out."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End the loop; what was counted since is stored by `flush`."""
        self._stop.set()

    async def run_once(self) -> None:
        """Wait, then store what was counted meanwhile."""
        await wait_for(self._stop, EVERY_S)
        if not self._stop.is_set():
            await self.flush()

    async def flush(self) -> None:
        """Store what was counted, a type an exchange; what could not be stored stays counted.

        Never raises: pollers tell outages. What was under way when a connection broke is left
        out: sent again and again to a frozen server, it would be counted as often.
        """
        for name, times in self._times.items():
            taken = times.take()
            if not taken:
                continue
            now_ms = int(self._link.server.now_ms())
            commands = flush_commands(self._keys.type(name), now_ms, taken)
            try:
                await self._link.commands(*commands, writes=True)
            except Unreachable:
                times.put_back(taken)
            except OutcomeUnknown:
                pass
            except ScheduldError as error:
                log.debug("times were not stored", type=name, error=error.message)
            except BaseException:
                times.put_back(taken)
                raise
