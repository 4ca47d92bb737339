"""Verdicts on the wire: how the scripts that store them take them, and what they answer."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from scheduld.model import VerdictKind
from scheduld.store.answers import Settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.model import Verdict
    from scheduld.store.keys import TypeKeys

_FENCE = attrgetter("fence")


class Verdicts:
    """Verdicts as scripts take them: the plain ones (done, no result) as ids before the others.

    `fences` has those of the plain ones (finish.lua). A verdict of a claim that has one already
    is a repeat: of two in one call the plain one counts.
    """

    def __init__(self, type_keys: TypeKeys, verdicts: Sequence[Verdict]) -> None:
        self.plain = [verdict for verdict in verdicts if _is_plain(verdict)]
        self.others: list[Verdict] = []
        self.args: list[bytes | str | int] = [verdict.raw_id for verdict in self.plain]
        if len(self.plain) < len(verdicts):
            self.others = [verdict for verdict in verdicts if not _is_plain(verdict)]
            for raw_id, fence, kind, delay_ms, at_ms, detail, reason, counted, told in self.others:
                self.args += (raw_id, fence, kind.value, at_ms or delay_ms)
                self.args += (detail, reason, "1" if counted else "", told)
        self.fences = " ".join(
            f"{fence}*{len(list(run))}" for fence, run in groupby(self.plain, _FENCE)
        )
        self.keys = type_keys.tasks(verdict.raw_id for verdict in (*self.plain, *self.others))

    def settled(self, codes: Sequence[int]) -> list[tuple[Verdict, Settled]]:
        """Tell what became of each; a script that has stored all of them answers no codes."""
        verdicts = [*self.plain, *self.others]
        return list(zip(verdicts, map(Settled, codes or [1] * len(verdicts)), strict=True))

    def refused(self, codes: Sequence[int]) -> list[tuple[Verdict, Settled]]:
        """Tell which were refused."""
        return [pair for pair in self.settled(codes) if pair[1] is Settled.REFUSED] if codes else []


def _is_plain(verdict: Verdict) -> bool:
    return verdict.kind is VerdictKind.DONE and not (
        verdict.detail or verdict.reason or verdict.told
    )
