"""Who may run how much at once: limits per type and per replica, and nobody starves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from scheduld.engine.turns import FIRST
from scheduld.model import State
from tests.support.replicas import Site, until
from tests.support.tasks import HOUR_MS, Gate, Journal, Payload, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


async def leased(site: Site, name: str) -> int:
    """Count the tasks of a type that are claimed."""
    return int(await site.redis.zcard(site.keys.type(name).leased))


async def test_a_type_runs_at_most_its_concurrency(site: Site) -> None:
    """With concurrency 2, six due tasks run two at a time, and no third is claimed."""
    gate, journal = Gate(), Journal()
    for _ in range(6):
        await site.add("a")
    await site.start(duty("a", journal.inline(gate.inline), concurrency=2))
    await until(lambda: len(journal.starts) == 2, "two run")
    assert await leased(site, "a") == 2
    gate.open()
    await until(lambda: len(journal.ends) == 6, "all ran")
    assert journal.most == 2


async def test_threads_run_at_most_the_concurrency(site: Site) -> None:
    """With concurrency 2, six due tasks of a thread type run two at a time."""
    gate, journal = Gate(), Journal()
    for _ in range(6):
        await site.add("a")
    await site.start(duty("a", journal.threaded(gate.threaded), concurrency=2))
    await until(lambda: len(journal.starts) == 2, "two run")
    assert await leased(site, "a") == 2
    gate.open()
    await until(lambda: len(journal.ends) == 6, "all ran")
    assert journal.most == 2


async def test_a_replica_runs_at_most_its_concurrency(site: Site) -> None:
    """The types of a replica together stay within the replica's own limit."""
    gate, journal = Gate(), Journal()
    for name in ("a", "b"):
        for _ in range(5):
            await site.add(name)
    work = journal.inline(gate.inline)
    await site.start(duty("a", work), duty("b", work), concurrency=4)
    await until(lambda: len(journal.starts) == 4, "four run")
    assert await leased(site, "a") + await leased(site, "b") == 4
    gate.open()
    await until(lambda: len(journal.ends) == 10, "all ran")
    assert journal.most == 4


async def test_a_flood_of_one_type_keeps_no_other_waiting(site: Site) -> None:
    """While one type fills every slot it may have, the first task of another starts at once."""
    flood, journal = Gate(), Journal()
    for _ in range(20):
        await site.add("a")
    await site.start(
        duty("a", journal.inline(flood.inline)),
        duty("b", journal.inline(), empty_poll_timeout_ms=HOUR_MS),
        concurrency=3,
    )
    await until(lambda: len(journal.starts) == 2, "the flood has its slots")
    for _ in range(3):
        await site.ended("b", await site.add("b"))
    assert journal.running == 2


async def test_a_slot_freed_by_one_type_serves_another(site: Site) -> None:
    """A task that waits for a shared slot starts when a run of another type ends."""
    first, second = Gate(), Gate()
    journal_a, journal_b = Journal(), Journal()
    await site.start(
        duty("a", journal_a.inline(first.inline), empty_poll_timeout_ms=HOUR_MS),
        duty("b", journal_b.inline(second.inline), empty_poll_timeout_ms=HOUR_MS),
        concurrency=3,
    )
    for _ in range(2):
        await site.add("a")
    await until(lambda: journal_a.running == 2, "a has its own slot and the shared one")
    for _ in range(2):
        await site.add("b")
    await until(lambda: journal_b.running == 1, "b has its own slot")
    assert len(journal_b.starts) == 1
    first.open()
    await until(lambda: journal_b.running == 2, "b has the shared slot", 8)


async def test_a_busy_replica_claims_nothing_ahead(site: Site) -> None:
    """Short tasks behind a long run are all taken by the replica that is free (B99)."""
    gate, journal = Gate(), Journal()

    async def work(payload: Payload, run: Run) -> None:
        if payload.get("long"):
            await gate.inline(payload, run)

    handler = journal.inline(work)
    for _ in range(2):
        await site.start(duty("a", handler, concurrency=1))
    held = await site.add("a", {"long": True})
    await until(lambda: journal.running == 1, "the long one runs")
    short = [await site.add("a") for _ in range(5)]
    for task_id in short:
        await site.ended("a", task_id)
        assert await leased(site, "a") <= 2
    assert (await site.task("a", held)).state is State.RUNNING
    assert sorted(journal.ids) == sorted([held, *short])


async def test_a_flood_that_blocks_leaves_turns_to_others(site: Site) -> None:
    """Inline runs that compute begin a few in a turn of the loop, however many were claimed."""
    turn, in_turn = 0, Counter[int]()

    async def computes(payload: Payload) -> None:
        time.sleep(0.004)  # noqa: ASYNC251 - what badly written handlers do
        in_turn[turn] += 1

    await site.client.schedule_many("a", [{}] * 100, allow_unknown=True)
    starting = asyncio.create_task(site.start(duty("a", computes)))
    async with asyncio.timeout(20):
        while in_turn.total() < 100:
            await asyncio.sleep(0)
            turn += 1
    await starting
    assert max(in_turn.values()) <= FIRST
    assert len(in_turn) >= 50
