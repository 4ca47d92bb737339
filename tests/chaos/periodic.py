"""Kills daemons just after the end of a run of a periodic task, and accounts for every occurrence.

Between the end of the handler and the moment its verdict is stored lies all that could break a
series: the predicate, the payload for the next run, the next due. What must hold of each series:
the counter that its predicate keeps in the payload is one higher at each occurrence, no instant
of the grid is run as two occurrences, and those that were not run are counted as missed.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scheduld import Client, State
from scheduld.schedule import tick_id
from scheduld.store.keys import Keys
from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import READY_S, wait_until
from tests.support.work import END, Line

if TYPE_CHECKING:
    from pathlib import Path

    from scheduld import Task
    from tests.support.servers import RunningServer

WINDOW_S = 0.05
"""A kill comes within so long after the end of a run."""
EVERY_MS = 200
_KINDS = {"inline": "occurs_inline", "thread": "occurs", "process": "occurs"}
_SERIES = ("quick", "slow", "failing")


@dataclass
class Account:
    """What became of the series; `violations` are sentences, none if all is well."""

    seed: int
    kills: int = 0
    occurrences: int = 0
    repeated: int = 0
    missed: int = 0
    dead: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"VIOLATED: {len(self.violations)}" if self.violations else "OK"
        return (
            f"seed {self.seed}: {self.kills} kills, {self.occurrences} occurrences, "
            f"{self.repeated} runs repeated, {self.missed} instants missed, "
            f"{self.dead} occurrences dead; {verdict}"
        )


def site(folder: Path, url: str) -> Site:
    """Make the folder of a run: short leases, and no occurrence given up for lost runs."""
    common = {
        "empty_poll_timeout": "500ms",
        "max_interruptions": 1000,
        "retry": {"attempts": 1},
        "reschedule_if": "tests.support.predicates:count",
    }
    return Site(
        folder,
        url,
        core={"lease": "900ms", "shutdown_grace": "5s"},
        types={
            name: {"handler": WORK + handler, "isolation": name, **common}
            for name, handler in _KINDS.items()
        },
    )


class Rounds:
    """The rounds of one run, on a server that runs: three daemons, nine series."""

    def __init__(self, place: Site, server: RunningServer, seed: int) -> None:
        self._site = place
        self._server = server.client()
        self._keys = Keys(place.namespace)
        self._chance = random.Random(seed)
        self.account = Account(seed)
        self._client = Client(place.url, namespace=place.namespace)
        self._daemons = [DaemonProcess(place).started() for _ in range(3)]
        self._place = 0
        for kind in _KINDS:
            for name in _SERIES:
                payload = {"s": 0.05 if name == "slow" else 0, "fails": name == "failing"}
                every = f"{EVERY_MS}ms"
                self._client.schedule(kind, payload, id=name, every=every, allow_unknown=True)

    def round(self) -> None:
        """Wait for the end of a run, kill the daemon that it was in, start another."""
        self._new_lines()
        alive = {daemon.number: daemon for daemon in self._daemons if daemon.has_said("started")}
        ended: list[Line] = []

        def is_ended() -> bool:
            ended.extend(
                line for line in self._new_lines() if line.what == END and line.daemon in alive
            )
            return bool(ended)

        wait_until(is_ended, "the end of a run", READY_S)
        at = ended[0].at + self._chance.uniform(0, WINDOW_S)
        wait_until(lambda: time.monotonic() >= at, "the moment", READY_S)
        victim = alive[ended[0].daemon]
        victim.kill()
        self.account.kills += 1
        self._daemons[self._daemons.index(victim)] = DaemonProcess(self._site)
        if len(alive) == 1:
            for daemon in self._daemons:
                daemon.started()

    def _new_lines(self) -> list[Line]:
        """The lines that were written since the last look."""
        if not self._site.ledger_path.exists():
            return []
        with self._site.ledger_path.open("rb") as file:
            file.seek(self._place)
            whole, _, _ = file.read().rpartition(b"\n")
        self._place += len(whole) + bool(whole)
        return [Line(**json.loads(text)) for text in whole.splitlines()]

    def settle(self) -> Account:
        """Let each series go on once more, stop the daemons, and judge."""
        for daemon in self._daemons:
            daemon.started()
        self._new_lines()
        left = {(kind, name) for kind in _KINDS for name in _SERIES}

        def have_gone_on() -> bool:
            for line in self._new_lines():
                if line.what == END:
                    left.discard((line.type, line.id))
            return not left

        wait_until(have_gone_on, "every series went on", READY_S)
        for daemon in self._daemons:
            if code := daemon.term():
                self.account.violations.append(f"a daemon ended with code {code} at SIGTERM")
        for kind in _KINDS:
            dead = {task.id for task in self._client.list(kind, state=State.DEAD, limit=10_000)}
            for name in _SERIES:
                lines = [
                    line for line in self._site.ledger() if (line.type, line.id) == (kind, name)
                ]
                task = self._client.get(kind, name)
                nominal = self._server.hget(self._keys.type(kind).task(name.encode()), "due")
                # One that was claimed and given back at the stop is due when that was.
                due_ms = int(nominal) if nominal else task.due_ms
                judge(replace(task, due_ms=due_ms), lines, dead, self.account)
        return self.account

    def close(self) -> None:
        """Kill what is left."""
        for daemon in self._daemons:
            daemon.__exit__()
        self._client.close()
        self._server.close()


def judge(task: Task, lines: list[Line], dead: set[str], account: Account) -> None:
    """Hold what a series came to against the runs that it had; `dead` are ids of its type."""

    def violated(what: str) -> None:
        account.violations.append(f"{task.ref}: {what}")

    counts: dict[int, set[int]] = {}
    for line in lines:
        counts.setdefault(line.due_ms, set()).add(line.count)
    seen = [sorted(counts[due]) for due in sorted(counts)]
    if seen != [[number] for number in range(len(seen))]:
        violated(f"the counter was {seen}")
    runs = len(seen)
    if task.state is not State.SCHEDULED or task.due_ms is None:
        violated(f"is {task.state}, not scheduled")
        return
    if task.runs != runs or task.payload.get("count") != runs:
        violated(f"had {runs} occurrences, but says {task.runs}, and {task.payload}")
    between, rest = divmod(task.due_ms - min(counts), EVERY_MS)
    if rest or any((due - min(counts)) % EVERY_MS for due in counts):
        violated(f"left its grid: {[due - min(counts) for due in sorted(counts)]}, {task.due_ms}")
    if between != runs + (task.missed or 0):
        violated(f"{between} instants, but {runs} were run and {task.missed} missed")
    failed = {due for due, (count, *_) in counts.items() if count % 5 == 4}
    kept = {tick_id(task.id, due) for due in failed} if task.payload["fails"] else set()
    found = {task_id for task_id in dead if task_id.startswith(f"{task.id}@")}
    if kept != found:
        violated(f"{len(kept)} occurrences failed, {len(found)} are kept as dead")
    starts = Counter(line.due_ms for line in lines if line.what == END)
    account.occurrences += runs
    account.repeated += sum(count - 1 for count in starts.values())
    account.missed += task.missed or 0
    account.dead += len(found)
