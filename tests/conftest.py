"""Servers that tests share: one of each kind per test process, started at first use.

Tests keep apart by a namespace each; one that stops, freezes or fills its server starts
its own by `tests.support.servers.start_server`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from scheduld.store import launch
from tests.support.servers import Kind, RunningServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator


# Wall time says nothing of the code where other processes have the machine.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def _server(kind: Kind) -> Iterator[RunningServer]:
    # pytest's own folders can be too deep for the path of a socket.
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server(kind, Path(folder)) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[RunningServer]:
    """Valkey, as the embedded server runs it."""
    yield from _server("valkey")


@pytest.fixture(scope="session")
def redis7_server() -> Iterator[RunningServer]:
    """The redis-server on PATH, with the options of the embedded server."""
    yield from _server("redis7")


@pytest.fixture(scope="session")
def cluster_server() -> Iterator[RunningServer]:
    """One Redis node in cluster mode that owns all slots: scripts over two slots fail on it."""
    yield from _server("cluster")


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """Give a state_dir with a short path; no server may be left in it."""
    with tempfile.TemporaryDirectory(prefix="scheduld-") as folder:
        yield Path(folder) / "state"
        left = launch.ping(f"{folder}/state/server.sock", 5.0)
        launch.ask_to_end(f"{folder}/state/server.sock", 5.0)
        assert left is launch.Answer.NONE, "the test left a server behind"
