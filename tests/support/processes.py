"""What tests of worker processes share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scheduld.engine.duty import Duty
from scheduld.model import TaskType
from scheduld.registry import resolve, resolve_predicate


def process_duty(name: str, handler: str, predicate: str | None = None, **policies: Any) -> Duty:
    """Make a type whose runs are calls of a handler of `tests.support.process_work`.

    `predicate`: a function of `tests.support.predicates`.
    """
    path = f"tests.support.process_work:{handler}"
    asked = None if predicate is None else f"tests.support.predicates:{predicate}"
    kind = TaskType(name=name, handler=path, isolation="process", reschedule_if=asked, **policies)
    return Duty(kind, resolve(kind), resolve_predicate(kind))


def is_alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


def pid_in(path: Path) -> int:
    """Read the pid that a handler wrote; 0 while it has not."""
    text = path.read_text() if path.exists() else ""
    return int(text) if text else 0
