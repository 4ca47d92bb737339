"""Tells systemd how the daemon is: one datagram each, nothing where there is no systemd.

The protocol is that of sd_notify(3).
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Notifier:
    """Sends states to `$NOTIFY_SOCKET`; a failing send is ignored, systemd then knows itself."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._address = env.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        self._watchdog = _watchdog_s(env)

    @property
    def feed_every_s(self) -> float | None:
        """Seconds between two `feed` calls; None if nobody watches this process."""
        return self._watchdog and self._watchdog / 2

    def ready(self, status: str) -> None:
        """The daemon works now."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self, status: str) -> None:
        """The daemon is on its way out."""
        self._send(f"STOPPING=1\nSTATUS={status}")

    def waiting(self, status: str, more_s: float) -> None:
        """The start goes on; it may take `more_s` seconds from now."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(more_s * 1e6)}\nSTATUS={status}")

    def feed(self) -> None:
        """The daemon can make progress."""
        self._send("WATCHDOG=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(state.encode(), self._address)


def _watchdog_s(env: Mapping[str, str]) -> float | None:
    if env.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = env.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isdigit() and int(text) else None
