"""What systemd hears from the daemon: when it is ready, that it lives, that it stops."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import time
from contextlib import closing
from itertools import pairwise
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

WATCHDOG_S = 2.0


class Systemd:
    """The socket that a service manager listens on."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))
        self._socket.setblocking(False)
        self.heard: list[tuple[float, str]] = []

    @property
    def env(self) -> dict[str, str]:
        """What it tells the service."""
        return {"NOTIFY_SOCKET": str(self._path), "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6))}

    def listen(self) -> list[str]:
        """Everything that was said so far."""
        while True:
            try:
                text = self._socket.recv(4096).decode()
            except BlockingIOError:
                return [text for _, text in self.heard]
            self.heard.append((time.monotonic(), text))

    def said(self, word: str) -> bool:
        """Whether a line was said."""
        return any(word in text.splitlines() for text in self.listen())

    def listen_for(self, seconds: float) -> list[float]:
        """Listen so long; returns when the pings came."""
        began = time.monotonic()

        def is_over() -> bool:
            self.listen()
            return time.monotonic() - began >= seconds

        wait_until(is_over, "the time to listen", seconds + 20)
        return [at for at, text in self.heard if text == "WATCHDOG=1" and at >= began]

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@pytest.fixture
def systemd() -> Iterator[Systemd]:
    """Be the service manager, on a socket with a short path."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        closing(Systemd(Path(folder))) as stub,
    ):
        yield stub


def site(tmp_path: Path, url: str, **core: object) -> Site:
    """Make a site with handlers that sleep and that block."""
    kinds = {"inline": "sleep", "blocking": "spin", "thread": "thread"}
    types = {name: {"handler": WORK + kind, "run_timeout": "20s"} for name, kind in kinds.items()}
    return Site(tmp_path, url, namespace=f"n{time.monotonic_ns()}", core=core, types=types)


def gaps(pings: list[float]) -> list[float]:
    """Seconds between pings."""
    return [after - before for before, after in pairwise(pings)]


def test_ready_only_when_it_works(tmp_path: Path, systemd: Systemd) -> None:
    """Without Redis it waits and says so, and becomes ready by itself when Redis comes."""
    with tempfile.TemporaryDirectory(prefix="scheduld-") as folder:
        server = start_server("valkey", Path(folder))
        server.stop()
        place = site(tmp_path, server.url)
        with DaemonProcess(place, env=systemd.env) as daemon:
            wait_until(lambda: systemd.said("STATUS=waiting for Redis"), "a word about waiting")
            systemd.listen_for(1.0)
            assert not systemd.said("READY=1")
            assert daemon.process.poll() is None
            server.restart()
            with server:
                came = time.monotonic()
                wait_until(lambda: systemd.said("READY=1"), "readiness")
                assert time.monotonic() - came < 4.0
                place.add("inline", s=0)
                place.wait_for(END)
                assert daemon.term() == 0
    assert systemd.said("STOPPING=1")


def test_a_stop_while_it_waits_for_redis(tmp_path: Path, systemd: Systemd) -> None:
    """SIGTERM ends the wait at once, with code 0."""
    place = site(tmp_path, f"unix://{tmp_path}/nowhere.sock")
    with DaemonProcess(place, env=systemd.env) as daemon:
        wait_until(lambda: systemd.said("STATUS=waiting for Redis"), "a word about waiting")
        began = time.monotonic()
        assert daemon.term() == 0
        assert time.monotonic() - began < 1.0
    assert not systemd.said("READY=1")


@pytest.mark.parametrize("type_name", ["inline", "blocking", "thread"])
def test_long_runs_do_not_stop_the_pings(
    tmp_path: Path, valkey_server: RunningServer, systemd: Systemd, type_name: str
) -> None:
    """While a handler sleeps, blocks the loop or works in a thread, pings come at their rate."""
    place = site(tmp_path, valkey_server.url)
    with DaemonProcess(place, env=systemd.env).started():
        place.add(type_name, s=5)
        place.wait_for(START)
        pings = systemd.listen_for(4.5)
        assert max(gaps(pings)) < WATCHDOG_S
        # At most two an interval, give or take one at the edges.
        assert len(pings) <= 4.5 / WATCHDOG_S * 2 + 2


def test_a_redis_outage_does_not_stop_the_pings(tmp_path: Path, systemd: Systemd) -> None:
    """Redis frozen in the middle of a run is no reason to restart the daemon."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        place = site(tmp_path, server.url, lease="3s", redis_timeout="500ms")
        with DaemonProcess(place, env=systemd.env).started() as daemon:
            place.add("inline", s=1)
            place.wait_for(START)
            server.freeze()
            pings = systemd.listen_for(5.0)
            server.thaw()
            assert max(gaps(pings)) < WATCHDOG_S
            place.wait_for(END)
            assert daemon.term() == 0


def test_a_loop_that_is_stuck_stops_the_pings_and_ends(
    tmp_path: Path, valkey_server: RunningServer, systemd: Systemd
) -> None:
    """A handler that blocks the loop beyond run_timeout: no more pings, then exit code 70."""
    place = site(tmp_path, valkey_server.url, lease="2s")
    text = place.config_path.read_text().replace('"20s"', '"1s"')
    place.config_path.write_text(text)
    with DaemonProcess(place, env=systemd.env).started() as daemon:
        place.add("blocking", s=60)
        place.wait_for(START)
        began = time.monotonic()
        wait_until(lambda: systemd.listen() and daemon.process.poll(), "the end of the daemon")
        ended = time.monotonic()
        assert daemon.wait() == 70
        last = max(at for at, text in systemd.heard if text == "WATCHDOG=1")
        assert ended - last > 1.5, "pings went on while the loop was stuck"
        assert ended - began < 12
        assert "most recent call first" in daemon.log_path.read_text()


def test_stopping_is_told_and_pings_go_on_in_the_grace(
    tmp_path: Path, valkey_server: RunningServer, systemd: Systemd
) -> None:
    """A long grace is no reason to be killed by the watchdog."""
    place = site(tmp_path, valkey_server.url, shutdown_grace="20s")
    with DaemonProcess(place, env=systemd.env).started() as daemon:
        place.add("inline", s=4)
        place.wait_for(START)
        daemon.send(signal.SIGTERM)
        wait_until(lambda: systemd.said("STOPPING=1"), "a word about stopping")
        pings = systemd.listen_for(3.0)
        assert len(pings) >= 2
        assert max(gaps(pings)) < WATCHDOG_S
        assert daemon.wait() == 0


def test_the_watchdog_of_another_process_is_not_fed(
    tmp_path: Path, valkey_server: RunningServer, systemd: Systemd
) -> None:
    """WATCHDOG_PID names who is watched; a child that inherits the variables stays silent."""
    place = site(tmp_path, valkey_server.url)
    env = {**systemd.env, "WATCHDOG_PID": str(os.getpid())}
    with DaemonProcess(place, env=env).started():
        assert systemd.listen_for(1.5) == []
