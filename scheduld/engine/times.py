"""How late runs start and how long they take: counted here, added up in Redis now and then.

A run costs next to nothing. What is counted goes to the server every few seconds, where the
counts of all replicas come together; `stats` reads percentiles from them.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from typing import TYPE_CHECKING

import structlog

from scheduld.engine.loop import wait_for
from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable
from scheduld.policies.histogram import counted
from scheduld.store.times import LATE, RAN, flush_commands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduld.model import Claim
    from scheduld.store.keys import Keys
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.times")
EVERY_S = 5.0
_MANY = 1_000


class Times:
    """What one type's runs took, since it was last stored: counts by bucket.

    `late` takes the seconds from a due to its start, `ran` those from a start to its end; they
    are counted many at once.
    """

    def __init__(self) -> None:
        self.late = array("d")
        self.ran = array("d")
        self._counts: dict[str, Counter[int]] = {LATE: Counter(), RAN: Counter()}

    def began(self, claims: Sequence[Claim], now_ms: float) -> None:
        """Take note of those claims that are due at `now_ms` of the server's clock, and start."""
        self.late.extend(
            [
                (now_ms - claim.start_ms) / 1000
                for claim in claims
                # What is over has been late before, if it was, and does not start.
                if claim.start_ms <= now_ms and not (claim.fields and claim.over)
            ]
        )
        if len(self.late) >= _MANY:
            self._count()

    def take(self) -> dict[str, Counter[int]]:
        """Take out what was counted, by kind; {} if nothing was."""
        self._count()
        taken, self._counts = self._counts, {LATE: Counter(), RAN: Counter()}
        return {kind: counts for kind, counts in taken.items() if counts}

    def put_back(self, taken: Mapping[str, Counter[int]]) -> None:
        """Count again what could not be stored."""
        for kind, counts in taken.items():
            self._counts[kind].update(counts)

    def _count(self) -> None:
        self._counts[LATE].update(counted(self.late))
        self._counts[RAN].update(counted(self.ran))
        self.late, self.ran = array("d"), array("d")


class TimesKeeper:
    """The loop that stores what was counted."""

    name = "times"

    def __init__(self, link: AsyncLink, keys: Keys, times: Mapping[str, Times]) -> None:
        self._link = link
        self._keys = keys
        self._times = times
        self._stop = asyncio.Event()
        self._lock = asyncio.Lock()

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
        async with self._lock:  # the last one, at a stop, waits for the loop's
            await self._flush()

    async def _flush(self) -> None:
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
                return  # the other types need not find out one after the other
            except OutcomeUnknown:
                return
            except ScheduldError as error:
                log.debug("times were not stored", type=name, error=error.message)
