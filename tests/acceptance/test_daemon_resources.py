"""What a daemon holds stays the same, whatever its tasks do."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.chaos import drain
from tests.support.daemons import DaemonProcess
from tests.support.servers import start_server


@pytest.mark.proof
def test_connections_and_descriptors_stay_the_same(tmp_path: Path) -> None:
    """Two thousand tasks, a third of which raise and a tenth of which time out, cost none."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        place = drain.site(tmp_path, server.url)
        with DaemonProcess(place).started() as daemon, closing(server.client()) as client:
            first, *_, last = [
                drain.run(place, daemon, client, 500, local_bytes=100_000) for _ in range(4)
            ]
            assert daemon.term() == 0
    assert last.ended == 2_000
    assert first.descriptors - 2 <= last.descriptors <= first.descriptors + 2
    assert last.connections <= drain.MOST_CONNECTIONS
    # Each raising run has 100 KB of locals: 65 MB, if what ended were kept.
    assert last.rss_kb - first.rss_kb < 8_000
