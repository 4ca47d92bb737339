"""Schedules under real daemons: the short forms of `scripts/chaos ticks` and its like."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos import midnight, nights, restarts, ticks
from tests.support.clocks import MovedClock
from tests.support.daemons import DaemonProcess, Site, let_pass
from tests.support.servers import RunningServer, start_server, wait_until
from tests.support.work import END, START, Line, starts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proof


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        yield Path(name)


@pytest.fixture
def clock(folder: Path) -> MovedClock:
    """A clock of the server and the daemons."""
    clock = MovedClock(folder)
    clock.put(nights.SPRING.stops[0].timestamp() - 3_600)
    return clock


@pytest.fixture
def moved(folder: Path, clock: MovedClock) -> Iterator[RunningServer]:
    """A server with that clock."""
    with start_server("valkey", folder, clock.environment) as server:
        yield server


@pytest.fixture
def server(folder: Path) -> Iterator[RunningServer]:
    """A server of its own."""
    with start_server("valkey", folder) as server:
        yield server


def test_each_instant_once_while_replicas_die(folder: Path, server: RunningServer) -> None:
    """Three replicas whose clocks are off by seconds fire each instant once and on time, while
    one after the other is killed."""
    place = ticks.site(folder, server.url)
    account = ticks.run(place, 14.0, random.randrange(1_000_000), kill_every_s=4.0)
    # The machine may be busy with other tests: how late is for the long form to say.
    found = [text for text in account.violations if "p99" not in text]
    assert not found, account
    assert account.ticks >= 13
    assert account.kills == 3


def test_restarts_miss_nothing(folder: Path, server: RunningServer) -> None:
    """Every instant is fired or told in a gap, whenever the only daemon is restarted."""
    account = restarts.run(folder, server, restarts=5, seed=random.randrange(1_000_000))
    assert not account.violations, account
    assert account.fired > 8


def test_restarts_in_the_minute_of_a_tick(
    folder: Path, moved: RunningServer, clock: MovedClock
) -> None:
    """No restart, edit or new schedule starts anything outside its instants."""
    account = restarts.same_minute(folder, moved, clock, restarts=4)
    assert not account.violations, account


def test_the_nights_of_madrid(folder: Path, moved: RunningServer, clock: MovedClock) -> None:
    """In both nights each schedule has the right starts, also over a restart in the repeated
    hour."""
    sleepers = nights.Sleepers(folder, moved, clock)
    for night in (nights.SPRING, nights.AUTUMN):
        sleepers.live_through(night)
    assert not sleepers.account.violations, sleepers.account
    assert sleepers.account.runs == sum(
        len(runs) for night in (nights.SPRING, nights.AUTUMN) for runs in night.runs.values()
    )


def test_a_midnight_of_many(folder: Path, moved: RunningServer, clock: MovedClock) -> None:
    """Hundreds of schedules and tasks at one instant: each starts once, within the limits."""
    account = midnight.run(folder, moved, clock, schedules=400, tasks=800, idle_s=3.0)
    found = [text for text in account.violations if "PING" not in text and "took" not in text]
    assert not found, account


def test_frozen_daemons(folder: Path, server: RunningServer) -> None:
    """While one of two is frozen the other fires on time; after all were frozen the newest missed
    instant is made up for, and nothing is fired twice."""
    place = restarts.site(folder, server.url, "frozen")
    with DaemonProcess(place).started() as one, DaemonProcess(place).started() as two:
        place.wait_for(END, 2)
        one.freeze()
        alone = time.monotonic()
        wait_until(lambda: _seconds(place, alone) >= 4, "the other one fires")
        assert time.monotonic() - alone < 5.5
        two.freeze()
        let_pass(4.0)
        thawed = time.monotonic()
        one.thaw()
        two.thaw()
        wait_until(lambda: _seconds(place, thawed) >= 3, "both fire")
        assert time.monotonic() - thawed < 4.0
        assert one.term() == two.term() == 0
    outcomes = [one.outcome for one in restarts.records(place, server, "second")]
    # One for the freeze of all; a machine that stalls for a second makes another.
    assert "gap" in outcomes
    assert all(len(runs) == 1 for runs in starts(place.ledger()).values())


def _seconds(place: Site, since: float) -> int:
    """How many ticks of the schedule `second` started since a monotonic second."""
    lines = [line for line in place.ledger() if line.what == START and line.at > since]
    return sum(line.id.startswith("second@") for line in lines)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "is missing"),
        (["1970-01-01T00:00:10Z", "1970-01-01T00:00:11Z"], "too early"),
        (["1970-01-01T00:00:10.500Z"], "no instant of it"),
    ],
)
def test_the_account_of_ticks_finds_what_must_not_be(lines: list[str], words: str) -> None:
    """The judge tells instants that are missing, early, or none at all."""
    offset = time.time() - time.monotonic()
    account = ticks.Account()
    runs = [
        Line(START, "work", f"second@{when}", 1, number, 1, 10.2 - offset)
        for number, when in enumerate(lines)
    ]
    ticks.judge(runs, 9.0, 11.5, {}, account, {"second": 1})
    assert [text for text in account.violations if words in text]
