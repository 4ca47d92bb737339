"""Runs the cases: every contender in turn, round after round, each before a fresh server."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.cases import CASES, Bench, Case, Sizes
from benchmarks.drive import DriverFailed, Unsupported
from benchmarks.records import Record, Writer, machine
from benchmarks.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.contenders import Contender

Entry = tuple["Contender", str]


def entries(case: Case, contenders: Sequence[Contender], only: Sequence[str]) -> list[Entry]:
    """Who takes part in a case; `only` names peers, or PEER:VARIANT."""
    return [
        (contender, variant)
        for contender in contenders
        for variant in case.variants(contender.name, contender.variants)
        if not only or contender.name in only or f"{contender.name}:{variant}" in only
    ]


class Runner:
    """One run of the benchmark; `failures` has what broke, `missing` what a peer cannot do."""

    def __init__(
        self,
        contenders: Sequence[Contender],
        sizes: Sizes,
        writer: Writer,
        tell: Callable[[str], None],
    ) -> None:
        self._contenders = contenders
        self._sizes = sizes
        self._writer = writer
        self._tell = tell
        self.failures: list[str] = []

    def run(self, cases: Sequence[str], only: Sequence[str], rounds: int) -> None:
        """Run cases by name."""
        with Server() as server:
            self._writer.about(machine(server.version()))
        for contender in self._contenders:
            words = {"version": contender.version, "delivery": contender.delivery}
            self._writer.peer(contender.name, {**words, "variants": contender.variants})
        for name in cases:
            self._case(CASES[name], only, rounds)

    def _case(self, case: Case, only: Sequence[str], rounds: int) -> None:
        left = entries(case, self._contenders, only)
        for number in range(1, rounds + 1):
            # One after the other within each round: a slow minute of the machine hits all alike.
            for entry in list(left):
                if not self._measure(case, entry, number):
                    left.remove(entry)

    def _measure(self, case: Case, entry: Entry, number: int) -> bool:
        contender, variant = entry
        who = f"{case.name} {number} {contender.name}:{variant}"
        try:
            with Server() as server:
                figures = case.measure(Bench(server, contender.driver, variant, self._sizes))
                if not figures or not all(math.isfinite(figure.value) for figure in figures):
                    raise ValueError(f"no figures: {figures}")
        except Unsupported as reason:
            self._writer.note(case.name, contender.name, variant, str(reason))
            self._tell(f"{who}: unsupported: {reason}")
            return False
        except (DriverFailed, KeyError, ValueError, ArithmeticError) as error:
            self.failures.append(f"{who}: {error!r}")
            self._writer.note(case.name, contender.name, variant, f"failed: {error!r}"[:300])
            self._tell(f"{who}: FAILED: {error}")
            return True
        for figure in figures:
            record = (case.name, figure.metric, contender.name, variant, number)
            self._writer.record(Record(*record, value=figure.value, unit=figure.unit))
        self._tell(f"{who}: " + ", ".join(f"{f.metric} {f.value:.6g} {f.unit}" for f in figures))
        return True
