"""One replica: its loops in start and stop order.

Start: the heartbeat before the first claim, as leases begin with claims; the listener before
the pollers' first wait, so that no wake-up is missed. Stop: claims first, then runs within
the grace, then their verdicts; leases are renewed until the last verdict is stored.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from scheduld.engine.heartbeat import Heartbeat, Holds
from scheduld.engine.isolation import Stop
from scheduld.engine.janitor import Janitor
from scheduld.engine.listener import Listener
from scheduld.engine.loop import Loop, repeat, wait_for
from scheduld.engine.plan import Bound
from scheduld.engine.poller import Poller
from scheduld.engine.shared import Shared
from scheduld.engine.timekeeping import Timekeeping
from scheduld.engine.times import TimesKeeper
from scheduld.engine.watchdog import Pulse, Watchdog
from scheduld.errors import ScheduldError
from scheduld.policies.slots import Slots
from scheduld.store.calls import Caller
from scheduld.store.keys import Keys
from scheduld.store.link import AsyncLink
from scheduld.store.synclink import SyncLink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduld.config.settings import Config
    from scheduld.engine.duty import Duty
    from scheduld.engine.outage import Outage

log = structlog.get_logger("scheduld.replica")
_PULSE_S = 0.5
_SETTLE_S = 1.0
_FLUSH_S = 5.0
_LOOK_S = 0.01
_CANCEL_AGAIN_S = 0.1


class Replica:
    """Everything that works on the tasks of one daemon, for a server that was greeted.

    `on_stuck` is called, from a thread, while the event loop is blocked beyond all limits.
    """

    def __init__(
        self,
        config: Config,
        duties: Sequence[Duty],
        url: str,
        identity: str,
        outage: Outage,
        *,
        on_stuck: Callable[[float], None],
        feed: Callable[[], None] = lambda: None,
        feed_every_s: float | None = None,
    ) -> None:
        timeout_s = config.redis_timeout_ms / 1000
        keys, lease_ms = Keys(config.namespace), config.lease_ms
        self.link = AsyncLink(url, timeout_s=timeout_s)
        self._outage = outage
        self._renewals = SyncLink(url, timeout_s=timeout_s, max_connections=1)
        self._grace_s = config.shutdown_grace_ms / 1000
        self._pulse = Pulse(_PULSE_S)
        self._loop = asyncio.get_running_loop()
        shared = Shared(
            link=self.link,
            caller=Caller(keys, identity),
            slots=Slots(config.concurrency, {duty.name: duty.concurrency for duty in duties}),
            holds=Holds(),
            bound=Bound(lease_ms),
            outage=outage,
            pulse=self._pulse,
            lease_ms=lease_ms,
            slot_freed=self._slot_freed,
            renew_soon=lambda: self._heartbeat.hurry(),
        )
        self.pollers = {
            duty.name: Poller(duty, shared, phase)
            for duty, phase in zip(duties, _phases(len(duties)), strict=True)
        }
        self._heartbeat = Heartbeat(
            self._renewals,
            shared.caller,
            shared.holds,
            self._pulse,
            lease_ms=lease_ms,
            on_stop=self._stop_run_soon,
        )
        self._watchdog = Watchdog(
            self._pulse, on_stuck=on_stuck, feed=feed, feed_every_s=feed_every_s
        )
        self._listener = Listener(
            lambda: url,
            keys.wake,
            timeout_s=timeout_s,
            on_due=self._due,
            on_cancel=lambda name, raw_id: self._stop_run(name, raw_id, Stop.CANCELLED),
            on_cron=lambda name: self._timekeeping.look(name),
        )
        self._timekeeping = Timekeeping(shared, duties, config.schedules, self._due)
        times = {name: poller.runner.times for name, poller in self.pollers.items()}
        self._times = TimesKeeper(self.link, keys, times)
        pollers = list(self.pollers.values())
        self._janitor = Janitor(self.link, shared.caller, shared.bound, pollers, lease_ms=lease_ms)
        self._tasks: dict[Loop, asyncio.Task[None]] = {}
        self._stopping = False

    def start(self) -> None:
        """Start all loops."""
        self._tick()
        self._watchdog.start()
        self._heartbeat.start()
        pollers = list(self.pollers.values())
        reporters = [poller.reporter for poller in pollers]
        loops: list[Loop] = [
            self._listener,
            *pollers,
            *reporters,
            *(poller.notebook for poller in pollers),
            *self._timekeeping.loops,
            self._janitor,
            self._times,
        ]
        for loop in loops:
            self._begin(loop)

    def _begin(self, loop: Loop) -> None:
        task = asyncio.create_task(repeat(loop, self._outage), name=loop.name)
        self._tasks[loop] = task
        task.add_done_callback(lambda _: self._ended(loop))

    def _ended(self, loop: Loop) -> None:
        if not (self._stopping or loop.is_over()):
            log.critical("a loop was ended by a handler, and is started again", loop=loop.name)
            self._begin(loop)

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop gracefully; `hurry` ends the grace early. All runs end or are given back."""
        self._stopping = True
        self._timekeeping.begin_stop()
        for poller in self.pollers.values():
            poller.begin_stop()
        if not await self._runs_end(self._grace_s, hurry):
            log.warning("giving back what still runs", runs=self.busy)
            for poller in self.pollers.values():
                poller.runner.stop_all(Stop.STOPPING)
            await self._runs_end(_SETTLE_S)
            for poller in self.pollers.values():
                poller.abandon()
        pollers = [self._tasks[poller] for poller in self.pollers.values()]
        _, unfinished = await asyncio.wait(pollers, timeout=_FLUSH_S)
        if unfinished:
            log.error("Redis did not take the last verdicts; leases will run out instead")
        await self._close()

    @property
    def busy(self) -> int:
        """How many runs have not come to their verdict."""
        return sum(poller.busy for poller in self.pollers.values())

    @property
    def has_stuck_runs(self) -> bool:
        """Whether handlers still run, which nothing can end but the process."""
        return any(poller.runner.is_stuck for poller in self.pollers.values())

    async def _runs_end(self, seconds: float, hurry: asyncio.Event | None = None) -> bool:
        """Wait until nothing runs any more, at most so long; `hurry` ends the wait."""
        hurry = hurry or asyncio.Event()
        deadline = self._loop.time() + seconds
        while self.busy and self._loop.time() < deadline and not hurry.is_set():
            await wait_for(hurry, min(_LOOK_S, deadline - self._loop.time()))
        return not self.busy

    async def _close(self) -> None:
        self._timekeeping.presence.stop()
        self._janitor.stop()
        self._times.stop()
        await asyncio.to_thread(self._heartbeat.stop)
        await self._times.flush()
        await self._end_loops()
        await self._listener.aclose()
        with suppress(ScheduldError):
            await self._timekeeping.presence.leave()
        for poller in self.pollers.values():
            poller.runner.close()
        await self.link.aclose()
        self._renewals.close()
        self._watchdog.stop()

    async def _end_loops(self) -> None:
        waiting = {task for task in self._tasks.values() if not task.done()}
        while waiting:
            for task in waiting:
                task.cancel()
            # Again and again: redis-py can lose a cancellation while it connects.
            _, waiting = await asyncio.wait(waiting, timeout=_CANCEL_AGAIN_S)

    def _tick(self) -> None:
        self._pulse.tick()
        self._loop.call_later(_PULSE_S, self._tick)

    def _due(self, name: str | None, due_ms: int | None) -> None:
        chosen = self.pollers.values() if name is None else [self.pollers.get(name)]
        for poller in chosen:
            if poller is not None:
                poller.look(due_ms)

    def _slot_freed(self) -> None:
        for poller in self.pollers.values():
            poller.slot_freed()

    def _stop_run(self, name: str, raw_id: bytes, why: Stop, fence: int | None = None) -> None:
        if name in self.pollers:
            self.pollers[name].cancel(raw_id, why, fence)

    def _stop_run_soon(self, name: str, raw_id: bytes, fence: int, why: Stop) -> None:
        # Called from the heartbeat's thread; the loop may be closed by then.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop_run, name, raw_id, why, fence)


def _phases(count: int) -> list[float]:
    """Spread the looks of idle types evenly; where the first one falls differs by replica."""
    first = random.random()  # noqa: S311 - guards nothing
    return [(first + index / count) % 1 for index in range(count)]
