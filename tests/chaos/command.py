"""Long forms of the chaos tests, on a private server. The exit code is 1 if something is wrong.

kill    rounds of 20 tasks and a SIGKILL of one of two daemons at a random instant
faults  random faults of the network under two daemons and the clients that add tasks
outage  the server stopped, frozen, killed and restarted under a daemon with 20 types
idle    requests a second, and CPU, of an idle daemon with 20 types
million every command that reads, on a server with a million scheduled tasks
drain   descriptors, connections and memory of a daemon over many tasks, failing ones among them
periodic  a SIGKILL within 50 ms after the end of a run of a periodic task, again and again
stop    SIGTERM at random moments of an idle daemon's life
ticks   schedules under three replicas with clocks that differ, one of them killed now and then
restarts  daemons that are restarted all the time, under schedules
nights  six nights in which clocks are set, by a moved clock
midnight  2,000 schedules: start, idle CPU, and a midnight at which all fire
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos import (
    drain,
    faults,
    idle,
    kills,
    midnight,
    million,
    nights,
    outages,
    periodic,
    restarts,
    ticks,
)
from tests.support.clocks import MovedClock
from tests.support.daemons import DaemonProcess, let_pass
from tests.support.servers import start_server

if TYPE_CHECKING:
    from tests.support.servers import RunningServer


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=_COMMANDS, nargs="?", default="kill")
    parser.add_argument("--server", choices=("valkey", "redis7"), default="valkey")
    parser.add_argument(
        "--rounds", type=int, default=200, help="kill, periodic, stop, restarts; default: 200"
    )
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1_000_000), help="all that is random"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="faults, ticks; default: 5")
    parser.add_argument("--seconds", type=float, default=12.0, help="outage, idle; default: 12")
    parser.add_argument("--tasks", type=int, help="drain 20000, million 1000000")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        try:
            env = MovedClock(Path(folder)).environment if said.what in _MOVED else None
            with start_server(said.server, Path(folder), env) as server:
                violations = _COMMANDS[said.what](Path(folder), server, said)
        except pytest.skip.Exception as reason:
            _say(f"not run: {reason}")
            return 2
    for violation in violations[:20]:
        _say(f"  VIOLATED: {violation}")
    _say("VIOLATED" if violations else "OK")
    return 1 if violations else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _kill(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    with closing(kills.Rounds(kills.site(folder, server.url), said.seed)) as run:
        for number in range(1, said.rounds + 1):
            run.round()
            if number % 20 == 0:
                sys.stderr.write(f"round {number} of {said.rounds}\n")
        account = run.settle(60.0)
    _say(str(account))
    return account.violations


def _periodic(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    with closing(periodic.Rounds(periodic.site(folder, server.url), server, said.seed)) as run:
        for number in range(1, said.rounds + 1):
            run.round()
            if number % 20 == 0:
                sys.stderr.write(f"kill {number} of {said.rounds}\n")
        account = run.settle()
    _say(str(account))
    return account.violations


def _faults(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    _say(f"seed {said.seed}")
    until = time.monotonic() + said.minutes * 60
    with closing(faults.Campaign(folder, server, seed=said.seed)) as campaign:
        while time.monotonic() < until:
            _say(str(campaign.any_fault()))
        account = campaign.settle()
    _say(str(account))
    return account.violations


def _outage(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    place = outages.site(folder, server.url)
    violations = []
    with DaemonProcess(place).started() as daemon:
        for fault in outages.FAULTS:
            seconds = 0.0 if fault == "restart" else said.seconds
            found = outages.go_through(fault, seconds, server, daemon, place)
            _say(str(found))
            violations += [f"{fault}: {text}" for text in found.violations]
        if code := daemon.term():
            violations.append(f"the daemon ended with {code}")
    return violations


def _idle(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    place = idle.site(folder, server.url, 10.0)
    with DaemonProcess(place).started() as daemon:
        path = server.url.removeprefix("unix://")
        found = idle.measure(daemon, path, 10.0, max(said.seconds, 12.0))
    _say(str(found))
    return [] if found.rate <= found.most else ["too many requests"]


def _million(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    place = million.site(folder, server.url)
    began = time.monotonic()
    million.fill(place, said.tasks or million.TASKS)
    _say(f"filled in {time.monotonic() - began:.0f} s")
    faults = []
    for words in million.commands():
        answer = million.ask(place, server, words)
        _say(str(answer))
        if answer.fault:
            faults.append(answer.fault)
    return faults


def _drain(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    place = drain.site(folder, server.url)
    weights: list[drain.Weight] = []
    with DaemonProcess(place).started() as daemon, closing(server.client()) as client:
        for _ in range((said.tasks or 20_000) // 1_000):
            weights.append(drain.run(place, daemon, client, 1_000))
            if len(weights) % 5 == 0:
                _say(str(weights[-1]))
    first, last = weights[len(weights) // 2], weights[-1]
    slope = (last.rss_kb - first.rss_kb) * 1_000 / max(last.ended - first.ended, 1)
    _say(f"{slope:.2f} KB more for each 1,000 tasks after the first {first.ended}")
    violations = []
    if slope > _MOST_KB_A_THOUSAND:
        violations.append("memory grows")
    if abs(last.descriptors - weights[0].descriptors) > 2:
        violations.append("descriptors grow")
    if max(one.connections for one in weights) > drain.MOST_CONNECTIONS:
        violations.append("too many connections")
    return violations


def _stop(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    place = idle.site(folder, server.url, 30.0)
    chance = random.Random(said.seed)
    took, violations = [], []
    for number in range(said.rounds):
        with DaemonProcess(place).started() as daemon:
            let_pass(chance.uniform(0, 0.5))
            began = time.monotonic()
            code = daemon.term()
            took.append(time.monotonic() - began)
        if code or took[-1] >= 1.0:
            violations.append(f"round {number}: code {code} after {took[-1]:.2f} s")
    _say(f"seed {said.seed}: {said.rounds} stops, the slowest took {max(took):.3f} s")
    return violations


def _ticks(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    account = ticks.run(ticks.site(folder, server.url), said.minutes * 60, said.seed)
    _say(str(account))
    return account.violations


def _restarts(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    _say(f"seed {said.seed}")
    violations = []
    for daemons in (1, 2):
        place = folder / f"of-{daemons}"
        place.mkdir()
        account = restarts.run(place, server, restarts=said.rounds, seed=said.seed, daemons=daemons)
        _say(f"{daemons} daemons: {account}")
        violations += account.violations
    clock = MovedClock(folder)
    place = folder / "minute"
    place.mkdir()
    with start_server(said.server, place, clock.environment) as moved:
        account = restarts.same_minute(place, moved, clock, restarts=20)
    _say(f"in one minute: {account}")
    return violations + account.violations


def _nights(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    sleepers = nights.Sleepers(folder, server, MovedClock(folder))
    for night in nights.NIGHTS:
        account = sleepers.live_through(night)
        _say(f"{night.zone} {night.stops[0]:%Y-%m-%d}: {account}")
    return sleepers.account.violations


def _midnight(folder: Path, server: RunningServer, said: argparse.Namespace) -> list[str]:
    account = midnight.run(folder, server, MovedClock(folder))
    _say(str(account))
    return account.violations


_MOVED = ("nights", "midnight")
_MOST_KB_A_THOUSAND = 10.0
"""In the second half of the tasks; what the heap of a process wanders by is not nothing."""
_COMMANDS = {
    "kill": _kill,
    "periodic": _periodic,
    "faults": _faults,
    "outage": _outage,
    "idle": _idle,
    "million": _million,
    "drain": _drain,
    "stop": _stop,
    "ticks": _ticks,
    "restarts": _restarts,
    "nights": _nights,
    "midnight": _midnight,
}
