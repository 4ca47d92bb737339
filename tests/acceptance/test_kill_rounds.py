"""Daemons are killed: nothing is lost, nothing is stuck, nothing of the dead stays behind."""

from __future__ import annotations

import random
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos import kills, periodic
from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import start_server, wait_until
from tests.support.work import END, START, Line, starts

if TYPE_CHECKING:
    from tests.support.servers import RunningServer

pytestmark = pytest.mark.proof


def test_kills_at_random_instants() -> None:
    """Every task ends, and is run again only where a kill hit its run (scripts/chaos kill)."""
    seed = random.randrange(1_000_000)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        run = kills.Rounds(kills.site(Path(folder), server.url), seed)
        with closing(run):
            for _ in range(6):
                run.round()
            account = run.settle()
    assert not account.violations, f"{account}: {account.violations}"
    assert account.added == 120
    assert account.starts >= 120


def test_kills_just_after_a_periodic_run() -> None:
    """No series breaks or doubles, and each occurrence counts once (scripts/chaos periodic)."""
    seed = random.randrange(1_000_000)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        run = periodic.Rounds(periodic.site(Path(folder), server.url), server, seed)
        with closing(run):
            for _ in range(6):
                run.round()
            account = run.settle()
    assert not account.violations, f"{account}: {account.violations}"
    assert account.occurrences >= 9 * 2


def line(what: str, daemon: int, fence: int, at: float) -> Line:
    """Make a line of a ledger."""
    return Line(what=what, type="t", id="a", attempt=1, fence=fence, daemon=daemon, at=at)


@pytest.mark.parametrize(
    ("lines", "killed_at", "words"),
    [
        ([line(START, 1, 1, 0), line(START, 2, 2, 1)], {}, "beside a run that lives"),
        ([line(START, 1, 1, 0), line(START, 2, 2, 1)], {1: 1.5}, "beside a run that lives"),
        (
            [line(START, 1, 1, 0), line(END, 1, 1, 0.1), line(START, 2, 2, 2)],
            {1: 1.0},
            "after its end",
        ),
        ([line(START, 1, 2, 0), line(START, 2, 1, 2)], {1: 1.0}, "with fences"),
    ],
)
def test_the_account_finds_what_must_not_be(
    lines: list[Line], killed_at: dict[int, float], words: str
) -> None:
    """The judge of the chaos runs calls a needless second start, and a fence that falls."""
    account = kills.Account(seed=0)
    kills.judge_starts(lines, killed_at, account)
    assert [text for text in account.violations if words in text]


def test_all_daemons_killed_in_the_middle(tmp_path: Path, valkey_server: RunningServer) -> None:
    """One new daemon finishes what two dead ones had begun, and no key names these for ever."""
    place = Site(
        tmp_path,
        valkey_server.url,
        namespace=f"n{time.monotonic_ns()}",
        core={"lease": "1s"},
        types={"work": {"handler": WORK + "sleep", "empty_poll_timeout": "500ms"}},
    )
    with ExitStack() as stack:
        daemons = [stack.enter_context(DaemonProcess(place).started()) for _ in range(2)]
        dead = [daemon.replica for daemon in daemons]
        ids = set(place.add("work", 60, s=0.5))
        place.wait_for(START, 30)
        for daemon in daemons:
            daemon.kill()
        with DaemonProcess(place) as survivor:
            survivor.started()
            began = time.monotonic()
            place.wait_for(END, 60)
            # A lease and a third until they are taken, a look, and half a second of work.
            assert time.monotonic() - began < 6
            wait_until(lambda: place.counts("work") == (0, 0, 60, 0), "all verdicts stored")
            assert survivor.replica not in dead
    assert starts(place.ledger()).keys() == ids
    with closing(valkey_server.client()) as client:
        keys = client.scan_iter(f"{place.namespace}:*")
        left = [key for key in keys if any(name in str(key) for name in dead)]
        assert left, "their records, as replicas, last a minute"
        for key in left:
            # -1 would be a key that never ends; -2 is one that has just ended.
            assert client.pttl(key) in {-2, *range(60_001)}
