"""Thousands of schedules in a daemon: its start, its idle CPU, and the midnight of them all.

At midnight all schedules fire at once, beside as many one-off tasks, under three daemons with
few slots. What must hold: each schedule has one start, each task runs, no daemon runs more of a
type than its limit, and the server answers others all the time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduld import TaskSpec
from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.servers import wait_until
from tests.support.work import END, START, Line

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clocks import MovedClock
    from tests.support.servers import RunningServer

MIDNIGHT = datetime(2026, 12, 24, tzinfo=UTC)
LIMIT = 4
_TYPES = 4
_ZONES = ("UTC", "Africa/Abidjan", "Atlantic/Reykjavik", "Africa/Accra")
"""At that night all of them show UTC."""
MOST_START_S = 3.0
MOST_CPU = 0.02
MOST_PING_MS = 50.0


@dataclass
class Account:
    """What it took; `violations` are sentences, none if all is well."""

    start_s: float = 0.0
    start_cpu_s: float = 0.0
    cpu: float = 0.0
    done_s: float = 0.0
    ping_ms: float = 0.0
    most_running: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"VIOLATED: {len(self.violations)}" if self.violations else "OK"
        return (
            f"start {self.start_s:.2f} s ({self.start_cpu_s:.2f} of CPU), idle "
            f"{self.cpu * 100:.2f} % of a core, all done {self.done_s:.1f} s after midnight, PING "
            f"p99 {self.ping_ms:.1f} ms, most runs of a type in a daemon {self.most_running}; "
            f"{verdict}"
        )


def site(folder: Path, url: str, schedules: int) -> Site:
    """Make a folder with so many schedules, over a few types."""
    kind = {"handler": WORK + "sleep", "concurrency": LIMIT}
    keep = {"count": 1_000_000, "age": "1d"}
    return Site(
        folder,
        url,
        types={f"t{number}": {**kind, "keep_done": keep} for number in range(_TYPES)},
        schedules={
            f"s{number}": {
                "type": f"t{number % _TYPES}",
                "cron": _line(number),
                "timezone": _ZONES[number // _TYPES % len(_ZONES)],
                "payload": {"s": 0.001},
            }
            for number in range(schedules)
        },
    )


def _line(number: int) -> str:
    """A cron line of its own that fires at the midnight of 24 December, and at others."""
    first, second, month = number % 12 + 1, number // 12 % 11 + 13, number // 132 % 11 + 1
    return f"0 0 {first},{second},24 {month},12 *"


def run(
    folder: Path,
    server: RunningServer,
    clock: MovedClock,
    *,
    schedules: int = 2_000,
    tasks: int = 5_000,
    idle_s: float = 12.0,
) -> Account:
    """Start, idle, and live through midnight."""
    account = Account()
    place = site(folder, server.url, schedules)
    clock.put(MIDNIGHT - timedelta(minutes=10))
    with ExitStack() as stack:
        began = time.monotonic()
        first = stack.enter_context(DaemonProcess(place, env=clock.environment))
        wait_until(lambda: first.has_said("schedules are served"), "all schedules are read", 60)
        account.start_s, account.start_cpu_s = time.monotonic() - began, first.cpu_s()
        let_pass(1.0)
        cpu_s, since = first.cpu_s(), time.monotonic()
        let_pass(idle_s)
        account.cpu = (first.cpu_s() - cpu_s) / (time.monotonic() - since)
        with place.client() as client:
            for number in range(_TYPES):
                spec = TaskSpec(payload={"s": 0.001}, at=MIDNIGHT)
                client.schedule_many(f"t{number}", [spec] * (tasks // _TYPES))
        for _ in range(2):
            stack.enter_context(DaemonProcess(place, env=clock.environment).started())
        clock.put(MIDNIGHT - timedelta(seconds=15))
        pings = stack.enter_context(closing(Pings(server)))
        expected = schedules + tasks // _TYPES * _TYPES
        place.wait_for(END, expected, within_s=120)
        account.done_s = clock.now() - MIDNIGHT.timestamp()
        account.ping_ms = pings.p99_ms()
    _judge(place, schedules, expected, account)
    return account


class Pings:
    """Asks the server for an answer all the time, from a thread."""

    def __init__(self, server: RunningServer) -> None:
        self._client = server.client()
        self._took: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        while not self._is_over.wait(0.002):
            began = time.monotonic()
            self._client.ping()
            self._took.append((time.monotonic() - began) * 1000)

    def p99_ms(self) -> float:
        """How long 99 of 100 answers took at most."""
        return sorted(self._took)[int(len(self._took) * 0.99)]

    def close(self) -> None:
        """End the thread."""
        self._is_over.set()
        self._thread.join()
        self._client.close()


def _judge(place: Site, schedules: int, expected: int, account: Account) -> None:
    lines = place.ledger()
    begun = Counter(line.id for line in lines if line.what == START)
    if twice := [task_id for task_id, count in begun.items() if count > 1]:
        account.violations.append(f"{len(twice)} started twice, such as {twice[0]}")
    if len(begun) != expected:
        account.violations.append(f"{len(begun)} of {expected} tasks started")
    when = MIDNIGHT.strftime("@%Y-%m-%dT%H:%M:%SZ")
    ticks = {task_id for task_id in begun if "@" in task_id}
    if ticks != {f"s{number}{when}" for number in range(schedules)}:
        account.violations.append(f"{len(ticks)} ticks of {schedules} were fired")
    account.most_running = _most_running(lines)
    limits = (
        ("the start took", account.start_s, MOST_START_S),
        ("idle CPU is", account.cpu, MOST_CPU),
        ("PING p99 is", account.ping_ms, MOST_PING_MS),
        ("too many runs at once:", account.most_running, LIMIT),
    )
    account.violations += [f"{what} {found:.3g}" for what, found, most in limits if found > most]


def _most_running(lines: list[Line]) -> int:
    """Most runs of one type at once in one daemon."""
    running: Counter[tuple[int, str]] = Counter()
    most = 0
    for line in lines:
        running[line.daemon, line.type] += 1 if line.what == START else -1
        most = max(most, running[line.daemon, line.type])
    return most
