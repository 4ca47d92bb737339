"""Claims and verdicts over a connection that loses answers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.engine.poller import Poller
from scheduld.engine.presence import EVERY_S
from scheduld.model import State
from scheduld.store.scripts import load
from tests.support.proxy import Proxy
from tests.support.replicas import Member, Site, until
from tests.support.tasks import HOUR_MS, Gate, Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scheduld.engine.duty import Duty
    from scheduld.store.calls import Call, ClaimRequest
    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


@pytest.fixture
async def proxy(site: Site) -> AsyncIterator[Proxy]:
    """A proxy in front of the server of the site."""
    async with Proxy(site.url) as proxy:
        yield proxy
        # Within the proxy's life: a replica that outlives its server waits for it.
        for member in site.members:
            if member.running:
                member.hurry.set()
                await member.stop()


def rarely(call: Callable[..., Any], **policies: Any) -> Duty:
    """Make a type that looks only when the test asks for it: each look is one exchange."""
    return duty("a", call, empty_poll_timeout_ms=HOUR_MS, **policies)


async def happened(site: Site, what: str) -> int:
    """Count the events of one kind."""
    return sum(event.split(" ")[0] == what for event in await site.events("a"))


async def quiet(member: Member) -> None:
    """Wait until no loop has a call under way, or plans one for a while.

    A connection on which an answer is lost is closed, and in this proxy's modes no other opens.
    """
    poller, keeping = member.poller("a"), member.replica._timekeeping

    def is_quiet() -> bool:
        soon = time.monotonic() + 0.4
        schedules = keeping.schedules
        is_read = not schedules._wake.is_set() and schedules._look_at > soon
        is_known = keeping.presence._pause_s == EVERY_S
        return not poller._unanswered and poller._plan.next_at > soon and is_read and is_known

    await until(is_quiet, "quiet")


async def claim_unanswered(
    site: Site, proxy: Proxy, member: Member, count: int, *, in_s: float = 0
) -> list[str]:
    """Let a replica claim tasks, and lose the answer."""
    await quiet(member)
    await proxy.become("half")
    ids = [await site.add("a", in_s=in_s) for _ in range(count)]
    member.poller("a").look()
    await until(lambda: happened(site, "claimed"), "claimed on the server")
    return ids


async def test_an_unanswered_claim_is_repeated(site: Site, proxy: Proxy) -> None:
    """Tasks of a claim whose answer was lost are run, once each, and nothing is counted."""
    journal = Journal()
    member = await site.start(rarely(journal.inline()), url=proxy.url)
    ids = await claim_unanswered(site, proxy, member, 3)
    await proxy.become("pass")
    tasks = [await site.ended("a", task_id) for task_id in ids]
    assert sorted(journal.ids) == sorted(ids)
    assert {(task.interruptions, task.failed) for task in tasks} == {(0, 0)}
    assert await happened(site, "claimed") == 1


async def test_a_repeat_that_does_not_arrive_is_repeated_too(
    site: Site, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that may have been carried out is not forgotten when a repeat fails to connect."""
    journal = Journal()
    member = await site.start(rarely(journal.inline()), url=proxy.url)
    ids = await claim_unanswered(site, proxy, member, 3)
    await until(lambda: member.poller("a")._was_sent, "the answer is given up")
    await proxy.become("refuse")
    sent: list[str] = []
    run = member.replica.link.run

    async def noted(call: Call[Any]) -> Any:
        sent.append(call.script.name)
        return await run(call)

    monkeypatch.setattr(member.replica.link, "run", noted)
    await until(lambda: sent.count("claim") == 2, "a repeat was refused")
    await proxy.become("pass")
    tasks = [await site.ended("a", task_id) for task_id in ids]
    assert sorted(journal.ids) == sorted(ids)
    assert {(task.interruptions, task.failed) for task in tasks} == {(0, 0)}


async def test_slots_of_an_unanswered_claim_stay_taken(site: Site, proxy: Proxy) -> None:
    """Until a claim is answered its slots are promised: no more is run than the type may."""
    gate, journal = Gate(), Journal()
    work = rarely(journal.inline(gate.inline), concurrency=2)
    member = await site.start(work, url=proxy.url)
    await claim_unanswered(site, proxy, member, 4)
    await proxy.become("pass")
    await until(lambda: journal.running == 2, "both slots are used")
    assert await site.redis.zcard(site.keys.type("a").leased) == 2
    gate.open()
    await until(lambda: len(journal.ends) == 4, "all ran")
    assert journal.most == 2


async def test_a_refused_connection_costs_no_slot(site: Site, proxy: Proxy) -> None:
    """Claims that never reached the server give their slots back."""
    journal = Journal()
    member = await site.start(rarely(journal.inline(), concurrency=1), url=proxy.url)
    await proxy.become("refuse")
    member.poller("a").look()
    await until(member.outage.away.is_set, "the outage is noticed")
    await proxy.become("pass")
    for _ in range(2):
        await site.ended("a", await site.add("a"))
    assert member.replica.pollers["a"]._shared.slots.used("a") == 0


async def test_a_stop_releases_an_unanswered_claim(site: Site, proxy: Proxy) -> None:
    """A stop asks for the lost answer, and schedules its tasks again without waiting for leases."""
    journal = Journal()
    member = await site.start(rarely(journal.inline()), url=proxy.url)
    ids = await claim_unanswered(site, proxy, member, 3)
    stopping = asyncio.create_task(member.stop())
    await until(lambda: member.poller("a")._stopping, "the stop began")
    await proxy.become("pass")
    await stopping
    tasks = [await site.task("a", task_id) for task_id in ids]
    assert {(task.state, task.failed, task.interruptions) for task in tasks} == {
        (State.SCHEDULED, 0, 0)
    }
    assert journal.starts == []
    assert await site.redis.zcard(site.keys.type("a").leased) == 0


async def test_a_stop_releases_an_unanswered_early_claim(
    site: Site, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of a lost answer that was not due yet is scheduled as it was, uncounted."""
    monkeypatch.setattr("scheduld.engine.plan.EARLY_MS", 60_000)
    member = await site.start(rarely(Journal().inline()), url=proxy.url)
    (task_id,) = await claim_unanswered(site, proxy, member, 1, in_s=30)
    stopping = asyncio.create_task(member.stop())
    await until(lambda: member.poller("a")._stopping, "the stop began")
    await proxy.become("pass")
    await stopping
    task = await site.task("a", task_id)
    assert (task.state, task.releases) == (State.SCHEDULED, 0)
    assert await site.redis.zcard(site.keys.type("a").leased) == 0


async def test_a_stop_before_any_answer_takes_nothing(site: Site, proxy: Proxy) -> None:
    """A claim that is repeated by a stop, and had not been carried out, takes no task."""
    journal = Journal()
    member = await site.start(rarely(journal.inline()), url=proxy.url)
    await quiet(member)
    await proxy.become("blackhole")
    ids = [await site.add("a") for _ in range(3)]
    member.poller("a").look()
    await until(lambda: proxy.dropped, "the claim is under way")
    stopping = asyncio.create_task(member.stop())
    await until(lambda: member.poller("a")._stopping, "the stop began")
    await proxy.become("pass")
    await stopping
    tasks = [await site.task("a", task_id) for task_id in ids]
    assert {(task.state, task.releases) for task in tasks} == {(State.SCHEDULED, 0)}
    assert (await happened(site, "claimed"), journal.starts) == (0, [])


async def test_a_verdict_whose_answer_was_lost_is_stored_once(site: Site, proxy: Proxy) -> None:
    """A verdict is sent until its answer comes; the task ends once, with one event."""
    gate, journal = Gate(), Journal()
    member = await site.start(rarely(journal.inline(gate.inline)), url=proxy.url)
    task_id = await site.add("a")
    await until(lambda: journal.starts, "start")
    # Without its answer the server could not say that it does not know the script.
    await site.redis.script_load(load("finish").source)
    await quiet(member)
    await proxy.become("half")
    gate.open()
    first = await site.ended("a", task_id)
    assert not member.poller("a")._outbox.is_empty
    await proxy.become("pass")
    await until(lambda: member.poller("a")._outbox.is_empty, "answered")
    again = await site.task("a", task_id)
    assert (again.finished_ms, again.result) == (first.finished_ms, "through the gate")
    assert await happened(site, "done") == 1
    await until(lambda: not member.replica._heartbeat._holds.chunks(), "let go")
    await site.ended("a", await site.add("a"))


async def test_a_verdict_survives_an_outage(site: Site, proxy: Proxy) -> None:
    """A run that ends while the server cannot be reached is stored when it is back."""
    gate, journal = Gate(), Journal()
    member = await site.start(rarely(journal.inline(gate.inline)), url=proxy.url)
    task_id = await site.add("a")
    await until(lambda: journal.starts, "start")
    await proxy.become("refuse")
    gate.open()
    await until(member.outage.away.is_set, "the outage is noticed")
    await proxy.become("pass")
    task = await site.ended("a", task_id)
    assert (journal.ids, task.result) == ([task_id], "through the gate")


async def test_a_slow_network_changes_nothing(site: Site) -> None:
    """With answers 60 ms late each of twenty tasks runs once."""
    journal = Journal()
    async with Proxy(site.url, lag_s=0.06) as proxy:
        member = await site.start(rarely(journal.inline(), concurrency=3), url=proxy.url)
        await proxy.become("lag")
        ids = [await site.add("a") for _ in range(20)]
        for task_id in ids:
            await site.ended("a", task_id)
        assert sorted(journal.ids) == sorted(ids)
        await member.stop()


async def test_one_half_is_claimed_while_the_other_runs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim takes half of the slots, so that neither the server nor the loop waits for the other.

    While one half runs the other is claimed, with the verdicts of those before.
    """
    sent: list[tuple[int, int]] = []
    request = Poller._request

    def noted(poller: Poller) -> ClaimRequest:
        made = request(poller)
        sent.append((made.want, len(made.verdicts)))
        return made

    monkeypatch.setattr(Poller, "_request", noted)
    for _ in range(100):
        await site.add("a")
    journal = Journal()
    member = await site.start(rarely(journal.inline(), concurrency=20))
    await until(lambda: len(journal.ids) == 100 and not member.poller("a").busy, "all have run")
    assert sent[:2] == [(10, 0), (10, 0)]
    assert (10, 10) in sent
    assert max(want for want, _ in sent) == 10
    assert len(set(journal.ids)) == 100
