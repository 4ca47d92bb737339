"""Takes the server away from a daemon with many types, and watches what both do meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from scheduld import Client
from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import RunningServer

Fault = Literal["stop", "freeze", "kill", "restart"]
FAULTS: tuple[Fault, ...] = ("stop", "freeze", "kill", "restart")
TYPES = 20
REDIS_TIMEOUT_S = 2.0
SLACK_S = 3.0
MOST_KB = 5_000


def site(folder: Path, url: str, **core: object) -> Site:
    """Make the folder of a daemon with 20 types that look every 10 s when nothing is due."""
    names = [f"type{number:02}" for number in range(TYPES)]
    return Site(folder, url, core=core, types={name: {"handler": WORK + "sleep"} for name in names})


@dataclass
class Outage:
    """What one fault was like. Times in seconds, `cpu` as part of a core."""

    fault: Fault
    lasted_s: float
    cpu: float = 0.0
    lines: int = 0
    grown_kb: int = 0
    back_after_s: float = 0.0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.fault:8} {self.lasted_s:4.1f} s: {self.cpu:6.2%} of a core, "
            f"{self.lines} log lines, {self.grown_kb:+} KB; all {TYPES} types at work "
            f"{self.back_after_s:.2f} s after it"
        )


def go_through(
    fault: Fault,
    lasts_s: float,
    server: RunningServer,
    daemon: DaemonProcess,
    place: Site,
    *,
    most_cpu: float = 0.05,
) -> Outage:
    """Let one fault pass over a daemon that works, and judge it.

    A task of every type, added before the fault, comes due while it lasts.
    """
    found = Outage(fault, lasts_s)
    with Client(place.url, namespace=place.namespace) as client:
        ids = {
            client.schedule(name, {"s": 0}, delay=lasts_s / 2 + 0.1, allow_unknown=True).id
            for name in place.types
        }
    before, lines, rss = daemon.cpu_s(), len(daemon.log()), daemon.rss_kb()
    began = time.monotonic()
    _begin(fault, server)
    let_pass(lasts_s)
    found.cpu = (daemon.cpu_s() - before) / (time.monotonic() - began)
    found.lines = len(daemon.log()) - lines
    found.grown_kb = daemon.rss_kb() - rss
    _end(fault, server)
    over = time.monotonic()
    wait_until(
        lambda: ids <= {line.id for line in place.ledger()} or daemon.process.poll() is not None,
        f"tasks of all types after {fault}",
        REDIS_TIMEOUT_S + SLACK_S + 25,
    )
    found.back_after_s = time.monotonic() - over
    if daemon.process.poll() is not None:
        found.violations.append(f"the daemon ended with {daemon.process.returncode}")
    if found.back_after_s > REDIS_TIMEOUT_S + SLACK_S:
        found.violations.append(f"back only after {found.back_after_s:.1f} s")
    if found.grown_kb > MOST_KB:
        found.violations.append(f"grew by {found.grown_kb} KB during the fault")
    if found.cpu > most_cpu and lasts_s:
        found.violations.append(f"{found.cpu:.1%} of a core during the fault")
    if found.lines > max(lasts_s, 2):
        found.violations.append(f"{found.lines} log lines in {lasts_s:g} s")
    return found


def _begin(fault: Fault, server: RunningServer) -> None:
    match fault:
        case "freeze":
            server.freeze()
        case "kill":
            server.kill()
        case "stop" | "restart":
            server.stop()


def _end(fault: Fault, server: RunningServer) -> None:
    if fault == "freeze":
        server.thaw()
    else:
        server.restart()
