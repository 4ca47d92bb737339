"""The verbs that read schedules: one, all, their next ticks, and their history."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.calendar.preview import NextTick, next_ms, upcoming
from scheduld.client.schedule_records import ScheduleInfo, SchedulePause, Skip, Tick
from scheduld.client.verbs import Commands, known_types, served_types
from scheduld.errors import Conflict, InvalidInput, NotFound
from scheduld.names import is_name, printable
from scheduld.store import croncalls
from scheduld.store.answers import server_ms
from scheduld.store.cronanswers import tick_records
from scheduld.store.cronindex import Known

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from scheduld.client.schedule_records import ScheduleState
    from scheduld.client.verbs import Scope, Verb
    from scheduld.schedule import Schedule
    from scheduld.store.cronanswers import CronRecord, TickRecord

_PAGE = 500
_LATE_MS = 5_000
"""A tick that is later than this has no daemon that fires it, or waits behind many others."""


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule that is there, with a definition that can be read."""

    known: Known
    record: CronRecord
    schedule: Schedule


def find(scope: Scope, name: str) -> Verb[Known]:
    """Look a schedule up; raises NotFound naming the nearest."""
    (raw,) = yield Commands((("HGET", scope.caller.keys.crons, name),))
    known = Known.read(raw)
    if known is None:
        raise (yield from not_found(scope, name))
    return known


def find_whole(scope: Scope, name: str) -> Verb[Found]:
    """Look a schedule up with its definition; raises NotFound, or Conflict for a broken one."""
    known = yield from find(scope, name)
    (record,) = yield croncalls.read(scope.caller, scope.type(known.type), [name])
    if record is None:
        raise half_there(name)
    if record.schedule is None:
        raise Conflict(f"the definition of schedule {name} cannot be read", hint=_broken(record))
    return Found(known, record, record.schedule)


def not_found(scope: Scope, name: str) -> Verb[NotFound]:
    """Make the error for a schedule that is not there."""
    import difflib

    (raw,) = yield Commands((("HKEYS", scope.caller.keys.crons),))
    names = sorted({key.decode(errors="replace") for key in raw} | scope.configured_schedules)
    if name in scope.configured_schedules:
        hint = "the config has it, but no daemon has taken it up yet (scheduld run)"
        return NotFound(f"there is no schedule {name}", hint=hint)
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {printable(near[0])}?" if near else "scheduld cron list tells them"
    return NotFound(f"there is no schedule {name}", hint=hint)


def half_there(name: str) -> Conflict:
    """Make the error for a name without a schedule: an add or a removal was interrupted."""
    return Conflict(
        f"schedule {name} is only half there: its add or its removal was interrupted",
        hint="repeat the one or the other",
    )


def get(scope: Scope, name: str) -> Verb[ScheduleInfo]:
    """Read one schedule; raises NotFound."""
    known = yield from find(scope, name)
    (found,) = yield from _read(scope, {name: known})
    return found


def list_schedules(scope: Scope, type_name: str | None) -> Verb[list[ScheduleInfo]]:
    """Read all schedules, or those of a type, by name."""
    (flat,) = yield Commands((("HGETALL", scope.caller.keys.crons),))
    wanted: dict[str, Known] = {}
    for raw, text in zip(flat[::2], flat[1::2], strict=True):
        known = Known.read(text)
        name = raw.decode(errors="replace")
        # Others may have put anything there; what is no name is no schedule.
        if known and is_name(name) and is_name(known.type) and type_name in (None, known.type):
            wanted[name] = known
    return (yield from _read(scope, wanted))


def _read(scope: Scope, wanted: Mapping[str, Known]) -> Verb[list[ScheduleInfo]]:
    served = yield from served_types(scope)
    by_type: dict[str, list[str]] = {}
    for name, known in wanted.items():
        by_type.setdefault(known.type, []).append(name)
    found: list[ScheduleInfo] = []
    for type_name, names in by_type.items():
        for start in range(0, len(names), croncalls.MOST_SCHEDULES):
            part = names[start : start + croncalls.MOST_SCHEDULES]
            records = yield croncalls.read(scope.caller, scope.type(type_name), part)
            for name, record in zip(part, records, strict=True):
                found.append(info_of(name, wanted[name], record, served))
    return sorted(found, key=lambda info: info.name)


def info_of(
    name: str, known: Known, record: CronRecord | None, served: Container[str]
) -> ScheduleInfo:
    """Tell a schedule from what is stored of it. `served`: the types that live replicas work on."""
    if record is None:
        return ScheduleInfo(
            name=name,
            type=known.type,
            origin=known.origin,
            state="broken",
            error=half_there(name).message,
        )
    state, next_tick_ms, error = _outlook(record)
    paused_ms = record.paused_ms
    pause = None
    if paused_ms is not None:
        pause = SchedulePause(name, record.pause_reason, record.pause_who, paused_ms)
    return ScheduleInfo(
        name=name,
        type=known.type,
        origin=known.origin,
        state=state,
        definition=record.schedule,
        next_ms=next_tick_ms,
        last=_last(record),
        runs=record.runs,
        unfinished=record.unfinished,
        is_queued=record.is_queued,
        queued_ms=record.queued_ms,
        pause=pause,
        skips=tuple(Skip(*bounds) for bounds in record.skips),
        orphan_ms=record.orphan_ms,
        overdue_ms=_overdue_ms(record) if state == "active" else None,
        is_served=known.type in served,
        error=error,
        now_ms=record.now_ms,
    )


def _outlook(record: CronRecord) -> tuple[ScheduleState, int | None, str | None]:
    """The state of a schedule, when it fires next, and what is wrong with it."""
    schedule = record.schedule
    if record.moved:
        return "broken", None, f"it is moving to type {printable(record.moved)}: repeat the add"
    if schedule is None or record.parked:
        return "broken", None, record.parked or _broken(record)
    try:
        rule = rule_of_schedule(schedule)
        at = next_ms(rule, max(record.mark_ms, record.now_ms), record.skips)
    except InvalidInput as exc:
        return "broken", None, exc.message
    if not schedule.enabled:
        return "disabled", None, None
    is_used_up = schedule.max_runs is not None and record.runs >= schedule.max_runs
    if at is None or is_used_up:
        return "ended", None, None
    if record.paused_ms is not None:
        return "paused", None, None
    return ("active" if record.orphan_ms is None else "orphaned"), at, None


def _overdue_ms(record: CronRecord) -> int | None:
    """The first tick after the mark, if a daemon should have fired it a while ago."""
    if record.schedule is None:
        return None
    first = rule_of_schedule(record.schedule).after(record.mark_ms)
    return first if first is not None and first < record.now_ms - _LATE_MS else None


def _broken(record: CronRecord) -> str:
    if record.key_type != "hash":
        return f"its key in Redis is a {printable(record.key_type)}"
    return "it was written by a newer version, or by something else"


def _last(record: CronRecord) -> Tick | None:
    if record.last is None:
        return None
    tick_ms, at_ms, outcome = record.last
    late_ms = max(0, at_ms - tick_ms)
    return Tick(
        schedule=record.name, outcome=outcome, at_ms=at_ms, tick_ms=tick_ms, late_ms=late_ms
    )


def next_ticks_of(
    scope: Scope, name: str, count: int, after_ms: int | None
) -> Verb[list[NextTick]]:
    """Tell the next ticks of a schedule, by its definition and skips."""
    found = yield from find_whole(scope, name)
    record = found.record
    base = max(record.mark_ms, record.now_ms) if after_ms is None else after_ms
    ticks = upcoming(found.schedule, base, skips=record.skips, runs=record.runs)
    return list(islice(ticks, count))


def history(scope: Scope, name: str, limit: int, before: str | None) -> Verb[list[Tick]]:
    """Read the newest records of a schedule, the oldest first; of one that was removed too."""
    (raw,) = yield Commands((("HGET", scope.caller.keys.crons, name),))
    known = Known.read(raw)
    types = [known.type] if known else (yield from known_types(scope))
    found: list[Tick] = []
    for type_name in types:
        found = yield from _newest(scope, type_name, name, limit, before)
        if found:
            break
    if not found and known is None:
        raise (yield from not_found(scope, name))
    return found[::-1]


def _newest(
    scope: Scope, type_name: str, name: str, limit: int, before: str | None
) -> Verb[list[Tick]]:
    found: list[Tick] = []
    while len(found) < limit:
        most = min(_PAGE, limit - len(found))
        command = croncalls.history(scope.type(type_name), name, limit=most, before=before)
        (reply,) = yield Commands((command,))
        records = tick_records(reply)
        found += [tick_of(name, record) for record in records]
        if len(records) < most:
            break
        before = records[-1].cursor
    return found


def tick_of(name: str, record: TickRecord) -> Tick:
    """Tell one record of the history."""
    return Tick(
        schedule=name,
        outcome=record.outcome,
        at_ms=record.at_ms,
        tick_ms=record.tick_ms,
        late_ms=record.late_ms,
        why=record.why,
        task_id=record.task_id or None,
        from_ms=record.from_ms,
        to_ms=record.to_ms,
        count=record.count,
        cursor=record.cursor,
    )


def server_now_ms() -> Verb[int]:
    """Ask for the server's clock."""
    (time,) = yield Commands((("TIME",),))
    return server_ms(time)
