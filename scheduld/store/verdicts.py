"""Verdicts on the wire: how the scripts that store them take them, and what they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.model import VerdictKind
from scheduld.store.answers import Settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduld.model import Verdict
    from scheduld.store.keys import TypeKeys


class Verdicts:
    """Verdicts as scripts take them: the plain ones (done, no result) as pairs before the others.

    A verdict of a claim that has one already is a repeat: of two in one call the plain one counts.
    """

    def __init__(self, type_keys: TypeKeys, verdicts: Iterable[Verdict]) -> None:
        prefix = type_keys.task_prefix.encode()
        self.plain: list[Verdict] = []
        self.others: list[Verdict] = []
        self.args: list[bytes | str | int] = []
        rest: list[bytes | str | int] = []
        for verdict in verdicts:
            raw_id, fence, kind, delay_ms, at_ms, detail, reason, counted = verdict
            if kind is VerdictKind.DONE and not (detail or reason):
                self.plain.append(verdict)
                self.args += (raw_id, fence)
            else:
                self.others.append(verdict)
                rest += (raw_id, fence, kind.value, at_ms or delay_ms)
                rest += (detail, reason, "1" if counted else "")
        self.args += rest
        self.keys = [prefix + verdict.raw_id for verdict in (*self.plain, *self.others)]

    def settled(self, codes: Sequence[int]) -> list[tuple[Verdict, Settled]]:
        """Tell what became of each; a script that has stored all of them answers no codes."""
        verdicts = [*self.plain, *self.others]
        return list(zip(verdicts, map(Settled, codes or [1] * len(verdicts)), strict=True))

    def refused(self, codes: Sequence[int]) -> list[tuple[Verdict, Settled]]:
        """Tell which were refused."""
        return [pair for pair in self.settled(codes) if pair[1] is Settled.REFUSED] if codes else []
