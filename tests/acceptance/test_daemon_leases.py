"""Leases between processes: the living keep their tasks, the dead and the frozen lose them."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until
from tests.support.work import END, START, starts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import RunningServer

pytestmark = pytest.mark.proof

LEASE_S = 1.0


@pytest.fixture
def place(tmp_path: Path, valkey_server: RunningServer) -> Site:
    """Make a site with leases of a second."""
    kinds = {"inline": "sleep", "blocking": "spin", "thread": "thread"}
    return Site(
        tmp_path,
        valkey_server.url,
        namespace=f"n{time.monotonic_ns()}",
        core={"lease": f"{int(LEASE_S * 1000)}ms"},
        types={
            name: {"handler": WORK + kind, "empty_poll_timeout": "300ms"}
            for name, kind in kinds.items()
        },
    )


def test_long_runs_keep_their_leases(place: Site) -> None:
    """Runs of six leases under three daemons that sweep all the time start once each."""
    with ExitStack() as stack:
        daemons = [stack.enter_context(DaemonProcess(place)) for _ in range(3)]
        for daemon in daemons:
            daemon.started()
        ids = {*place.add("inline", 20, s=6 * LEASE_S), *place.add("thread", 10, s=6 * LEASE_S)}
        place.wait_for(END, 30)
        wait_until(lambda: place.counts("inline") == (0, 0, 20, 0), "verdicts stored")
        wait_until(lambda: place.counts("thread") == (0, 0, 10, 0), "verdicts stored")
    runs = starts(place.ledger())
    assert runs.keys() == ids
    assert all(len(lines) == 1 for lines in runs.values())


def test_a_handler_that_blocks_the_loop_keeps_its_lease(place: Site) -> None:
    """Renewal does not need the event loop: three leases of blocking are one start."""
    with DaemonProcess(place).started(), DaemonProcess(place).started():
        (task_id,) = place.add("blocking", s=3 * LEASE_S)
        place.wait_for(END)
        wait_until(lambda: place.counts("blocking") == (0, 0, 1, 0), "verdict stored")
    assert [len(runs) for runs in starts(place.ledger()).values()] == [1]
    assert place.show(f"blocking/{task_id}")["interruptions"] == 0


@pytest.mark.parametrize("type_name", ["inline", "blocking", "thread"])
def test_only_the_newest_claim_of_a_frozen_daemon_counts(place: Site, type_name: str) -> None:
    """A daemon frozen beyond its lease loses the task; what it says afterwards is not kept."""
    with DaemonProcess(place).started() as first:
        (task_id,) = place.add(type_name, s=2.5)
        place.wait_for(START)
        first.freeze()
        with DaemonProcess(place).started() as second:
            newest = place.wait_for(START, 2)[-1]
            assert newest.daemon == second.number
            # The first one's run is over by its own clock while the second one's goes on.
            first.thaw()
            wait_until(lambda: place.counts(type_name)[2] == 1, "a verdict stored")
            task = place.show(f"{type_name}/{task_id}")
            assert task["result"] == {"daemon": second.number, "fence": newest.fence}
            assert (task["state"], task["interruptions"], task["failed"]) == ("done", 1, 0)
            # Thawed, it is none the worse: it takes tasks again.
            second.kill()
            place.add(type_name, s=0)
            wait_until(lambda: place.counts(type_name)[2] == 2, "a run of the first daemon")
            assert first.term() == 0


def unshare() -> tuple[str, ...]:
    """Return the words that give a command a pid namespace of its own, or skip the test."""
    words = ("unshare", "--pid", "--fork", "--kill-child")
    if not shutil.which("unshare") or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("pid namespaces cannot be made here")
    return words


def test_a_restart_under_the_same_host_and_pid_is_another_replica(place: Site) -> None:
    """As in a container that restarts: what its predecessor held is taken by its lease's end."""
    words = unshare()
    with DaemonProcess(place, prefix=words).started() as first:
        (task_id,) = place.add("inline", s=1.5)
        place.wait_for(START)
        first.kill()
    with DaemonProcess(place, prefix=words).started() as second:
        began = time.monotonic()
        again = place.wait_for(START, 2)[-1]
        assert again.at - began < LEASE_S * 4 / 3 + 2
        assert again.daemon == second.number
        wait_until(lambda: place.counts("inline") == (0, 0, 1, 0), "verdict stored")
        assert second.replica != first.replica
    assert place.show(f"inline/{task_id}")["owner"] == second.replica
