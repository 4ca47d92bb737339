"""The one seam for time: nothing else in the package reads a clock.

Three clocks are kept apart. `monotonic` measures waits. The wall clock of this host
is only used to make ids and to read texts such as "tomorrow". Due times live on the
Redis server's clock, which `ServerClock` estimates from the answers of calls.
"""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Wall clock of this host in ms since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds that only go forward; the same clock as asyncio's loop time."""
    return time.monotonic()


class ServerClock:
    """A lower bound of the Redis server's clock, from the newest answer that told it.

    The server read its clock before the answer arrived, so at arrival its time is at
    least what it said: a start that waits for this bound is never early by the server's
    clock, and late by no more than the answer took to arrive.
    """

    def __init__(self) -> None:
        self._told_ms: float | None = None
        self._at = 0.0

    @property
    def known(self) -> bool:
        """Whether any answer has told the server's time yet."""
        return self._told_ms is not None

    def told(self, server_ms: float, *, at: float | None = None) -> None:
        """Take over what an answer said; `at` is the monotonic second it arrived."""
        self._told_ms = server_ms
        self._at = monotonic() if at is None else at

    def now_ms(self, *, at: float | None = None) -> float:
        """Least time the server can have at monotonic second `at` (default: now), in ms.

        Before the first answer this host's wall clock stands in.
        """
        if self._told_ms is None:
            return float(wall_ms())
        return self._told_ms + ((monotonic() if at is None else at) - self._at) * 1000

    def monotonic_at(self, server_ms: float) -> float:
        """Monotonic second at which `now_ms` reaches `server_ms`."""
        if self._told_ms is None:
            return monotonic() + (server_ms - wall_ms()) / 1000
        return self._at + (server_ms - self._told_ms) / 1000
