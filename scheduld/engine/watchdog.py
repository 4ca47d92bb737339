"""Answers for noticing that the event loop is stuck: feeds systemd's watchdog while it is not.

A thread of its own that calls nobody: an outage of Redis never stops it, a blocked loop does.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from scheduld.clock import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable

_SLACK_S = 1.0


class Pulse:
    """Sign of life of the event loop, and how long it may be without one.

    The loop ticks; while inline handlers run it may be silent for as long as the longest of
    them may take, since a handler may block it.
    """

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._ticked_at = monotonic()
        self._inline: dict[int, int] = {}

    def tick(self) -> None:
        """Called by the loop, every `interval_s`."""
        self._ticked_at = monotonic()

    def began(self, timeout_ms: int) -> None:
        """Count an inline handler that may take so long."""
        self._inline[timeout_ms] = self._inline.get(timeout_ms, 0) + 1

    def ended(self, timeout_ms: int) -> None:
        """Count an inline handler as over."""
        self._inline[timeout_ms] -= 1

    def is_stuck(self) -> bool:
        """Whether the loop has been silent for longer than it may."""
        running = [timeout for timeout, count in list(self._inline.items()) if count]
        allowed = max([*running, 0]) / 1000 + self.interval_s + _SLACK_S
        return monotonic() - self._ticked_at > allowed


class Watchdog(threading.Thread):
    """Looks at the pulse; `feed` is called every `feed_every_s`, if given, while it is there.

    `on_stuck(seconds)` is called again and again while the loop is stuck, from this thread,
    with how long this thread has seen it so: a whole process that was stopped for a while is
    not stuck, its loop ticks again at once.
    """

    def __init__(
        self,
        pulse: Pulse,
        *,
        on_stuck: Callable[[float], None],
        feed: Callable[[], None] = lambda: None,
        feed_every_s: float | None = None,
    ) -> None:
        super().__init__(name="scheduld-watchdog", daemon=True)
        self._pulse = pulse
        self._on_stuck = on_stuck
        self._feed = feed
        self._feed_every_s = feed_every_s
        self._feed_at = 0.0
        self._every_s = min(feed_every_s or pulse.interval_s, pulse.interval_s)
        self._over = threading.Event()
        self._stuck_at: float | None = None

    def stop(self) -> None:
        """End the thread."""
        self._over.set()

    def run(self) -> None:
        """Look until stopped."""
        while not self._over.wait(self._every_s):
            self.look()

    def look(self) -> None:
        """Look once."""
        now = monotonic()
        if not self._pulse.is_stuck():
            self._stuck_at = None
            if self._feed_every_s is not None and now >= self._feed_at:
                # A little less, or a look that comes early would make it wait for the next.
                self._feed_at = now + self._feed_every_s * 0.9
                self._feed()
            return
        self._stuck_at = self._stuck_at or now
        if now - self._stuck_at > _SLACK_S:
            self._on_stuck(now - self._stuck_at)
