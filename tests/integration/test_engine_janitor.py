"""The janitor: broken records end as dead, with a reason; busy types are recovered for."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from scheduld.engine.janitor import Janitor
from scheduld.errors import OutcomeUnknown, Unreachable
from scheduld.model import State
from scheduld.store import calls
from tests.support.replicas import Member, Site, until
from tests.support.tasks import Gate, Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


def janitor_of(member: Member, site: Site) -> Janitor:
    """Make a janitor that the test drives; how long it waits for a second look is up to it."""
    shared = member.poller("a")._shared
    pollers = list(member.replica.pollers.values())
    return Janitor(shared.link, shared.caller, shared.bound, pollers, lease_ms=site.lease_ms)


async def suspected(janitor: Janitor, count: int) -> None:
    """Let it walk, until it has seen so many broken records."""

    async def seen() -> bool:
        await janitor.audit()
        return len(janitor._suspects) == count

    await until(seen, "suspects")


async def test_broken_records_are_dead_at_the_second_look(site: Site) -> None:
    """A hash in no index, and an entry without a hash, are dead with a reason, but not at once."""
    member = await site.start(duty("a", Journal().inline()))
    janitor = janitor_of(member, site)
    keys = site.keys.type("a")
    await site.redis.hset(keys.task(b"lost"), "payload", '{"n": 1}')
    await site.redis.zadd(keys.due, {"empty": await site.now_ms() + 3_600_000})
    fine = await site.add("a", in_s=3600)
    await suspected(janitor, 2)
    assert await site.redis.zcard(keys.dead) == 0
    janitor._settle_s = 0.0
    await suspected(janitor, 0)
    kinds = {}
    for task_id in ("lost", "empty"):
        task = await site.ended("a", task_id, State.DEAD)
        assert task.error is not None
        kinds[task_id] = task.error["kind"]
    assert kinds == {"lost": "no_index", "empty": "no_hash"}
    assert (await site.task("a", "lost")).payload == {"n": 1}
    assert (await site.task("a", fine)).state is State.SCHEDULED


async def test_an_add_between_the_looks_is_left_alone(site: Site) -> None:
    """HSET and ZADD with a pause between them are a task, not a broken record."""
    member = await site.start(duty("a", Journal().inline()))
    janitor = janitor_of(member, site)
    keys = site.keys.type("a")
    await site.redis.hset(keys.task(b"slow"), "payload", "{}")
    await suspected(janitor, 1)
    await site.redis.zadd(keys.due, {"slow": await site.now_ms() + 3_600_000})
    janitor._settle_s = 0.0
    await suspected(janitor, 0)
    assert (await site.task("a", "slow")).state is State.SCHEDULED


async def test_records_of_other_types_are_left_alone(site: Site) -> None:
    """A replica audits its own types only."""
    member = await site.start(duty("a", Journal().inline()))
    janitor = janitor_of(member, site)
    janitor._settle_s = 0.0
    others = site.keys.type("b")
    await site.redis.hset(others.task(b"x"), "payload", "{}")
    await site.redis.hset(site.keys.type("a").task(b"mine"), "payload", "{}")

    async def mended() -> bool:
        await janitor.audit()
        return bool(await site.redis.zcard(site.keys.type("a").dead))

    await until(mended, "its own is mended")
    assert await site.redis.zcard(others.dead) == 0


async def test_expired_leases_of_a_busy_type_are_given_back(site: Site) -> None:
    """While a type has no slot free, and so does not look, the janitor recovers for it."""
    gate, journal = Gate(), Journal()
    member = await site.start(duty("a", journal.inline(gate.inline), concurrency=1))
    held = await site.add("a")
    await until(lambda: journal.running == 1, "busy")
    lost = await site.add("a")
    keys = site.keys.type("a")
    request = calls.ClaimRequest(1, 1, (), bound_ms=0)
    kind = member.poller("a").duty.kind
    await site.link.run(calls.claim(site.caller(), keys, kind, request, lease_ms=1))
    assert await site.redis.zscore(keys.leased, lost) is not None
    janitor = janitor_of(member, site)

    async def given_back() -> bool:
        await janitor.recover()
        return await site.redis.zscore(keys.due, lost) is not None

    await until(given_back, "given back")
    task = await site.task("a", lost)
    assert (task.state, task.interruptions) == (State.SCHEDULED, 1)
    assert (await site.task("a", held)).state is State.RUNNING


async def test_the_janitor_works_within_a_replica(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running replica mends broken records by itself."""
    quick = partial(Janitor, step_s=0.01, settle_s=0.01)
    monkeypatch.setattr("scheduld.engine.replica.Janitor", quick)
    await site.start(duty("a", Journal().inline()))
    await site.redis.hset(site.keys.type("a").task(b"lost"), "payload", "{}")
    await until(lambda: site.redis.zscore(site.keys.type("a").dead, "lost"), "mended")


async def test_a_broken_type_does_not_keep_others_from_care(site: Site) -> None:
    """A key of the wrong kind in one type: the records of the next are mended all the same."""
    member = await site.start(*(duty(name, Journal().inline()) for name in ("a", "b")))
    janitor = janitor_of(member, site)
    await site.redis.set(site.keys.type("a").dead, "in the way")
    lost = [f"lost{number}" for number in range(2_000)]
    async with site.redis.pipeline(transaction=False) as pipe:
        for task_id in lost:
            for name in ("a", "b"):
                pipe.hset(site.keys.type(name).task(task_id.encode()), "payload", "{}")
        await pipe.execute()
    janitor._step_s = janitor._settle_s = 0.0

    async def mended() -> bool:
        with suppress(Unreachable, OutcomeUnknown):  # a loaded machine; its loop tries again
            await janitor.run_once()
        return bool(await site.redis.zcard(site.keys.type("b").dead) == len(lost))

    await until(mended, "mended")
    for name in ("a", "b"):
        keys = site.keys.type(name)
        await site.redis.delete(keys.dead, *(keys.task(task_id.encode()) for task_id in lost))
