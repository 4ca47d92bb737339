"""Leases: kept as long as a run takes, lost with the replica, and what cancel does to a run."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from scheduld.model import State
from scheduld.store.scripts import load
from tests.support.proxy import Proxy
from tests.support.replicas import Member, Site, until
from tests.support.tasks import Gate, Journal, Payload, duty, hang, nap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


class Freeze:
    """Keeps a replica from renewing, as a stopped process would be kept."""

    def __init__(self, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
        self._heartbeat = member.replica._heartbeat
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(self._heartbeat, "renew", lambda: False)

    def thaw(self) -> None:
        """Let it renew again."""
        self._monkeypatch.undo()


async def test_runs_of_many_leases_are_started_once(site: Site) -> None:
    """Runs that last for several leases stay where they are, with two replicas waiting (B29)."""
    journal = Journal()
    work = duty("a", journal.inline(nap), concurrency=4)
    for _ in range(3):
        await site.start(work)
    ids = [await site.add("a", {"s": 4 * site.lease_s}) for _ in range(12)]
    tasks = [await site.ended("a", task_id) for task_id in ids]
    assert sorted(journal.ids) == sorted(ids)
    assert {task.interruptions for task in tasks} == {0}


async def test_renewals_survive_outages_shorter_than_a_lease(site: Site) -> None:
    """A connection that swallows everything again and again for a while costs no lease (B09)."""
    journal = Journal()
    async with Proxy(site.url) as proxy:
        member = await site.start(duty("a", journal.inline(nap)), url=proxy.url)
        task_id = await site.add("a", {"s": 3.5 * site.lease_s})
        await until(lambda: journal.starts, "start")
        await site.start(duty("a", journal.inline(nap)))
        while not journal.ends:
            await proxy.become("blackhole")
            await passed(site.lease_s * 0.3, journal)
            await proxy.become("pass")
            await passed(site.lease_s * 0.5, journal)
        task = await site.ended("a", task_id)
        assert (journal.ids, task.interruptions) == ([task_id], 0)
        await member.stop()


async def test_a_failed_renewal_is_tried_again_soon(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an answer renewal is tried more often than every third of a lease."""
    gate, journal, tries = Gate(), Journal(), list[float]()
    async with Proxy(site.url) as proxy:
        member = await site.start(duty("a", journal.inline(gate.inline)), url=proxy.url)
        await site.add("a")
        await until(lambda: journal.starts, "start")
        await proxy.become("refuse")
        renew = member.replica._heartbeat.renew

        def noted() -> bool:
            tries.append(time.monotonic())
            return renew()

        monkeypatch.setattr(member.replica._heartbeat, "renew", noted)
        await until(lambda: len(tries) == 9, "tried")
        assert tries[8] - tries[0] < 2 * site.lease_s
        await proxy.become("pass")
        gate.open()
        await member.stop()


async def passed(seconds: float, journal: Journal) -> None:
    """Wait until so much time has passed, or the run has ended."""
    over_at = time.monotonic() + seconds
    await until(lambda: journal.ends or time.monotonic() >= over_at, "time passes")


class TestCancelOfARun:
    """A running task is cancelled."""

    async def test_inline(self, site: Site) -> None:
        """An async run gets CancelledError, and its task ends as cancelled."""
        journal, seen = Journal(), list[type[BaseException]]()

        async def call(payload: Payload, run: Run) -> None:
            try:
                await hang(payload, run)
            except BaseException as error:
                seen.append(type(error))
                raise

        await site.start(duty("a", journal.inline(call)))
        task_id = await site.add("a")
        await until(lambda: journal.starts, "start")
        assert (await site.client.cancel("a", task_id)).state is State.RUNNING
        task = await site.ended("a", task_id, State.CANCELLED)
        assert seen == [asyncio.CancelledError]
        assert (task.failed, task.releases, len(journal.starts)) == (0, 0, 1)

    async def test_in_a_thread(self, site: Site) -> None:
        """A thread sees `run.cancelled`; what it returns is not used."""
        journal = Journal()

        def call(payload: Payload, run: Run) -> str:
            deadline = time.monotonic() + 20
            while not run.cancelled and time.monotonic() < deadline:
                time.sleep(0.005)
            return f"cancelled: {run.cancelled}"

        await site.start(duty("a", journal.threaded(call)))
        task_id = await site.add("a")
        await until(lambda: journal.starts, "start")
        await site.client.cancel("a", task_id)
        task = await site.ended("a", task_id, State.CANCELLED)
        assert task.result is None
        assert len(journal.starts) == 1

    async def test_unheard(self, site: Site) -> None:
        """Without the wake-up connection a renewal tells the run to stop."""
        journal = Journal()
        member = await site.start(duty("a", journal.inline(hang)))
        task_id = await site.add("a")
        await until(lambda: journal.starts, "start")
        await member.deafen()
        await site.client.cancel("a", task_id)
        await site.ended("a", task_id, State.CANCELLED)

    async def test_on_its_way(self, site: Site) -> None:
        """One that was claimed, and has not begun here when the cancel is heard, stops as soon.

        With leases of three minutes no renewal comes by itself within the test.
        """
        journal = Journal()
        async with Site(site.url, lease_ms=180_000) as slow, Proxy(site.url) as proxy:
            member = await slow.start(duty("a", journal.inline(hang)), url=proxy.url)
            poller = member.poller("a")
            await until(lambda: not poller._unanswered, "the first look is over")
            await proxy.become("hold")
            task_id = await slow.add("a")
            poller.look()
            leased = slow.keys.type("a").leased
            await until(lambda: slow.redis.zscore(leased, task_id), "claimed on the server")
            await slow.client.cancel("a", task_id)
            await until(lambda: poller._asked_to_stop, "the cancel was heard")
            assert not journal.starts
            await proxy.become("pass")
            await slow.ended("a", task_id, State.CANCELLED)
            assert len(journal.starts) == 1

    async def test_of_another_task(self, site: Site) -> None:
        """Other runs of the type go on."""
        gate, journal = Gate(), Journal()
        await site.start(duty("a", journal.inline(gate.inline)))
        ids = [await site.add("a") for _ in range(2)]
        await until(lambda: journal.running == 2, "both run")
        await site.client.cancel("a", ids[0])
        await site.ended("a", ids[0], State.CANCELLED)
        gate.open()
        assert (await site.ended("a", ids[1])).result == "through the gate"


@pytest.mark.parametrize("isolation", ["inline", "thread"])
async def test_only_the_newest_claims_verdict_is_kept(
    site: Site, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that lost its lease cannot store its result over the other's, and says so once."""
    gate, first, second = Gate(stubborn=True), Journal(), Journal()
    slow: Any = first.inline(gate.inline)
    if isolation == "thread":
        slow = first.threaded(gate.threaded)
    # With one slot, which is taken, the first replica cannot claim the task again itself.
    member = await site.start(duty("a", slow, concurrency=1))
    task_id = await site.add("a")
    await until(lambda: first.starts, "start")
    frozen = Freeze(member, monkeypatch)

    async def quick(payload: Payload, run: Run) -> str:
        return "of the second"

    await site.start(duty("a", second.inline(quick)))
    done = await site.ended("a", task_id)
    assert second.starts[0].fence > first.starts[0].fence
    with capture_logs() as logs:
        frozen.thaw()
        gate.open()
        await until(lambda: first.ends, "the first returns")
        await member.stop()
    refused = [log for log in logs if "was not stored" in log["event"]]
    assert [log["id"] for log in refused] == [task_id]
    after = await site.task("a", task_id)
    assert (after.result, after.fence) == ("of the second", second.starts[0].fence)
    assert after.finished_ms == done.finished_ms


async def test_a_run_that_lost_its_lease_is_asked_to_stop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a replica learns that a lease is lost, it cancels the run."""
    first, second = Journal(), Journal()
    member = await site.start(duty("a", first.inline(hang), concurrency=1))
    task_id = await site.add("a")
    await until(lambda: first.starts, "start")
    frozen = Freeze(member, monkeypatch)
    await site.start(duty("a", second.inline()))
    await site.ended("a", task_id)
    assert first.running == 1
    frozen.thaw()
    await until(lambda: first.ends, "the run is cancelled")
    assert (await site.task("a", task_id)).interruptions == 1


async def test_a_task_claimed_again_by_the_same_replica_can_be_cancelled(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old run of a task, in a thread that goes on, does not hide the new one."""
    gate, journal = Gate(), Journal()

    def call(payload: Payload, run: Run) -> str:
        if len(journal.starts) == 1:
            return gate.threaded(payload, run)
        deadline = time.monotonic() + 20
        while not run.cancelled and time.monotonic() < deadline:
            time.sleep(0.005)
        return f"cancelled: {run.cancelled}"

    member = await site.start(duty("a", journal.threaded(call)))
    task_id = await site.add("a")
    await until(lambda: journal.starts, "start")
    frozen = Freeze(member, monkeypatch)
    await until(lambda: len(journal.starts) == 2, "claimed again")
    frozen.thaw()
    gate.open()
    await until(lambda: journal.ends, "the old run returns")
    await site.client.cancel("a", task_id)
    task = await site.ended("a", task_id, State.CANCELLED)
    assert (len(journal.starts), task.interruptions) == (2, 1)


async def test_a_lease_is_held_until_the_verdict_is_stored(site: Site) -> None:
    """A run whose verdict cannot be delivered keeps its lease: nobody runs the task again."""
    gate, journal = Gate(), Journal()
    async with Proxy(site.url, spared=load("renew").sha) as proxy:
        member = await site.start(duty("a", journal.inline(gate.inline)), url=proxy.url)
        task_id = await site.add("a")
        await until(lambda: journal.starts, "start")
        leased = site.keys.type("a").leased
        claimed_until = float(await site.redis.zscore(leased, task_id))

        async def held_for(leases: float) -> None:
            async def renewed() -> bool:
                end = await site.redis.zscore(leased, task_id)
                return end is not None and float(end) > claimed_until + leases * site.lease_ms

            await until(renewed, "renewed")

        await held_for(0.2)
        await site.start(duty("a", journal.inline()))
        await proxy.become("blackhole")
        gate.open()
        await until(lambda: journal.ends, "end")
        await held_for(2.5)
        assert journal.ids == [task_id]
        await proxy.become("pass")
        task = await site.ended("a", task_id)
        assert (task.interruptions, task.result) == (0, "through the gate")
        await member.stop()
