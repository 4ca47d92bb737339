"""One replica's view of Redis being away: told once, then now and then, then that it is back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from scheduld.clock import monotonic

if TYPE_CHECKING:
    from scheduld.errors import ScheduldError

log = structlog.get_logger("scheduld.redis")
_REMIND_S = 30.0
_OTHER_REASON_S = 5.0
"""A lost connection may turn out to be a refused password: that must not wait for the reminder."""


class Outage:
    """Collects the troubles of all loops, so that twenty of them make one log line."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._told = 0.0
        self._reason = ""
        self.away = asyncio.Event()
        """Set while Redis cannot be used."""

    def trouble(self, error: ScheduldError) -> None:
        """Take note of a call that failed because of Redis."""
        now = monotonic()
        if self._since is None:
            self._since = now
            self.away.set()
        else:
            is_known = error.message == self._reason
            if now - self._told < (_REMIND_S if is_known else _OTHER_REASON_S):
                return
        self._told, self._reason = now, error.message
        log.warning(
            "Redis cannot be used now, work goes on by itself when it can",
            error=error.message,
            hint=error.hint,
        )

    def fine(self) -> None:
        """Take note of a call that worked."""
        if self._since is not None:
            seconds = round(monotonic() - self._since, 1)
            self._since = None
            self.away.clear()
            log.info("Redis can be used again", after_s=seconds)
