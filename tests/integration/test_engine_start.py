"""Due tasks are started: at once, on time, never early, whatever becomes of wake-ups."""

from __future__ import annotations

import asyncio
import math
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import State
from scheduld.store.scripts import load
from tests.support.proxy import Proxy
from tests.support.replicas import Site, until
from tests.support.tasks import HOUR_MS, Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.engine.duty import Duty
    from scheduld.engine.poller import Poller
    from tests.support.servers import RunningServer

PROMPT_S = 8.0
"""Far below the empty-poll timeout of these tests; what is prompt takes milliseconds."""


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


def slow_to_look(name: str, journal: Journal, **policies: Any) -> Duty:
    """Make a type that without a wake-up looks once an hour."""
    return duty(name, journal.inline(), empty_poll_timeout_ms=HOUR_MS, **policies)


async def test_an_added_task_starts_promptly(site: Site) -> None:
    """An idle replica starts a task that a client adds, without waiting for its next look."""
    journal = Journal()
    await site.start(slow_to_look("a", journal))
    began = time.monotonic()
    task = await site.ended("a", await site.add("a", {"n": 1}))
    assert time.monotonic() - began < PROMPT_S
    assert (task.outcome, task.attempt, journal.starts[0].payload) == ("success", 1, {"n": 1})


async def test_redis7_runs_tasks_as_well(redis7_server: RunningServer) -> None:
    """A replica on Redis 7.0 runs an added task, now and at a later due time."""
    journal = Journal()
    async with Site(redis7_server.url) as site:
        await site.start(slow_to_look("a", journal))
        now, later = await site.add("a"), await site.add("a", in_s=0.1)
        await site.ended("a", later)
        assert journal.ids == [now, later]


async def test_plain_commands_with_a_publish_start_promptly(site: Site) -> None:
    """HSET, ZADD and PUBLISH from any language are as prompt as an add."""
    journal = Journal()
    await site.start(slow_to_look("a", journal))
    keys = site.keys.type("a")
    now_ms = int(await site.now_ms())
    await site.redis.hset(keys.task(b"plain"), "payload", '{"to": "x"}')
    await site.redis.zadd(keys.due, {"plain": now_ms})
    await site.redis.publish(site.keys.wake, f"a {now_ms}")
    await until(lambda: journal.ids == ["plain"], "start", PROMPT_S)


async def test_plain_commands_without_publish_start_at_the_next_look(site: Site) -> None:
    """HSET and ZADD alone are found within the empty-poll timeout."""
    journal = Journal()
    await site.start(duty("a", journal.inline(), empty_poll_timeout_ms=300))
    keys = site.keys.type("a")
    await site.redis.hset(keys.task(b"plain"), "payload", "{}")
    await site.redis.zadd(keys.due, {"plain": 1})
    await until(lambda: journal.ids == ["plain"], "start", PROMPT_S)


async def test_rubbish_on_the_wake_channel_is_ignored(site: Site) -> None:
    """Messages of any other form disturb nothing; the next wake-up is heard."""
    journal = Journal()
    await site.start(slow_to_look("a", journal))
    for message in (b"", b"a", b"a soon", b"\xff\xfe 1", b"nobody 1", b"a cancel \xff", b"a inf"):
        await site.redis.publish(site.keys.wake, message)
    await site.ended("a", await site.add("a"))


async def test_lost_subscriptions_delay_by_at_most_the_empty_poll_timeout(site: Site) -> None:
    """While every subscription is killed again and again, tasks start at the next look."""
    journal = Journal()
    over = asyncio.Event()

    async def kill() -> None:
        while not over.is_set():
            await site.redis.client_kill_filter(_type="pubsub")
            await asyncio.sleep(0.02)

    await site.start(duty("a", journal.inline(), empty_poll_timeout_ms=400))
    killing = asyncio.create_task(kill())
    try:
        for _ in range(3):
            await site.ended("a", await site.add("a"))
    finally:
        over.set()  # a cancellation can be lost in the client, and this went on for ever
        await killing


async def test_after_a_lost_subscription_everything_is_looked_at(site: Site) -> None:
    """What was added while nobody listened starts as soon as the replica listens again."""
    journal = Journal()
    async with Proxy(site.url) as proxy:
        member = await site.start(slow_to_look("a", journal), url=proxy.url)
        await proxy.become("refuse")
        await until(member.outage.away.is_set, "the loss is noticed")
        await site.add("a")
        await proxy.become("pass")
        await until(lambda: journal.starts, "start", PROMPT_S)
        await member.stop()


async def test_a_wake_up_during_a_claim_is_not_lost(site: Site) -> None:
    """A task that is added after a claim was carried out, and before its answer, starts promptly.

    The wake-up overtakes the answer, which knows nothing of the task.
    """
    journal = Journal()
    async with Proxy(site.url) as proxy:
        member = await site.start(slow_to_look("a", journal), url=proxy.url)
        await proxy.become("hold")
        member.poller("a").look()
        await until(lambda: proxy.dropped, "the answer is held back")
        await site.add("a")
        await until(site.is_heard, "still subscribed")
        # The message is passed on in the order of arrival: a later one tells that it was heard.
        heard: list[object] = []
        listener = member.replica._listener
        listener._on_cancel = lambda *cancelled: heard.append(cancelled)
        await site.redis.publish(site.keys.wake, b"a cancel marker")
        await until(lambda: heard, "the wake-up is heard")
        await proxy.become("pass")
        await until(lambda: journal.starts, "start", PROMPT_S)
        await member.stop()


@pytest.mark.parametrize("lag_s", [0.0, 0.03])
async def test_nothing_starts_before_its_due(site: Site, lag_s: float) -> None:
    """Tasks at random instants start at or after their due, also over a slow network."""
    journal = Journal()
    async with Proxy(site.url, lag_s=lag_s) as proxy:
        await proxy.become("lag" if lag_s else "pass")
        member = await site.start(slow_to_look("a", journal), url=proxy.url)
        base = await site.now_ms()
        chance = random.Random(7)
        keys = site.keys.type("a")
        for index in range(40):
            due_ms = base + 50 + chance.random() * 500
            await site.redis.zadd(keys.due, {f"t{index}": due_ms})
            await site.redis.hset(keys.task(b"t%d" % index), "payload", "{}")
        member.poller("a").look()
        await until(lambda: len(journal.ends) == 40, "all ran")
        early = [start.early_ms for start in journal.starts]
        assert max(early) <= 0
        # At least one in forty meets an idle machine.
        assert max(early) > -1_000
        assert len(set(journal.ids)) == 40
        await member.stop()


async def test_a_paced_type_claims_a_batch_per_poll_timeout(site: Site) -> None:
    """With poll_timeout 100 ms and poll_batch 2, seven due tasks take three pauses."""
    journal = Journal()
    for _ in range(7):
        await site.add("a")
    await site.start(slow_to_look("a", journal, poll_timeout_ms=100, poll_batch=2))
    await until(lambda: len(journal.ends) == 7, "all ran")
    claims = [event.count(" ") for event in await site.events("a") if event.startswith("claimed")]
    assert claims == [2, 2, 2, 1]
    assert journal.starts[-1].at - journal.starts[0].at > 0.2


async def test_an_unpaced_type_claims_all_it_has_slots_for(site: Site) -> None:
    """With poll_timeout 0 one claim takes everything due, up to the free slots."""
    journal = Journal()
    for _ in range(7):
        await site.add("a")
    await site.start(slow_to_look("a", journal, poll_batch=2))
    await until(lambda: len(journal.ends) == 7, "all ran")
    claims = [event.count(" ") for event in await site.events("a") if event.startswith("claimed")]
    assert claims == [7]


async def test_the_oldest_task_starts_first(site: Site) -> None:
    """A backlog is run in the order of its due times, not of its adds."""
    journal = Journal()
    keys = site.keys.type("a")
    dues = {"c": 3_000, "a": 1_000, "d": 4_000, "b": 2_000}
    for task_id, due_ms in dues.items():
        await site.redis.hset(keys.task(task_id.encode()), "payload", "{}")
        await site.redis.zadd(keys.due, {task_id: due_ms})
    await site.start(slow_to_look("a", journal, concurrency=1))
    await until(lambda: len(journal.ends) == 4, "all ran")
    assert journal.ids == ["a", "b", "c", "d"]


async def test_a_replica_runs_only_its_own_types(site: Site) -> None:
    """Tasks of a type that a replica does not have stay where they are."""
    journal = Journal()
    await site.start(slow_to_look("a", journal))
    other = await site.add("b")
    await site.ended("a", await site.add("a"))
    assert (await site.task("b", other)).state is State.SCHEDULED


class TestEarlyClaims:
    """Tasks that are claimed some time before their due."""

    @pytest.fixture(autouse=True)
    def _early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Long enough to do things between claim and due on any machine.
        monkeypatch.setattr("scheduld.engine.plan.EARLY_MS", 5_000)

    async def test_it_starts_at_its_due(self, site: Site) -> None:
        """A task that was claimed early shows as scheduled until its due, then it starts."""
        journal = Journal()
        member = await site.start(slow_to_look("a", journal))
        task_id = await site.add("a", in_s=0.5)
        await claimed_early(site, member.poller("a"))
        assert (await site.task("a", task_id)).state is State.SCHEDULED
        task = await site.ended("a", task_id)
        assert -PROMPT_S * 1000 < journal.starts[0].early_ms <= 0
        assert task.interruptions == task.releases == 0

    async def test_cancelled_before_its_due_it_never_starts(self, site: Site) -> None:
        """A cancel between an early claim and the due takes the task back."""
        journal = Journal()
        member = await site.start(slow_to_look("a", journal))
        task_id = await site.add("a", in_s=0.3)
        await claimed_early(site, member.poller("a"))
        assert (await site.client.cancel("a", task_id)).state is State.CANCELLED
        later = await site.add("a", in_s=0.4)
        await site.ended("a", later)
        assert journal.ids == [later]
        assert (await site.task("a", task_id)).state is State.CANCELLED
        assert member.replica._heartbeat._holds.chunks() == []

    async def test_replaced_before_its_due_only_the_new_task_runs(self, site: Site) -> None:
        """A replace between an early claim and the due takes the old task back."""
        journal = Journal()
        member = await site.start(slow_to_look("a", journal))
        task_id = await site.add("a", {"n": 1}, in_s=0.3, id="x")
        await claimed_early(site, member.poller("a"))
        await site.add("a", {"n": 2}, in_s=0.5, id=task_id, on_conflict="replace")
        await site.ended("a", task_id)
        later = await site.add("a")
        await site.ended("a", later)
        assert [start.payload for start in journal.starts] == [{"n": 2}, {}]
        assert journal.starts[0].early_ms <= 0

    async def test_a_stop_before_its_due_leaves_no_trace(self, site: Site) -> None:
        """A stop between an early claim and the due schedules the task as it was, uncounted."""
        journal = Journal()
        member = await site.start(slow_to_look("a", journal))
        task_id = await site.add("a", in_s=3)
        due_ms = (await site.task("a", task_id)).due_ms
        await claimed_early(site, member.poller("a"))
        await member.stop()
        task = await site.task("a", task_id)
        assert (task.state, task.due_ms) == (State.SCHEDULED, due_ms)
        assert (task.releases, task.failed, task.interruptions) == (0, 0, 0)
        assert await site.redis.zcard(site.keys.type("a").leased) == 0
        assert journal.starts == []

    async def test_a_lost_confirmation_is_repeated(self, site: Site) -> None:
        """A task whose confirmation was carried out, but not answered, starts once."""
        journal = Journal()
        async with Proxy(site.url) as proxy:
            member = await site.start(slow_to_look("a", journal), url=proxy.url)
            task_id = await site.add("a", in_s=0.3)
            await claimed_early(site, member.poller("a"))
            await site.redis.script_load(load("start").source)
            # Held, not dropped: a connection can be made, should another call come first.
            await proxy.become("hold")
            key = site.keys.type("a").task(task_id.encode())
            await until(lambda: site.redis.hexists(key, "started"), "confirmed")
            await proxy.become("reset")
            await proxy.become("pass")
            task = await site.ended("a", task_id)
            assert journal.ids == [task_id]
            assert task.interruptions == 0
            await member.stop()


async def claimed_early(site: Site, poller: Poller) -> None:
    """Let a poller look, until it holds a task that is not due yet."""
    poller.look()
    await until(lambda: poller._early.confirm_at < math.inf, "claimed early")
