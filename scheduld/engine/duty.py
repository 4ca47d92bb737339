"""A task type as this replica works on it: its config, its handler, and where it runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduld.calendar.period import series_of
from scheduld.payload import DEFAULT_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduld.handlers.contract import Handler
    from scheduld.model import Isolation, TaskType

_DEFAULT_CONCURRENCY = {"inline": 100, "thread": 10}


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Duty:
    """One type of a replica, its defaults resolved against the handler."""

    kind: TaskType
    handler: Handler
    predicate: Handler | None = None
    """Asked after each occurrence of a periodic task."""
    max_payload: int = DEFAULT_MAX_BYTES

    @property
    def name(self) -> str:
        """Name of the type."""
        return self.kind.name

    @property
    def isolation(self) -> Isolation:
        """Where runs of the type happen."""
        return self.kind.isolation or self.handler.default_isolation

    @property
    def concurrency(self) -> int:
        """Most runs of the type at once in this replica."""
        if self.kind.concurrency:
            return self.kind.concurrency
        return _DEFAULT_CONCURRENCY.get(self.isolation) or cores()


def ladders(duties: Iterable[Duty]) -> dict[str, str]:
    """The series of those types that have one, as clients are told of them."""
    found = {duty.name: series_of(duty.kind) for duty in duties}
    return {name: str(series) for name, series in found.items() if series is not None}
