"""The clients when answers are lost, late or odd: what is repeated, and what is said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import AsyncClient, Client, TaskSpec
from scheduld.errors import NotFound, OutcomeUnknown, Unreachable
from scheduld.store.calls import MAX_IDS
from scheduld.store.keys import Keys
from tests.integration.test_client import fresh_namespace
from tests.support.proxy import Proxy
from tests.support.replicas import until
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import RunningServer

PATIENT = 20.0


async def _scheduled(server: RunningServer, namespace: str) -> int:
    async with AsyncClient(server.url, namespace=namespace) as client:
        return sum(stats.scheduled for stats in await client.stats())


async def test_an_add_whose_answer_is_lost_is_repeated_safely(valkey_server: RunningServer) -> None:
    """Answers are dropped, then come again: one task, and the add answers created."""
    namespace = fresh_namespace()
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=PATIENT) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become("half")
        adding = asyncio.create_task(client.schedule("t", {"n": 1}, delay="1h"))
        await until(lambda: proxy.dropped, "an answer was dropped")
        await proxy.become("pass")
        assert (await adding).created is True
    assert await _scheduled(valkey_server, namespace) == 2


async def test_an_unknown_outcome_names_what_to_repeat(valkey_server: RunningServer) -> None:
    """When patience ends the error has id and token; the repeat with them stores nothing twice."""
    namespace = fresh_namespace()
    async with Proxy(valkey_server.url) as proxy:
        with Client(proxy.url, namespace=namespace, wait_s=0.1) as client:
            await asyncio.to_thread(client.schedule, "t", delay="1h", allow_unknown=True)
            await proxy.become("half")
            spec = TaskSpec(payload={"n": 1}, delay="1h")
            with pytest.raises(OutcomeUnknown) as caught:
                await asyncio.to_thread(client.schedule, "t", spec.payload, delay="1h")
            await proxy.become("pass")
            error = caught.value
            assert error.task_id is not None
            again = await asyncio.to_thread(
                client.schedule, "t", {"n": 1}, id=error.task_id, token=error.token, delay="1h"
            )
            assert again.created is True
    assert await _scheduled(valkey_server, namespace) == 2


async def test_a_lost_answer_outweighs_a_later_refusal(valkey_server: RunningServer) -> None:
    """Sent and unanswered, then no connection at all: the outcome is unknown, not 'not done'."""
    namespace = fresh_namespace()
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=3) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become("half")
        adding = asyncio.create_task(client.schedule("t", delay="1h"))
        await until(lambda: proxy.dropped, "an answer was dropped")
        await proxy.become("refuse")
        with pytest.raises(OutcomeUnknown):
            await adding


async def test_reading_without_an_answer_is_merely_unreachable(
    valkey_server: RunningServer,
) -> None:
    """Nothing can have been changed by a read, so its outcome is never unknown."""
    namespace = fresh_namespace()
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=0.1) as client,
    ):
        task = await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become("blackhole")
        with pytest.raises(Unreachable):
            await client.get("t", task.id)


async def test_a_requeue_is_not_repeated_by_itself(valkey_server: RunningServer) -> None:
    """Its repeat would be refused as scheduled; so the caller is told at once, and can look."""
    namespace = fresh_namespace()
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=PATIENT) as client,
    ):
        task = await client.schedule("t", delay="1h", allow_unknown=True)
        await client.cancel("t", task.id)
        with pytest.raises(NotFound):
            await client.requeue("t", "another")  # the server knows the script from now on
        await proxy.become("half")
        with pytest.raises(OutcomeUnknown):
            await client.requeue("t", task.id)
        await proxy.become("pass")
        assert (await client.get("t", task.id)).state == "scheduled"


@pytest.mark.parametrize("mode", ["reset", "refuse"])
async def test_a_dropped_connection_is_made_again(valkey_server: RunningServer, mode: Any) -> None:
    """After a reset, or a while without a listener, the next verb works by itself."""
    namespace = fresh_namespace()
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=PATIENT) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become(mode)
        adding = asyncio.create_task(client.schedule("t", delay="1h"))
        await asyncio.sleep(0)
        await proxy.become("pass")
        assert (await adding).created is True


async def test_a_forgotten_script_is_sent_again(valkey_server: RunningServer) -> None:
    """SCRIPT FLUSH between two calls goes unnoticed."""
    async with AsyncClient(valkey_server.url, namespace=fresh_namespace()) as client:
        await client.schedule("t", delay="1h", allow_unknown=True)
        with valkey_server.client() as raw:
            raw.script_flush()
        assert (await client.schedule("t", delay="1h")).created is True


def _specs(count: int, size: int = 0) -> list[TaskSpec]:
    """Tasks with ids of their own."""
    return [TaskSpec(payload={"x": "y" * size}, id=f"i{n}", delay="1h") for n in range(count)]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of the test's own, for thousands of tasks that would slow down other tests."""
    with start_server("valkey", tmp_path) as server:
        yield server


async def _third_call_arrives(server: RunningServer, namespace: str) -> None:
    """Wait until so much was sent that the first call was answered: two are under way at most."""
    with server.client() as raw:
        due = Keys(namespace).type("t").due
        # One was there before.
        await until(lambda: raw.zcard(due) > 1 + 2 * MAX_IDS, "the third call was carried out")


async def test_many_adds_tell_where_they_were_lost(own_server: RunningServer) -> None:
    """Some calls are answered, then no more: the error names the first open task, and a count."""
    namespace = fresh_namespace()
    async with (
        Proxy(own_server.url, lag_s=0.5) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=0.1) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become("lag")
        adding = asyncio.create_task(client.schedule_many("t", _specs(5_000)))
        await _third_call_arrives(own_server, namespace)
        await proxy.become("half")
        with pytest.raises(OutcomeUnknown) as caught:
            await adding
        error = caught.value
        assert error.task_id is not None
        first_open = int(error.task_id[1:])
        assert 0 < first_open < 5_000
        assert f"; {first_open} of the 5000 tasks are stored" in str(error)
        await proxy.become("pass")
        assert (await client.get("t", f"i{first_open - 1}")).state == "scheduled"


@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
async def test_many_adds_go_on_where_they_were_lost(own_server: RunningServer, kind: str) -> None:
    """Answers are lost in the middle, then come again: each task is created, and in order."""
    namespace = fresh_namespace()
    async with (
        Proxy(own_server.url, lag_s=0.5) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=PATIENT) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become("lag")
        with Client(proxy.url, namespace=namespace, wait_s=PATIENT) as blocking:
            if kind == "asyncio":
                adding = asyncio.create_task(client.schedule_many("t", _specs(3_000)))
            else:
                work = asyncio.to_thread(blocking.schedule_many, "t", _specs(3_000))
                adding = asyncio.create_task(work)
            await _third_call_arrives(own_server, namespace)
            await proxy.become("half")
            await until(lambda: proxy.dropped, "an answer was dropped")
            await proxy.become("pass")
            results = await adding
        assert [getattr(result, "id", result) for result in results] == [
            f"i{n}" for n in range(3_000)
        ]
        assert all(getattr(result, "created", False) for result in results)
    assert await _scheduled(own_server, namespace) == 3_001


async def test_many_adds_tell_what_a_full_server_took(tmp_path: Path) -> None:
    """A server that fills up in the middle: the error says how many are stored."""
    with start_server("redis7", tmp_path) as server:
        namespace = fresh_namespace()
        async with AsyncClient(server.url, namespace=namespace, wait_s=0.1) as client:
            await client.schedule("t", delay="1h", allow_unknown=True)
            with server.client() as raw:
                raw.config_set("maxmemory", int(raw.info("memory")["used_memory"]) + 12_000_000)
            with pytest.raises(Unreachable, match="out of memory") as caught:
                await client.schedule_many("t", _specs(5_000, 4_000))
            (stats,) = await client.stats("t")
            assert 500 <= stats.scheduled - 1 < 5_000
            assert f"; {stats.scheduled - 1} of the 5000 tasks are stored" in str(caught.value)
