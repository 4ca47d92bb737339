"""How long a client waits while Redis is away, and what it says when it gives up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduld.clock import monotonic
from scheduld.errors import InvalidInput, OutcomeUnknown, ScheduldError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


@dataclass(slots=True)
class Patience:
    """One verb's attempts. `repeatable`: a repeat after a lost answer does no harm."""

    wait_s: float
    repeatable: bool
    _deadline: float = field(init=False)
    _pause_s: float = field(default=_FIRST_PAUSE_S, init=False)
    _unknown: OutcomeUnknown | None = field(default=None, init=False)
    _progress: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        wait_s: object = self.wait_s
        if not isinstance(wait_s, int | float) or not 0 <= wait_s < math.inf:
            raise InvalidInput(f"wait_s is a number of seconds, not {wait_s!r}")
        self._deadline = monotonic() + self.wait_s

    def note(self, progress: int) -> None:
        """Wait anew if the verb has come further since the last error: it is a long one."""
        if progress != self._progress:
            self._progress = progress
            self._deadline = monotonic() + self.wait_s
            self._pause_s, self._unknown = _FIRST_PAUSE_S, None

    def pause_s(
        self, error: ScheduldError, explain: Callable[[ScheduldError], None] | None = None
    ) -> float:
        """Seconds to wait before the next attempt; raises `error`, or what is worse, to end.

        An attempt that was sent and not answered leaves the outcome open, whatever later
        attempts met. `explain` completes the error that is raised.
        """
        pause = self._pause_s
        is_over = monotonic() + pause > self._deadline
        if isinstance(error, OutcomeUnknown):
            self._unknown = error
            is_over = is_over or not self.repeatable
        elif not isinstance(error, Unreachable):
            is_over, self._unknown = True, None
        if is_over:
            last = self._unknown or error
            if explain is not None:
                explain(last)
            raise last
        self._pause_s = min(pause * 2, _LONGEST_PAUSE_S)
        return pause
