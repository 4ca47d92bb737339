"""What a handler, or a reschedule predicate, may return or raise instead of a result.

Each is an exception, so `return Retry(after=30)` and `raise Retry(after=30)` mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta


class Outcome(Exception):
    """Base of the outcomes a handler can choose."""


class Retry(Outcome):
    """Try again later; counts as a failed attempt.

    `after`: a timedelta, a duration text ("30s") or seconds; kept exactly, without jitter or
    cap. None: the wait that the type's retry policy says.
    """

    def __init__(self, after: timedelta | str | float | None = None, reason: str = "") -> None:
        super().__init__(reason or "handler asked for a retry")
        self.after = after


class Snooze(Outcome):
    """Run again at `until` (an aware datetime, or a timedelta, duration text or seconds from now).

    Does not count as an attempt. A time that has passed means in a second.
    """

    def __init__(self, until: datetime | timedelta | str | float) -> None:
        super().__init__("snoozed")
        self.until = until


class Dead(Outcome):
    """Give up now: the task is dead with this reason and is not tried again."""

    def __init__(self, reason: str = "handler gave up") -> None:
        super().__init__(reason)
        self.reason = reason


class Again(Outcome):
    """Of a reschedule predicate: the series goes on, with its next occurrence at `at`.

    `at`: an aware datetime, or a timedelta, duration text or seconds from now; None: the next
    instant of the grid, which stays as it is in any case. `payload`: a JSON merge patch.
    """

    def __init__(
        self,
        at: datetime | timedelta | str | float | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("again")
        self.at = at
        self.payload = payload
