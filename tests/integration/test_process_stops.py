"""Ending runs in worker processes: time-outs, cancels, lost leases, stops; nothing is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from scheduld.engine import processes
from scheduld.model import State
from tests.support.processes import is_alive, pid_in, process_duty
from tests.support.replicas import Site, until
from tests.support.tasks import ONE_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import RunningServer


@pytest.fixture
async def site(
    valkey_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    """A fresh namespace, with a short grace before SIGKILL."""
    monkeypatch.setattr(processes, "GRACE_S", 0.3)
    async with Site(valkey_server.url, lease_ms=3_000) as site:
        yield site


@pytest.mark.parametrize("how", ["sleep", "spin", "lock", "ignore", "print", "child"])
async def test_run_timeout_kills_whatever_it_does(site: Site, tmp_path: Path, how: str) -> None:
    """At run_timeout the process is ended, also one that ignores signals or holds the lock.

    The attempt has failed only when the process is gone (B63); the slot is free again.
    """
    path = tmp_path / "pid"
    await site.start(
        process_duty("a", "hangs", run_timeout_ms=300, retry=ONE_ATTEMPT, concurrency=1)
    )
    task_id = await site.add("a", {"how": how, "pid_file": str(path)})
    task = await site.ended("a", task_id, State.DEAD)
    assert not is_alive(pid_in(path))
    assert task.error is not None
    assert (task.failed, task.error["kind"]) == (1, "timeout")
    if how == "print":
        assert len(task.error["output"]) > 8_000


async def test_the_time_of_a_run_begins_when_its_handler_is_called(site: Site) -> None:
    """A worker may take longer to start than a run may last."""
    await site.start(process_duty("a", "echo", run_timeout_ms=20, retry=ONE_ATTEMPT))
    await site.ended("a", await site.add("a"))


async def test_a_bomb_ends_with_its_run(site: Site, tmp_path: Path) -> None:
    """Of a handler that forks and forks nothing is left after its run."""
    path = tmp_path / "pids"
    await site.start(process_duty("a", "bombs", run_timeout_ms=2_000, retry=ONE_ATTEMPT))
    task_id = await site.add("a", {"pid_file": str(path)})
    await site.ended("a", task_id, State.DEAD)
    pids = [int(line) for line in path.read_text().split()]
    assert len(pids) > 1
    assert not [pid for pid in pids if is_alive(pid)]


@pytest.mark.parametrize(("handler", "line"), [("waits", "asked to stop"), ("waits_async", "can")])
async def test_a_cancel_is_heard_in_the_process(site: Site, handler: str, line: str) -> None:
    """`run.cancelled` becomes true, a coroutine gets CancelledError; the task is cancelled."""
    await site.start(process_duty("a", handler, concurrency=1))
    task_id = await site.add("a")
    await until(lambda: _is_waiting(site, task_id), "begun")
    await site.client.cancel("a", task_id)
    task = await site.ended("a", task_id, State.CANCELLED)
    assert task.log is not None
    assert task.log[-1]["text"].startswith(line)


async def _is_waiting(site: Site, task_id: str) -> bool:
    """Whether the handler has been called, and has told so."""
    return bool((await site.task("a", task_id)).log)


async def test_a_cancel_before_the_handler_began_runs_nothing(site: Site, tmp_path: Path) -> None:
    """A run that still waits for its worker is given back, and the worker is ended."""
    path = tmp_path / "pid"
    await site.start(process_duty("a", "hangs", concurrency=1))
    task_id = await site.add("a", {"how": "sleep", "pid_file": str(path)})
    await until(lambda: site.members[0].poller("a").runner.running, "starting")
    await site.client.cancel("a", task_id)
    await site.ended("a", task_id, State.CANCELLED)
    assert not is_alive(pid_in(path))


async def test_a_cancel_of_a_run_without_a_worker_runs_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is one that waits until other workers have started."""
    monkeypatch.setattr(processes, "MOST_STARTING", 0)
    member = await site.start(process_duty("a", "echo", concurrency=2), grace_s=0.05)
    ids = [await site.add("a") for _ in range(2)]
    await until(lambda: member.poller("a").runner.running == 2, "waiting")
    await site.client.cancel("a", ids[0])
    await site.ended("a", ids[0], State.CANCELLED)
    await member.stop()
    task = await site.task("a", ids[1])
    assert (task.state, task.releases) == (State.SCHEDULED, 1)


async def test_a_lost_lease_kills_the_run(site: Site, tmp_path: Path) -> None:
    """When another replica has the task, its old process is ended."""
    path = tmp_path / "pid"
    member = await site.start(process_duty("a", "hangs", concurrency=1))
    task_id = await site.add("a", {"how": "sleep", "pid_file": str(path)})
    pid = await until(lambda: pid_in(path), "runs")
    keys = site.keys.type("a")
    await site.redis.hset(keys.task(task_id.encode()), "fence", "1")
    await until(lambda: not is_alive(pid), "ended")
    await until(lambda: not member.poller("a").busy, "slot free")


async def test_a_stop_lets_runs_end_within_the_grace(site: Site) -> None:
    """Within shutdown_grace a run comes to its end."""
    member = await site.start(process_duty("a", "waits", concurrency=1), grace_s=20)
    task_id = await site.add("a", {"s": 0.4})
    await until(lambda: _is_waiting(site, task_id), "begun")
    await member.stop()
    task = await site.task("a", task_id)
    assert (task.state, task.result) == (State.DONE, "waited")


@pytest.mark.parametrize("how", ["sleep", "ignore"])
async def test_after_the_grace_runs_are_ended_and_given_back(
    site: Site, tmp_path: Path, how: str
) -> None:
    """A stop ends what outlives the grace, then gives it back: nothing counts, nothing is left."""
    path = tmp_path / "pid"
    member = await site.start(process_duty("a", "hangs", concurrency=1), grace_s=0.05)
    task_id = await site.add("a", {"how": how, "pid_file": str(path)})
    pid = await until(lambda: pid_in(path), "runs")
    began = time.monotonic()
    await member.stop()
    assert time.monotonic() - began < 5
    assert not is_alive(pid)
    task = await site.task("a", task_id)
    assert (task.state, task.releases, task.failed) == (State.SCHEDULED, 1, 0)
