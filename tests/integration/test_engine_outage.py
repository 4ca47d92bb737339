"""Loops survive what happens to them: errors, outages, freezes, a flushed server."""

from __future__ import annotations

import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from scheduld.engine.loop import repeat
from scheduld.engine.outage import Outage
from scheduld.model import State
from tests.support.replicas import Site, until
from tests.support.servers import RunningServer, start_server
from tests.support.tasks import Gate, Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

TYPES = [f"t{number}" for number in range(20)]


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    """A server that the test may stop, freeze and flush."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        yield server


@pytest.fixture
async def own_site(own_server: RunningServer) -> AsyncIterator[Site]:
    """A namespace on a server of its own."""
    async with Site(own_server.url) as site:
        yield site


class Faulty:
    """A loop that fails in unexpected ways, then works once."""

    name = "faulty"

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.worked = 0

    def is_over(self) -> bool:
        """Whether it has worked."""
        return self.worked > 0

    async def run_once(self) -> None:
        """Fail, or work."""
        if self.errors:
            raise self.errors.pop(0)
        self.worked += 1


async def test_a_loop_outlives_unexpected_errors() -> None:
    """Whatever a loop raises pauses it, with growing pauses; it is logged once, not each time."""
    loop = Faulty(ValueError("x\ny"), ZeroDivisionError(), KeyError("k"))
    began = time.monotonic()
    with capture_logs() as logs:
        await repeat(loop, Outage())
    assert loop.worked == 1
    assert time.monotonic() - began > (0.1 + 0.2 + 0.4) * 0.7 - 0.01
    told = [log for log in logs if log["log_level"] == "error"]
    assert [(log["loop"], log["error"]) for log in told] == [("faulty", "ValueError: x\ny")]


async def test_a_foreign_key_pauses_one_type_alone(site: Site) -> None:
    """A key of another kind in the way of one type is told; the type works when it is gone."""
    journal = Journal()
    await site.redis.set(site.keys.type("a").due, "a text")
    with capture_logs() as logs:
        member_of_b = await start_despite_errors(site, journal)
        await site.ended("b", await site.add("b"))
        await until(lambda: errors(logs), "told")
        await site.redis.delete(site.keys.type("a").due)
        await site.ended("a", await site.add("a"))
    assert len(errors(logs)) == 1
    assert "poller of a" in errors(logs)[0]["loop"]
    assert member_of_b.running


def errors(logs: list[Any]) -> list[Mapping[str, Any]]:
    """Choose the lines that tell of errors."""
    return [log for log in logs if log["log_level"] == "error"]


async def start_despite_errors(site: Site, journal: Journal) -> Any:
    """Start a replica of which one type cannot work."""
    starting = asyncio.create_task(
        site.start(duty("a", journal.inline()), duty("b", journal.inline()))
    )
    await until(lambda: site.members and site.members[0].poller("b").last_claim_at, "b looks")
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await until(site.is_heard, "subscription")
    return site.members[0]


async def test_outages_are_told_once_and_end_by_themselves(
    own_site: Site, own_server: RunningServer
) -> None:
    """Twenty types tell of an outage in one line, and of its end in one; all of them work on."""
    journal = Journal()
    member = await own_site.start(*[duty(name, journal.inline()) for name in TYPES])
    with capture_logs() as logs:
        own_server.stop()
        for name in TYPES:
            member.poller(name).look()
        await until(member.outage.away.is_set, "noticed")
        own_server.restart()
        for name in TYPES:
            await own_site.ended(name, await own_site.add(name))
    told = [log["event"] for log in logs if log["event"].startswith("Redis can")]
    assert told == [
        "Redis cannot be used now, work goes on by itself when it can",
        "Redis can be used again",
    ]
    assert errors(logs) == []


async def test_a_frozen_server_costs_seconds_after_its_thaw(
    own_site: Site, own_server: RunningServer
) -> None:
    """After a freeze every type works again within the deadline of a call and three seconds.

    Calls that the thawed server carries out late take nothing with them.
    """
    gate, journal = Gate(), Journal()
    member = await own_site.start(*[duty(name, journal.inline(gate.inline)) for name in TYPES])
    dues = {name: await own_site.add(name, in_s=0.3) for name in TYPES}
    own_server.freeze()
    await until(member.outage.away.is_set, "noticed")
    # Every poller has met the outage: its task is due, and nobody answered. Not all at one
    # moment: a claim that found no connection is forgotten, and made anew after a pause.
    met: set[str] = set()

    def all_met() -> bool:
        met.update(name for name in TYPES if member.poller(name)._unanswered)
        return len(met) == len(TYPES)

    await until(all_met, "all meet it")
    gate.open()
    thawed = time.monotonic()
    own_server.thaw()
    for name, task_id in dues.items():
        await own_site.ended(name, task_id)
    assert time.monotonic() - thawed < own_site.lease_s / 6 + 3 + 5
    assert sorted(journal.ids) == sorted(dues.values())


async def test_a_frozen_server_during_runs_costs_no_second_start(
    own_site: Site, own_server: RunningServer
) -> None:
    """Leases that run out while the server is frozen are renewed after it, before any is taken."""
    gate, journal = Gate(), Journal()
    work = duty("a", journal.inline(gate.inline))
    first, second = await own_site.start(work), await own_site.start(work)
    task_id = await own_site.add("a")
    await until(lambda: journal.running == 1, "run")
    own_server.freeze()
    frozen = time.monotonic()
    await until(lambda: time.monotonic() - frozen > 1.5 * own_site.lease_s, "longer than a lease")
    own_server.thaw()
    await until(lambda: not (first.outage.away.is_set() or second.outage.away.is_set()), "back")
    began = await own_site.now_ms()

    async def renewed() -> bool:
        end = await own_site.redis.zscore(own_site.keys.type("a").leased, task_id)
        return end is not None and float(end) > began + 1.5 * own_site.lease_ms

    await until(renewed, "renewed for a while")
    gate.open()
    task = await own_site.ended("a", task_id)
    assert (journal.ids, task.interruptions) == ([task_id], 0)


async def test_a_flushed_server_is_worked_on(
    own_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After FLUSHALL the replica announces itself again, and new tasks run; nothing is stuck."""
    monkeypatch.setattr("scheduld.engine.presence.EVERY_S", 0.2)
    gate, journal = Gate(), Journal()
    ladder: dict[str, Any] = {"series": ("-7d", "0"), "anchor": "starts at"}
    member = await own_site.start(duty("a", journal.inline(gate.inline), concurrency=1, **ladder))
    lost = await own_site.add("a")
    await until(lambda: journal.running == 1, "run")
    fence = journal.starts[0].fence
    await own_site.redis.flushall()
    await own_site.redis.script_flush()
    keys = own_site.keys
    for key in (keys.types, keys.format, keys.node(member.identity)):
        await until(partial(own_site.redis.exists, key), f"{key} is back")
    assert await own_site.redis.smembers(keys.types) == {b"a"}
    meta = keys.type("a").meta
    await until(partial(own_site.redis.hexists, meta, "series"), "the series is told again")
    assert await own_site.redis.hget(meta, "series") == b"-7d,0 starts at"
    gate.open()
    again = await own_site.ended("a", await own_site.add("a"))
    assert journal.ids[0] == lost
    assert again.fence is not None
    assert again.fence > fence
    await until(lambda: not member.replica._heartbeat._holds.chunks(), "let go")


async def test_a_restarted_server_keeps_runs(own_site: Site, own_server: RunningServer) -> None:
    """A run that outlives a restart of the server is stored as usual."""
    gate, journal = Gate(), Journal()
    await own_site.start(duty("a", journal.inline(gate.inline)))
    task_id = await own_site.add("a")
    await until(lambda: journal.running == 1, "run")
    own_server.restart()
    gate.open()
    task = await own_site.ended("a", task_id)
    assert (task.state, task.result, journal.ids) == (State.DONE, "through the gate", [task_id])
