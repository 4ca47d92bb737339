"""Verdicts on their way to the store: kept until it has answered what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.model import Verdict

_MOST = 200
_MOST_BYTES = 2 * 1024 * 1024


class Outbox:
    """In order of arrival; a repeated send is harmless, the store answers that it has them.

    What a call carries is taken out, and either `stored` or `put_back`.
    """

    def __init__(self) -> None:
        self._waiting: list[Verdict] = []
        self._under_way = 0

    def __len__(self) -> int:
        """How many wait to be sent."""
        return len(self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether every verdict is stored."""
        return not (self._waiting or self._under_way)

    def put(self, verdict: Verdict) -> None:
        """Keep a verdict until it is stored."""
        self._waiting.append(verdict)

    def take(self) -> tuple[Verdict, ...]:
        """Take what the next call should carry: the oldest, within the limits of a call."""
        chosen = self._waiting[:_MOST]
        size = 0
        for count, verdict in enumerate(chosen):
            size += len(verdict.detail) + len(verdict.told)
            if size > _MOST_BYTES and count:
                del chosen[count:]
                break
        del self._waiting[: len(chosen)]
        self._under_way += len(chosen)
        return tuple(chosen)

    def put_back(self, verdicts: Sequence[Verdict]) -> None:
        """Keep what was taken for another call."""
        self._under_way -= len(verdicts)
        self._waiting[:0] = verdicts

    def stored(self, verdicts: Sequence[Verdict]) -> None:
        """Forget what was taken: the store has answered."""
        self._under_way -= len(verdicts)
