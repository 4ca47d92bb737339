"""What replicas announce of the schedules of their configs, and read of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduld import clock
from scheduld.engine import presence as presence_module
from scheduld.engine.announced import Announced, digests_of
from tests.support.engine_crons import has_fired, schedule
from tests.support.replicas import Site, until
from tests.support.tasks import Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


async def digests(site: Site, name: str = "report") -> set[str]:
    """The digests of a schedule that live replicas announce."""
    return digests_of(name, await Announced(site.link, site.keys).live())


async def test_what_is_announced_was_seen_before(site: Site) -> None:
    """All replicas' definitions are told while they live, each with when it was first seen."""
    one, two = schedule(payload={"v": 1}), schedule(payload={"v": 2})
    journal = Journal()
    first = await site.start(duty("a", journal.inline()), schedules=[one])
    await until(lambda: digests(site), "the first is announced")
    await site.start(duty("a", journal.inline()), schedules=[two, schedule("other")])

    async def both() -> bool:
        return await digests(site) == {one.digest, two.digest}

    await until(both, "both are announced")
    assert await digests(site, "other") == {schedule("other").digest}
    assert not await digests(site, "unknown")
    seen = [
        int(await site.redis.hget(site.keys.defs, f"report {digest}"))
        for digest in (one.digest, two.digest)
    ]
    assert seen[0] < seen[1] <= await site.now_ms()
    nodes = await site.client.nodes()
    assert sorted(node.schedules for node in nodes) == [1, 2]
    await first.stop()
    assert await digests(site) == {two.digest}


async def test_a_record_that_was_lost_is_written_whole_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that others took for dead tells its schedules anew, and when they were seen."""
    monkeypatch.setattr(presence_module, "EVERY_S", 0.1)
    await site.start(duty("a", Journal().inline()), schedules=[schedule()])
    await has_fired(site, 1)
    (node,) = await site.client.nodes()
    await site.redis.delete(site.keys.node(node.id), site.keys.nodes, site.keys.defs)

    async def is_back() -> bool:
        return await digests(site) == {schedule().digest}

    await until(is_back, "it is announced")
    assert await site.redis.hlen(site.keys.defs) == 1


async def test_a_record_that_was_lost_in_part_is_written_whole_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover may keep the sign of life and lose the definitions, which were told once."""
    monkeypatch.setattr(presence_module, "EVERY_S", 0.1)
    await site.start(duty("a", Journal().inline()), schedules=[schedule()])
    await has_fired(site, 1)
    (node,) = await site.client.nodes()
    await site.redis.hdel(site.keys.node(node.id), "schedules", "set", "definitions")

    async def is_back() -> bool:
        return await digests(site) == {schedule().digest}

    await until(is_back, "it is announced")


async def test_definitions_of_long_ago_are_forgotten(site: Site) -> None:
    """All of a schedule that is gone, and all but the newest of one that changes with each release;
    what a replica has itself stays."""
    one = schedule()
    old = {f"report {number:016x}": 10_000 + number for number in range(50)}
    mapping = {**old, "gone 00": 1, "gone 01": int(await site.now_ms()), f"report {one.digest}": 5}
    await site.redis.hset(site.keys.defs, mapping=mapping)
    await site.start(duty("a", Journal().inline()), schedules=[one])
    await has_fired(site, 1)
    newest = [name.encode() for name in list(old)[-20:]]
    left = set(await site.redis.hkeys(site.keys.defs))
    assert left == {*newest, b"gone 01", f"report {one.digest}".encode()}


async def test_a_host_with_a_wrong_clock_changes_no_order(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it notes before it has heard of the server's clock is by that clock all the same."""
    first = await site.start(duty("a", Journal().inline()), schedules=[schedule()])
    await has_fired(site, 1)
    real = clock.wall_ms
    monkeypatch.setattr(clock, "wall_ms", lambda: real() + 86_400_000)
    other = schedule("other")
    await site.start(duty("a", Journal().inline()), schedules=[schedule(), other])
    await has_fired(site, 1, "other")
    now = await site.now_ms()
    assert int(await site.redis.hget(site.keys.defs, f"other {other.digest}")) <= now
    assert first.identity in {node.id for node in await site.client.nodes()}
    assert await site.redis.zcard(site.keys.nodes) == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"set": "x", "definitions": "report\nreport a b\n\n \nother d\xff"},
        {"set": "", "definitions": "report 00"},
        {"definitions": "report 00"},
        {"set": "y"},
        {},
    ],
)
async def test_records_of_others_may_hold_anything(site: Site, fields: dict[str, str]) -> None:
    """What is no line of a definition is passed over."""
    now_ms = int(await site.now_ms())
    await site.redis.zadd(site.keys.nodes, {b"gone": now_ms, b"strange\xff": now_ms})
    if fields:
        await site.redis.hset(site.keys.node("strange"), mapping=fields)
        await site.redis.zadd(site.keys.nodes, {"strange": now_ms})
    assert not await digests(site)
    await site.start(duty("a", Journal().inline()), schedules=[schedule()])
    await has_fired(site, 1)
