"""A test kit for programs that schedule tasks, and for handlers: see docs/testing.md.

`Scheduler` does what a daemon does, by the same scripts on a real server, but only when the
test says so and at the time that the test sets. `scheduld.testing.fixtures` has it for pytest.
Names are loaded when they are first used: most tests of a suite have to do with none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduld.testing.scheduler import Scheduler
    from scheduld.testing.server import Server
    from scheduld.testing.worker import RunRecord, TooManyRuns

__all__ = ["RunRecord", "Scheduler", "Server", "TooManyRuns"]

_HOMES = {
    "RunRecord": "worker",
    "Scheduler": "scheduler",
    "Server": "server",
    "TooManyRuns": "worker",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would believe that any name exists.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'scheduld.testing' has no attribute {name!r}")
        value = getattr(import_module("scheduld.testing." + _HOMES[name]), name)
        globals()[name] = value
        return value
