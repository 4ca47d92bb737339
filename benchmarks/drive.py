"""Carries out one action of a driver: a program of its own, which answers with one JSON object."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

READY = "READY"
_TAIL = 2_000


class DriverFailed(Exception):
    """A driver ended without an answer; the message has the end of what it said."""


class Unsupported(Exception):
    """The peer cannot do this, or has no such way; the message says why."""


@dataclass(frozen=True)
class Driver:
    """How to start the driver of a peer."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a driver printed; `cpu_s` is what it and its children took from start to end."""

    values: dict[str, Any]
    cpu_s: float

    def number(self, name: str) -> float:
        """One of the values as a number; raises KeyError, ValueError."""
        return float(self.values[name])


def act(
    driver: Driver,
    action: str,
    options: Sequence[str],
    *,
    timeout_s: float,
    on_ready: Callable[[], None] | None = None,
) -> Answer:
    """Run one action to its end in a fresh folder; raises DriverFailed, Unsupported.

    `on_ready` is called when the driver prints the line READY, while it goes on.
    """
    with tempfile.TemporaryDirectory(prefix=f"bench-{driver.name}-") as folder:
        log = Path(folder, "stderr")
        with log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603
                [*driver.argv, action, *options],
                cwd=folder,
                env={**os.environ, **driver.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        # It hits the whole group: workers that the driver started too.
        alarm = threading.Timer(timeout_s, _kill_group, [process.pid])
        alarm.start()
        try:
            last = _last_line(process, on_ready)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            alarm.cancel()
            _kill_group(process.pid)
        values = parse(last)
        if process.returncode != 0 or values is None:
            said = log.read_text(errors="replace")[-_TAIL:]
            what = f"{driver.name} {action}: exit {process.returncode}, said {last!r}"
            raise DriverFailed(f"{what}\n{said}")
    if "unsupported" in values:
        raise Unsupported(str(values["unsupported"]))
    return Answer(values, usage.ru_utime + usage.ru_stime)


def parse(line: str) -> dict[str, Any] | None:
    """Read the JSON object of a driver's last line, or None if it is none."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _last_line(process: subprocess.Popen[bytes], on_ready: Callable[[], None] | None) -> str:
    last = ""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    with process.stdout as lines:
        for raw in lines:
            line = raw.decode(errors="replace").strip()
            if line == READY and on_ready is not None:
                on_ready()
            elif line:
                last = line
    return last


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
