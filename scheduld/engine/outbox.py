"""Verdicts on their way to the store: kept until it has answered what became of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduld.model import Verdict
    from scheduld.store.answers import Settled

_MOST = 200
_MOST_BYTES = 2 * 1024 * 1024


class Outbox:
    """In order of arrival; a repeated send is harmless, the store answers that it has them."""

    def __init__(self) -> None:
        self._verdicts: dict[tuple[bytes, int], Verdict] = {}

    def __bool__(self) -> bool:
        return bool(self._verdicts)

    def put(self, verdict: Verdict) -> None:
        """Keep a verdict until it is stored; the first one of a claim counts."""
        self._verdicts.setdefault((verdict.raw_id, verdict.fence), verdict)

    def batch(self) -> tuple[Verdict, ...]:
        """What the next call should carry: the oldest, within the limits of a call."""
        chosen: list[Verdict] = []
        size = 0
        for verdict in self._verdicts.values():
            size += len(verdict.detail)
            if chosen and (len(chosen) >= _MOST or size > _MOST_BYTES):
                break
            chosen.append(verdict)
        return tuple(chosen)

    def stored(
        self,
        verdicts: Sequence[Verdict],
        settled: Sequence[Settled],
        tell: Callable[[Verdict, Settled], None],
    ) -> None:
        """Forget what the store has answered, and tell the answers."""
        for verdict, code in zip(verdicts, settled, strict=True):
            self._verdicts.pop((verdict.raw_id, verdict.fence), None)
            tell(verdict, code)
