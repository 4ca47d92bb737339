"""`[schedules]` of a config file: each table checked, and made a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld import payload
from scheduld.calendar.checking import faults
from scheduld.config.faults import BadValue, wrong_type
from scheduld.config.keys import SCHEDULE, nearest
from scheduld.config.schedule_tables import SCHEDULE_NAME, ScheduleTable
from scheduld.config.schedule_values import bound
from scheduld.config.table import Checked, check
from scheduld.errors import InvalidInput
from scheduld.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduld.config.faults import KeyPath
    from scheduld.config.report import Report

_PLACEHOLDER = "?"


@dataclass(frozen=True, slots=True)
class Around:
    """What a schedule is checked against: the names of the types, and `[scheduld]`."""

    types: frozenset[str]
    timezone: str | None
    max_payload: int


@dataclass(frozen=True, slots=True)
class Found:
    """The usable schedules, and the tables they were made from, by name."""

    schedules: dict[str, Schedule]
    tables: dict[str, ScheduleTable]


def checked_schedules(report: Report, data: Mapping[str, Any], around: Around) -> Found:
    """Check `[schedules]` of a file's data; all faults go to the report."""
    found = Found({}, {})
    for name, value in report.table(data, "schedules").items():
        place = ("schedules", name)
        try:
            SCHEDULE_NAME(name)
        except BadValue as exc:
            report.bad(place, exc)
        if not isinstance(value, dict):
            report.bad(place, wrong_type("a table", value))
            continue
        checked = _table(report, place, value)
        if checked.table:
            found.tables[name] = checked.table
            found.schedules[name] = _schedule(report, name, checked, checked.table, around)
    return found


def _table(report: Report, place: KeyPath, value: dict[str, Any]) -> Checked[ScheduleTable]:
    data = report.filled(value, place)
    checked = check(ScheduleTable, SCHEDULE, data)
    for path, fault in checked.faults:
        report.bad((*place, *path), fault)
    if checked.table is None:
        # Only its type has no default: what else is wrong is told at the same time.
        rest = {key: item for key, item in data.items() if key not in checked.bad}
        table = ScheduleTable.model_validate({**rest, "type": _PLACEHOLDER})
        return Checked(table, checked.faults, checked.bad | {"type"})
    return checked


def _schedule(
    report: Report,
    name: str,
    checked: Checked[ScheduleTable],
    table: ScheduleTable,
    around: Around,
) -> Schedule:
    """Make the schedule; what contradicts itself in it, or cannot be, goes to the report."""
    bad = set(checked.bad)
    bounds = {}
    for key in ("starts_at", "ends_at"):
        value = getattr(table, key)
        if value is None or "timezone" in bad:
            continue
        try:
            zone = table.timezone or around.timezone
            bounds[key] = bound(value, zone or "UTC", is_end=key == "ends_at")
        except BadValue as exc:
            report.bad(("schedules", name, key), exc)
            bad.add(key)
    schedule = Schedule(
        name=name,
        type=table.type,
        cron=table.cron and table.cron.strip(" \t"),
        every=table.every,
        cron_dialect=table.cron_dialect,
        timezone=table.timezone or around.timezone or "UTC",
        payload=table.payload,
        catch_up=table.catch_up,
        catch_up_window_ms=table.catch_up_window,
        overlap=table.overlap,
        max_unfinished=table.max_unfinished,
        starts_at_ms=bounds.get("starts_at"),
        ends_at_ms=bounds.get("ends_at"),
        max_runs=table.max_runs,
        jitter_ms=table.jitter,
        enabled=table.enabled,
        dst_gap=table.dst_gap,
        dst_overlap=table.dst_overlap,
        keep_history=table.keep_history.keep(),
    )
    for keys, path, fault in _conflicts(schedule, around):
        if not bad.intersection(keys):
            report.bad(("schedules", name, *path), fault)
    return schedule


def _conflicts(
    schedule: Schedule, around: Around
) -> Iterator[tuple[tuple[str, ...], KeyPath, BadValue]]:
    """Yield what is wrong with a schedule: keys involved, place, fault."""
    if schedule.type not in around.types:
        near = nearest(schedule.type, around.types)
        hint = f"did you mean {near}?" if near else f"types are {', '.join(sorted(around.types))}"
        yield ("type",), ("type",), BadValue("is no task type of this file", hint=hint)
    for found in faults(schedule):
        path = () if found.is_whole else found.keys[:1]
        message = found.message.removeprefix("cron expression: ")
        message = message.removeprefix(f"{found.keys[0]} ")
        generic = "is no rule that can fire" if found.is_quoting else None
        yield found.keys, path, BadValue(message, hint=found.hint, generic=generic)
    try:
        payload.encode(dict(schedule.payload), max_bytes=around.max_payload)
    except InvalidInput as exc:
        yield ("payload",), ("payload",), BadValue(exc.message)
