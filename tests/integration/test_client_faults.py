"""The clients when answers are lost, late or odd: what is repeated, and what is said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import AsyncClient, Client, TaskSpec
from scheduld.errors import NotFound, OutcomeUnknown, Unreachable
from tests.integration.test_client import fresh_namespace
from tests.support.proxy import Proxy
from tests.support.replicas import until

if TYPE_CHECKING:
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
