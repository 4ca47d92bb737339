"""Replicas for tests: run in the test's own event loop, against a real server.

Each site is a namespace of its own. Leases are short, so that what a lease protects, and
what its end allows, is seen within a test.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import pytest
import redis.asyncio

from scheduld.client.aio import AsyncClient
from scheduld.clock import wall_ms
from scheduld.config.settings import Config
from scheduld.engine.outage import Outage
from scheduld.engine.replica import Replica
from scheduld.model import State
from scheduld.names import new_id
from scheduld.store.calls import Caller
from scheduld.store.keys import Keys
from scheduld.store.link import AsyncLink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduld.engine.duty import Duty
    from scheduld.engine.poller import Poller
    from scheduld.model import Task
    from scheduld.schedule import Schedule

LEASE_MS = 900
WITHIN_S = 15.0
"""Longest wait of a test, in seconds: for slow machines, not for what is promised."""


async def until(true: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
    """Poll every few ms until `true()`, a value or an awaitable, is truthy; returns it."""
    deadline = time.monotonic() + within_s
    while True:
        found = true()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:g} s: {what}")
        await asyncio.sleep(0.003)


async def cancel(tasks: set[asyncio.Future[Any]] | set[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended, as a cancellation can get lost in a connect."""
    waiting: set[Any] = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.1)


def config_for(
    url: str,
    namespace: str,
    duties: tuple[Duty, ...],
    *,
    lease_ms: int,
    concurrency: int,
    grace_ms: int,
    schedules: Sequence[Schedule] = (),
) -> Config:
    """Make the config of a replica; the deadline of a call is a sixth of the lease."""
    return Config(
        redis_url=url,
        namespace=namespace,
        state_dir=Path("/nonexistent"),
        redis_timeout_ms=lease_ms // 6,
        lease_ms=lease_ms,
        concurrency=concurrency,
        shutdown_grace_ms=grace_ms,
        types=MappingProxyType({duty.name: duty.kind for duty in duties}),
        schedules=MappingProxyType({schedule.name: schedule for schedule in schedules}),
    )


class Member:
    """One replica of a site, started."""

    def __init__(self, config: Config, duties: tuple[Duty, ...]) -> None:
        self.identity = new_id(wall_ms())
        self.outage = Outage()
        self.stuck = threading.Event()
        self.hurry = asyncio.Event()
        self.replica = Replica(
            config,
            duties,
            config.redis_url,
            self.identity,
            self.outage,
            on_stuck=self._is_stuck,
        )
        self.running = True
        self.replica.start()

    def _is_stuck(self, seconds: float) -> None:
        self.stuck.set()

    def poller(self, name: str) -> Poller:
        """The poller of one type."""
        return self.replica.pollers[name]

    async def stop(self) -> None:
        """Stop as the daemon does."""
        self.running = False
        await self.replica.stop(self.hurry)

    async def stop_heartbeat(self) -> None:
        """Renew nothing any more: what the replica runs will lose its lease."""
        await asyncio.to_thread(self.replica._heartbeat.stop)

    async def deafen(self) -> None:
        """Hear no wake-up any more."""
        listener = self.replica._listener
        listener.is_over = lambda: True  # type: ignore[method-assign] # not to be started again
        await cancel({self.replica._tasks[listener]})
        await listener.aclose()

    async def kill(self) -> None:
        """End it in its tracks: nothing is given back, no verdict is stored."""
        self.running = False
        self.replica._stopping = True  # else its loops would be started again
        await self.stop_heartbeat()
        tasks: set[asyncio.Future[Any]] = set(self.replica._tasks.values())
        for poller in self.replica.pollers.values():
            poller._stopping = True  # what waits for its due does not begin any more
            calls = [execution.task for execution in poller.runner._running.values()]
            tasks |= {call for call in calls if call is not None}
        await cancel(tasks)
        await self.replica._listener.aclose()
        await self.replica.link.aclose()
        self.replica._renewals.close()
        self.replica._watchdog.stop()
        for poller in self.replica.pollers.values():
            poller.runner.close()


class Apart:
    """A replica in a thread with an event loop of its own: it works while the test's is blocked."""

    def __init__(self, config: Config, duties: tuple[Duty, ...]) -> None:
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(config, duties))
        self._thread.start()
        assert self._ready.wait(WITHIN_S)

    def _run(self, config: Config, duties: tuple[Duty, ...]) -> None:
        try:
            self._loop.run_until_complete(self._work(config, duties))
        finally:
            self._loop.close()

    async def _work(self, config: Config, duties: tuple[Duty, ...]) -> None:
        member = Member(config, duties)
        self._ready.set()
        await self._over.wait()
        await member.stop()

    async def stop(self) -> None:
        """Stop it, and wait for that."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            await asyncio.to_thread(self._thread.join, WITHIN_S)


class Site:
    """A namespace of one server: its replicas, a client, and the bare server."""

    def __init__(self, url: str, *, lease_ms: int = LEASE_MS) -> None:
        self.url = url
        self.lease_ms = lease_ms
        self.namespace = "t" + new_id(wall_ms())
        self.keys = Keys(self.namespace)
        self.client = AsyncClient(url, namespace=self.namespace)
        self.redis: Any = redis.asyncio.Redis.from_url(url, protocol=2)
        self.link = AsyncLink(url)
        self.members: list[Member] = []
        self._apart: list[Apart] = []

    @property
    def lease_s(self) -> float:
        """Length of a lease in seconds."""
        return self.lease_ms / 1000

    def caller(self, node: str = "other") -> Caller:
        """Another replica that is played by the test."""
        return Caller(self.keys, node)

    def _config(
        self,
        duties: tuple[Duty, ...],
        url: str | None,
        concurrency: int,
        grace_s: float,
        schedules: Sequence[Schedule] = (),
    ) -> Config:
        return config_for(
            url or self.url,
            self.namespace,
            duties,
            lease_ms=self.lease_ms,
            concurrency=concurrency,
            grace_ms=round(grace_s * 1000),
            schedules=schedules,
        )

    async def start(
        self,
        *duties: Duty,
        url: str | None = None,
        concurrency: int = 100,
        grace_s: float = 5,
        schedules: Sequence[Schedule] = (),
    ) -> Member:
        """Start a replica; returns when each poller has looked once and wake-ups are heard."""
        member = Member(self._config(duties, url, concurrency, grace_s, schedules), duties)
        self.members.append(member)
        pollers = member.replica.pollers.values()
        await until(lambda: all(poller.last_claim_at for poller in pollers), "first look")
        await until(self.is_heard, "subscription")
        return member

    async def start_apart(self, *duties: Duty) -> Apart:
        """Start a replica in a thread of its own."""
        apart = Apart(self._config(duties, None, 100, 5), duties)
        self._apart.append(apart)
        await until(self.is_heard, "subscription")
        return apart

    async def is_heard(self) -> bool:
        """Whether every replica that runs listens to wake-ups."""
        ((_, count),) = await self._numsub()
        expected = sum(member.running for member in self.members) + len(self._apart)
        return bool(count >= expected)

    async def _numsub(self) -> list[tuple[bytes, int]]:
        found: list[tuple[bytes, int]] = await self.redis.pubsub_numsub(self.keys.wake)
        return found

    async def add(
        self, type_name: str, payload: Any = None, *, in_s: float = 0.0, **more: Any
    ) -> str:
        """Schedule a task `in_s` seconds from now; returns its id."""
        task = await self.client.schedule(
            type_name, payload, delay=in_s, allow_unknown=True, **more
        )
        return task.id

    async def task(self, type_name: str, task_id: str) -> Task:
        """Read one task."""
        return await self.client.get(type_name, task_id)

    async def ended(self, type_name: str, task_id: str, state: State | str = State.DONE) -> Task:
        """Wait until a task is in `state`; returns it."""

        async def reached() -> Task | None:
            task = await self.task(type_name, task_id)
            return task if task.state == state else None

        found: Task = await until(reached, f"{type_name}/{task_id} {state}")
        return found

    async def now_ms(self) -> float:
        """The server's clock."""
        seconds, micros = await self.redis.time()
        return float(seconds) * 1000 + float(micros) / 1000

    async def events(self, type_name: str) -> list[str]:
        """What happened to a type, as `WHAT IDS` lines in order."""
        entries = await self.redis.xrange(self.keys.type(type_name).events)
        return [f"{entry[b'e'].decode()} {entry[b'ids'].decode()}" for _, entry in entries]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for apart in self._apart:
            await apart.stop()
        for member in self.members:
            if member.running:
                member.hurry.set()
                await member.stop()
        await self.client.aclose()
        await self.link.aclose()
        await self.redis.aclose()
