"""What a run writes: JSON lines, one a figure, and before them what it was run on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Record:
    """One figure of one round."""

    case: str
    metric: str
    peer: str
    variant: str
    round: int
    value: float
    unit: str


@dataclass(frozen=True)
class Run:
    """A run that was read: `about` is the machine, `peers` the words of each driver."""

    about: dict[str, Any]
    peers: dict[str, dict[str, Any]]
    notes: list[dict[str, Any]]
    records: list[Record]


class Writer:
    """Writes a run line by line, so that what was measured stays if it breaks off."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def about(self, values: Mapping[str, Any]) -> None:
        """Write what the run is made on."""
        self._write({"about": dict(values)})

    def peer(self, name: str, values: Mapping[str, Any]) -> None:
        """Write what a driver says of itself."""
        self._write({"peer_info": name, **values})

    def note(self, case: str, peer: str, variant: str, text: str) -> None:
        """Write why a figure is missing."""
        self._write({"note": text, "case": case, "peer": peer, "variant": variant})

    def record(self, record: Record) -> None:
        """Write a figure."""
        self._write(asdict(record))

    def _write(self, values: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(values) + "\n")
        self._file.flush()


def read(lines: Iterable[str]) -> Run:
    """Read what a Writer wrote; raises ValueError, KeyError for anything else."""
    run = Run({}, {}, [], [])
    for line in lines:
        values = json.loads(line)
        if "about" in values:
            run.about.update(values["about"])
        elif "peer_info" in values:
            run.peers[values.pop("peer_info")] = values
        elif "note" in values:
            run.notes.append(values)
        else:
            run.records.append(Record(**values))
    return run


def machine(server_version: str) -> dict[str, Any]:
    """Describe what the run is made on."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "server": server_version,
        "commit": _commit(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    root = Path(__file__).parents[1]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()
