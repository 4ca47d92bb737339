"""The daemon as a process: how it ends, and what becomes of its tasks then."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.servers import wait_until
from tests.support.work import END, START, STOPPED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import RunningServer


def site(tmp_path: Path, server: RunningServer, **core: object) -> Site:
    """Make a site of its own namespace with an inline and a thread type."""
    return Site(
        tmp_path,
        server.url,
        namespace=f"n{time.monotonic_ns()}",
        core=core,
        types={
            "inline": {"handler": WORK + "sleep", "empty_poll_timeout": "30s"},
            "thread": {"handler": WORK + "thread", "empty_poll_timeout": "30s"},
        },
    )


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_daemon_ends_within_a_second(
    tmp_path: Path, valkey_server: RunningServer, number: signal.Signals
) -> None:
    """At any moment of its idle life a stop takes effect at once, with code 0."""
    place = site(tmp_path, valkey_server)
    took = []
    for _ in range(3):
        with DaemonProcess(place).started() as daemon:
            let_pass(random.uniform(0, 0.3))
            began = time.monotonic()
            daemon.send(number)
            assert daemon.wait() == 0
            took.append(time.monotonic() - began)
            assert daemon.log()[-1]["event"] == "stopped"
    # One may be slow on a busy machine; a wait that is not cut short would take 30 s.
    assert sorted(took)[1] < 1.0
    assert max(took) < 5.0


def test_runs_may_end_within_the_grace(tmp_path: Path, valkey_server: RunningServer) -> None:
    """Ten runs come to their end after SIGTERM, which then takes no longer than they."""
    place = site(tmp_path, valkey_server, concurrency=12)
    with DaemonProcess(place).started() as daemon:
        place.add("inline", 5, s=1)
        place.add("thread", 5, s=1)
        place.wait_for(START, 10)
        began = time.monotonic()
        assert daemon.term() == 0
        assert time.monotonic() - began < 5.0
    lines = place.ledger()
    assert len({line.id for line in lines if line.what == END}) == 10
    assert place.counts("inline") == (0, 0, 5, 0)
    assert place.counts("thread") == (0, 0, 5, 0)


def test_nothing_is_claimed_after_the_signal(tmp_path: Path, valkey_server: RunningServer) -> None:
    """What waits for a slot when the signal comes stays scheduled, though runs end after it."""
    place = site(tmp_path, valkey_server, concurrency=11)
    with DaemonProcess(place).started() as daemon:
        ids = place.add("inline", 60, s=1)
        place.wait_for(START, 10)
        assert daemon.term() == 0
    lines = place.ledger()
    assert len({line.id for line in lines if line.what == START}) == 10
    assert len({line.id for line in lines if line.what == END}) == 10
    assert place.counts("inline") == (len(ids) - 10, 0, 10, 0)


@pytest.mark.parametrize("type_name", ["inline", "thread"])
@pytest.mark.parametrize("signals", [1, 2])
def test_beyond_the_grace_tasks_are_scheduled_again_at_once(
    tmp_path: Path, valkey_server: RunningServer, type_name: str, signals: int
) -> None:
    """What does not end in time (or before a second signal) needs no lease to run out."""
    grace = "300ms" if signals == 1 else "60s"
    place = site(tmp_path, valkey_server, shutdown_grace=grace)
    with DaemonProcess(place).started() as daemon:
        (task_id,) = place.add(type_name, 1, s=30)
        place.wait_for(START, 1)
        daemon.send(signal.SIGTERM)
        if signals == 2:
            wait_until(lambda: daemon.has_said("stopping"), "the first signal taken")
            daemon.send(signal.SIGTERM)
        began = time.monotonic()
        assert daemon.wait() == 0
        assert time.monotonic() - began < 3.0
    assert place.counts(type_name) == (1, 0, 0, 0)
    task = place.show(f"{type_name}/{task_id}")
    assert (task["state"], task["releases"], task["failed"]) == ("scheduled", 1, 0)
    assert [line.what for line in place.ledger()] == [START, STOPPED]


@pytest.mark.parametrize("type_name", ["inline", "thread"])
def test_a_run_that_does_not_listen_does_not_keep_the_process(
    tmp_path: Path, valkey_server: RunningServer, type_name: str
) -> None:
    """A thread, or a coroutine that ignores its cancellation, is given back and left behind."""
    place = site(tmp_path, valkey_server, shutdown_grace="100ms")
    with DaemonProcess(place).started() as daemon:
        (task_id,) = place.add(type_name, 1, s=30, deaf=True)
        place.wait_for(START, 1)
        began = time.monotonic()
        assert daemon.term() == 0
        assert time.monotonic() - began < 4.0
    assert place.counts(type_name) == (1, 0, 0, 0)
    assert place.show(f"{type_name}/{task_id}")["releases"] == 1


def test_hangup_does_not_end_it(tmp_path: Path, valkey_server: RunningServer) -> None:
    """SIGHUP is answered in the log; work goes on."""
    place = site(tmp_path, valkey_server)
    with DaemonProcess(place).started() as daemon:
        daemon.send(signal.SIGHUP)
        wait_until(lambda: "reload" in daemon.log_path.read_text(), "an answer to SIGHUP")
        place.add("inline", 1, s=0)
        place.wait_for(END, 1)
        assert daemon.term() == 0
