"""The one seam for time: nothing else in the package reads a clock.

Three clocks are kept apart. `monotonic` measures waits. The wall clock of this host
is only used to make ids and to read texts such as "tomorrow". Due times live on the
Redis server's clock, which `ServerClock` estimates from the answers of calls.
"""

from __future__ import annotations

import time

_DOUBT_MS_A_S = 1.0
"""How much two clocks usually come to differ at most, in ms a second: twice 500 ppm."""
_MOST_AHEAD_MS = 0.5
"""By how much the quickest answer may be believed against the newest: a server clock that was
set back by less than a round trip, or is being slewed fast, makes starts early by no more."""


_moved_ms: int | None = None


def wall_ms() -> int:
    """Wall clock of this host in ms since the epoch."""
    return time.time_ns() // 1_000_000 if _moved_ms is None else _moved_ms


def host_ms() -> int:
    """The same, whether or not the test kit has stopped it."""
    return time.time_ns() // 1_000_000


def moved_ms() -> int | None:
    """The instant at which the test kit has stopped time in this process; None if it has not."""
    return _moved_ms


def move(ms: int | None) -> None:
    """Stop the wall clock of this process at `ms`, None: let it run. Scripts take it as now too."""
    global _moved_ms
    _moved_ms = ms


def monotonic() -> float:
    """Seconds that only go forward; the same clock as asyncio's loop time."""
    return time.monotonic()


class ServerClock:
    """A lower bound of the Redis server's clock, from what its answers told.

    The server read its clock before its answer arrived, so at arrival its time is at least
    what it said: a start that waits for this bound is never early by the server's clock, and
    late by no more than the answer took to arrive. The answer that was the quickest of late
    is relied on too, less and less as it ages: clocks differ in pace.
    """

    def __init__(self) -> None:
        # What the server's clock is ahead of `monotonic` at least, in ms: by the newest answer,
        # and by the best one, which arrived at `_best_at`.
        self._newest_ms: float | None = None
        self._best_ms = 0.0
        self._best_at = 0.0
        self._is_new = True

    @property
    def known(self) -> bool:
        """Whether any answer has told the server's time yet."""
        return self._newest_ms is not None

    def told(
        self, server_ms: float, *, at: float | None = None, sent_at: float | None = None
    ) -> None:
        """Take over what an answer said.

        `at` is the monotonic second it arrived (default: now). `sent_at`, when it was asked
        for, shows whether the server's clock was set back; without it, all that was told
        before is forgotten.
        """
        at = monotonic() if at is None else at
        ahead_ms = server_ms - at * 1000
        if sent_at is not None and not self._is_new:
            best_ms = self._best_ms - (at - self._best_at) * _DOUBT_MS_A_S
            is_set_back = best_ms > server_ms - sent_at * 1000
            if best_ms > ahead_ms and not is_set_back:
                self._newest_ms = ahead_ms
                return
        self._newest_ms = self._best_ms = ahead_ms
        self._best_at = at
        self._is_new = False

    def new_connection(self) -> None:
        """Forget what was told when the next answer comes: another server may give it."""
        self._is_new = True

    def now_ms(self, *, at: float | None = None) -> float:
        """Least time the server can have at monotonic second `at` (default: now), in ms.

        Before the first answer this host's wall clock stands in.
        """
        if self._newest_ms is None:
            return float(wall_ms())
        at = monotonic() if at is None else at
        best_ms = self._best_ms - (at - self._best_at) * _DOUBT_MS_A_S
        most_ms = self._newest_ms + _MOST_AHEAD_MS
        return at * 1000 + min(max(self._newest_ms, best_ms), most_ms)

    def monotonic_at(self, server_ms: float) -> float:
        """Monotonic second at which `now_ms` reaches `server_ms`."""
        if self._newest_ms is None:
            return monotonic() + (server_ms - wall_ms()) / 1000
        by_newest = (server_ms - self._newest_ms) / 1000
        since_best_ms = server_ms - self._best_ms - self._best_at * 1000
        pace = 1000 - _DOUBT_MS_A_S if since_best_ms > 0 else 1000
        by_best = self._best_at + since_best_ms / pace
        return max(min(by_newest, by_best), by_newest - _MOST_AHEAD_MS / 1000)
