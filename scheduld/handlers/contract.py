"""What a handler is: one call, payload (and run) to a result or an outcome.

A reschedule predicate is called in the same way; what it returns is read by another rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from scheduld.model import Isolation


class Notes(Protocol):
    """Takes what runs tell on their way; may be called from threads."""

    def progress(self, run: Run, text: str) -> None:
        """Take a JSON text in place of the last one."""

    def log(self, run: Run, text: str, age_ms: float = 0.0) -> None:
        """Take one more text, of so long ago."""


@dataclass(slots=True)
class Run:
    """What a handler may know about the run it is in.

    `attempt` counts from 1. `fence` rises with every claim of the type: a handler that
    writes elsewhere can hand it on, and refuse older ones, to be exact. `due` is the nominal
    due time (aware, UTC), the same for every attempt. `tick` and `schedule` are None unless
    a schedule made the task.
    """

    type: str
    id: str
    attempt: int
    fence: int
    due: datetime
    tick: datetime | None = None
    schedule: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    _cancelled: bool = field(default=False, repr=False)
    _notes: Notes | None = field(default=None, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """Whether the run should end: cancelled, timed out, stopping, or its lease is lost.

        Handlers in threads cannot be interrupted; long ones look here now and then.
        """
        return self._cancelled

    def cancel(self) -> None:
        """Ask the run to end."""
        self._cancelled = True

    def progress(self, value: Any) -> None:
        """Tell how far the run is: a JSON value of at most 4 KB, kept with the task.

        The newest one counts, and is stored within a second. Raises TypeError for what is no
        JSON, ValueError for what is too long.
        """
        from scheduld.notes import progress_text  # most runs tell nothing

        text = progress_text(value)
        if self._notes is not None:
            self._notes.progress(self, text)

    def log(self, text: str) -> None:
        """Keep a line with the task, of which the last 200 are kept, or 16 KB.

        A line of more than 2,000 characters is cut. Raises TypeError for what is no text.
        """
        from scheduld.notes import log_text

        line = log_text(text)
        if self._notes is not None:
            self._notes.log(self, line)


@dataclass(frozen=True, slots=True)
class Handler:
    """A resolved handler: built once from a task type's config, called once per run.

    `call(payload)` or `call(payload, run)` by `takes_run`; a coroutine function if `is_async`.
    Whatever it returns must be JSON, or an outcome of `scheduld.outcomes`.
    """

    call: Callable[..., Any]
    is_async: bool
    takes_run: bool
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def default_isolation(self) -> Isolation:
        """Where it runs unless the type says otherwise."""
        return "inline" if self.is_async else "thread"
