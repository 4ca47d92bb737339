"""scheduld: a daemon that runs things at a time, on Redis or Valkey.

Public names are loaded when they are first used, so that importing the package costs
nothing, and a handler module that needs only `Retry` does not load a Redis client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scheduld.version import __version__

if TYPE_CHECKING:
    from scheduld.calendar.preview import NextTick
    from scheduld.calendar.ticks import next_ticks
    from scheduld.client.adding import TaskSpec
    from scheduld.client.aio import AsyncClient
    from scheduld.client.blocking import Client
    from scheduld.client.dead import DeadGroup
    from scheduld.client.default import schedule_task
    from scheduld.client.events import Event
    from scheduld.client.reviving import Requeued
    from scheduld.client.schedule_records import (
        Backfill,
        Resumed,
        ScheduleInfo,
        SchedulePause,
        Skip,
        Tick,
        Triggered,
    )
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
    from scheduld.outcomes import Again, Dead, Retry, Snooze
    from scheduld.schedule import Schedule
    from scheduld.when import parse_when

__all__ = [
    "Again",
    "AsyncClient",
    "Backfill",
    "Client",
    "ConfigError",
    "Conflict",
    "CronError",
    "Dead",
    "DeadGroup",
    "Event",
    "Handler",
    "InvalidInput",
    "NextTick",
    "Node",
    "NotFound",
    "OutcomeUnknown",
    "Requeued",
    "Resumed",
    "Retry",
    "Run",
    "ScheduldError",
    "Schedule",
    "ScheduleInfo",
    "SchedulePause",
    "Skip",
    "Snooze",
    "State",
    "Task",
    "TaskExists",
    "TaskSpec",
    "Tick",
    "Triggered",
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
    "Again": "outcomes",
    "AsyncClient": "client.aio",
    "Backfill": "client.schedule_records",
    "Client": "client.blocking",
    "Dead": "outcomes",
    "DeadGroup": "client.dead",
    "Event": "client.events",
    "Handler": "handlers.contract",
    "NextTick": "calendar.preview",
    "Node": "client.steering",
    "Requeued": "client.reviving",
    "Resumed": "client.schedule_records",
    "Retry": "outcomes",
    "Run": "handlers.contract",
    "Schedule": "schedule",
    "ScheduleInfo": "client.schedule_records",
    "SchedulePause": "client.schedule_records",
    "Skip": "client.schedule_records",
    "Snooze": "outcomes",
    "State": "model",
    "Task": "model",
    "TaskSpec": "client.adding",
    "Tick": "client.schedule_records",
    "Triggered": "client.schedule_records",
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
