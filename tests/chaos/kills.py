"""Kills daemons at random instants while tasks come in, and accounts for every task.

What must hold: every accepted task ends (done), and is started more often than once only
where a kill hit one of its runs. A run lasts from its start to the moment its verdict is
stored, which the ledger cannot see: a kill within `VERDICT_S` after its end line counts too,
and is counted apart.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduld import Client, TaskSpec
from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.servers import READY_S, wait_until
from tests.support.work import END, STOPPED, Line, starts

if TYPE_CHECKING:
    from pathlib import Path

VERDICT_S = 0.3
LEASE_S = 1.2
_TASKS = {"alpha": 8, "beta": 6, "gamma": 6}
"""Tasks of each type that a round adds."""


@dataclass
class Account:
    """What became of the tasks; `violations` are sentences, none if all is well."""

    seed: int
    rounds: int = 0
    added: int = 0
    starts: int = 0
    kills: int = 0
    repeated_open: int = 0
    repeated_unstored: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"VIOLATED: {len(self.violations)}" if self.violations else "OK"
        return (
            f"seed {self.seed}: {self.rounds} rounds, {self.kills} kills, {self.added} tasks, "
            f"{self.starts} starts; repeated because a kill hit the run: {self.repeated_open}, "
            f"or came before its verdict was stored: {self.repeated_unstored}; {verdict}"
        )


def site(folder: Path, url: str) -> Site:
    """Make the folder of a chaos run: short leases, and no task given up for lost runs."""
    kinds = {"alpha": "sleep", "beta": "sleep", "gamma": "thread"}
    common = {"empty_poll_timeout": "500ms", "max_interruptions": 1000, "run_timeout": "5s"}
    keep = {"count": 1_000_000, "age": "1d"}
    return Site(
        folder,
        url,
        core={"lease": f"{int(LEASE_S * 1000)}ms", "shutdown_grace": "1s"},
        types={
            name: {"handler": WORK + kinds[name], "keep_done": keep, **common} for name in _TASKS
        },
    )


class Rounds:
    """The rounds of one chaos run, on a server that runs."""

    def __init__(self, place: Site, seed: int) -> None:
        self._site = place
        self._chance = random.Random(seed)
        self.account = Account(seed)
        self._client = Client(place.url, namespace=place.namespace)
        self._daemons = [DaemonProcess(place).started() for _ in range(2)]
        self._killed_at: dict[int, float] = {}
        self._added: dict[str, str] = {}

    def round(self) -> None:
        """Add tasks, kill one daemon at a random instant, start another in its place."""
        self.account.rounds += 1
        for type_name, count in _TASKS.items():
            self._add(type_name, count)
        let_pass(self._chance.uniform(0, 0.4))
        index = self._chance.randrange(2)
        victim = self._daemons[index]
        victim.kill()
        self.account.kills += 1
        self._killed_at[victim.number] = victim.killed_at or 0.0
        self._daemons[index] = DaemonProcess(self._site)
        if self._chance.random() < 0.8:
            # Else the next kill may hit one that is still starting, or the only one.
            self._daemons[index].started()

    def _add(self, type_name: str, count: int) -> None:
        specs = [
            TaskSpec(
                payload={"s": self._chance.choice((0, 0, 0.02, 0.1, 0.4))},
                delay=self._chance.choice((None, None, 0.05, 0.2, 0.6)),
            )
            for _ in range(count)
        ]
        for task in self._client.schedule_many(type_name, specs, allow_unknown=True):
            if isinstance(task, Exception):
                raise task
            self._added[task.id] = type_name
        self.account.added += count

    def settle(self, within_s: float = 30.0) -> Account:
        """Wait until nothing is left to do, stop the daemons, and judge."""
        until = time.monotonic() + within_s
        wait_until(
            lambda: self._is_quiet() or time.monotonic() > until,
            "all tasks at an end",
            within_s + READY_S,
        )
        if not self._is_quiet():
            self.account.violations.append(f"stuck: {self._states()}")
        for daemon in self._daemons:
            # One that is still starting does not know the signal yet.
            code = daemon.started().term()
            if code:
                self.account.violations.append(f"a daemon ended with code {code} at SIGTERM")
        self._judge_states()
        judge_starts(self._site.ledger(), self._killed_at, self.account)
        return self.account

    def close(self) -> None:
        """Kill what is left."""
        for daemon in self._daemons:
            daemon.__exit__()
        self._client.close()

    def _states(self) -> dict[str, tuple[int, int, int, int]]:
        stats = self._client.stats()
        return {one.type: (one.scheduled, one.running, one.done, one.dead) for one in stats}

    def _is_quiet(self) -> bool:
        return not any(scheduled or running for scheduled, running, *_ in self._states().values())

    def _judge_states(self) -> None:
        done = sum(states[2] for states in self._states().values())
        if done != len(self._added):
            self.account.violations.append(f"{len(self._added)} added, states {self._states()}")
        ids = {line.id for line in self._site.ledger() if line.what == END}
        for lost in sorted(self._added.keys() - ids):
            self.account.violations.append(f"{self._added[lost]}/{lost} never came to an end")


def judge_starts(lines: list[Line], killed_at: dict[int, float], account: Account) -> None:
    """Check that every start but the first follows a kill that hit the run before it."""
    ends = {(line.id, line.fence): line for line in lines if line.what in (END, STOPPED)}
    for task_id, runs in starts(lines).items():
        account.starts += len(runs)
        for before, after in pairwise(runs):
            kill = killed_at.get(before.daemon)
            end = ends.get((task_id, before.fence))
            if kill is None or after.at < kill:
                account.violations.append(f"{task_id} started again beside a run that lives")
            elif end is None:
                account.repeated_open += 1
            elif kill - end.at <= VERDICT_S:
                account.repeated_unstored += 1
            else:
                account.violations.append(
                    f"{task_id} started again {kill - end.at:.3f} s after its end was due"
                )
        fences = [run.fence for run in runs]
        if fences != sorted(set(fences)):
            account.violations.append(f"{task_id} ran with fences {fences}")
