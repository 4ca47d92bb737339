"""Verdicts on their way to the store: kept until it has answered what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduld.model import Verdict

_MOST = 200
_MOST_BYTES = 2 * 1024 * 1024


class Outbox:
    """In order of arrival; a repeated send is harmless, the store answers that it has them."""

    def __init__(self) -> None:
        self._verdicts: list[Verdict] = []

    def __bool__(self) -> bool:
        return bool(self._verdicts)

    def put(self, verdict: Verdict) -> None:
        """Keep a verdict until it is stored."""
        self._verdicts.append(verdict)

    def batch(self) -> tuple[Verdict, ...]:
        """What the next call should carry: the oldest, within the limits of a call."""
        chosen = self._verdicts[:_MOST]
        size = 0
        for count, verdict in enumerate(chosen):
            size += len(verdict.detail)
            if size > _MOST_BYTES and count:
                return tuple(chosen[:count])
        return tuple(chosen)

    def stored(self, verdicts: tuple[Verdict, ...]) -> None:
        """Forget a batch that the store has answered."""
        # What came since stands behind it: a batch is always the head.
        del self._verdicts[: len(verdicts)]
