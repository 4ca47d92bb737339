"""The cases: what each asks of a contender, and which figures it makes of the answers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.contenders import OURS
from benchmarks.drive import Driver, act
from benchmarks.server import Ear, Server
from benchmarks.stats import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from benchmarks.drive import Answer

ALL_OF_PEERS = {"*": ("*",), "scheduld": ("default", "tuned"), "floor": ("default",)}
"""Variants that take part unless a case names others: of the peers whatever they have."""
_TIMEOUT_S = 900.0
_SLOW = {
    "arq:default": 2_000,
    "celery:default": 5_000,
    "celery:tuned": 5_000,
    "docket:default": 1_000,
    "rq:default": 500,
    "rq:tuned": 2_000,
    "streaq:default": 5_000,
    "streaq:tuned": 5_000,
}
"""What drains fewer tasks than the rest: at their rates 20,000 would take minutes a round."""


@dataclass(frozen=True)
class Sizes:
    """How much each case does."""

    drain: int = 20_000
    later: int = 500_000
    add_one: int = 5_000
    add_gathered: int = 20_000
    add_bulk: int = 50_000
    late: int = 2_000
    late_s: float = 20
    instant: int = 5_000
    pending: int = 100_000
    idle_s: float = 15
    paced: int = 20
    flood: int = 50_000
    flood_spin: int = 5_000
    growth: int = 500_000
    growth_step: int = 50_000
    starts: int = 10


SMOKE = Sizes(
    drain=300,
    later=1_000,
    add_one=50,
    add_gathered=200,
    add_bulk=500,
    late=50,
    late_s=1,
    instant=50,
    pending=500,
    idle_s=1,
    paced=3,
    flood=400,
    flood_spin=100,
    growth=400,
    growth_step=100,
    starts=1,
)


@dataclass(frozen=True)
class Figure:
    """One number that a case yields."""

    metric: str
    value: float
    unit: str


@dataclass(frozen=True)
class Bench:
    """One contender before a fresh server."""

    server: Server
    driver: Driver
    variant: str
    sizes: Sizes

    def act(
        self,
        action: str,
        *options: object,
        on_ready: Callable[[], None] | None = None,
    ) -> Answer:
        """Carry out an action of the driver."""
        given = ["--redis", self.server.url, "--variant", self.variant, *map(str, options)]
        return act(self.driver, action, given, timeout_s=_TIMEOUT_S, on_ready=on_ready)

    def fill(self, count: int, delay_s: int = 0) -> None:
        """Have tasks added, and wait until the server has digested them."""
        delay = ["--delay", delay_s] if delay_s else []
        self.act("fill", "--count", count, *delay)
        self.server.settle()


@dataclass(frozen=True)
class Case:
    """One case; `who` has the variants of each contender, "*" stands for the others and for all."""

    name: str
    title: str
    measure: Callable[[Bench], list[Figure]]
    who: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: ALL_OF_PEERS)
    higher_is_better: bool = True

    def variants(self, peer: str, known: Iterable[str]) -> list[str]:
        """Which variants of a contender take part."""
        wanted = self.who.get(peer, self.who.get("*", ()))
        return [variant for variant in known if variant in wanted or "*" in wanted]


def _drain(bench: Bench) -> list[Figure]:
    count = min(bench.sizes.drain, _SLOW.get(f"{bench.driver.name}:{bench.variant}", 1_000_000))
    bench.fill(count)
    before, calls = bench.server.cpu_s(), bench.server.script_calls()
    answer = bench.act("work", "--count", count)
    server, calls = bench.server.cpu_s() - before, bench.server.script_calls() - calls
    figures = [
        Figure("rate", count / answer.number("seconds"), "tasks/s"),
        Figure("client CPU", answer.number("cpu_seconds") / count * 1e6, "µs/task"),
        Figure("server CPU", server / count * 1e6, "µs/task"),
    ]
    if calls and bench.driver.name in OURS:
        # Of others it would say little: only ours do all by scripts.
        figures.append(Figure("batch", count / calls, "tasks/script call"))
    return figures


def _backlog(bench: Bench) -> list[Figure]:
    alone = _drain(bench)[0].value
    bench.server.flush()
    bench.fill(bench.sizes.later, delay_s=86_400)
    beside = _drain(bench)[0].value
    return [
        Figure("rate, none pending", alone, "tasks/s"),
        Figure(f"rate, {bench.sizes.later:,} pending", beside, "tasks/s"),
        Figure("ratio", beside / alone, "x"),
    ]


def _add(mode: str, bench: Bench) -> list[Figure]:
    sizes = {
        "one": bench.sizes.add_one,
        "gathered": bench.sizes.add_gathered,
        "bulk": bench.sizes.add_bulk,
    }
    count = sizes[mode]
    before = bench.server.cpu_s()
    answer = bench.act("add", "--mode", mode, "--count", count)
    server = bench.server.cpu_s() - before
    return [
        Figure("rate", count / answer.number("seconds"), "tasks/s"),
        Figure("client CPU", answer.number("cpu_seconds") / count * 1e6, "µs/task"),
        Figure("server CPU", server / count * 1e6, "µs/task"),
    ]


def _lateness(answer: Answer) -> list[Figure]:
    values = [float(value) for value in answer.values["lateness_ms"]]
    return [
        Figure("p50", percentile(values, 50), "ms"),
        Figure("p99", percentile(values, 99), "ms"),
        Figure("last", max(values), "ms"),
        Figure("early", answer.number("early"), "tasks"),
    ]


def _late(bench: Bench) -> list[Figure]:
    sizes = bench.sizes
    return _lateness(bench.act("late", "--count", sizes.late, "--seconds", sizes.late_s))


def _instant(bench: Bench) -> list[Figure]:
    return _lateness(bench.act("instant", "--count", bench.sizes.instant))


def _memory(bench: Bench) -> list[Figure]:
    # The first add loads scripts and makes what is there once, which is no task's.
    bench.fill(100, delay_s=86_400)
    before = bench.server.used_bytes()
    bench.fill(bench.sizes.pending, delay_s=86_400)
    # The last client is gone, and so are its buffers.
    time.sleep(0.2)
    used = bench.server.used_bytes() - before
    return [Figure("memory", used / bench.sizes.pending, "bytes/task")]


def _idle(bench: Bench) -> list[Figure]:
    heard: list[float] = []

    def listen() -> None:
        seconds = bench.sizes.idle_s * 0.95
        before = bench.server.commands()
        requests = Ear(bench.server).requests(seconds)
        # INFO and MONITOR are ours.
        heard.extend([requests / seconds, (bench.server.commands() - before - 2) / seconds])

    options = ["--types", 10, "--seconds", bench.sizes.idle_s]
    answer = bench.act("idle", *options, on_ready=listen)
    return [
        Figure("requests", heard[0], "calls/s"),
        Figure("commands, those in scripts too", heard[1], "calls/s"),
        Figure("CPU", answer.number("cpu_seconds") / answer.number("seconds") * 100, "% of a core"),
    ]


def _pace(bench: Bench) -> list[Figure]:
    answer = bench.act("pace", "--count", bench.sizes.paced, "--seconds", 0.5)
    gaps = [float(gap) for gap in answer.values["gaps_ms"]]
    return [
        Figure("gap, median", percentile(gaps, 50), "ms"),
        Figure("gap, least", min(gaps), "ms"),
        Figure("gap, most", max(gaps), "ms"),
    ]


def _flood(bench: Bench) -> list[Figure]:
    count = bench.sizes.flood_spin if bench.variant == "spin" else bench.sizes.flood
    answer = bench.act("flood", "--count", count, "--seconds", 30)
    drained = Figure("flood drained", answer.number("seconds"), "s")
    return [*_lateness(answer), drained]


def _growth(bench: Bench) -> list[Figure]:
    sizes = bench.sizes
    answer = bench.act("growth", "--count", sizes.growth, "--step", sizes.growth_step)
    rss = [float(kb) / 1024 for kb in answer.values["rss_kb"]]
    figures = [
        Figure(f"after {(index + 1) * sizes.growth_step:,}", value, "MB")
        for index, value in enumerate(rss)
    ]
    # The first step fills the pools that any later one uses again.
    return [*figures, Figure("growth", rss[-1] - rss[0], "MB")]


def _cli(bench: Bench) -> list[Figure]:
    answer = bench.act("cli", "--count", bench.sizes.starts)
    spent = [float(seconds) * 1000 for seconds in answer.values["cpu_seconds"]]
    return [Figure("CPU to exit", percentile(spent, 50), "ms")]


_DRAIN = {**ALL_OF_PEERS, "floor": ("default", "batch50", "batch500", "tuned")}
_ADD = {**ALL_OF_PEERS, "scheduld": ("default", "blocking")}
_MEMORY = {"*": ("default",), "floor": ()}
_IDLE = {**ALL_OF_PEERS, "scheduld": ("default",), "floor": ()}
_OURS = {"scheduld": ("default",)}
_TWO = {"scheduld": ("default", "two")}
_THREAD = {"scheduld": ("thread",)}
_FLOOD = {"scheduld": ("default", "thread", "spin")}


CASES = {
    case.name: case
    for case in (
        Case("drain", "20,000 due no-op tasks", _drain, _DRAIN),
        Case("threads", "20,000 due tasks with thread handlers", _drain, _THREAD),
        Case("replicas", "20,000 due tasks, one and two daemons", _drain, _TWO),
        Case("backlog", "20,000 due tasks beside 500,000 due tomorrow", _backlog, _OURS),
        Case("add-one", "5,000 adds, each awaited", partial(_add, "one"), _ADD),
        Case("add-gathered", "20,000 adds, 100 at a time", partial(_add, "gathered"), _ADD),
        Case("add-bulk", "50,000 tasks by the bulk call", partial(_add, "bulk"), _ADD),
        Case(
            "late",
            "2,000 one-offs at random instants in 20 s",
            _late,
            ALL_OF_PEERS,
            higher_is_better=False,
        ),
        Case(
            "instant", "5,000 tasks at one instant", _instant, ALL_OF_PEERS, higher_is_better=False
        ),
        Case("memory", "100,000 tasks due tomorrow", _memory, _MEMORY, higher_is_better=False),
        Case("idle", "10 types or queues, nothing to do", _idle, _IDLE, higher_is_better=False),
        Case("pace", "poll_timeout = 500ms", _pace, _OURS),
        Case(
            "flood",
            "a task every 20 ms while 50,000 of another type are due (spin: 5,000)",
            _flood,
            _FLOOD,
            higher_is_better=False,
        ),
        Case("growth", "memory of a daemon over 500,000 tasks", _growth, _OURS),
        Case("cli", "scheduld add, from start to exit", _cli, _OURS, higher_is_better=False),
    )
}
