"""Stops: nothing is claimed any more, nothing is lost, nothing counts against a task."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import State
from tests.support.proxy import Proxy
from tests.support.replicas import Site, until
from tests.support.tasks import HOUR_MS, ONE_ATTEMPT, Gate, Journal, Payload, duty, hang

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


async def test_within_the_grace_runs_end_and_nothing_more_is_claimed(site: Site) -> None:
    """A stop lets runs come to their end; what was due stays scheduled, untouched."""
    gate, journal = Gate(), Journal()
    ids = [await site.add("a") for _ in range(6)]
    member = await site.start(duty("a", journal.inline(gate.inline), concurrency=2))
    await until(lambda: journal.running == 2, "two run")
    stopping = asyncio.create_task(member.stop())
    await until(lambda: member.poller("a")._stopping, "the stop began")
    late = await site.add("a")
    gate.open()
    await stopping
    tasks = {task_id: await site.task("a", task_id) for task_id in [*ids, late]}
    assert {tasks[task_id].state for task_id in journal.ids} == {State.DONE}
    rest = [task for task_id, task in tasks.items() if task_id not in journal.ids]
    assert len(rest) == 5
    assert {(task.state, task.releases) for task in rest} == {(State.SCHEDULED, 0)}


async def test_after_the_grace_runs_are_given_back_at_once(site: Site) -> None:
    """Runs that outlive the grace are cancelled and scheduled again, due now, as released."""
    journal = Journal()
    member = await site.start(duty("a", journal.inline(hang)), grace_s=0.05)
    task_id = await site.add("a")
    await until(lambda: journal.running, "run")
    await member.stop()
    task = await site.task("a", task_id)
    assert task.state is State.SCHEDULED
    assert (task.releases, task.failed, task.interruptions) == (1, 0, 0)
    assert task.due_ms is not None
    assert task.due_ms <= await site.now_ms()


async def test_graceful_restarts_never_use_attempts_up(site: Site) -> None:
    """A task that was given back by five stops still has its one attempt (B32)."""
    gate, journal = Gate(), Journal()
    work = duty("a", journal.inline(gate.inline), retry=ONE_ATTEMPT, max_interruptions=1)
    task_id = await site.add("a")
    for number in range(1, 6):
        member = await site.start(work, grace_s=0)
        await until(partial(journal.has_started, number), "run")
        await member.stop()
    gate.open()
    await site.start(work)
    task = await site.ended("a", task_id)
    assert [start.attempt for start in journal.starts] == [1] * 6
    assert (task.releases, task.failed, task.interruptions) == (5, 0, 0)


async def test_a_second_signal_ends_the_grace(site: Site) -> None:
    """A hurried stop gives back at once what would have had a minute."""
    journal = Journal()
    member = await site.start(duty("a", journal.inline(hang)), grace_s=60)
    task_id = await site.add("a")
    await until(lambda: journal.running, "run")
    stopping = asyncio.create_task(member.stop())
    await until(lambda: member.poller("a")._stopping, "the stop began")
    assert not stopping.done()
    member.hurry.set()
    await asyncio.wait_for(stopping, 20)
    assert (await site.task("a", task_id)).releases == 1


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_what_does_not_stop_is_given_back_all_the_same(site: Site, isolation: str) -> None:
    """Runs that ignore their end are scheduled again; only the end of the process ends them.

    A thread's task waits a little, so that it does not start beside its old run.
    """
    gate, journal = Gate(stubborn=True), Journal()
    call: Any = journal.inline(gate.inline)
    if isolation == "thread":
        call = journal.threaded(gate.threaded)
    member = await site.start(duty("a", call), grace_s=0)
    task_id = await site.add("a")
    await until(lambda: journal.running, "run")
    await member.stop()
    task = await site.task("a", task_id)
    assert member.replica.has_stuck_runs
    assert (task.state, task.releases, task.failed) == (State.SCHEDULED, 1, 0)
    assert task.due_ms is not None
    ((stored, _),) = await site.redis.xrevrange(site.keys.type("a").events, count=1)
    assert task.due_ms - int(stored.split(b"-")[0]) == (500 if isolation == "thread" else 0)
    gate.open()
    await until(lambda: journal.ends, "the run returns")
    # Nobody listens to it any more: the task waits for another replica.
    assert (await site.task("a", task_id)).state is State.SCHEDULED


@pytest.mark.parametrize("error", [RuntimeError("closed"), None])
async def test_how_a_run_ends_when_asked_to_is_no_failure(
    site: Site, error: Exception | None
) -> None:
    """A run that answers its cancellation by an error is released, by a result is done."""

    async def call(payload: Payload, run: Run) -> str:
        try:
            await hang(payload, run)
        except asyncio.CancelledError:
            if error:
                raise error from None
        return "in time"

    journal = Journal()
    member = await site.start(duty("a", journal.inline(call)), grace_s=0)
    task_id = await site.add("a")
    await until(lambda: journal.running, "run")
    await member.stop()
    task = await site.task("a", task_id)
    assert task.failed == 0
    expected = (State.SCHEDULED, 1) if error else (State.DONE, 0)
    assert (task.state, task.releases) == expected


async def test_an_idle_replica_stops_at_once(site: Site) -> None:
    """A stop does not wait for anything that is planned, however far away (B40)."""
    for pause in range(5):
        journal = Journal()
        member = await site.start(duty("a", journal.inline(), empty_poll_timeout_ms=HOUR_MS))
        for _ in range(pause):
            await site.add("a")
        await site.add("a", in_s=30 + pause)
        began = time.monotonic()
        await member.stop()
        assert time.monotonic() - began < 4
        assert len(journal.starts) == len(journal.ends)


async def test_after_a_stop_nothing_is_left(site: Site) -> None:
    """No asyncio task, no lease, no connection and no record of the replica outlives a stop."""
    before = asyncio.all_tasks()
    journal = Journal()
    member = await site.start(
        duty("a", journal.inline()), duty("b", journal.threaded()), grace_s=0.1
    )
    for name in ("a", "b"):
        await site.ended(name, await site.add(name))
    assert await site.redis.zscore(site.keys.nodes, member.identity) is not None
    await member.stop()
    await until(lambda: asyncio.all_tasks() <= before, "all tasks end")
    assert not member.replica._heartbeat.is_alive()
    await until(lambda: not member.replica._watchdog.is_alive(), "the watchdog ends")
    assert await site.redis.zscore(site.keys.nodes, member.identity) is None
    assert not await site.redis.exists(site.keys.node(member.identity))
    assert (await site._numsub())[0][1] == 0


async def test_a_stop_during_an_outage_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the server a stop gives up after a while; the leases run out instead."""
    monkeypatch.setattr("scheduld.engine.replica._FLUSH_S", 0.3)
    journal, second = Journal(), Journal()
    async with Proxy(site.url) as proxy:
        member = await site.start(duty("a", journal.inline(hang)), url=proxy.url, grace_s=0)
        task_id = await site.add("a")
        await until(lambda: journal.running, "run")
        await proxy.become("refuse")
        await asyncio.wait_for(member.stop(), 30)
        assert journal.running == 0
    await site.start(duty("a", second.inline()))
    task = await site.ended("a", task_id)
    assert (task.interruptions, task.failed) == (1, 0)
