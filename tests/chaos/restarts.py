"""Daemons that are restarted all the time, by stops and by kills, under schedules.

What must hold: every instant of the grid is fired once, or told in a gap; one that comes less
often than the restarts is never missed; after each pause at most one missed tick is made up for.
In the minute of a tick restarts start nothing again, nor do an edit or a new schedule.
"""

from __future__ import annotations

import random
import signal
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduld.store.cronanswers import tick_records
from scheduld.store.croncalls import history
from scheduld.store.keys import Keys
from scheduld.store.synclink import SyncLink
from tests.chaos.kills import VERDICT_S
from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.servers import wait_until
from tests.support.work import END, START, starts

if TYPE_CHECKING:
    from pathlib import Path

    from scheduld.store.cronanswers import TickRecord
    from tests.support.clocks import MovedClock
    from tests.support.servers import RunningServer

PERIODS_MS = {"second": 1_000, "twenty": 20_000}


@dataclass
class Account:
    """What became of the ticks; `violations` are sentences, none if all is well."""

    restarts: int = 0
    fired: int = 0
    gaps: int = 0
    made_up_for: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"VIOLATED: {len(self.violations)}" if self.violations else "OK"
        return (
            f"{self.restarts} restarts, {self.fired} ticks fired, {self.made_up_for} of them made "
            f"up for, {self.gaps} gaps; {verdict}"
        )


def site(folder: Path, url: str, namespace: str) -> Site:
    """Make a folder with a schedule every second and one every 20 s."""
    common = {"type": "work", "overlap": "allow"}
    keep = {"count": 1_000_000, "age": "1d"}
    return Site(
        folder,
        url,
        namespace=namespace,
        core={"lease": "1s", "shutdown_grace": "1s"},
        types={"work": {"handler": WORK + "sleep", "keep_done": keep}},
        schedules={name: {"every": f"{period}ms", **common} for name, period in PERIODS_MS.items()},
    )


def run(
    folder: Path, server: RunningServer, *, restarts: int, seed: int, daemons: int = 1
) -> Account:
    """Restart one of the daemons again and again, after pauses of 0 to 3 s, and judge."""
    chance, account = random.Random(seed), Account(restarts)
    place = site(folder, server.url, f"restarts{daemons}")
    crew = [DaemonProcess(place).started() for _ in range(daemons)]
    killed_at: dict[int, float] = {}
    try:
        place.wait_for(START)
        for number in range(restarts):
            let_pass(chance.uniform(0, 1.5))
            victim = crew[number % daemons]
            if chance.random() < 0.5:
                victim.kill()
                killed_at[victim.number] = victim.killed_at or 0.0
            else:
                victim.term()
            let_pass(chance.uniform(0, 3) / daemons)
            crew[number % daemons] = DaemonProcess(place).started()
        let_pass(1.5)
        for daemon in crew:
            daemon.term()
    finally:
        for daemon in crew:
            daemon.__exit__()
    for name, period_ms in PERIODS_MS.items():
        _judge_history(name, period_ms, records(place, server, name), account)
    _judge_starts(place, killed_at, account)
    return account


def records(place: Site, server: RunningServer, name: str) -> list[TickRecord]:
    """The history of a schedule, the oldest first."""
    command = history(Keys(place.namespace).type("work"), name, limit=100_000)
    with closing(SyncLink(server.url)) as link:
        return tick_records(link.commands(command)[0])[::-1]


def _judge_history(name: str, period_ms: int, found: list[TickRecord], account: Account) -> None:
    covered: list[int] = []
    made_up_for = 0
    for one in found:
        if one.outcome == "fired" and one.tick_ms is not None:
            covered.append(one.tick_ms)
            account.fired += 1
            made_up_for += (one.late_ms or 0) > 1_000
        elif one.outcome == "gap" and one.from_ms is not None and one.to_ms is not None:
            covered += range(one.from_ms, one.to_ms + 1, period_ms)
            account.gaps += 1
            if name == "twenty":
                account.violations.append(f"{name} missed {one.count} from {one.from_ms} on")
        else:
            account.violations.append(f"{name}: {one}")
    whole = list(range(covered[0], covered[-1] + 1, period_ms)) if covered else []
    if covered != whole:
        account.violations.append(f"{name}: the history is not each instant once, in order")
    account.made_up_for += made_up_for
    if made_up_for > account.restarts:
        account.violations.append(f"{name}: more than one tick made up for after a pause")


def _judge_starts(place: Site, killed_at: dict[int, float], account: Account) -> None:
    lines = place.ledger()
    ends = {(line.id, line.fence): line.at for line in lines if line.what == END}
    begun = starts(lines)
    for task_id, runs in begun.items():
        for one in runs[:-1]:
            kill, end = killed_at.get(one.daemon), ends.get((task_id, one.fence))
            if kill is None or (end is not None and kill - end > VERDICT_S):
                account.violations.append(f"{task_id} was started again without a reason")
    if account.fired != len(begun):
        account.violations.append(f"{account.fired} ticks were fired, {len(begun)} tasks started")


def _ended(place: Site, task_id: str) -> bool:
    return any(line.what == END and line.id == task_id for line in place.ledger())


def _jump(clock: MovedClock, to: datetime, place: Site) -> None:
    clock.put(to)
    place.nudge()


def same_minute(
    folder: Path, server: RunningServer, clock: MovedClock, *, restarts: int
) -> Account:
    """Restart a daemon in the minute of a tick; then edit the payload, then add a schedule."""
    account = Account()
    common = {"type": "work", "overlap": "allow"}
    minute: dict[str, object] = {"cron": "* * * * *", **common}
    schedules = {"minute": minute}
    noon = datetime(2026, 12, 24, 12, tzinfo=UTC)
    first, second = "minute@2026-12-24T12:00:00Z", "minute@2026-12-24T12:01:00Z"
    place = Site(
        folder,
        server.url,
        namespace="minute",
        types={"work": {"handler": WORK + "sleep"}},
        schedules=schedules,
    )
    clock.put(noon - timedelta(minutes=10))
    daemon = DaemonProcess(place, env=clock.environment).started()
    try:
        wait_until(lambda: daemon.has_said("schedules are served"), "schedules are read")
        _jump(clock, noon - timedelta(seconds=0.5), place)
        wait_until(lambda: _ended(place, first), "the tick of noon")
        for number in range(restarts + 2):
            daemon.send(signal.SIGKILL if number % 2 else signal.SIGTERM)
            daemon.wait()
            if number == restarts:
                schedules["minute"] = {**minute, "payload": {"edited": True}}
                place.write_config()
            elif number > restarts:
                schedules["yearly"] = {"cron": "0 0 1 1 *", **common}
                place.write_config()
            daemon = DaemonProcess(place, env=clock.environment).started()
            wait_until(lambda: daemon.has_said("schedules are served"), "schedules are read")  # noqa: B023
            account.restarts += 1
            if clock.now() > noon.timestamp() + 50:
                clock.put(noon + timedelta(seconds=10))
        let_pass(0.5)
        _jump(clock, noon + timedelta(seconds=59.5), place)
        wait_until(lambda: _ended(place, second), "the tick after it")
        daemon.term()
    finally:
        daemon.__exit__()
    begun = [line.id for line in place.ledger() if line.what == START and line.id >= first]
    account.fired = len(begun)
    if begun != [first, second]:
        account.violations.append(f"started: {' '.join(begun)}")
    return account
