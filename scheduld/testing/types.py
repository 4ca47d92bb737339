"""The task types of a test: from a config file, or said one by one as in one."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld import registry
from scheduld.config.keys import TYPE
from scheduld.config.load import load
from scheduld.config.table import check
from scheduld.config.type_tables import TypeTable, type_conflicts
from scheduld.errors import InvalidInput
from scheduld.handlers.options import did_you_mean
from scheduld.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from scheduld.config.settings import Config
    from scheduld.handlers.contract import Handler
    from scheduld.model import TaskType


class Type(NamedTuple):
    """A task type, what runs its tasks, and what is asked whether one comes again."""

    kind: TaskType
    handler: Handler
    predicate: Handler | None


def from_file(
    path: str | Path | None,
    env: Mapping[str, str] | None,
    handlers: Mapping[str, Callable[..., Any]],
) -> tuple[Config, dict[str, Type]]:
    """Read a config, and make the handlers of its types; `handlers` stand in for some of them.

    Raises ConfigError with all that is wrong, or InvalidInput for a stand-in of no type.
    """

    def problems(kind: TaskType) -> list[str]:
        return [] if kind.name in handlers else registry.check(kind)

    config = load(
        path, env={**os.environ, **(env or {})}, redis_url="embedded", check_handlers=problems
    )
    for name in handlers:
        if name not in config.types:
            near = did_you_mean(name, tuple(config.types))
            raise InvalidInput(f"the config has no task type {name!r}{near}")
    known = {
        name: Type(
            kind,
            registry.resolve(_labelled(kind, handlers.get(name)), handlers.get(name)),
            registry.resolve_predicate(kind),
        )
        for name, kind in config.types.items()
    }
    return config, known


def one(name: str, handler: str | Callable[..., Any], settings: Mapping[str, Any]) -> Type:
    """Make one type from what `[types.NAME]` would hold; raises InvalidInput with all problems.

    Its `reschedule_if` may be a callable.
    """
    found = None if isinstance(handler, str) else handler
    asked = settings.get("reschedule_if")
    predicate = asked if callable(asked) else None
    if predicate is not None:
        settings = {**settings, "reschedule_if": "this:callable"}
    data = {**settings, "handler": "log" if found else handler}
    checked = check(TypeTable, TYPE, data)
    faults = [(path, fault) for path, fault in checked.faults]
    if checked.table is not None:
        conflicts = type_conflicts(checked.table)
        faults += [(path, fault) for keys, path, fault in conflicts if not checked.bad & {*keys}]
    if faults or checked.table is None:
        told = "; ".join(f"{'.'.join(map(str, path))}: {fault}" for path, fault in faults)
        raise InvalidInput(f"task type {name!r}: {told}")
    kind = _labelled(checked.table.task_type(check_name("type", name)), found)
    return Type(kind, registry.resolve(kind, found), registry.resolve_predicate(kind, predicate))


def _labelled(kind: TaskType, found: Callable[..., Any] | None) -> TaskType:
    if found is None:
        return kind
    name = getattr(found, "__qualname__", type(found).__qualname__)
    return replace(kind, handler=f"{getattr(found, '__module__', None) or '?'}:{name}")
