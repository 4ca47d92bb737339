"""The verbs of schedules when answers are lost, and on every kind of server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import AsyncClient, Client, OutcomeUnknown, ScheduldError
from tests.integration.test_client import fresh_namespace
from tests.integration.test_client_operating_faults import PATIENT, lost_then
from tests.support.proxy import Proxy
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.client.aio_schedules import AsyncSchedules
    from tests.support.servers import RunningServer
    from tests.support.store import Store


async def _prepared(client: AsyncClient) -> None:
    await client.schedules.add("a", "t", cron="@daily", allow_unknown=True)
    # The server knows the scripts from now on.
    await client.schedules.pause("a")
    await client.schedules.resume("a")
    await client.schedules.trigger("a")
    await client.schedules.skip("a", on="2100-01-01")
    await client.schedules.backfill("a", "2026-01-01", "2026-01-02", dry_run=False)
    await client.schedules.add("b", "t", cron="@daily", overlap="allow")


def _trigger(schedules: AsyncSchedules) -> Any:
    return schedules.trigger("b", {"n": 1})


def _backfill(schedules: AsyncSchedules) -> Any:
    return schedules.backfill("b", "2026-01-01", "2026-01-02", dry_run=False)


@pytest.mark.parametrize(
    ("verb", "wanted"),
    [
        (lambda schedules: schedules.add("c", "t", cron="@daily"), lambda info: info.created),
        (lambda schedules: schedules.pause("b"), lambda pause: pause.schedule == "b"),
        (_trigger, lambda answer: answer.outcome == "fired"),
        (_backfill, lambda done: (done.added, done.known) == (2, 0)),
        (lambda schedules: schedules.skip("b", on="2100-01-01"), lambda skips: len(skips) == 1),
        (lambda schedules: schedules.remove("a"), lambda count: count == 3),
    ],
    ids=["add", "pause", "trigger", "backfill", "skip", "remove"],
)
async def test_lost_answers(
    valkey_server: RunningServer,
    verb: Callable[[AsyncSchedules], Any],
    wanted: Callable[[Any], bool],
) -> None:
    """A call whose answer was lost is repeated, and comes to the same as the first time."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=PATIENT) as client,
    ):
        await _prepared(client)
        assert wanted(await lost_then(proxy, verb(client.schedules)))
        tasks = await client.list("t", state="scheduled")
        assert len(tasks) == len({task.id for task in tasks})


async def test_a_lost_resume_is_told_as_one(valkey_server: RunningServer) -> None:
    """Its repeat finds nothing to resume, but the pause was ended by this call."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=PATIENT) as client,
    ):
        await _prepared(client)
        await client.schedules.pause("a")
        resumed = await lost_then(proxy, client.schedules.resume("a"))
        assert resumed.was_paused


async def test_an_add_that_stays_without_answer(valkey_server: RunningServer) -> None:
    """Its outcome is unknown; the same add again tells that it is there."""
    namespace = fresh_namespace()
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=namespace, wait_s=0.5) as client,
    ):
        await _prepared(client)
        await proxy.become("hold")
        with pytest.raises(OutcomeUnknown):
            await client.schedules.add("c", "t", every="1h")
        await proxy.become("pass")
    async with AsyncClient(valkey_server.url, namespace=namespace) as client:
        await client.schedules.add("c", "t", every="1h")
        assert [info.state for info in await client.schedules.list()] == ["active"] * 3


def test_every_server(store: Store) -> None:
    """Add, list, steer and remove on Valkey, Redis and a cluster."""
    store.redis.set(store.keys.format, 1)
    with Client(store.server.url, namespace=store.namespace) as client:
        schedules, kind = client.schedules, store.type.type
        schedules.add("a", kind, cron="@daily", allow_unknown=True)
        schedules.add("b", kind, every="1h", allow_unknown=True)
        assert [info.name for info in schedules.list()] == ["a", "b"]
        schedules.pause("a")
        schedules.trigger("b")
        schedules.skip("b", on="2100-01-01")
        assert schedules.backfill("a", "2026-01-01", "2026-01-03", dry_run=False).added == 3
        assert [tick.outcome for tick in schedules.history("b")] == ["fired"]
        assert schedules.remove("a") == 3
        assert schedules.remove("b") == 1
        assert schedules.list() == []


async def test_two_at_once(valkey_server: RunningServer) -> None:
    """Of adds of one name with different settings at one time exactly one is stored."""
    async with AsyncClient(valkey_server.url, namespace=fresh_namespace()) as client:
        await client.schedules.add("z", "t", cron="@daily", allow_unknown=True)
        await client.schedules.add("z2", "u", cron="@daily", allow_unknown=True)
        for number in range(20):
            adds = [
                client.schedules.add(f"s{number}", kind, every=every)
                for kind, every in (("t", "1h"), ("u", "2h"), ("t", "3h"), ("u", "4h"))
            ]
            answers = await asyncio.gather(*adds, return_exceptions=True)
            stored = [one for one in answers if not isinstance(one, BaseException)]
            assert len(stored) == 1, answers
            assert all(isinstance(one, ScheduldError) for one in answers if one not in stored)
            found = await client.schedules.get(f"s{number}")
            assert found.definition == stored[0].definition
            assert found.state == "active"
