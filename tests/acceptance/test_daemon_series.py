"""A daemon tells clients without its config when the tasks of a type are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import DaemonProcess, Site
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import RunningServer

pytestmark = pytest.mark.proof

SEASON = {"handler": "log", "series": ["-7d", "-1d", "0"], "anchor": "starts"}


def test_a_client_with_a_url_alone_is_right(valkey_server: RunningServer, tmp_path: Path) -> None:
    """Its task is due by the series of the daemon's config, until a daemon has none any more."""
    name = f"ladder-{tmp_path.name}"[:60].lower()
    site = Site(tmp_path, valkey_server.url, name, types={"season": SEASON})
    with DaemonProcess(site) as daemon, site.client() as client:
        daemon.started()
        starts = datetime.now(UTC) + timedelta(seconds=1)
        client.schedule("season", {"starts": starts.isoformat()}, id="s", timezone="UTC")
        wait_until(lambda: client.get("season", "s").state == "done", "the last of the series")
        task = client.get("season", "s")
        assert (task.runs, task.missed) == (1, 2)
        assert task.started_ms is not None
        assert task.started_ms >= starts.timestamp() * 1000 - 1
    plain = Site(tmp_path, valkey_server.url, name, types={"season": {"handler": "log"}})
    with DaemonProcess(plain) as daemon, plain.client() as client:
        daemon.started()
        task = client.schedule("season", {}, id="now")
        wait_until(lambda: client.get("season", "now").state == "done", "it ran at once")
        assert task.series is None
