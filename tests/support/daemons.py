"""Daemons as processes of their own, to be watched, stopped, frozen and killed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import redis

from scheduld import Client
from scheduld.model import Task
from scheduld.store.keys import Keys
from tests.support.servers import READY_S, wait_until
from tests.support.work import Line, read_ledger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
WORK = "tests.support.work:"
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_numbers = itertools.count(1)


def let_pass(seconds: float) -> None:
    """Let time pass: the length of a fault, a random moment. Never to wait for a thing."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, "the time to pass", seconds + READY_S)


def toml(value: object) -> str:
    """Write a value as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(item)}" for name, item in value.items()) + " }"
    return json.dumps(value)


@dataclass
class Site:
    """A folder with a config and a ledger, for any number of daemons and commands.

    `core`: settings of `[scheduld]`. `types`: settings by name of type; handlers that write
    the ledger are `WORK + name`. `schedules`: settings by name of schedule.
    """

    folder: Path
    url: str
    namespace: str = "chaos"
    core: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    schedules: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.write_config()

    def write_config(self, name: str = "scheduld.toml") -> Path:
        """Write the config as it is now, maybe into a file beside; returns its path."""
        lines = ["[scheduld]"]
        core = {"redis_url": self.url, "namespace": self.namespace, **self.core}
        lines += [f"{name} = {toml(value)}" for name, value in core.items()]
        for table, entries in (("types", self.types), ("schedules", self.schedules)):
            for entry, settings in entries.items():
                lines.append(f"[{table}.{entry}]")
                lines += [f"{key} = {toml(value)}" for key, value in settings.items()]
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n")
        return path

    @property
    def config_path(self) -> Path:
        """The config file."""
        return self.folder / "scheduld.toml"

    @property
    def ledger_path(self) -> Path:
        """The file that the handlers write."""
        return self.folder / "ledger"

    def ledger(self) -> list[Line]:
        """All that the handlers wrote."""
        return read_ledger(self.ledger_path)

    def environment(self, number: int = 0) -> dict[str, str]:
        """Environment of a daemon or a command."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("SCHEDULD")}
        return {
            **kept,
            "PYTHONPATH": str(ROOT),
            "LEDGER": str(self.ledger_path),
            "LEDGER_DAEMON": str(number),
        }

    def run(self, *argv: str, within_s: float = READY_S) -> subprocess.CompletedProcess[str]:
        """Run a command of scheduld to its end."""
        return subprocess.run(
            [sys.executable, "-m", "scheduld", *argv],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )

    def client(self) -> Client:
        """Return a client, to be closed by the caller."""
        return Client(self.url, namespace=self.namespace)

    def nudge(self) -> None:
        """Let daemons look at their schedules and at the server's clock, as they do anyway within
        ten seconds."""
        with redis.Redis.from_url(self.url) as client:
            client.publish(Keys(self.namespace).wake, "any cron any")

    def add(self, type_name: str, count: int = 1, **payload: object) -> list[str]:
        """Add tasks that are due now, all with one payload; returns their ids."""
        with self.client() as client:
            tasks = client.schedule_many(type_name, [payload] * count, allow_unknown=True)
        return [task.id for task in tasks if isinstance(task, Task)]

    def counts(self, type_name: str) -> tuple[int, int, int, int]:
        """Count the scheduled, running, done and dead tasks of a type."""
        with self.client() as client:
            (one,) = client.stats(type_name)
        return one.scheduled, one.running, one.done, one.dead

    def wait_for(self, what: str, count: int = 1, within_s: float = READY_S) -> list[Line]:
        """Wait until the ledger has so many lines of a kind; returns those it has then."""

        def found() -> list[Line]:
            return [line for line in self.ledger() if line.what == what]

        wait_until(lambda: len(found()) >= count, f"{count} {what} lines", within_s)
        return found()

    def show(self, ref: str) -> dict[str, Any]:
        """What `show --json` tells of a task."""
        ran = self.run("show", ref, "--json")
        assert ran.returncode == 0, ran.stderr
        told: dict[str, Any] = json.loads(ran.stdout)
        return told


class DaemonProcess:
    """`scheduld run` as a process. Its log is a file; `with` kills what is left of it."""

    def __init__(
        self,
        site: Site,
        *,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        stderr: int | IO[Any] | None = None,
        config: Path | None = None,
    ) -> None:
        self.number = next(_numbers)
        self.log_path = site.folder / f"daemon-{self.number}.log"
        self.killed_at: float | None = None
        path = config or site.config_path
        with self.log_path.open("w") as log:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "scheduld", "run", "--config", path],
                cwd=site.folder,
                env={**site.environment(self.number), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if stderr is None else stderr,
                stderr=log if stderr is None else stderr,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def log(self) -> list[dict[str, Any]]:
        """The records of its log; lines that are no JSON stand as `{"text": line}`."""
        whole = self.log_path.read_text().rpartition("\n")[0]
        return [
            json.loads(line) if line.startswith("{") else {"text": line}
            for line in whole.splitlines()
        ]

    @property
    def replica(self) -> str:
        """The identity it works under; it must have started."""
        (record,) = (record for record in self.log() if record.get("event") == "started")
        return str(record["replica"])

    def has_said(self, event: str) -> bool:
        """Whether its log has a record of this event."""
        return any(record.get("event") == event for record in self.log())

    def started(self) -> Self:
        """Wait until it works."""
        wait_until(self._is_up, f"daemon {self.number} started")
        return self

    def _is_up(self) -> bool:
        code = self.process.poll()
        assert code is None, f"the daemon ended with {code}: {self.log_path.read_text()[-2000:]}"
        return self.has_said("started")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it by SIGKILL, and wait for that; `killed_at` is when."""
        self.killed_at = time.monotonic()
        self.process.kill()
        self.process.wait(READY_S)

    def term(self, within_s: float = READY_S) -> int:
        """Ask it to end, and wait; returns the exit code."""
        self.process.terminate()
        return self.wait(within_s)

    def wait(self, within_s: float = READY_S) -> int:
        """Wait for its end; returns the exit code."""
        return self.process.wait(within_s)

    def freeze(self) -> None:
        """Stop it in its tracks."""
        self.send(signal.SIGSTOP)
        wait_until(lambda: self._stat()[0] == "T", "the daemon stands still")

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def cpu_s(self) -> float:
        """Seconds of CPU it has used so far, its threads included."""
        fields = self._stat()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def rss_kb(self) -> int:
        """Resident memory in KB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])

    def descriptors(self) -> int:
        """How many file descriptors it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _stat(self) -> list[str]:
        # The name of the program, in parentheses, may hold spaces.
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].split()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
