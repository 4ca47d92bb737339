"""What a handler is: one call, payload (and run) to a result or an outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from scheduld.model import Isolation


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

    @property
    def cancelled(self) -> bool:
        """Whether the run should end: cancelled, timed out, stopping, or its lease is lost.

        Handlers in threads cannot be interrupted; long ones look here now and then.
        """
        return self._cancelled

    def cancel(self) -> None:
        """Ask the run to end."""
        self._cancelled = True


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
