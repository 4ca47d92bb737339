"""Handlers with bad manners: whatever they raise, return or change, the replica works on."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import RetryPolicy, State
from scheduld.outcomes import Retry
from tests.support.replicas import Site
from tests.support.tasks import ONE_ATTEMPT, Journal, Payload, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer

QUICK = (10,)


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


BASE_EXCEPTIONS = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
]


@pytest.mark.parametrize("kind", BASE_EXCEPTIONS)
@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_no_exception_ends_the_replica(
    site: Site, kind: type[BaseException], isolation: str
) -> None:
    """Whatever a handler raises is a failed attempt, and the next task runs."""
    journal = Journal()

    async def inline(payload: Payload, run: Run) -> None:
        if payload.get("raise"):
            raise kind(3)

    def threaded(payload: Payload, run: Run) -> None:
        if payload.get("raise"):
            raise kind(3)

    call: Any = journal.inline(inline) if isolation == "inline" else journal.threaded(threaded)
    await site.start(duty("a", call, retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a", {"raise": True}), State.DEAD)
    assert task.error is not None
    # A coroutine turns StopIteration into a RuntimeError before anybody can see it.
    assert task.error["kind"] in (kind.__name__, "RuntimeError")
    assert task.failed == 1
    await site.ended("a", await site.add("a"))


class Hostile(Exception):
    """An exception that ends the process when it is shown."""

    def __str__(self) -> str:
        raise SystemExit(5)


class HostileResult(dict[str, object]):
    """A result that ends the process when it is read."""

    def items(self) -> Any:
        """Raise instead."""
        raise KeyboardInterrupt


async def test_hostile_values_do_not_end_the_replica(site: Site) -> None:
    """Exceptions and results whose own methods raise SystemExit are told as what they are."""

    async def call(payload: Payload) -> Any:
        if payload.get("raise"):
            raise Hostile
        return HostileResult(x=1)

    await site.start(duty("a", call, retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a", {"raise": True}), State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "Hostile"
    done = await site.ended("a", await site.add("a"))
    assert done.outcome == "success"


async def test_each_attempt_sees_the_stored_payload(site: Site) -> None:
    """A handler that changes its payload changes nothing for the next attempt (B67)."""
    journal = Journal()

    async def greedy(payload: Payload, run: Run) -> None:
        payload["list"].append("mine")
        payload.clear()
        raise ValueError

    retry = RetryPolicy(attempts=2, delays_ms=QUICK)
    await site.start(duty("a", journal.inline(greedy), retry=retry))
    task = await site.ended("a", await site.add("a", {"list": ["x"]}), State.DEAD)
    assert [start.payload for start in journal.starts] == [{"list": ["x"]}, {"list": ["x"]}]
    assert task.payload == {"list": ["x"]}


async def test_a_type_error_inside_is_a_failure(site: Site) -> None:
    """A handler that breaks before it awaits anything fails its attempt; the type goes on."""

    async def broken(payload: Payload) -> Any:
        return payload["n"] + 1

    await site.start(duty("a", broken, retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a", {"n": "x"}), State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "TypeError"
    assert (await site.ended("a", await site.add("a", {"n": 1}))).result == 2


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_a_hidden_coroutine_is_a_failure(site: Site, isolation: str) -> None:
    """A `def` handler that returns a coroutine has run nothing: the attempt fails and says so."""

    async def work() -> None:
        """Never awaited."""

    def call(payload: Payload) -> Any:
        return work()

    await site.start(duty("a", call, isolation=isolation, retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a"), State.DEAD)
    assert task.error is not None
    assert "declare it with async def" in task.error["message"]


@pytest.mark.parametrize("payload", [b"[]", b"{", b"\xff\xfe", b'{"a": NaN}', b"null"])
async def test_an_unreadable_task_is_dead_without_an_attempt(site: Site, payload: bytes) -> None:
    """A payload that is no JSON object is dead with a reason, and never stops the others."""
    journal = Journal()
    keys = site.keys.type("a")
    await site.redis.hset(keys.task(b"broken"), "payload", payload)
    await site.redis.zadd(keys.due, {"broken": 1})
    fine = await site.add("a")
    await site.start(duty("a", journal.inline()))
    await site.ended("a", fine)
    task = await site.ended("a", "broken", State.DEAD)
    assert task.error is not None
    assert (task.failed, task.error["kind"]) == (0, "unreadable")
    assert journal.ids == [fine]


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), lambda: 1, float("nan"), {1, 2}, b"x", "\ud800", "x" * 70_000],
    ids=["lock", "lambda", "nan", "set", "bytes", "surrogate", "long"],
)
async def test_an_odd_result_stays_a_success(site: Site, value: object) -> None:
    """A result that cannot be stored is replaced by a marker; the task is done and runs once."""
    journal = Journal()

    async def call(payload: Payload, run: Run) -> object:
        return value

    await site.start(duty("a", journal.inline(call)))
    task = await site.ended("a", await site.add("a"))
    assert (task.outcome, len(journal.starts)) == ("success", 1)
    assert list(task.result) == ["not_stored"]


async def test_run_tells_about_the_task(site: Site) -> None:
    """A handler sees type, id, attempt, fence, due and its options."""
    seen: list[Run] = []

    async def call(payload: Payload, run: Run) -> None:
        seen.append(run)
        if run.attempt == 1:
            raise Retry(0)

    await site.start(duty("a", call))
    task = await site.ended("a", await site.add("a", id="me"))
    first, second = seen
    assert (first.type, first.id, first.attempt, second.attempt) == ("a", "me", 1, 2)
    assert second.fence > first.fence
    assert first.due == second.due == task.due
    assert first.due.tzinfo is UTC
    assert (first.tick, first.schedule, first.cancelled) == (None, None, False)
