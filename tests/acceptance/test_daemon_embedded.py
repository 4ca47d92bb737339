"""Daemons on the embedded server: whoever comes first starts it, and its death is survived."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until
from tests.support.users import server_pid
from tests.support.work import END

if TYPE_CHECKING:
    from pathlib import Path


def embedded_site(tmp_path: Path, state_dir: Path) -> Site:
    """Make a site with a server of its own."""
    types = {"work": {"handler": WORK + "sleep", "empty_poll_timeout": "500ms"}}
    return Site(tmp_path, "embedded", core={"state_dir": str(state_dir)}, types=types)


def add(place: Site, count: int = 1) -> None:
    """Add tasks by the command line, which joins the same server."""
    for _ in range(count):
        ran = place.run("add", "--type", "work", "s:=0")
        assert ran.returncode == 0, ran.stderr


def test_two_that_start_at_once_share_it(tmp_path: Path, state_dir: Path) -> None:
    """Both work, on one server; after both were killed the next one adopts it and its data."""
    place = embedded_site(tmp_path, state_dir)
    with ExitStack() as stack:
        both = [stack.enter_context(DaemonProcess(place)) for _ in range(2)]
        for daemon in both:
            daemon.started()
        socket = str(state_dir / "server.sock")
        pid = server_pid(socket)
        add(place)
        place.wait_for(END)
        for daemon in both:
            daemon.kill()
        with DaemonProcess(place).started() as third:
            assert server_pid(socket) == pid
            add(place)
            place.wait_for(END, 2)
            assert third.term() == 0


def test_its_server_dies(tmp_path: Path, state_dir: Path) -> None:
    """The daemon starts it again by itself, and goes on with the data it had."""
    place = embedded_site(tmp_path, state_dir)
    with DaemonProcess(place).started() as daemon:
        add(place)
        place.wait_for(END)
        os.kill(server_pid(str(state_dir / "server.sock")), signal.SIGKILL)
        died = time.monotonic()
        wait_until(lambda: daemon.has_said("Redis can be used again"), "work goes on")
        assert time.monotonic() - died < 8
        add(place)
        place.wait_for(END, 2)
        assert daemon.term() == 0
