"""The server forgets: an older state comes back, or none at all, under daemons that stay up."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import start_server, wait_until
from tests.support.work import END, START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RunningServer

pytestmark = pytest.mark.proof


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """Start a server that may forget."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as running,
    ):
        yield running


@pytest.fixture
def place(tmp_path: Path, server: RunningServer) -> Site:
    """Make a site with leases of a second."""
    types = {"work": {"handler": WORK + "sleep", "empty_poll_timeout": "500ms"}}
    return Site(tmp_path, server.url, core={"lease": "1s"}, types=types)


def test_an_older_state_is_restored(tmp_path: Path, server: RunningServer, place: Site) -> None:
    """What was done after the backup may be done again; nothing is stuck, nothing is lost."""
    data, backup = server._state.data, tmp_path / "backup"
    with DaemonProcess(place).started() as daemon, place.client() as client:
        done = set(place.add("work", 10, s=0))
        place.wait_for(END, 10)
        running = set(place.add("work", 5, s=1.5))
        place.wait_for(START, 15)
        waiting = {client.schedule("work", {"s": 0}, delay=2.0).id for _ in range(10)}
        server.stop()
        shutil.copytree(data, backup)
        server.restart()
        newer = set(place.add("work", 10, s=0))
        wait_until(lambda: newer | running <= ends(place), "the newer ones done")
        server.stop()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        server.restart()
        known = done | running | waiting
        wait_until(lambda: place.counts("work") == (0, 0, len(known), 0), "all done")
        assert known <= ends(place)
        assert {task.state for task in client.list("work")} == {"done"}
        place.add("work", s=0)
        wait_until(lambda: place.counts("work") == (0, 0, len(known) + 1, 0), "new work done")
        assert daemon.term() == 0


def test_everything_is_flushed(server: RunningServer, place: Site) -> None:
    """FLUSHALL and SCRIPT FLUSH in the middle of runs: what is added afterwards is prompt."""
    with DaemonProcess(place).started() as daemon, closing(server.client()) as client:
        place.add("work", 5, s=1)
        place.wait_for(START, 5)
        client.flushall()
        client.script_flush()
        began = time.monotonic()
        (task_id,) = place.add("work", s=0)
        wait_until(lambda: task_id in ends(place), "the new task done", 5)
        assert time.monotonic() - began < 2.5
        wait_until(lambda: place.counts("work") == (0, 0, 1, 0), "only the new one is there")
        # The flushed ones are not brought back by the verdicts of their runs.
        wait_until(lambda: sum(line.what == START for line in place.ledger()) == 6, "no more")
        assert daemon.term() == 0
        assert place.counts("work") == (0, 0, 1, 0)


def ends(place: Site) -> set[str]:
    """Ids that came to an end."""
    return {line.id for line in place.ledger() if line.what == END}
