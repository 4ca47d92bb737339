"""Handlers that kill, fool or leave their worker: one failed attempt, and nothing else."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from scheduld.model import State
from tests.support.processes import is_alive, pid_in, process_duty
from tests.support.replicas import Site, until
from tests.support.tasks import ONE_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace; a lease longer than a worker takes to start on a busy machine."""
    async with Site(valkey_server.url, lease_ms=3_000) as site:
        yield site


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("os._exit", "exit", "ended with exit code 7"),
        ("exit 0", "exit", "ended with exit code 0"),
        ("abort", "killed", "was killed by SIGABRT"),
        ("segfault", "killed", "was killed by SIGSEGV"),
        ("SIGKILL", "killed", "was killed by SIGKILL: by the kernel for want of memory"),
        ("closing all", "worker", "lost its socket to the daemon"),
        ("garbage", "worker", "sent a message of "),
        ("keeper", "worker", "was lost with the process that keeps it"),
    ],
)
async def test_a_death_is_a_failed_attempt_that_says_how(
    site: Site, how: str, kind: str, words: str
) -> None:
    """It names the exit code or the signal, and the last output; the next attempt runs."""
    retry = ONE_ATTEMPT.__class__(attempts=2, delays_ms=(10,))
    member = await site.start(process_duty("a", "dies", retry=retry, concurrency=1))
    lasting = await site.ended("a", await site.add("a", {"how": how}), State.DEAD)
    assert lasting.error is not None
    assert (lasting.failed, lasting.interruptions) == (2, 0)
    assert (lasting.error["kind"], lasting.error["traceback"]) == (kind, None)
    assert words in lasting.error["message"]
    assert f"dying by {how}\n" in lasting.error["output"]
    healed = await site.ended("a", await site.add("a", {"how": how, "until": 1}))
    assert (healed.failed, healed.result) == (1, "lived")
    assert member.running


@pytest.mark.parametrize(
    "message",
    [
        {"what": 1},
        {"ready": 1},
        {"end": 1, "outcome": "explode", "text": ""},
        {"end": 1, "value": "one end", "more": [1, 2]},
        {"notes": 7},
        {"notes": {"progress": None, "log": [["x", "y"]]}},
        {"record": ["name", "level", "text"]},
        {"record": ["name", float("inf"), "text"]},
    ],
    ids=str,
)
async def test_a_forged_message_ends_its_run_only(site: Site, message: object) -> None:
    """What a handler writes to the worker's socket is its own failure, and nobody else's."""
    member = await site.start(process_duty("a", "forges", retry=ONE_ATTEMPT, concurrency=1))
    task_id = await site.add("a", {"message": json.dumps(message)})
    task = await site.ended("a", task_id, State.DEAD)
    assert task.error is not None
    assert "the worker process sent " in task.error["message"]
    other = await site.ended("a", await site.add("a"))
    assert other.result == "honest"
    assert member.poller("a").busy == 0


async def test_a_flood_of_messages_ends_its_run_only(site: Site) -> None:
    """A handler that fills the worker's socket with records cannot keep the daemon busy."""
    await site.start(process_duty("a", "forges", retry=ONE_ATTEMPT, concurrency=1))
    message = json.dumps({"record": ["name", 10, "text"]})
    task_id = await site.add("a", {"message": message, "times": 20_000})
    task = await site.ended("a", task_id, State.DEAD)
    assert task.error is not None
    assert "sent more than 3000 messages in a second" in task.error["message"]


async def test_a_death_that_is_told_late_is_told_as_it_was(site: Site) -> None:
    """A keeper that gets no time for a while does not make an exit a lost socket."""
    await site.start(process_duty("a", "dies", retry=ONE_ATTEMPT, concurrency=1))
    task_id = await site.add("a", {"how": "slow keeper"})
    task = await site.ended("a", task_id, State.DEAD)
    assert task.error is not None
    assert "ended with exit code 7" in task.error["message"]


async def test_a_worker_that_dies_while_it_reads_costs_no_run(site: Site) -> None:
    """Nor does one that was idle, and dies in the middle of a long message to it."""
    await site.start(process_duty("a", "whoami", concurrency=1, retry=ONE_ATTEMPT))
    first = await site.ended("a", await site.add("a"))
    os.kill(first.result["pid"], signal.SIGSTOP)
    task_id = await site.add("a", {"long": "x" * 250_000})
    await until(lambda: site.members[0].poller("a").runner.running, "called")
    os.kill(first.result["pid"], signal.SIGKILL)
    second = await site.ended("a", task_id)
    assert second.failed == 0
    assert second.result["pid"] != first.result["pid"]


async def test_neighbours_of_a_death_are_untouched(site: Site) -> None:
    """Runs beside one that dies go on, in their own processes, once."""
    await site.start(process_duty("a", "waits", concurrency=2), process_duty("b", "dies"))
    calm = [await site.add("a", {"s": 0.5}) for _ in range(2)]
    for how in ("segfault", "os._exit"):
        await site.ended("b", await site.add("b", {"how": how, "until": 0}))
    for task_id in calm:
        task = await site.ended("a", task_id)
        assert (task.result, task.failed, task.interruptions) == ("waited", 0, 0)


async def test_a_worker_that_dies_idle_costs_no_run(site: Site) -> None:
    """Killed from outside while it has nothing to do, it is replaced; the next run is fine."""
    await site.start(process_duty("a", "whoami", concurrency=1, retry=ONE_ATTEMPT))
    pids = set()
    for _ in range(4):
        task = await site.ended("a", await site.add("a"))
        pids.add(task.result["pid"])
        # Stopped, it cannot take the next call before it dies.
        os.kill(task.result["pid"], signal.SIGSTOP)
        task_id = await site.add("a")
        await until(lambda: site.members[0].poller("a").runner.running, "called")
        os.kill(task.result["pid"], signal.SIGKILL)
        task = await site.ended("a", task_id)
        assert (task.failed, task.interruptions) == (0, 0)
        pids.add(task.result["pid"])
    assert len(pids) == 5


@pytest.mark.parametrize("leave", [False, True])
async def test_a_copy_that_comes_back_from_the_handler_ends(site: Site, leave: bool) -> None:
    """A handler that forks and returns in both processes has one end: that of the worker."""
    await site.start(process_duty("a", "forks", concurrency=1, retry=ONE_ATTEMPT))
    pids = set()
    for _ in range(5):
        task = await site.ended("a", await site.add("a", {"exit": leave}))
        pids.add(task.result)
    assert len(pids) == 1


async def test_threads_and_broken_rules_stay_in_their_worker(site: Site) -> None:
    """Threads without end, ignored signals, closed streams: the run is a success, others too."""
    await site.start(
        process_duty("a", "threads", concurrency=1),
        process_duty("b", "breaks_the_rules", concurrency=1, retry=ONE_ATTEMPT),
        process_duty("c", "echo", concurrency=1),
    )
    for name in "aabbc":
        await site.ended(name, await site.add(name))


@pytest.mark.parametrize("session", [False, True])
async def test_what_a_run_leaves_behind_ends_with_its_worker(
    site: Site, tmp_path: Path, session: bool
) -> None:
    """A child in the background, even in a session of its own, does not outlive the worker."""
    path = tmp_path / "pid"
    member = await site.start(process_duty("a", "leaves", concurrency=1))
    payload = {"pid_file": str(path), "session": session}
    task = await site.ended("a", await site.add("a", payload))
    assert task.result == "left"
    assert is_alive(pid_in(path)), "a run does not end what it has started on purpose"
    await member.stop()
    await until(lambda: not is_alive(pid_in(path)), "gone with the worker")


async def test_a_worker_that_cannot_import_its_handler_says_so(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that changed since the daemon's start is a failed attempt with the reason."""
    module = tmp_path / "vanishing_handler.py"
    module.write_text("def f(payload): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    work = process_duty("a", "echo", retry=ONE_ATTEMPT)
    kind = work.kind.__class__(
        name="a", handler="vanishing_handler:f", isolation="process", retry=ONE_ATTEMPT
    )
    await site.start(work.__class__(kind, work.handler))
    module.write_text("raise RuntimeError('no licence')\n")
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "handler"
    assert "no licence" in task.error["message"]
    module.write_text("import os; os._exit(9)\n")
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert "exit code 9, before it could call the handler" in task.error["message"]
