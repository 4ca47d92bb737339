"""The verbs of operation when answers are lost, or the server goes away and comes back."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import AsyncClient, OutcomeUnknown, Unreachable
from tests.integration.test_client import fresh_namespace
from tests.support.proxy import Proxy
from tests.support.replicas import until
from tests.support.servers import start_server
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import RunningServer
    from tests.support.store import Store

PATIENT = 20.0


async def lost_then(proxy: Proxy, asked: Any) -> Any:
    """Ask while answers to scripts are held back, until the call is repeated or has failed; then
    let them through, and return what it comes to."""
    before = proxy.dropped
    await proxy.become("hold")
    asking = asyncio.ensure_future(asked)
    await until(lambda: asking.done() or proxy.dropped >= before + 2, "it was repeated")
    await proxy.become("pass")
    return await asking


@pytest.mark.parametrize("changes", [{"delay": "2h"}, {"merge": {"b": 2}}, {"payload": {"b": 2}}])
async def test_a_lost_edit_is_made_once(valkey_server: RunningServer, changes: Any) -> None:
    """Its repeat meets the edited task: it succeeds, also with `if_revision`, and counts once."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=PATIENT) as client,
    ):
        await client.schedule("t", {"a": 1}, id="x", delay="1h", allow_unknown=True)
        await client.edit("t", "x", delay="1h")  # the server knows the script from now on
        task = await lost_then(proxy, client.edit("t", "x", if_revision=1, **changes))
        assert task.revision == 2
        assert "delay" in changes or task.payload["b"] == 2


async def test_a_lost_resume_is_told_as_one(valkey_server: RunningServer) -> None:
    """Its repeat finds nothing to resume, but the pause was ended by this call."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=PATIENT) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await client.resume("t")
        await client.pause("t")
        assert await lost_then(proxy, client.resume("t"))
        assert await client.paused() == []


async def test_a_lost_run_now_is_not_repeated_by_itself(valkey_server: RunningServer) -> None:
    """Its repeat could meet the running task and seem refused; the caller is told, and can look."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=PATIENT) as client,
    ):
        task = await client.schedule("t", delay="1h", allow_unknown=True)
        await client.run_now("t", task.id)
        with pytest.raises(OutcomeUnknown):
            await lost_then(proxy, client.run_now("t", task.id))


async def test_a_bulk_requeue_goes_on(fast_store: Store) -> None:
    """A page whose answer is lost is asked again, and counted once."""
    store = fast_store
    store.now = None
    store.redis.sadd(store.keys.types, "job")
    for number in range(150):
        store.into("dead", f"d{number}")
    async with (
        Proxy(store.server.url) as proxy,
        AsyncClient(proxy.url, namespace=store.namespace, wait_s=PATIENT) as client,
    ):
        await client.requeue_dead("job", limit=1)
        answer = await lost_then(proxy, client.requeue_dead("job"))
        assert answer.requeued == 149
        assert store.redis.zcard(store.type.dead) == 0


@pytest.fixture
async def own() -> AsyncIterator[RunningServer]:
    """A server that the test may stop."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        yield server


async def test_follow_survives_a_restart(own: RunningServer) -> None:
    """While the server is away it waits; nothing is told twice, and nothing is left out."""
    async with AsyncClient(own.url, namespace="n", wait_s=PATIENT) as client:
        await client.schedule("t", id="a", delay="1h", allow_unknown=True)
        following = client.follow("t", since="1h")
        assert (await anext(following)).ids == ("a",)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.to_thread(own.restart)
        await client.schedule("t", id="b", delay="1h")
        assert (await waiting).ids == ("b",)


async def test_follow_goes_on_after_its_stream_was_set_back(own: RunningServer) -> None:
    """A server that came back with older data, or none, is followed from its end on."""
    async with AsyncClient(own.url, namespace="n", wait_s=PATIENT) as client:
        await client.schedule("t", id="a", delay="1h", allow_unknown=True)
        following = client.follow("t", since="1h")
        (event,) = await client.events("t")
        assert await anext(following) == event
        with own.client() as raw:
            raw.delete("n:{t}:events")
            raw.xadd("n:{t}:events", {"e": "added", "ids": "old", "node": "x"}, id="5-1")
            waiting = asyncio.ensure_future(anext(following))
            for number in range(6, 10_000):
                raw.xadd("n:{t}:events", {"e": "added", "ids": "new"}, id=f"{number}-1")
                await asyncio.sleep(0.1)
                if waiting.done():
                    break
        assert (await waiting).ids == ("new",)


async def test_follow_of_all_types_finds_new_ones(own: RunningServer) -> None:
    """A type that begins while it is followed is told from its first event on."""
    async with AsyncClient(own.url, namespace="n", wait_s=PATIENT) as client:
        await client.schedule("t", id="a", delay="1h", allow_unknown=True)
        following = client.follow()
        waiting = asyncio.ensure_future(anext(following))
        await client.schedule("u", id="first", delay="1h", allow_unknown=True)
        event = await asyncio.wait_for(waiting, PATIENT)
        if event.type == "t":  # it began before the add of t was answered
            event = await asyncio.wait_for(anext(following), PATIENT)
        assert (event.type, event.ids) == ("u", ("first",))


async def test_follow_gives_up_after_its_patience(own: RunningServer) -> None:
    """A server that stays away ends it with the same error as any verb."""
    async with AsyncClient(own.url, namespace="n", wait_s=0.2) as client:
        await client.schedule("t", delay="1h", allow_unknown=True)
        following = client.follow(since="1h")
        await anext(following)
        await asyncio.to_thread(own.stop)
        with pytest.raises(Unreachable):
            await anext(following)


async def test_a_long_verb_is_patient_anew(fast_store: Store) -> None:
    """Patience counts from the last step that went well: a canary that is waited for longer than
    `wait_s` survives a lost connection at the end."""
    store = fast_store
    store.now = None
    store.redis.sadd(store.keys.types, "job")
    store.into("dead", "d")
    async with (
        Proxy(store.server.url) as proxy,
        AsyncClient(proxy.url, namespace=store.namespace, wait_s=0.5) as client,
    ):
        asking = asyncio.ensure_future(client.requeue_dead("job", canary=True))
        await until(lambda: store.state("d") == "scheduled", "the canary is scheduled")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asking), 0.8)
        await proxy.become("reset")
        await proxy.become("pass")
        store.finish(store.take("d"))
        assert (await asking).requeued == 1
