"""Handlers that damage what is around them: the daemon goes on, and no task is stuck."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import start_server, wait_until
from tests.support.work import END, START

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import RunningServer


def site(folder: Path, url: str, *names: str) -> Site:
    """Make a site with a type for each of the handlers, and one that only sleeps."""
    return Site(
        folder,
        url,
        namespace=f"n{time.monotonic_ns()}",
        core={"lease": "2s"},
        types={
            name: {
                "handler": WORK + name,
                "retry": {"attempts": 2, "delay": "50ms"},
                "empty_poll_timeout": "300ms",
            }
            for name in (*names, "sleep")
        },
    )


@pytest.mark.parametrize("name", ["exits", "breaks_logging"])
def test_it_is_a_failed_attempt(tmp_path: Path, valkey_server: RunningServer, name: str) -> None:
    """sys.exit in a sub-task, or a log handler that raises: dead after its attempts, no more."""
    place = site(tmp_path, valkey_server.url, name)
    with DaemonProcess(place).started() as daemon:
        place.add(name)
        place.wait_for(START, 2)
        wait_until(lambda: place.counts(name) == (0, 0, 0, 1), "dead after two attempts")
        place.add("sleep", s=0)
        place.wait_for(END)
        assert daemon.term() == 0


def test_loops_that_were_cancelled_are_started_again(
    tmp_path: Path, valkey_server: RunningServer
) -> None:
    """A handler that cancels the daemon's own tasks is told, and work goes on."""
    place = site(tmp_path, valkey_server.url, "cancels_loops")
    with DaemonProcess(place).started() as daemon:
        place.add("cancels_loops")
        place.wait_for(END)
        wait_until(
            lambda: daemon.has_said("a loop was ended by a handler, and is started again"), "told"
        )
        place.add("sleep", s=0)
        place.wait_for(END, 2)
        assert daemon.term() == 0


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server whose memory is this test's."""
    with start_server("redis7", tmp_path) as server:
        yield server


def test_a_start_while_the_server_is_full_lets_it_drain(
    tmp_path: Path, own_server: RunningServer
) -> None:
    """Claims need no new memory, so a daemon that starts then runs what is due."""
    place = site(tmp_path, own_server.url)
    place.add("sleep", 3, s=0)
    with own_server.client() as raw:
        raw.config_set("maxmemory", 1)
        with DaemonProcess(place):
            place.wait_for(END, 3)
            raw.config_set("maxmemory", 0)
