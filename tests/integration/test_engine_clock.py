"""Schedules while the server's clock is set, and while the server is away, frozen or full."""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from scheduld.engine import schedules as schedules_module
from tests.support.clocks import MovedClock
from tests.support.engine_crons import fired, has_fired, history, schedule
from tests.support.replicas import Site, until
from tests.support.servers import RunningServer, start_server
from tests.support.tasks import Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# They wait for seconds of their clocks to pass.
pytestmark = pytest.mark.proof
_YEAR_S = 365.25 * 86_400


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas look at what is stored, and at the server's clock, more often than for users."""
    monkeypatch.setattr(schedules_module, "EVERY_S", 0.1)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="scheduld-") as name:
        yield Path(name)


@pytest.fixture
def clock(folder: Path) -> MovedClock:
    """The clock of the server."""
    return MovedClock(folder)


@pytest.fixture
def server(folder: Path, clock: MovedClock) -> Iterator[RunningServer]:
    """A server with a clock that the test moves."""
    with start_server("valkey", folder, clock.environment) as server:
        yield server


@pytest.fixture
async def site(server: RunningServer) -> AsyncIterator[Site]:
    """A namespace on that server."""
    async with Site(server.url) as site:
        yield site


async def test_a_clock_that_jumps_ten_years_ahead_costs_one_record(
    site: Site, clock: MovedClock
) -> None:
    """Three hundred million missed instants are one record and one run, found in no time."""
    journal = Journal()
    for _ in range(2):
        await site.start(duty("a", journal.inline()), schedules=[schedule(every="1s")])
    await has_fired(site, 2)
    clock.put(clock.now() + 10 * _YEAR_S)
    arrived = clock.now() * 1000
    count = len(await fired(site))
    await has_fired(site, count + 2)
    assert clock.now() * 1000 - arrived < 5_000
    ticks = await fired(site)
    assert len(ticks) == len(set(ticks))
    (gap,) = [one for one in await history(site) if one.outcome == "gap"]
    assert gap.count == 1_000
    assert gap.from_ms == ticks[count - 1] + 1_000
    assert gap.to_ms == ticks[count] - 1_000
    assert len(ticks) - count <= 8


@pytest.mark.parametrize("back_s", [0.9, 5.0])
async def test_a_clock_that_is_set_back_repeats_nothing(
    site: Site, clock: MovedClock, back_s: float
) -> None:
    """The sequence of instants goes on where it was, none of them twice and none too early."""
    journal = Journal()
    for _ in range(2):
        await site.start(duty("a", journal.inline()), schedules=[schedule(every="500ms")])
    await has_fired(site, 3)
    clock.put(clock.now() - back_s)
    set_to = clock.now() * 1000
    count = len(await fired(site))
    await has_fired(site, count + 3)
    ticks = await fired(site)
    assert {after - before for before, after in pairwise(ticks)} == {500}
    records = [one for one in await history(site) if one.outcome == "fired"]
    late = [one.late_ms or 0 for one in records if (one.tick_ms or 0) > set_to + back_s * 1000]
    assert len(late) >= 2
    assert all(0 <= ms < 1_000 for ms in late)
    await until(lambda: len(journal.ids) >= len(ticks), "all run")
    assert len(set(journal.ids)) == len(journal.ids)


@pytest.mark.parametrize("rate", [0.97, 0.999, 1.001, 1.03])
async def test_a_clock_with_another_pace(site: Site, clock: MovedClock, rate: float) -> None:
    """However fast the server's clock runs, each instant is fired, and none before it has come."""
    journal = Journal()
    for _ in range(2):
        await site.start(duty("a", journal.inline()), schedules=[schedule(every="250ms")])
    clock.put(rate=rate)
    await has_fired(site, 10)
    ticks = await fired(site)
    assert {after - before for before, after in pairwise(ticks)} == {250}
    records = [one for one in await history(site) if one.outcome == "fired"]
    assert all(one.at_ms >= (one.tick_ms or 0) for one in records)


async def test_a_frozen_server_loses_no_instant(site: Site, server: RunningServer) -> None:
    """What it missed is made up for as the rule says; each instant is fired or told, once."""
    journal = Journal()
    for _ in range(2):
        await site.start(duty("a", journal.inline()), schedules=[schedule(every="500ms")])
    await has_fired(site, 2)
    server.freeze()
    await until_passed(2.5)
    server.thaw()
    count = len(await fired(site))
    await has_fired(site, count + 4)
    await assert_whole(site, 500)


async def test_a_server_that_restarts_loses_no_instant(site: Site, server: RunningServer) -> None:
    """The same when it is killed, and started again after some seconds."""
    with server.client() as redis:
        # By default a write waits for an fsync under way, and a kill may lose it.
        redis.config_set("appendfsync", "always")
    journal = Journal()
    for _ in range(2):
        await site.start(duty("a", journal.inline()), schedules=[schedule(every="500ms")])
    await has_fired(site, 2)
    server.kill()
    await until_passed(2.0)
    server.restart()
    count = len(await fired(site))
    await has_fired(site, count + 4)
    await assert_whole(site, 500)


async def test_a_full_server_is_told_once_and_caught_up_with(
    site: Site, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ticks that are refused for want of memory are tried again, without a line for each."""
    journal = Journal()
    monkeypatch.setattr("scheduld.engine.ticker._TELL_AFTER_S", 0.5)
    await site.start(duty("a", journal.inline()), schedules=[schedule(every="500ms")])
    await has_fired(site, 2)
    with capture_logs() as logs:
        await site.redis.config_set("maxmemory", "1")
        await until(lambda: [log for log in logs if "cannot be fired now" in log["event"]], "told")
        await until_passed(2.0)
        await site.redis.config_set("maxmemory", "0")
        count = len(await fired(site))
        await has_fired(site, count + 4)
    assert len([log for log in logs if "cannot be fired now" in log["event"]]) == 1
    assert len([log for log in logs if "fired again" in log["event"]]) == 1
    assert not [log for log in logs if "Redis cannot be used" in log["event"]]
    await assert_whole(site, 500)


async def test_a_flushed_server_learns_the_schedules_again(site: Site) -> None:
    """What the config says is defined anew; it fires on, and nothing twice."""
    journal = Journal()
    await site.start(duty("a", journal.inline()), schedules=[schedule(every="500ms")])
    await has_fired(site, 2)
    await site.redis.flushall()
    await has_fired(site, 3)
    assert len(set(journal.ids)) == len(journal.ids)
    assert await site.redis.hkeys(site.keys.crons) == [b"report"]


async def until_passed(seconds: float) -> None:
    """Let a fault last for so long."""
    end = time.monotonic() + seconds
    await until(lambda: time.monotonic() > end, "the fault's time")


async def assert_whole(site: Site, period_ms: int) -> None:
    """Each instant since the first is fired, or is told in one gap."""
    covered: list[int] = []
    for one in await history(site):
        if one.outcome == "gap":
            assert one.from_ms is not None
            assert one.to_ms is not None
            found = list(range(one.from_ms, one.to_ms + 1, period_ms))
            assert one.count == len(found)
            covered += found
        else:
            assert one.outcome == "fired"
            covered.append(one.tick_ms or 0)
    assert covered == list(range(covered[0], covered[-1] + 1, period_ms))
