"""Worker processes: how many, how long, and what a run may use."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.engine import processes, workers
from scheduld.engine.duty import cores
from scheduld.model import State
from tests.support.processes import is_alive, process_duty
from tests.support.replicas import Site, until
from tests.support.tasks import ONE_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import RunningServer

MB = 1024 * 1024


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace; a lease longer than a worker takes to start on a busy machine."""
    async with Site(valkey_server.url, lease_ms=3_000) as site:
        yield site


async def results(site: Site, payloads: list[Any]) -> list[Any]:
    """Run tasks one after the other; their results."""
    return [(await site.ended("a", await site.add("a", payload))).result for payload in payloads]


async def test_workers_start_when_needed_and_are_kept(site: Site) -> None:
    """One run at a time in each: as many workers as runs at once, not more, and the same again."""
    member = await site.start(process_duty("a", "takes", concurrency=3))
    workers = member.poller("a").runner._isolation._workers  # type: ignore[attr-defined]
    assert not workers
    assert len(set(await results(site, [{}] * 5))) == 1
    assert len(workers) == 1
    ids = [await site.add("a", {"cpu_s": 0.1}) for _ in range(12)]
    pids = {(await site.ended("a", task_id)).result for task_id in ids}
    assert 1 < len(pids) <= 3
    assert len(workers) == len(pids)


async def test_workers_start_a_few_at_a_time(site: Site) -> None:
    """Many runs at once do not start as many processes at once; those that are free help."""
    member = await site.start(process_duty("a", "takes", concurrency=12))
    started = member.poller("a").runner._isolation._workers  # type: ignore[attr-defined]
    ids = [await site.add("a", {"cpu_s": 0.01}) for _ in range(24)]
    starting = []

    async def all_done() -> bool:
        starting.append(sum(not worker.is_ready for worker in started.values()))
        return sum([(await site.task("a", one)).state is State.DONE for one in ids]) == len(ids)

    await until(all_done, "all done")
    assert 1 <= max(starting) <= processes.MOST_STARTING
    assert len(started) <= 12


async def test_a_worker_that_cannot_be_started_fails_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a process to be had a task is given back, and runs when there is one."""
    start = workers.WorkerProcess._start
    refused: list[str] = []

    def once_refused(self: workers.WorkerProcess, name: str) -> None:
        if not refused:
            refused.append(name)
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(self, name)

    monkeypatch.setattr(workers.WorkerProcess, "_start", once_refused)
    await site.start(process_duty("a", "takes", retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a", {}))
    assert (task.failed, task.releases, refused) == (0, 1, ["a"])


def test_by_default_a_worker_a_core() -> None:
    """The default concurrency of processes is the number of cores."""
    assert process_duty("a", "echo").concurrency == cores() > 0


async def test_a_worker_is_replaced_after_its_number_of_runs(site: Site) -> None:
    """recycle_after counts runs; the old process ends."""
    await site.start(process_duty("a", "takes", concurrency=1, recycle_after=2))
    pids = await results(site, [{}] * 4)
    assert pids[0] == pids[1] != pids[2] == pids[3]
    await until(lambda: not is_alive(pids[0]), "ended")


async def test_a_worker_that_has_grown_is_replaced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that keeps 256 MB more than after its first run makes room; a small growth does not."""
    await site.start(process_duty("a", "grows", concurrency=1))
    sizes = [MB, MB, 300 * MB, MB]
    pids = await results(site, [{"bytes": size} for size in sizes])
    assert pids[0] == pids[1] == pids[2] != pids[3]


async def test_a_worker_that_has_grown_does_not_fail_later_runs(site: Site) -> None:
    """What earlier runs have left must not take the memory of a run that would fit."""
    await site.start(
        process_duty("a", "grows", max_memory=300 * MB, concurrency=1, retry=ONE_ATTEMPT)
    )
    pids = await results(site, [{"bytes": 60 * MB}] * 6)
    assert 1 < len(set(pids)) < 6


async def test_a_limit_that_a_run_has_lowered_is_its_own(site: Site) -> None:
    """Even one that cannot be raised again: the run has succeeded, the next has another worker."""
    await site.start(process_duty("a", "lowers", max_files=100, concurrency=1, retry=ONE_ATTEMPT))
    first, second = await results(site, [{}, {}])
    assert first["files"] == second["files"] == 100
    assert first["pid"] != second["pid"]


@pytest.mark.parametrize("idle", [False, True])
async def test_a_stray_signal_cancels_no_later_run(site: Site, idle: bool) -> None:
    """SIGTERM of somebody else concerns the run it meets, if any; the worker is replaced."""
    await site.start(
        process_duty(
            "a", "ends_its_children", concurrency=1, retry=ONE_ATTEMPT, run_timeout_ms=9_000
        )
    )
    (first,) = await results(site, [{"signal": not idle}])
    assert first["cancelled"] is not idle
    if idle:
        os.kill(first["pid"], signal.SIGTERM)
    (second,) = await results(site, [{}])
    assert not second["cancelled"]
    assert second["pid"] != first["pid"]


async def test_an_idle_worker_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has had nothing to do for long enough ends; the next run has another."""
    monkeypatch.setattr(processes, "IDLE_S", 0.1)
    await site.start(process_duty("a", "takes", concurrency=1))
    (first,) = await results(site, [{}])
    await until(lambda: not is_alive(first), "ended")
    assert await results(site, [{}]) != [first]


async def test_a_worker_that_does_not_start_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import without end is a failed attempt, not a slot that is lost."""
    monkeypatch.setattr(processes, "START_S", 0.001)
    await site.start(process_duty("a", "echo", retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert "had not imported the handler" in task.error["message"]


async def test_a_stop_ends_all_workers(site: Site) -> None:
    """After a stop no worker is there."""
    member = await site.start(process_duty("a", "takes", concurrency=2))
    ids = [await site.add("a", {"cpu_s": 0.05}) for _ in range(4)]
    pids = {(await site.ended("a", task_id)).result for task_id in ids}
    await member.stop()
    assert not [pid for pid in pids if is_alive(pid)]


async def test_memory_of_a_run_is_limited(site: Site) -> None:
    """Beyond max_memory a run gets MemoryError, that is, fails; its worker is replaced."""
    await site.start(
        process_duty("a", "takes", max_memory=200 * MB, concurrency=1, retry=ONE_ATTEMPT)
    )
    (before,) = await results(site, [{}])
    task = await site.ended("a", await site.add("a", {"bytes": 400 * MB}), State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "MemoryError"
    assert "200 MB (max_memory)" in task.error["message"]
    assert await results(site, [{"bytes": 50 * MB}]) == [50 * MB]
    assert await results(site, [{}]) != [before]


async def test_too_little_memory_is_told_as_such(site: Site) -> None:
    """A limit that the worker itself exceeds says how much it has."""
    await site.start(process_duty("a", "takes", max_memory=MB, retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert "max_memory of 1 MB is too little" in task.error["message"]


@pytest.mark.proof
async def test_processor_time_of_a_run_is_limited(site: Site) -> None:
    """max_cpu counts from the run's start, not from the worker's; then the run has failed."""
    await site.start(process_duty("a", "takes", max_cpu_ms=1_000, concurrency=1, retry=ONE_ATTEMPT))
    pids = await results(site, [{"cpu_s": 0.7}] * 3)
    assert len(set(pids)) == 1
    task = await site.ended("a", await site.add("a", {"cpu_s": 60}), State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "cpu_limit"
    assert "1s of processor time (max_cpu)" in task.error["message"]


async def test_files_of_a_run_are_limited(site: Site) -> None:
    """max_files is the number of descriptors a run may have; the worker goes on."""
    await site.start(process_duty("a", "takes", max_files=40, concurrency=1, retry=ONE_ATTEMPT))
    (before,) = await results(site, [{}])
    task = await site.ended("a", await site.add("a", {"files": 60}), State.DEAD)
    assert task.error is not None
    assert "Too many open files" in task.error["message"]
    assert await results(site, [{"files": 20}, {}]) == [20, before]


async def test_a_flood_of_output_does_not_hold_up_the_loop(site: Site) -> None:
    """While a handler prints without end, the daemon's loop turns as before."""
    await site.start(process_duty("a", "hangs", concurrency=1))
    task_id = await site.add("a", {"how": "print", "pid_file": "/dev/null"})
    await site.ended("a", task_id, State.RUNNING)
    loop = asyncio.get_running_loop()
    worst, until_at = 0.0, loop.time() + 1.0
    while (before := loop.time()) < until_at:
        await asyncio.sleep(0)
        worst = max(worst, loop.time() - before)
    assert worst < 0.5
    await site.client.cancel("a", task_id)
    await site.ended("a", task_id, State.CANCELLED)
