"""How many runs begin in one turn of the event loop: fewer while they block it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from scheduld.clock import monotonic
from scheduld.store.calls import MAX_CLAIMED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduld.model import Claim

FEW: Final = 8
"""So few runs are begun without a look at how long they take."""
FIRST: Final = 16
"""So many begin in the first turn, as nothing is known of their handler."""
TURN_S: Final = 0.003
"""What the first steps of the runs of one turn should take at most: a start of another type
passes through several turns, and is to be late by less than 50 ms."""


class Turns:
    """Begins claims in order, some in each turn of the loop.

    Runs that begin in one turn take their first steps in the next, one behind the other,
    and nothing else of the daemon moves meanwhile. An inline handler that computes before it
    first waits so holds up all types, as often as there are slots. So the first steps of a
    turn are timed, and those of the next are as many as fit into TURN_S. `start(claims)`
    begins the runs of a turn.
    """

    def __init__(self, start: Callable[[Sequence[Claim]], None]) -> None:
        self._start = start
        self._waiting: deque[Claim] = deque()
        self._most = FIRST
        self._is_timed = False

    def begin(self, claims: Sequence[Claim]) -> None:
        """Begin claims, now or in the turns to come."""
        if self._is_timed:
            self._waiting.extend(claims)
        elif len(claims) < FEW and self._most == MAX_CLAIMED:
            self._start(claims)
        else:
            self._waiting.extend(claims[self._most :])
            self._begin_timed(claims[: self._most])

    def _begin_timed(self, claims: Sequence[Claim]) -> None:
        self._is_timed = True
        try:
            self._start(claims)
        finally:
            # Called behind the first steps of what has just begun.
            asyncio.get_running_loop().call_soon(self._timed, len(claims), monotonic())

    def _timed(self, count: int, began: float) -> None:
        self._is_timed = False
        self._most = share(self._most, count, monotonic() - began)
        if self._waiting:
            some = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            self._begin_timed(some)


def share(most: int, count: int, seconds: float) -> int:
    """How many may begin in the next turn, if `count` of at most `most` took so long in this."""
    if seconds > TURN_S:
        return max(1, min(most, round(count * TURN_S / seconds)))
    # Twice as many at once would be too long a turn if handlers differ.
    return min(most * 2, MAX_CLAIMED) if count >= most or seconds * 2 < TURN_S else most
