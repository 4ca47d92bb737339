"""What scheduld takes. The exit code is 1 if it is too much.

pending  bytes of a server's `used_memory` for each task that waits, on both servers
worked   memory, descriptors, threads and child processes of a daemon, and memory of its
         server, over many tasks of which a tenth fails and a twentieth is killed
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from scheduld import Client, TaskSpec
from scheduld.model import Task
from tests.chaos import worked
from tests.support.servers import start_server

if TYPE_CHECKING:
    import redis

    from tests.support.servers import RunningServer

ServerKind = Literal["valkey", "redis7"]
MOST_BYTES: dict[ServerKind, int] = {"valkey": 300, "redis7": 500}
"""Embedded server as scheduld starts it; Redis 7 with its own defaults."""
PAYLOAD_BYTES = 90
_TYPE = "email"
_STOCK_LISTPACK_VALUE = 64


@dataclass(frozen=True)
class Weight:
    """What `count` pending tasks take."""

    kind: ServerKind
    version: str
    count: int
    bytes_a_task: float

    @property
    def is_within(self) -> bool:
        """Whether the limit is kept."""
        return self.bytes_a_task <= MOST_BYTES[self.kind]

    def __str__(self) -> str:
        verdict = "OK" if self.is_within else "TOO MUCH"
        return (
            f"{self.version}: {self.count} pending tasks, {self.bytes_a_task:.1f} bytes each "
            f"(at most {MOST_BYTES[self.kind]}): {verdict}"
        )


def payload(number: int) -> dict[str, str]:
    """Make a payload whose JSON has PAYLOAD_BYTES bytes, another one for each number."""
    fixed = {"to": f"user{number:07}@example.com", "text": ""}
    fixed["text"] = "x" * (PAYLOAD_BYTES - len(json.dumps(fixed, separators=(",", ":"))))
    return fixed


def weigh(kind: ServerKind, server: RunningServer, count: int, singly: int = 1_000) -> Weight:
    """Add `count` tasks, `singly` of them one by one, and weigh them. The server must be empty."""
    with closing(server.client()) as plain, Client(server.url) as client:
        if kind == "redis7":
            plain.config_set("hash-max-listpack-value", _STOCK_LISTPACK_VALUE)
        # The first add loads the script, which is no task's.
        client.schedule(_TYPE, payload(0), delay="1h", allow_unknown=True)
        before = _used(plain)
        for number in range(singly):
            client.schedule(_TYPE, payload(number), delay=3_600 + number)
        rest = [
            TaskSpec(payload=payload(number), delay=3_600 + number)
            for number in range(singly, count)
        ]
        added = client.schedule_many(_TYPE, rest)
        if not all(isinstance(task, Task) for task in added):
            raise RuntimeError("an add was refused")
        used = _used(plain) - before
        if client.stats(_TYPE)[0].scheduled != count + 1:
            raise RuntimeError("tasks are missing")
        return Weight(kind, _version(plain), count, used / count)


def _used(plain: redis.Redis) -> int:
    told = plain.info("memory")
    assert isinstance(told, dict)
    return int(told["used_memory"])


def _version(plain: redis.Redis) -> str:
    told = plain.info("server")
    assert isinstance(told, dict)
    if "valkey_version" in told:
        return f"Valkey {told['valkey_version']}, as embedded"
    return f"Redis {told['redis_version']}, stock"


def main() -> int:
    """Weigh what the command line names; 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(
        prog="scripts/memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("pending", "worked"), nargs="?", default="pending")
    parser.add_argument("--tasks", type=int, help="default: pending 100000, worked 200000")
    said = parser.parse_args()
    if said.what == "worked":
        return _worked(said.tasks or 200_000)
    return _pending(said.tasks or 100_000)


def _worked(count: int) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="memory-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        weights = worked.work(
            Path(folder),
            server,
            count,
            lambda line: print(line, flush=True),  # noqa: T201
        )
    found = worked.violations(weights)
    sys.stdout.writelines(f"  VIOLATED: {one}\n" for one in found)
    sys.stdout.write("VIOLATED\n" if found else "OK\n")
    return 1 if found else 0


def _pending(count: int) -> int:
    is_within = True
    for kind in MOST_BYTES:
        with (
            tempfile.TemporaryDirectory(prefix="memory-") as folder,
            start_server(kind, Path(folder)) as server,
        ):
            weight = weigh(kind, server, count)
        sys.stdout.write(f"{weight}\n")
        is_within = is_within and weight.is_within
    return 0 if is_within else 1
