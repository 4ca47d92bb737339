"""scheduld: a daemon that runs things at a time, on Redis or Valkey.

Public names are loaded when they are first used, so that importing the package costs
nothing, and a handler module that needs only `Retry` does not load a Redis client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scheduld.version import __version__

if TYPE_CHECKING:
    from scheduld.calendar.ticks import next_ticks
    from scheduld.client.adding import TaskSpec
    from scheduld.client.aio import AsyncClient
    from scheduld.client.blocking import Client
    from scheduld.client.dead import DeadGroup
    from scheduld.client.default import schedule_task
    from scheduld.client.events import Event
    from scheduld.client.reviving import Requeued
    from scheduld.client.stats import TypeStats
    from scheduld.client.steering import Node, TypePause
    from scheduld.errors import (
        ConfigError,
        Conflict,
        CronError,
        InvalidInput,
        NotFound,
        OutcomeUnknown,
        ScheduldError,
        TaskExists,
        Unreachable,
        Unusable,
        WhenError,
    )
    from scheduld.handlers.contract import Handler, Run
    from scheduld.model import State, Task
    from scheduld.outcomes import Dead, Retry, Snooze
    from scheduld.when import parse_when

__all__ = [
    "AsyncClient",
    "Client",
    "ConfigError",
    "Conflict",
    "CronError",
    "Dead",
    "DeadGroup",
    "Event",
    "Handler",
    "InvalidInput",
    "Node",
    "NotFound",
    "OutcomeUnknown",
    "Requeued",
    "Retry",
    "Run",
    "ScheduldError",
    "Snooze",
    "State",
    "Task",
    "TaskExists",
    "TaskSpec",
    "TypePause",
    "TypeStats",
    "Unreachable",
    "Unusable",
    "WhenError",
    "__version__",
    "next_ticks",
    "parse_when",
    "schedule_task",
]

_HOMES = {
    "AsyncClient": "client.aio",
    "Client": "client.blocking",
    "Dead": "outcomes",
    "DeadGroup": "client.dead",
    "Event": "client.events",
    "Handler": "handlers.contract",
    "Node": "client.steering",
    "Requeued": "client.reviving",
    "Retry": "outcomes",
    "Run": "handlers.contract",
    "Snooze": "outcomes",
    "State": "model",
    "Task": "model",
    "TaskSpec": "client.adding",
    "TypePause": "client.steering",
    "TypeStats": "client.stats",
    "next_ticks": "calendar.ticks",
    "parse_when": "when",
    "schedule_task": "client.default",
}


if not TYPE_CHECKING:
    # Hidden from type checkers, which would believe that any name exists.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'scheduld' has no attribute {name!r}")
        value = getattr(import_module("scheduld." + _HOMES.get(name, "errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(__all__)
