"""A log that cannot be written costs lines, never work."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import RunningServer


@pytest.fixture
def place(tmp_path: Path, valkey_server: RunningServer) -> Site:
    """Make a site whose tasks fail, which the daemon logs."""
    retry = {"attempts": 2, "delay": "10ms"}
    types = {"work": {"handler": WORK + "sleep", "retry": retry, "empty_poll_timeout": "300ms"}}
    return Site(tmp_path, valkey_server.url, namespace=f"n{time.monotonic_ns()}", types=types)


def works_and_ends(daemon: DaemonProcess, place: Site) -> None:
    """Forty failing tasks are dead with their reasons, then a stop ends with code 0."""
    ids = place.add("work", 40, s=0, fail=True)
    wait_until(lambda: place.counts("work") == (0, 0, 0, 40), "all dead")
    assert place.show(f"work/{ids[0]}")["error"]["kind"] == "ValueError"
    assert daemon.term() == 0


def test_a_full_disk(place: Site) -> None:
    """Stdout and stderr on a device that is always full."""
    with open("/dev/full", "wb") as full, DaemonProcess(place, stderr=full) as daemon:
        works_and_ends(daemon, place)


def test_a_pipe_that_nobody_reads_any_more(place: Site) -> None:
    """Stdout and stderr into a closed pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    with DaemonProcess(place, stderr=writer) as daemon:
        os.close(writer)
        works_and_ends(daemon, place)


@pytest.mark.parametrize("closed", ["2>&-", "1>&-", "0<&- 1>&- 2>&-"])
def test_streams_that_are_closed_from_the_start(place: Site, closed: str) -> None:
    """As `scheduld run 2>&-` starts it: no connection ends up as its stderr."""
    shell = ("sh", "-c", f'exec "$@" {closed}', "sh")
    with DaemonProcess(place, prefix=shell) as daemon:
        works_and_ends(daemon, place)


def test_a_plugin_with_the_name_of_a_built_in_handler(place: Site) -> None:
    """The daemon warns of a package that claims such a name, and goes on without it."""
    info = place.folder / "acme-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[scheduld.handlers]\nemail = acme:make\n")
    told = "plug-in 'email' of acme 1.2 is not used: 'email' is the name of a built-in handler"
    with DaemonProcess(place) as daemon:
        wait_until(lambda: daemon.has_said(told), "a warning")
        works_and_ends(daemon, place)
