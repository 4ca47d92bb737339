"""Runs that take too long, and handlers that block what they should not."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from scheduld.engine.isolation import Execution, Stop, Threads
from scheduld.model import Claim, State
from scheduld.policies.endings import GivenBack, Returned
from tests.support.replicas import WITHIN_S, Site, until
from tests.support.tasks import (
    ONE_ATTEMPT,
    Gate,
    Journal,
    Payload,
    block,
    block_loop,
    duty,
    hang,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


async def lease_end(site: Site, task_id: str) -> float:
    """Read the end of a task's lease, in ms; 0 without one."""
    return float(await site.redis.zscore(site.keys.type("a").leased, task_id) or 0)


async def test_a_run_that_takes_too_long_is_cancelled_and_fails(site: Site) -> None:
    """An async run is cancelled at run_timeout; that is a failed attempt."""
    journal = Journal()
    await site.start(
        duty("a", journal.inline(hang), run_timeout_ms=100, retry=ONE_ATTEMPT, concurrency=1)
    )
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert (task.failed, task.error["kind"]) == (1, "timeout")
    assert "100ms" in task.error["message"]
    assert journal.running == 0


async def test_a_success_after_the_timeout_is_still_a_timeout(site: Site) -> None:
    """A run that answers its cancellation with a result has failed: it took too long."""

    async def polite(payload: Payload) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done after all"
        return "never"

    await site.start(duty("a", polite, run_timeout_ms=50, retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "timeout"


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_an_overdue_run_keeps_slot_and_lease_until_it_returns(
    site: Site, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ignores its end goes on alone: no second attempt starts beside it (B63).

    Its failure is stored when it returns, whatever it returns.
    """
    monkeypatch.setattr("scheduld.engine.runner._SETTLE_S", 0.1)
    journal, gate = Journal(), Gate(stubborn=True)
    call: Any = journal.inline(gate.inline)
    if isolation == "thread":
        call = journal.threaded(gate.threaded)
    work = duty("a", call, run_timeout_ms=100, retry=ONE_ATTEMPT, concurrency=1)
    with capture_logs() as logs:
        for _ in range(2):
            await site.start(work)
        task_id = await site.add("a")
        began = await site.now_ms()
        await until(lambda: [log for log in logs if log.get("why") == "timeout"], "told overdue")

        async def renewed() -> bool:
            return await lease_end(site, task_id) > began + 2.5 * site.lease_ms

        await until(renewed, "renewed beyond its first lease")
    assert journal.ids == [task_id]
    assert (await site.task("a", task_id)).state is State.RUNNING
    gate.open()
    task = await site.ended("a", task_id, State.DEAD)
    assert task.error is not None
    assert (task.error["kind"], task.failed, task.interruptions) == ("timeout", 1, 0)
    assert journal.ids == [task_id]


async def test_a_thread_sees_that_its_time_is_over(site: Site) -> None:
    """A handler in a thread that looks at `run.cancelled` can end at run_timeout."""

    def patient(payload: Payload, run: Run) -> None:
        deadline = time.monotonic() + 20
        while not run.cancelled and time.monotonic() < deadline:
            time.sleep(0.005)

    await site.start(duty("a", patient, run_timeout_ms=100, retry=ONE_ATTEMPT))
    began = time.monotonic()
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "timeout"
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("handler", ["inline", "thread"])
async def test_a_handler_that_blocks_for_three_leases_keeps_its_lease(
    site: Site, handler: str
) -> None:
    """A blocked event loop or thread renews its leases all the same: one start (B30)."""
    journal = Journal()
    call: Any = journal.inline(block_loop) if handler == "inline" else journal.threaded(block)
    work = duty("a", call)
    # Not a single task is left to the other replica: it only waits for a lease to run out.
    await site.start(work)
    task_id = await site.add("a", {"s": 2.5 * site.lease_s})
    await until(lambda: journal.starts, "start")
    await site.start_apart(work)
    task = await site.ended("a", task_id)
    assert (journal.ids, task.interruptions) == ([task_id], 0)


async def test_a_handler_may_hold_the_interpreter_for_part_of_a_lease(site: Site) -> None:
    """A handler that holds the GIL for less than half a lease keeps its lease."""
    holder = ctypes.PyDLL(None)

    def hold(payload: Payload, run: Run) -> None:
        holder.usleep(int(site.lease_s * 0.4 * 1_000_000))

    journal = Journal()
    work = duty("a", journal.threaded(hold))
    await site.start(work)
    await site.start_apart(work)
    task_id = await site.add("a")
    task = await site.ended("a", task_id)
    assert (journal.ids, task.interruptions) == ([task_id], 0)


async def test_a_loop_blocked_beyond_run_timeout_loses_its_leases(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that blocks the loop for longer than it may is told, and another takes over."""
    monkeypatch.setattr("scheduld.engine.watchdog._SLACK_S", 0.1)
    monkeypatch.setattr("scheduld.engine.replica._PULSE_S", 0.1)
    stuck, healthy = Journal(), Journal()
    seen: list[bool] = []

    async def block_until_taken(payload: Payload, run: Run) -> None:
        deadline = time.monotonic() + 20
        while not (healthy.ends and seen) and time.monotonic() < deadline:
            if member.stuck.is_set():
                seen.append(True)
            time.sleep(0.01)  # noqa: ASYNC251 - what this is about

    member = await site.start(duty("a", stuck.inline(block_until_taken), run_timeout_ms=200))
    task_id = await site.add("a")
    # The other one starts while the first may still block.
    await site.start_apart(duty("a", healthy.inline()))
    task = await site.ended("a", task_id)
    await until(lambda: stuck.ends, "the loop is free again")
    assert seen
    assert (stuck.ids, healthy.ids) in (([task_id], [task_id]), ([], [task_id]))
    assert task.interruptions == len(stuck.ids)


async def test_runs_that_were_cancelled_before_they_began_end_at_run_timeout(site: Site) -> None:
    """A handler that cancels every task of the loop costs its neighbours time, and no attempt."""
    ran: list[int] = []
    others = asyncio.all_tasks()

    async def rude(payload: Payload) -> None:
        if not ran:
            for task in asyncio.all_tasks() - others - {asyncio.current_task()}:
                if "_run" in repr(task.get_coro()):
                    task.cancel()
        ran.append(payload["n"])

    for number in range(8):
        await site.add("a", {"n": number})
    await site.start(duty("a", rude, run_timeout_ms=200, retry=ONE_ATTEMPT, concurrency=8))
    await until(lambda: len(ran) == 8, "all have run")
    assert sorted(ran) == list(range(8))


async def test_what_waits_for_a_thread_does_not_run_after_it_was_stopped() -> None:
    """Given back, it may run elsewhere: so not here any more."""
    gate, called, over = threading.Event(), [], []

    def call(payload: Payload) -> None:
        called.append(payload["n"])
        gate.wait(WITHIN_S)

    handler = duty("a", call).handler
    threads = Threads(handler, lambda _, ending: over.append(ending), 1, "test")
    runs = [
        Execution(Claim("a", "x", b"x", None, 1, 0, 0), ({"n": number},), None, 0.0)
        for number in (1, 2)
    ]
    for run in runs:
        threads.begin(run)
    runs[1].stopped = Stop.STOPPING
    gate.set()
    await until(lambda: len(over) == 2, "both are over")
    assert called == [1]
    assert [type(ending) for ending in over] == [Returned, GivenBack]
    threads.close()


async def test_a_thread_that_cannot_be_made_ends_its_run_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool keeps what it could not begin: when a thread is free, it must not run then."""
    journal = Journal()
    member = await site.start(duty("a", journal.threaded(block), concurrency=3))
    await site.ended("a", await site.add("a", {"s": 0}))
    start = threading.Thread.start
    refused: list[threading.Thread] = []

    def refuse_one(thread: threading.Thread) -> None:
        if not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    first = await site.add("a", {"s": 0.1})
    await until(lambda: len(journal.ids) == 2, "the one thread is busy")
    monkeypatch.setattr(threading.Thread, "start", refuse_one)
    second = await site.add("a", {"s": 0})
    await until(lambda: refused, "refused")
    tasks = [await site.ended("a", task_id) for task_id in (first, second)]
    assert [task.releases for task in tasks] == [0, 1]
    assert sorted(journal.ids[1:]) == sorted([first, second])
    poller = member.poller("a")
    assert (poller.busy, poller._shared.slots.used("a")) == (0, 0)


async def test_a_lost_lease_stops_only_the_run_it_was_of(site: Site) -> None:
    """The news may come after the task was claimed again, here: that run is healthy."""
    journal, gate = Journal(), Gate()
    member = await site.start(duty("a", journal.inline(gate.inline)))
    task_id = await site.add("a")
    await until(lambda: journal.ids, "it runs")
    fence = (await site.task("a", task_id)).fence
    assert fence is not None
    member.poller("a").cancel(task_id.encode(), Stop.LOST, fence - 1)
    gate.open()
    task = await site.ended("a", task_id)
    assert (task.state, task.releases) == (State.DONE, 0)
    assert journal.ids == [task_id]
