"""Schedules under three replicas whose wall clocks differ, while one after the other is killed.

What must hold: every nominal instant between the start and the end of the run has exactly one
task, which starts; it starts again only where a kill hit its run; nothing starts before its
instant on the server's clock, and 99 of 100 within `MOST_LATE_MS`.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.chaos.kills import VERDICT_S
from tests.support.clocks import skewed
from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.servers import wait_until
from tests.support.work import END, starts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.work import Line

SKEWS_S = (0.0, -3.0, 3.0)
PERIODS_S = {"second": 1, "five": 5, "minute": 60}
MOST_LATE_MS = 50.0
KILL_EVERY_S = 20.0


def site(folder: Path, url: str, **core: object) -> Site:
    """Make a folder with a schedule every second, every 5 s and every minute."""
    common = {"type": "work", "payload": {"s": 0.001}, "overlap": "allow"}
    return Site(
        folder,
        url,
        core={"lease": "2s", "shutdown_grace": "2s", **core},
        types={"work": {"handler": WORK + "sleep", "keep_done": {"count": 1_000_000, "age": "1d"}}},
        schedules={
            "second": {"every": "1s", **common},
            "five": {"cron": "*/5 * * * * *", "cron_dialect": "extended", **common},
            "minute": {"cron": "* * * * *", **common},
        },
    )


@dataclass
class Account:
    """What became of the ticks; `violations` are sentences, none if all is well."""

    ticks: int = 0
    kills: int = 0
    repeated: int = 0
    late_ms: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def late(self, part: float) -> float:
        """How late the ticks were, a part of them at most."""
        ordered = sorted(self.late_ms)
        return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0

    def __str__(self) -> str:
        verdict = f"VIOLATED: {len(self.violations)}" if self.violations else "OK"
        return (
            f"{self.ticks} instants, {self.kills} kills, {self.repeated} runs again after a kill; "
            f"late by {self.late(0.5):.1f} ms (p50), {self.late(0.99):.1f} (p99), "
            f"{self.late(1):.1f} (most); {verdict}"
        )


def nominal(task_id: str) -> tuple[str, float]:
    """Read schedule and instant, in seconds since the epoch, from the id of a tick's task."""
    name, _, when = task_id.partition("@")
    return name, datetime.fromisoformat(when).timestamp()


def run(place: Site, seconds: float, seed: int, *, kill_every_s: float = KILL_EVERY_S) -> Account:
    """Let three replicas work, kill and restart one every `kill_every_s`, and judge."""
    chance = random.Random(seed)
    account = Account()
    killed_at: dict[int, float] = {}
    daemons = [DaemonProcess(place, env=skewed(skew)) for skew in SKEWS_S]
    try:
        for daemon in daemons:
            daemon.started()
        first = time.time() + 1.0
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            let_pass(min(kill_every_s, left))
            if time.monotonic() < until:
                index = chance.randrange(len(daemons))
                daemons[index].kill()
                account.kills += 1
                killed_at[daemons[index].number] = daemons[index].killed_at or 0.0
                daemons[index] = DaemonProcess(place, env=skewed(SKEWS_S[index]))
        last = time.time() - 1.0
        _settle(place)
        for daemon in daemons:
            if code := daemon.started().term():
                account.violations.append(f"a daemon ended with code {code} at SIGTERM")
    finally:
        for daemon in daemons:
            daemon.__exit__()
    judge(place.ledger(), first, last, killed_at, account)
    return account


def _settle(place: Site) -> None:
    """Wait until runs that a kill hit have been made up for."""

    def is_quiet() -> bool:
        lines = place.ledger()
        begun = {line.id for line in lines[:-20]}
        return begun <= {line.id for line in lines if line.what == END}

    wait_until(is_quiet, "all ticks at an end")


def judge(
    lines: list[Line],
    first: float,
    last: float,
    killed_at: dict[int, float],
    account: Account,
    periods_s: dict[str, int] = PERIODS_S,
) -> None:
    """Compare what started with the instants from `first` to `last` (seconds since the epoch)."""
    # On one machine all monotonic clocks are one, and the server's wall clock is ours.
    offset = time.time() - time.monotonic()
    runs = starts(lines)
    ends = {(line.id, line.fence): line.at for line in lines if line.what == END}
    found: dict[str, set[float]] = {name: set() for name in periods_s}
    for task_id, begun in runs.items():
        name, instant = nominal(task_id)
        found[name].add(instant)
        late_ms = (begun[0].at + offset - instant) * 1000
        if first <= instant <= last:
            account.late_ms.append(late_ms)
        if late_ms < -1:
            account.violations.append(f"{task_id} started {-late_ms:.1f} ms too early")
        for before, _ in pairwise(begun):
            kill, end = killed_at.get(before.daemon), ends.get((task_id, before.fence))
            if kill is None or (end is not None and kill - end > VERDICT_S):
                account.violations.append(f"{task_id} was started again without a reason")
            account.repeated += 1
    for name, period in periods_s.items():
        expected = {
            second for second in range(int(first) + 1, int(last) + 1) if second % period == 0
        }
        account.ticks += len(expected)
        account.violations += [
            f"{name} at {one} is missing" for one in sorted(expected - found[name])
        ]
        odd = [one for one in found[name] if one % period]
        account.violations += [f"{name} fired at {one}, which is no instant of it" for one in odd]
    if account.late(0.99) > MOST_LATE_MS:
        account.violations.append(f"p99 of lateness is {account.late(0.99):.1f} ms")
