"""Reads a whole config file into a `Config`, or says all that is wrong with it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from scheduld.config.core_tables import EmbeddedTable, LogTable, ScheduldTable
from scheduld.config.faults import BadValue, wrong_type
from scheduld.config.keys import TYPE
from scheduld.config.opening import begin
from scheduld.config.schedules import Around, checked_schedules
from scheduld.config.settings import DEFAULTS, Config
from scheduld.config.source import read, search
from scheduld.config.table import check
from scheduld.config.type_tables import TypeTable, type_conflicts
from scheduld.config.values import TYPE_NAME, default_state_dir, redis_timeout_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from scheduld.config.faults import KeyPath
    from scheduld.config.report import Report
    from scheduld.config.source import Source
    from scheduld.config.table import Checked, Table
    from scheduld.model import TaskType

T = TypeVar("T", bound="Table")
_PLACED = re.compile(r"(options(?:\.[\w-]+)*|reschedule_if):? (.+)", re.DOTALL)


@dataclass(frozen=True)
class Loaded:
    """A config, with the file it came from and its checked tables, by place: `types.email`.

    The tables tell the keys and values of the file, which `config` has in its own form.
    """

    config: Config
    source: Source
    tables: Mapping[str, Table]


def load(
    path: str | Path | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    redis_url: str | None = None,
    check_handlers: Callable[[TaskType], list[str]] | None = None,
) -> Config:
    """Find, read and check the config file.

    `redis_url` (`--redis-url` of the command line) goes before `$SCHEDULD_REDIS_URL`, which
    goes before the file. `check_handlers` says what is wrong with the handler and the options
    of a type, one text each; one that starts with an option, such as `options.smtp_url is
    missing`, is placed there. Raises ConfigError with all problems at once.
    """
    return load_whole(path, env=env, redis_url=redis_url, check_handlers=check_handlers).config


def load_whole(
    path: str | Path | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    redis_url: str | None = None,
    check_handlers: Callable[[TaskType], list[str]] | None = None,
) -> Loaded:
    """Do what `load` does, and return the tables as well."""
    opening = begin(read(search(path, env)), env, redis_url)
    report = opening.report
    core = _checked(report, "scheduld", check(ScheduldTable, "scheduld", opening.scheduld))
    embedded = _checked(report, "embedded", check(EmbeddedTable, "embedded", opening.embedded))
    log = _checked(
        report,
        "log",
        check(LogTable, "log", report.filled(report.table(opening.source.data, "log"), ("log",))),
    )
    tables = report.table(opening.source.data, "types")
    timeout_ms = _core_conflicts(report, core, len(tables))
    if core.table:
        opening.check_durable(core.table.durable, core.table.redis_url)
    types = {name: _checked_type(report, name, tables[name], check_handlers) for name in tables}
    scheduld = core.table or ScheduldTable()
    around = Around(frozenset(tables), scheduld.timezone, scheduld.max_payload)
    schedules = checked_schedules(report, opening.source.data, around)
    report.end()
    config = Config(
        path=opening.source.path,
        redis_url=opening.redis_url or scheduld.redis_url,
        redis_timeout_ms=timeout_ms,
        namespace=scheduld.namespace,
        timezone=scheduld.timezone,
        state_dir=scheduld.state_dir or default_state_dir(env),
        lease_ms=scheduld.lease,
        max_payload=scheduld.max_payload,
        durable=scheduld.durable,
        appendfsync=(embedded.table or EmbeddedTable()).appendfsync,
        log=(log.table or LogTable()).settings(),
        notes=opening.source.notes,
        concurrency=scheduld.concurrency,
        shutdown_grace_ms=scheduld.shutdown_grace,
        filled=report.filled_values,
        types=MappingProxyType(
            {name: table.task_type(name) for name, table in types.items() if table}
        ),
        schedules=MappingProxyType(schedules.schedules),
    )
    core_tables: dict[str, Table | None] = {
        "scheduld": core.table,
        "embedded": embedded.table,
        "log": log.table,
    }
    found = {place: table for place, table in core_tables.items() if table}
    found |= {f"types.{name}": table for name, table in types.items() if table}
    found |= {f"schedules.{name}": table for name, table in schedules.tables.items()}
    return Loaded(config, opening.source, MappingProxyType(found))


def _checked(report: Report, place: str, checked: Checked[T]) -> Checked[T]:
    for path, fault in checked.faults:
        report.bad((place, *path), fault)
    return checked


def _core_conflicts(report: Report, core: Checked[ScheduldTable], type_count: int) -> int:
    """Report settings of `[scheduld]` that contradict others; return the timeout in ms."""
    table = core.table or ScheduldTable()
    if not type_count:
        report.bad(("types",), BadValue("there is no task type", hint="add a [types.NAME] table"))
    if "concurrency" not in core.bad and table.concurrency < type_count:
        fault = BadValue(f"must be at least the number of task types, {type_count}")
        report.bad(("scheduld", "concurrency"), fault)
    given = table.redis_timeout if "redis_timeout" in table.model_fields_set else None
    try:
        return redis_timeout_ms(given, DEFAULTS.redis_timeout_ms, table.lease)
    except BadValue as exc:
        if "lease" not in core.bad:
            report.bad(("scheduld", "redis_timeout"), exc)
        return DEFAULTS.redis_timeout_ms


def _checked_type(
    report: Report, name: str, data: Any, check_handlers: Callable[[TaskType], list[str]] | None
) -> TypeTable | None:
    """Check one `[types.NAME]`; what is usable of it goes on to the check of its handler."""
    place = ("types", name)
    table = _type_table(report, place, data)
    try:
        TYPE_NAME(name)
    except BadValue as exc:
        report.bad(place, exc)
    if table is None:
        return None
    for message in check_handlers(table.task_type(name)) if check_handlers else ():
        report.other(*_placed(place, message))
    return table


def _type_table(report: Report, place: KeyPath, data: Any) -> TypeTable | None:
    if not isinstance(data, dict):
        report.bad(place, wrong_type("a table", data))
        return None
    checked = check(TypeTable, TYPE, report.filled(data, place))
    for path, fault in checked.faults:
        report.bad((*place, *path), fault)
    for keys, path, fault in type_conflicts(checked.table) if checked.table else ():
        if not checked.bad.intersection(keys):
            report.bad((*place, *path), fault)
    return checked.table


def _placed(place: KeyPath, message: str) -> tuple[KeyPath, str]:
    """Split the place off a message about a type; without one it is about the handler."""
    match = _PLACED.fullmatch(message)
    if match:
        return (*place, *match[1].split(".")), match[2]
    return (*place, "handler"), message
