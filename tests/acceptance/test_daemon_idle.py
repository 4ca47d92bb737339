"""An idle daemon is quiet, and awake."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest

from tests.chaos import idle
from tests.support.daemons import DaemonProcess
from tests.support.servers import start_server
from tests.support.work import START

pytestmark = pytest.mark.proof


def test_requests_of_an_idle_daemon(tmp_path: Path) -> None:
    """Twenty types ask once each empty_poll_timeout, and all else once a second (scripts/chaos)."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        place = idle.site(tmp_path, server.url, 2.0)
        with DaemonProcess(place).started() as daemon:
            path = server.url.removeprefix("unix://")
            found = idle.measure(daemon, path, 2.0, 6.0)
            assert 2 < found.rate <= found.most, str(found)
            assert found.cpu < 0.1


def test_an_idle_daemon_starts_a_new_task_at_once(tmp_path: Path) -> None:
    """A wake-up cuts the wait of 30 s short."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        place = idle.site(tmp_path, server.url, 30.0)
        with DaemonProcess(place).started(), place.client() as client:
            lateness = []
            for number in range(1, 21):
                client.schedule("type07", {"s": 0}, allow_unknown=True)
                added = time.monotonic()
                lateness.append(place.wait_for(START, number)[-1].at - added)
            assert sorted(lateness)[10] < 0.1, lateness
