"""Counts what an idle daemon asks of its server, and what that costs it."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.daemons import WORK, DaemonProcess, Site

if TYPE_CHECKING:
    from pathlib import Path

TYPES = 20
SETTLED_S = 1.5
"""So long after its start a daemon has connected, loaded its scripts and looked once."""


def site(folder: Path, url: str, empty_poll_s: float) -> Site:
    """Make the folder of a daemon with 20 types."""
    common = {"handler": WORK + "sleep", "empty_poll_timeout": f"{int(empty_poll_s * 1000)}ms"}
    return Site(folder, url, types={f"type{number:02}": common for number in range(TYPES)})


@dataclass(frozen=True)
class Idle:
    """One measurement; `requests` are the client commands, those inside scripts left out."""

    seconds: float
    requests: list[str]
    cpu: float
    empty_poll_s: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.requests) / self.seconds

    @property
    def most(self) -> float:
        """Requests a second that are allowed."""
        return TYPES / self.empty_poll_s + 1

    def __str__(self) -> str:
        return (
            f"{TYPES} types, empty_poll_timeout {self.empty_poll_s:g} s: {self.rate:.2f} requests "
            f"a second over {self.seconds:.1f} s (at most {self.most:g}), {self.cpu:.2%} of a core"
        )


def measure(daemon: DaemonProcess, socket_path: str, empty_poll_s: float, seconds: float) -> Idle:
    """Listen to all that the server is asked, which must be by the daemon alone."""
    monitor(socket_path, SETTLED_S)
    before = daemon.cpu_s()
    lines = monitor(socket_path, seconds)
    # Lines of commands inside scripts say `lua` where others say who called.
    requests = [line for line in lines if " lua]" not in line]
    cpu = (daemon.cpu_s() - before) / seconds
    return Idle(seconds, requests, cpu, empty_poll_s)


def monitor(socket_path: str, seconds: float) -> list[str]:
    """Lines of MONITOR for so long."""
    heard = b""
    with socket.socket(socket.AF_UNIX) as ear:
        ear.connect(socket_path)
        ear.sendall(b"MONITOR\r\n")
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ear.settimeout(left)
            try:
                heard += ear.recv(65536)
            except TimeoutError:
                break
    return heard.decode().splitlines()[1:]
