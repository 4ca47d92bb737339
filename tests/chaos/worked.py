"""Weighs a daemon over many tasks, some of which fail and some of which are killed.

Of a thousand tasks a hundred raise, with large locals, and fifty are killed: inline runs and
commands (with a child each) by their `run_timeout`, some by a cancel, and two that end their
worker process. What must hold, once a quarter of the tasks has ended: memory, descriptors and
threads stay as they are, no child process is left but those that wait for work, and the
server's memory stays as well.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduld import TaskSpec
from scheduld.model import Task
from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from scheduld import Client
    from tests.support.servers import RunningServer

STEP = 5_000
"""Tasks from one weighing to the next."""
MOST_KB = 3_000
"""Growth of the daemon after the first quarter: what its heap wanders by is not nothing."""
MOST_SERVER_KB = 1_500
MOST_SPARE = 2
"""Descriptors or threads that may come and go: a connection, a thread that starts a program."""
_LOCALS = 200_000
_KEPT = {"count": 500, "age": "1d"}
_PER_THOUSAND = {
    "plain": 850,
    "failing": 100,
    "overrun": 20,
    "command": 18,
    "crashed": 2,
    "cancelled": 10,
}
_PROCESSES = 2
KEPT_CHILDREN = 1 + _PROCESSES
"""The guard of commands, and the keepers of worker processes."""


def site(folder: Path, url: str) -> Site:
    """Make the folder: one attempt for all, little kept."""
    common = {"retry": {"attempts": 1}, "keep_done": _KEPT, "keep_dead": _KEPT}
    sleep = {"handler": WORK + "sleep", **common}
    types: dict[str, dict[str, object]] = {
        "plain": sleep,
        "failing": sleep,
        "overrun": {**sleep, "run_timeout": "50ms"},
        "command": {
            "handler": "command",
            "options": {"argv": ["/bin/sh", "-c", "sleep 60 & sleep 60"]},
            "run_timeout": "100ms",
            **common,
        },
        "crashed": {
            "handler": WORK + "crash",
            "isolation": "process",
            "concurrency": _PROCESSES,
            **common,
        },
        "cancelled": sleep,
    }
    return Site(folder, url, types=types)


@dataclass(frozen=True)
class Weight:
    """What a daemon and its server hold after so many tasks have ended."""

    ended: int
    rss_kb: int
    descriptors: int
    threads: int
    children: int
    server_kb: int

    def __str__(self) -> str:
        return (
            f"{self.ended:7} tasks: {self.rss_kb} KB, {self.descriptors} descriptors, "
            f"{self.threads} threads, {self.children} children; server {self.server_kb} KB"
        )


def work(
    folder: Path, server: RunningServer, count: int, tell: Callable[[object], None]
) -> list[Weight]:
    """Have a daemon work off `count` tasks; weighs it after every STEP of them."""
    place, weights = site(folder, server.url), list[Weight]()
    quiet = DaemonProcess(place, env={"LEDGER": os.devnull})
    with quiet.started() as daemon, place.client() as client, closing(server.client()) as plain:
        while not weights or weights[-1].ended < count:
            ended = weights[-1].ended if weights else 0
            step = min(STEP, count)
            _add(client, step)
            wait_until(lambda: _open(client) == 0, f"{step} more have ended", 300)
            _check(client, ended + step)
            weights.append(_weigh(daemon, plain, ended + step))
            tell(weights[-1])
        if code := daemon.term():
            raise RuntimeError(f"the daemon ended with {code}")
    return weights


def violations(weights: list[Weight]) -> list[str]:
    """Say what grew after the first quarter."""
    warm, last = weights[max(len(weights) // 4 - 1, 0)], weights[-1]
    later = weights[len(weights) // 4 :]
    found = []
    if last.rss_kb - warm.rss_kb > MOST_KB:
        found.append(f"memory grew from {warm.rss_kb} to {last.rss_kb} KB")
    if last.server_kb - warm.server_kb > MOST_SERVER_KB:
        found.append(f"the server's grew from {warm.server_kb} to {last.server_kb} KB")
    if max(one.descriptors for one in later) - warm.descriptors > MOST_SPARE:
        found.append("descriptors grew")
    if max(one.threads for one in later) - warm.threads > MOST_SPARE:
        found.append("threads grew")
    if last.children > KEPT_CHILDREN:
        found.append(f"{last.children} child processes are left, not {KEPT_CHILDREN}")
    return found


def _add(client: Client, count: int) -> None:
    payloads: dict[str, dict[str, object]] = {
        "plain": {"s": 0},
        "failing": {"s": 0, "fail": True, "locals": _LOCALS},
        "overrun": {"s": 60},
        "command": {},
        "crashed": {},
        "cancelled": {"s": 60},
    }
    for name, part in _PER_THOUSAND.items():
        specs = [TaskSpec(payload=payloads[name])] * (count * part // 1000)
        tasks = client.schedule_many(name, specs, allow_unknown=True)
        if not all(isinstance(task, Task) for task in tasks):
            raise RuntimeError(f"an add of {name} was refused")
        if name == "cancelled":
            for task in tasks:
                assert isinstance(task, Task)
                # Most run by then: that run is asked to stop.
                client.cancel(name, task.id)


def _open(client: Client) -> int:
    return sum(one.scheduled + one.running for one in client.stats())


def _check(client: Client, ended: int) -> None:
    counters = {one.type: one.counters for one in client.stats()}
    expected = {name: ended * part // 1000 for name, part in _PER_THOUSAND.items()}
    found = {
        name: counters.get(name, {}).get(what, 0)
        for name, what in (
            ("plain", "done"),
            ("failing", "dead"),
            ("overrun", "dead"),
            ("command", "dead"),
            ("crashed", "dead"),
            ("cancelled", "cancelled"),
        )
    }
    if found != expected:
        raise RuntimeError(f"ended {found}, not {expected}")


def _weigh(daemon: DaemonProcess, plain: redis.Redis, ended: int) -> Weight:
    told = plain.info("memory")
    assert isinstance(told, dict)
    # The streams of events fill up to their limit, which takes each type 10,000 calls.
    streams = sum(
        int(plain.memory_usage(key, samples=0) or 0) for key in plain.scan_iter("*:events")
    )
    tasks = list(Path(f"/proc/{daemon.pid}/task").iterdir())
    return Weight(
        ended,
        daemon.rss_kb(),
        daemon.descriptors(),
        len(tasks),
        sum(len((task / "children").read_text().split()) for task in tasks),
        (int(told["used_memory"]) - streams) // 1024,
    )
