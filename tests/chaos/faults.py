"""Lets faults of the network pass over daemons and clients that work, and accounts for all tasks.

Each daemon reaches the server through a fault proxy of its own; the clients that add tasks
share the first one's. What must hold:

- when a fault is over, each daemon it hit starts a new task within the deadline of a call
  plus `SLACK_S`;
- every task whose add was answered has one end, that which its payload asks for, and no other
  task is there: an add that was unknown, repeated with its id and token, is stored once;
- a run is repeated, apart from its retries, only if a fault that was long enough to cost the
  lease hit its daemon before its verdict was stored.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduld import Client
from scheduld.store.keys import Keys
from tests.chaos.faultload import ATTEMPTS, Load
from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.proxy import MODES, Mode, ProxyThread
from tests.support.servers import READY_S, wait_until
from tests.support.work import END, Line, starts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.support.servers import RunningServer

FAULTS: tuple[Mode, ...] = tuple(mode for mode in MODES if mode not in ("pass", "hold"))
LEASE_S = 3.0
REDIS_TIMEOUT_S = LEASE_S / 6
SLACK_S = 3.0
COSTS_LEASE_S = LEASE_S * 2 / 3 - REDIS_TIMEOUT_S
"""A shorter fault costs no lease: each was renewed a third of its length before, at most."""
_TYPES = {"alpha": "sleep", "beta": "thread"}
_MOST_AHEAD = 80


@dataclass(frozen=True)
class Spell:
    """One fault that passed: which daemons it hit, when it began and ended (monotonic)."""

    mode: Mode
    hit: tuple[int, ...]
    began: float
    ended: float
    back_after_s: float

    def __str__(self) -> str:
        which = "+".join("AB"[index] for index in self.hit)
        return (
            f"{self.mode:9} {self.ended - self.began:4.1f} s of {which:3}: "
            f"at work {self.back_after_s:.2f} s after it"
        )


@dataclass
class Account:
    """What became of the tasks; `violations` are sentences, none if all is well."""

    seed: int
    spells: int = 0
    accepted: int = 0
    refused: int = 0
    unknown: int = 0
    starts: int = 0
    retries: int = 0
    repeated: int = 0
    slowest_s: float = 0.0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"VIOLATED: {len(self.violations)}" if self.violations else "OK"
        return (
            f"seed {self.seed}: {self.spells} faults, {self.accepted} tasks, {self.starts} starts: "
            f"{self.retries} retries, {self.repeated} repeats after a lost lease; adds unreachable "
            f"{self.refused}, unknown and repeated {self.unknown}; back at work within "
            f"{self.slowest_s:.2f} s; {verdict}"
        )


class Campaign:
    """Daemons and adding clients behind proxies, on a server that runs."""

    def __init__(
        self,
        folder: Path,
        server: RunningServer,
        *,
        seed: int,
        daemons: int = 2,
        tcp: bool = True,
    ) -> None:
        self._server = server
        self._proxies = [ProxyThread(server.url, tcp=tcp, seed=seed) for _ in range(daemons)]
        self._sites = [
            _site(folder / "AB"[index], proxy.url, index)
            for index, proxy in enumerate(self._proxies)
        ]
        ledger = {"LEDGER": str(self._sites[0].ledger_path)}
        self.daemons = [DaemonProcess(site, env=ledger) for site in self._sites]
        for daemon in self.daemons:
            daemon.started()
        self._namespace = self._sites[0].namespace
        self.direct = Client(server.url, namespace=self._namespace)
        self._probes: dict[str, str] = {}
        self._spells: list[Spell] = []
        self.account = Account(seed)
        self.load = Load(
            self._proxies[0].url,
            self._namespace,
            tuple(_TYPES),
            seed=seed,
            is_ahead=self._is_ahead,
        )
        self._chance = random.Random(seed)

    def any_fault(self) -> Spell:
        """Go through a random fault; some are longer than a lease."""
        mode = self._chance.choice(FAULTS)
        seconds = self._chance.choice((0.1, 0.5, 1.0, 1.5, 4.0, 6.0)) * self._chance.uniform(0.8, 1)
        which = self._chance.choice(
            [(0,), (len(self.daemons) - 1,), tuple(range(len(self.daemons)))]
        )
        return self.go_through(mode, seconds, which)

    def go_through(self, mode: Mode, seconds: float, hit: tuple[int, ...] = (0,)) -> Spell:
        """Let a fault come upon daemons at work, last, and end; wait until they work again."""
        self.load.wait_for(20)
        began = time.monotonic()
        for index in hit:
            self._proxies[index].become(mode)
        let_pass(seconds)
        for index in hit:
            self._proxies[index].become("pass")
        ended = time.monotonic()
        probes = [self._probe(index) for index in hit]
        limit_s = REDIS_TIMEOUT_S + SLACK_S
        wait_until(
            lambda: self._have_started(probes) or time.monotonic() > ended + 4 * limit_s,
            f"work after {mode}",
            4 * limit_s + READY_S,
        )
        spell = Spell(mode, hit, began, ended, time.monotonic() - ended)
        self._spells.append(spell)
        self.account.spells += 1
        self.account.slowest_s = max(self.account.slowest_s, spell.back_after_s)
        if spell.back_after_s > limit_s:
            self.account.violations.append(f"late: {spell}")
        for daemon in self.daemons:
            if daemon.process.poll() is not None:
                self.account.violations.append(f"a daemon ended with {daemon.process.returncode}")
        return spell

    def settle(self, within_s: float = 30.0) -> Account:
        """Let clients end and daemons finish, stop them, and judge."""
        self.load.stop()
        until = time.monotonic() + within_s
        wait_until(
            lambda: not self._left() or time.monotonic() > until,
            "all at an end",
            within_s + READY_S,
        )
        if left := self._left():
            self.account.violations.append(f"stuck: {left} tasks, {self.direct.stats()}")
        for daemon in self.daemons:
            if code := daemon.term():
                self.account.violations.append(f"a daemon ended with code {code} at SIGTERM")
        told = self.load.told
        self.account.accepted = len(told.accepted) + len(self._probes)
        self.account.refused, self.account.unknown = len(told.refused), told.unknown
        self.account.violations += told.wrong
        self._judge_ends()
        self._judge_starts()
        return self.account

    def close(self) -> None:
        """End what is left."""
        for proxy in self._proxies:
            proxy.become("pass")
        self.load.stop()
        for daemon in self.daemons:
            daemon.__exit__()
        for proxy in self._proxies:
            proxy.__exit__()
        self.direct.close()

    def _probe(self, index: int) -> str:
        name = f"only{index}"
        probe = self.direct.schedule(name, {"s": 0}, allow_unknown=True)
        self._probes[probe.id] = name
        return probe.id

    def _have_started(self, ids: Iterable[str]) -> bool:
        return set(ids) <= starts(self._sites[0].ledger()).keys()

    def _is_ahead(self) -> bool:
        return self._left() > _MOST_AHEAD

    def _left(self) -> int:
        return sum(one.scheduled + one.running for one in self.direct.stats())

    # --- the judgement

    def _judge_ends(self) -> None:
        expected = {(name, task_id, "done") for task_id, name in self._probes.items()}
        for task_id, add in self.load.told.accepted.items():
            expected.add((add.type, task_id, "done" if add.ends_done else "dead"))
        found = set()
        keys = Keys(self._namespace)
        with closing(self._server.client()) as plain:
            for name in (*_TYPES, *set(self._probes.values())):
                indexes = zip(
                    ("due", "leased", "done", "dead"), keys.type(name).indexes(), strict=True
                )
                for state, index in indexes:
                    found |= {(name, str(task_id), state) for task_id in plain.zrange(index, 0, -1)}
        for name, task_id, state in sorted(expected - found)[:20]:
            where = [one for one in found if one[1] == task_id]
            self.account.violations.append(f"{name}/{task_id} is not {state} but {where}")
        ids = {task_id for _, task_id, _ in expected}
        for name, task_id, state in sorted(one for one in found if one[1] not in ids)[:20]:
            self.account.violations.append(f"{name}/{task_id} is {state} and was never accepted")
        if len(found) != len({task_id for _, task_id, _ in found}):
            self.account.violations.append("a task is in two indexes")
        counters = [one.counters for one in self.direct.stats()]
        for what, wanted in (("added", len(expected)), ("done", None), ("dead", None)):
            count = sum(one.get(what, 0) for one in counters)
            if wanted is None:
                wanted = sum(state == what for *_, state in expected)
            if count != wanted:
                self.account.violations.append(f"{count} times {what}, not {wanted}")

    def _judge_starts(self) -> None:
        lines = self._sites[0].ledger()
        ends = {(line.id, line.fence): line for line in lines if line.what == END}
        by_number = {daemon.number: index for index, daemon in enumerate(self.daemons)}
        for task_id, runs in starts(lines).items():
            self.account.starts += len(runs)
            for before, after in pairwise(runs):
                if after.fence <= before.fence:
                    self.account.violations.append(f"{task_id} ran with falling fences")
                is_retry = after.attempt == before.attempt + 1 and (task_id, before.fence) in ends
                if is_retry:
                    self.account.retries += 1
                elif self._cost_lease(by_number[before.daemon], before, after):
                    self.account.repeated += 1
                else:
                    self.account.violations.append(
                        f"{task_id} started at {before.at:.3f} and again at {after.at:.3f}, "
                        f"attempts {before.attempt} and {after.attempt}, without a lost lease"
                    )

    def _cost_lease(self, daemon: int, before: Line, after: Line) -> bool:
        """Whether faults that hit a daemon between two starts can have cost it the lease."""
        hit = [one for one in self._spells if daemon in one.hit]
        return any(
            one.ended - one.began >= COSTS_LEASE_S
            and one.began < after.at
            and one.ended > before.at
            for one in hit
        )


def _site(folder: Path, url: str, index: int) -> Site:
    """Make the folder of one daemon: types that all have, and one of its own."""
    folder.mkdir()
    common = {
        "empty_poll_timeout": "500ms",
        "run_timeout": "10s",
        "concurrency": 60,
        "max_interruptions": 1000,
        "retry": {"attempts": ATTEMPTS, "delay": "100ms", "max_delay": "200ms"},
        "keep_done": {"count": 1_000_000, "age": "1d"},
    }
    types = {name: {"handler": WORK + kind, **common} for name, kind in _TYPES.items()}
    types[f"only{index}"] = {"handler": WORK + "sleep", **common}
    core = {"lease": f"{LEASE_S:g}s", "shutdown_grace": "1s"}
    return Site(folder, url, core=core, types=types)
