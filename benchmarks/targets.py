"""What the core is to reach, each judged by the medians of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from benchmarks.stats import short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.records import Run
    from benchmarks.stats import Spread

FLOOR_BATCHES = {"batch50": 50, "default": 100, "batch500": 500}
_US = "scheduld"


class _Figures(Protocol):
    def get(self, case: str, peer: str, variant: str, metric: str) -> Spread | None: ...

    def contenders(self, case: str) -> list[tuple[str, str]]: ...

    def metrics(self, case: str) -> list[tuple[str, str]]: ...


@dataclass(frozen=True)
class Verdict:
    """One target: `reached` is None where figures are missing."""

    what: str
    wanted: str
    figure: str
    reached: bool | None

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return {True: "reached", False: "**missed**", None: "not measured"}[self.reached]


def judge(run: Run, figures: _Figures) -> list[Verdict]:
    """Judge every target."""
    judges = _Judges(run, figures)
    return [*judges.drain(), *judges.adds(), *judges.times(), *judges.rest()]


class _Judges:
    def __init__(self, run: Run, figures: _Figures) -> None:
        self._run = run
        self._figures = figures

    def drain(self) -> Iterator[Verdict]:
        """Throughput: beside BullMQ, the Python peers, the floor, and what the server pays."""
        ours = self._ours("drain", "rate")
        bull = self._best("drain", "rate", lambda peer, _: peer == "bullmq")
        yield _times("drain to BullMQ at its best", ours, bull, 2.5)
        best = self._best("drain", "rate", self._is_safe_python_peer)
        yield _times("drain to the best at-least-once Python peer", ours, best, 12)
        batch = self._ours("drain", "batch")
        floor = floor_variant(batch) if batch else "default"
        base = self._median("drain", "floor", floor, "rate")
        yield _times(f"drain to the floor, {FLOOR_BATCHES[floor]} a batch", ours, base, 0.5)
        yield _most("server CPU of a task", self._ours("drain", "server CPU"), 25, "µs")
        yield _least("thread handlers", self._median("threads", _US, "thread", "rate"), 5_000, "/s")
        one, two = (self._median("replicas", _US, name, "rate") for name in ("default", "two"))
        yield _times("two daemons to one", two, one, 1.0)
        yield _least("rate beside 500,000 later tasks", self._ours("backlog", "ratio"), 0.9, " x")

    def adds(self) -> Iterator[Verdict]:
        """Adding, beside BullMQ."""
        for case, factor in (("add-one", 0.9), ("add-gathered", 1.2), ("add-bulk", 3.0)):
            bull = self._best(case, "rate", lambda peer, _: peer == "bullmq")
            yield _times(f"{case} to BullMQ at its best", self._ours(case, "rate"), bull, factor)

    def times(self) -> Iterator[Verdict]:
        """Lateness, the same instant, pace."""
        yield _most("lateness, p50", self._ours("late", "p50"), 0.8, "ms")
        yield _most("lateness, p99", self._ours("late", "p99"), 2.5, "ms")
        for variant in ("default", "thread"):
            late = self._median("flood", _US, variant, "p99")
            yield _most(f"lateness beside a flood ({variant}), p99", late, 50, "ms")
        early = [self._ours(case, "early") for case in ("late", "instant")]
        known = [value for value in early if value is not None]
        yield _most("started early", max(known) if known else None, 0, "tasks")
        yield _most("last of 5,000 at one instant", self._ours("instant", "last"), 150, "ms")
        gaps = [self._ours("pace", f"gap, {which}") for which in ("median", "least", "most")]
        off = [abs(gap - 500) for gap in gaps if gap is not None]
        yield _most("pace: off 500 ms, median", off[0] if off else None, 1, "ms")
        yield _most("pace: off 500 ms, at most", max(off) if off else None, 5, "ms")

    def rest(self) -> Iterator[Verdict]:
        """What scheduld takes while it waits."""
        yield _most("requests of 10 idle types", self._ours("idle", "requests"), 2, "/s")
        yield _most("CPU of 10 idle types", self._ours("idle", "CPU"), 0.5, "%")
        least = self._best("memory", "memory", lambda peer, _: peer != _US, highest=False)
        yield _most(
            "Redis memory of a pending task", self._ours("memory", "memory"), least, "bytes"
        )
        yield _most("scheduld add to exit", self._ours("cli", "CPU to exit"), 200, "ms")
        yield _most("growth over 500,000 tasks", self._ours("growth", "growth"), 1, "MB")

    def _ours(self, case: str, metric: str) -> float | None:
        return self._median(case, _US, "default", metric)

    def _median(self, case: str, peer: str, variant: str, metric: str) -> float | None:
        found = self._figures.get(case, peer, variant, metric)
        return found.median if found else None

    def _best(
        self,
        case: str,
        metric: str,
        wanted: Callable[[str, str], bool],
        *,
        highest: bool = True,
    ) -> float | None:
        found = [
            self._median(case, peer, variant, metric)
            for peer, variant in self._figures.contenders(case)
            if wanted(peer, variant)
        ]
        values = [value for value in found if value is not None]
        if not values:
            return None
        return max(values) if highest else min(values)

    def _is_safe_python_peer(self, peer: str, variant: str) -> bool:
        if peer in (_US, "floor", "bullmq"):
            return False
        # By agreement of the drivers: what is said of delivery starts with the mode, and a
        # variant that may lose tasks all the same is called lossy.
        delivery = str(self._run.peers.get(peer, {}).get("delivery", ""))
        return delivery.startswith("at-least-once") and "lossy" not in variant


def floor_variant(batch: float) -> str:
    """Which variant of the floor is nearest to a batch size, by ratio."""
    return min(FLOOR_BATCHES, key=lambda name: abs(math.log(FLOOR_BATCHES[name] / batch)))


def _times(what: str, ours: float | None, base: float | None, least: float) -> Verdict:
    wanted = f"at least {least:g} x"
    if ours is None or not base:
        return Verdict(what, wanted, "-", None)
    found = ours / base
    return Verdict(what, wanted, f"{found:.2f} x ({short(ours)} to {short(base)})", found >= least)


def _least(what: str, value: float | None, least: float, unit: str) -> Verdict:
    wanted = f"at least {least:,g}{unit}"
    if value is None:
        return Verdict(what, wanted, "-", None)
    return Verdict(what, wanted, f"{short(value)}{unit}", value >= least)


def _most(what: str, value: float | None, most: float | None, unit: str) -> Verdict:
    if most is None:
        return Verdict(what, "below every peer", "-" if value is None else short(value), None)
    wanted = f"at most {short(most)} {unit}"
    if value is None:
        return Verdict(what, wanted, "-", None)
    return Verdict(what, wanted, f"{short(value)} {unit}", value <= most)
