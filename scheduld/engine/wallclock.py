"""Answers for this host's wall clock being told about when it differs from the server's.

Nothing here goes by it: ticks and due times are on the server's clock. But people read it, and
"tomorrow 09:00" of a command on this host means another instant.
"""

from __future__ import annotations

import structlog

log = structlog.get_logger("scheduld.clock")
LIMIT_MS = 1_000
"""A difference up to this is not worth a word."""


class WallClock:
    """Tells once that the clock is off, again when that changes much, and when it is right."""

    def __init__(self) -> None:
        self._told_ms = 0.0

    def compared(self, ahead_ms: float, doubt_ms: float) -> None:
        """Take note of how far the host is ahead of the server, and how exact that is."""
        if news(ahead_ms, doubt_ms, self._told_ms):
            self._told_ms = ahead_ms
            log.warning(
                "the clock of this host differs from that of Redis, by which tasks are due",
                ahead_s=round(ahead_ms / 1000, 1),
                hint="set both by NTP; until then texts like 'tomorrow 09:00' mean this host's day",
            )
        elif self._told_ms and abs(ahead_ms) + doubt_ms <= LIMIT_MS:
            self._told_ms = 0.0
            log.info("the clock of this host agrees with that of Redis again")


def news(ahead_ms: float, doubt_ms: float, told_ms: float) -> bool:
    """Whether a difference is one to tell, where `told_ms` is what was told last (0: nothing).

    One that goes on is told again when it has changed by half, and by more than the limit.
    """
    if abs(ahead_ms) - doubt_ms <= LIMIT_MS:
        return False
    change_ms = abs(ahead_ms - told_ms) - doubt_ms
    return not told_ms or change_ms > max(LIMIT_MS, abs(told_ms) / 2)
