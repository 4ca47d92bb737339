"""How late runs begin and how long they take: counted by replicas, told by stats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduld.engine.times import Times, TimesKeeper
from scheduld.model import Claim, RetryPolicy, State
from scheduld.outcomes import Snooze
from scheduld.policies.histogram import RESOLUTION, Spread
from scheduld.store.link import AsyncLink
from tests.support.replicas import Site, until
from tests.support.tasks import Gate, Payload, duty, nap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.client.stats import TypeStats
    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer

NOW = 1_790_000_000_000


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace that knows two types."""
    async with Site(valkey_server.url) as site:
        await site.redis.sadd(site.keys.types, "a", "b")
        yield site


async def stats(site: Site, type_name: str = "a") -> TypeStats:
    """Ask for the numbers of one type."""
    (one,) = await site.client.stats(type_name)
    return one


def measured(part: Spread | None, count: int) -> Spread:
    """Return numbers that are to be of so many runs."""
    assert part is not None
    assert part.count == count
    return part


def claim(due_ms: int) -> Claim:
    """A claim of a task that was due then."""
    return Claim("a", "x", b"x", b"{}", 1, due_ms, due_ms)


async def test_a_stop_stores_what_was_counted(site: Site) -> None:
    """Of each run, in threads and inline: its lateness and its duration, replicas together."""
    for count in (3, 2):
        member = await site.start(duty("a", nap))
        ids = [await site.add("a", {"s": 0.2}) for _ in range(count)]
        for task_id in ids:
            await site.ended("a", task_id)
        await member.stop()
    one = await stats(site)
    ran, late = measured(one.run_time, 5), measured(one.lateness, 5)
    assert 200 * (1 - RESOLUTION) <= ran.p50_ms < 2_000
    assert late.p50_ms < 1_000


async def test_lateness_is_the_wait_for_a_slot(site: Site) -> None:
    """With one slot the second task waits as long as the first one runs."""
    member = await site.start(duty("a", nap, concurrency=1))
    for task_id in [await site.add("a", {"s": 0.3}) for _ in range(2)]:
        await site.ended("a", task_id)
    await member.stop()
    assert measured((await stats(site)).lateness, 2).p99_ms >= 300 * (1 - RESOLUTION) - 50


async def test_a_wait_that_was_asked_for_is_no_lateness(site: Site) -> None:
    """A retry and a snooze are due when they were to be tried again, also if claimed late."""
    runs: list[str] = []

    async def once_more(payload: Payload, run: Run) -> None:
        runs.append(run.id)
        if runs.count(run.id) == 1:
            if payload.get("snooze"):
                raise Snooze("1200ms")
            raise ValueError

    retry = RetryPolicy(attempts=3, delays_ms=(1_200,), jitter=0)
    member = await site.start(duty("a", once_more, retry=retry, empty_poll_timeout_ms=50))
    for payload in ({"snooze": True}, {}):
        await site.ended("a", await site.add("a", payload))
    await member.stop()
    assert measured((await stats(site)).lateness, 4).p99_ms < 900


def test_what_is_over_does_not_start() -> None:
    """A claim that only plans the next occurrence says nothing of how late runs begin."""
    times = Times()
    for fields in ({"every": b"1h", "over": b"cancelled"}, {"every": b"1h"}):
        times.began([claim(NOW - 5_000)._replace(fields=fields)], NOW)
    assert list(times.late) == [5.0]


async def test_an_outage_only_delays(site: Site, valkey_server: RunningServer) -> None:
    """What cannot be stored is kept, and stored once when the server is back."""
    times = Times()
    times.began([claim(NOW - 5_000)] * 3, NOW)
    times.ran.extend([0.1] * 3)
    for url, count in (("redis://127.0.0.1:1", None), (valkey_server.url, 3), (site.url, 3)):
        link = AsyncLink(url, timeout_s=1)
        await TimesKeeper(link, site.keys, {"a": times}).flush()
        await link.aclose()
        one = await stats(site)
        assert (one.lateness and one.lateness.count) == count
    assert one.lateness is not None
    assert one.run_time is not None
    assert one.lateness.p50_ms == pytest.approx(5_000, rel=RESOLUTION)
    assert one.run_time.p99_ms == pytest.approx(100, rel=RESOLUTION)


async def test_a_broken_key_of_one_type_does_not_keep_the_others(site: Site) -> None:
    """Where the hash of a type should be is something else: its numbers are missing, no more."""
    broken, fine = Times(), Times()
    for times in (broken, fine):
        times.ran.append(0.1)
    now_ms = int((await stats(site)).now_ms)
    await site.redis.set(site.keys.type("a").times(now_ms // 600_000), "x")
    link = AsyncLink(site.url)
    await link.greet(site.keys.format)
    await TimesKeeper(link, site.keys, {"a": broken, "b": fine}).flush()
    await link.aclose()
    assert (await stats(site, "a")).run_time is None
    measured((await stats(site, "b")).run_time, 1)


async def test_what_was_counted_has_an_end(site: Site) -> None:
    """The hash of ten minutes is gone two hours later."""
    times = Times()
    times.ran.append(0.1)
    await TimesKeeper(site.link, site.keys, {"a": times}).flush()
    keys = await site.redis.keys(f"{site.namespace}:*:times:*")
    assert len(keys) == 1
    assert 7_000 < await site.redis.ttl(keys[0]) <= 7_200


async def test_runs_that_go_on_are_counted_when_they_end(site: Site) -> None:
    """A run that has begun has a lateness; a duration only when it ends. No timers are needed."""
    gate = Gate()
    member = await site.start(duty("a", gate.inline))
    task_id = await site.add("a")
    await until(lambda: member.poller("a").runner.running, "the run")
    await member.replica._times.flush()
    one = await stats(site)
    assert (one.running, one.run_time) == (1, None)
    measured(one.lateness, 1)
    gate.open()
    await site.ended("a", task_id, State.DONE)
    await member.stop()
    measured((await stats(site)).run_time, 1)
