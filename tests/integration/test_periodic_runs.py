"""Occurrences under real replicas: each once, on its grid, whatever becomes of a run."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from scheduld.model import RetryPolicy, State, iso
from tests.support import process_work
from tests.support.replicas import Site, until
from tests.support.tasks import HOUR_MS, ONE_ATTEMPT, Gate, Journal, Payload, block, duty, hang, nap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.handlers.contract import Run
    from scheduld.model import Task
    from tests.support.servers import RunningServer

QUICK = RetryPolicy(attempts=3, delays_ms=(10,), jitter=0)


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


class Asked:
    """A predicate that notes what it was asked, and goes on with a counter that is one higher."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.runs: list[tuple[str, int]] = []
        self._gate = gate

    async def answer(self, payload: Payload, run: Run) -> Payload:
        """Wait for the gate, if there is one."""
        self.runs.append((str(iso(round(run.due.timestamp() * 1000))), payload.get("count", 0)))
        payload["spoilt"] = True
        if self._gate is not None:
            await self._gate.inline(payload, run)
        return {"count": payload.get("count", 0) + 1}


async def occurred(site: Site, task_id: str, runs: int, state: State = State.SCHEDULED) -> Task:
    """Wait until so many occurrences have ended."""

    async def reached() -> Task | None:
        task = await site.task("a", task_id)
        return task if task.runs == runs and task.state == state else None

    found: Task = await until(reached, f"{runs} occurrences")
    return found


async def test_each_occurrence_starts_on_its_instant(site: Site) -> None:
    """Once, never early and hardly late, with the payload that the one before has left."""
    journal, asked = Journal(), Asked()
    await site.start(duty("a", journal.inline(), asked.answer, empty_poll_timeout_ms=HOUR_MS))
    task_id = await site.add("a", {"to": "ana"}, in_s=0.1, every="150ms", max_runs=8)
    first = (await site.task("a", task_id)).due_ms
    task = await occurred(site, task_id, 8, State.DONE)
    assert [start.payload.get("count", 0) for start in journal.starts] == list(range(8))
    assert first is not None
    assert task.missed is not None
    grid = [str(iso(first + 150 * number)) for number in range(8 + task.missed)]
    assert [count for _, count in asked.runs] == list(range(8))
    dues = [due for due, _ in asked.runs]
    assert dues == sorted(set(dues) & set(grid))
    assert max(start.early_ms for start in journal.starts) <= 0
    assert task.payload == {"to": "ana", "count": 8}


async def test_retries_are_of_one_occurrence(site: Site) -> None:
    """The predicate is asked once an occurrence, after its last attempt, with a copy."""
    asked = Asked()

    async def handler(payload: Payload, run: Run) -> None:
        payload["list"].append(run.attempt)  # not kept, whatever becomes of the run
        if payload.get("count") == 1 or run.attempt < 3:
            raise ValueError(run.attempt)

    await site.start(duty("a", handler, asked.answer, retry=QUICK))
    task_id = await site.add("a", {"list": []}, every="300ms", max_runs=3)
    task = await occurred(site, task_id, 3, State.DONE)
    assert [count for _, count in asked.runs] == [0, 1, 2]
    assert task.payload == {"list": [], "count": 3}
    (dead,) = await site.client.list("a", state="dead")
    assert dead.id.startswith(f"{task_id}@")
    assert (dead.payload, dead.failed) == ({"list": [], "count": 1}, 3)
    assert dead.error is not None
    assert dead.error["message"] == "3"


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_runs_longer_than_the_period_are_no_burst(site: Site, isolation: str) -> None:
    """What passes meanwhile is missed, and counted; the next run is at the next instant."""
    journal = Journal()
    call = journal.inline(nap) if isolation == "inline" else journal.threaded(block)
    await site.start(duty("a", call))
    task_id = await site.add("a", {"s": 0.35}, every="100ms", max_runs=3)
    task = await occurred(site, task_id, 3, State.DONE)
    assert journal.most == 1
    assert len(journal.starts) == 3
    assert task.missed is not None
    assert task.missed >= 6


async def test_a_run_that_is_cancelled_is_followed_by_the_next(site: Site) -> None:
    """It is asked to stop, its predicate is not asked, and the series goes on."""
    journal, asked = Journal(), Asked()
    await site.start(duty("a", journal.inline(hang), asked.answer, empty_poll_timeout_ms=HOUR_MS))
    task_id = await site.add("a", {}, every="1h")
    first = (await site.task("a", task_id)).due_ms
    await until(lambda: journal.has_started(1), "a run")
    assert (await site.client.cancel("a", task_id, this_run=True)).state == State.RUNNING
    task = await site.ended("a", task_id, State.SCHEDULED)

    async def is_planned() -> bool:
        return (await site.task("a", task_id)).due_ms == (first or 0) + HOUR_MS

    await until(is_planned, "the next occurrence")
    assert (journal.ends, asked.runs, task.runs) == ([task_id], [], 0)
    assert (await site.client.cancel("a", task_id, this_run=True)).due_ms == (
        (first or 0) + 2 * HOUR_MS
    )


@pytest.mark.parametrize("this_run", [False, True])
async def test_a_cancel_while_the_predicate_is_asked(site: Site, this_run: bool) -> None:
    """The end of the run is not used: the series has ended, or goes on as it was."""
    gate = Gate()
    asked = Asked(gate)
    await site.start(duty("a", Journal().inline(), asked.answer))
    task_id = await site.add("a", {}, every="1h")
    await until(lambda: asked.runs, "the question")
    await site.client.cancel("a", task_id, this_run=this_run)
    gate.open()
    state = State.SCHEDULED if this_run else State.CANCELLED
    task = await site.ended("a", task_id, state)
    assert (task.payload, task.runs, len(asked.runs)) == ({}, 0, 1)


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_stop_waits_for_the_answer(site: Site, is_open: bool) -> None:
    """Within its grace; after that the series goes on as it is, and no run is repeated."""
    gate, journal = Gate(), Journal()
    asked = Asked(gate)
    member = await site.start(
        duty("a", journal.inline(), asked.answer), grace_s=10 if is_open else 0.05
    )
    task_id = await site.add("a", {}, every="1h")
    await until(lambda: asked.runs, "the question")
    stopping = asyncio.create_task(member.stop())
    if is_open:
        await until(lambda: member.poller("a")._stopping, "the stop")
        gate.open()
    await stopping
    task = await site.task("a", task_id)
    assert (task.state, task.runs, len(journal.starts)) == (State.SCHEDULED, 1, 1)
    assert task.payload == ({"count": 1} if is_open else {})
    if not is_open:
        assert task.error is not None
        assert task.error["message"] == "the daemon stopped before there was an answer"


async def test_a_replica_that_dies_while_it_asks(site: Site) -> None:
    """The occurrence is run once more by another, and is one occurrence all the same."""
    gate, journal = Gate(), Journal()
    first, second = Asked(gate), Asked()
    member = await site.start(duty("a", journal.inline(), first.answer))
    task_id = await site.add("a", {}, every="1h")
    await until(lambda: first.runs, "the question")
    await member.kill()
    await site.start(duty("a", journal.inline(), second.answer, empty_poll_timeout_ms=100))
    task = await occurred(site, task_id, 1)
    assert (task.payload, task.interruptions, len(journal.starts)) == ({"count": 1}, 0, 2)
    assert first.runs == second.runs


async def test_a_predicate_that_ends_its_daemon(site: Site) -> None:
    """It is asked again a few times, and then not any more: the series outlives it."""
    gate, journal, asked = Gate(), Journal(), Asked(Gate())
    policies: dict[str, Any] = {"max_interruptions": 1, "empty_poll_timeout_ms": 100}
    task_id = await site.add("a", {}, every="1h")
    for count in (1, 2):
        member = await site.start(duty("a", journal.inline(), asked.answer, **policies))
        await until(lambda count=count: len(asked.runs) == count, "the question")  # type: ignore[misc]
        await member.kill()
    await site.start(duty("a", journal.inline(), asked.answer, **policies))
    task = await occurred(site, task_id, 1)
    gate.open()
    assert (len(journal.starts), len(asked.runs)) == (1, 2)
    assert (task.payload, task.interruptions) == ({}, 0)
    (dead,) = await site.client.list("a", state="dead")
    assert dead.error is not None
    assert dead.error["kind"] == "interrupted"


async def test_a_task_that_cannot_be_read_is_dead_each_time(site: Site) -> None:
    """Its predicate is not asked; when the payload is mended the series is as it was."""
    asked = Asked()
    await site.start(duty("a", Journal().inline(), asked.answer))
    task_id = await site.add("a", {}, in_s=0.2, every="300ms")
    key = site.keys.type("a").task(task_id.encode())
    await site.redis.hset(key, "payload", "[1]")
    await occurred(site, task_id, 1)
    assert asked.runs == []
    await site.redis.hset(key, "payload", '{"count": 5}')
    await until(lambda: asked.runs, "the question")
    assert asked.runs[0][1] == 5
    await site.client.cancel("a", task_id)


async def test_a_task_without_a_predicate_goes_on(site: Site) -> None:
    """Then only until and max_runs end a series."""

    async def handler(payload: Payload) -> Any:
        return process_work.echo(payload)

    await site.start(duty("a", handler, retry=ONE_ATTEMPT))
    at = timedelta(milliseconds=50)
    task = await site.client.schedule("a", {"value": 1}, delay=at, every="50ms", allow_unknown=True)
    assert task.due_ms is not None
    end = task.due_ms + 500
    await site.client.edit("a", task.id, until=iso(end))
    found = await site.ended("a", task.id)
    assert found.runs is not None
    assert found.missed is not None
    assert found.runs + found.missed == 11
    assert found.result == 1


async def test_what_cannot_be_followed_is_logged(site: Site) -> None:
    """The log of the daemon says which task it was, and what goes on."""

    async def rubbish(payload: Payload) -> Any:
        raise RuntimeError("hunter2")

    with capture_logs() as logs:
        await site.start(duty("a", Journal().inline(), rubbish))
        await occurred(site, await site.add("a", {}, every="1h"), 1)
    (said,) = [line for line in logs if "predicate" in line["event"]]
    assert said["error"] == "RuntimeError: hunter2"
    assert said["hint"] == "the series goes on with its old payload"
