"""What a replica does for schedules, at the time of the moved clock: the same decisions, scripts.

Nothing is remembered from one step to the next but rules, which never change: whatever a test
does to schedules in between counts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.engine.deciding import ticks_of
from scheduld.engine.timetable import Entry
from scheduld.errors import Conflict
from scheduld.store import croncalls
from scheduld.store.cronanswers import Defined, Ticked
from scheduld.store.croncalls import MOST_SCHEDULES, Definition
from scheduld.store.cronindex import Known, known_as

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduld.schedule import Schedule
    from scheduld.store.calls import Caller
    from scheduld.store.cronanswers import CronRecord
    from scheduld.store.synclink import SyncLink


class _Live(NamedTuple):
    """A schedule that may fire."""

    schedule: Schedule
    record: CronRecord


class Ticks:
    """Fires the schedules of one namespace: those of a config, and those added at run time."""

    def __init__(self, link: SyncLink, caller: Caller) -> None:
        self._link = link
        self._caller = caller
        self._again: dict[str, int] = {}
        """When to look once more at schedules that catch up step by step."""

    def define(self, own: Mapping[str, Schedule]) -> None:
        """Take the schedules of a config, in place of those of an earlier one."""
        known = self._known()
        for name, one in known.items():
            if one.origin == "config" and (name not in own or own[name].type != one.type):
                self._remove(name, one.type)
        for schedule in own.values():
            self._define(schedule, known.get(schedule.name))

    def any(self) -> bool:
        """Whether there is a schedule."""
        return bool(self._known())

    def fire(self, now_ms: int) -> int | None:
        """Fire what is due of all schedules; returns the next instant later than `now_ms`.

        None: there is no schedule that has something to do then.
        """
        while True:
            live = self._live()
            due = [one for one in live if self._is_due(one, now_ms)]
            moved = [self._fire(one, now_ms) for one in due]
            if not any(moved):
                break
        times = [self._next_ms(one, now_ms) for one in live]
        return min((time for time in times if time is not None), default=None)

    def _next_ms(self, one: _Live, now_ms: int) -> int | None:
        again_ms = self._again.get(one.schedule.name)
        if again_ms is not None and again_ms > now_ms:
            return again_ms
        return rule_of_schedule(one.schedule).after(max(one.record.mark_ms, now_ms))

    def _is_due(self, one: _Live, now_ms: int) -> bool:
        if self._again.get(one.schedule.name, now_ms) > now_ms:
            return False
        at = rule_of_schedule(one.schedule).after(one.record.mark_ms)
        return at is not None and at <= now_ms

    def _fire(self, one: _Live, now_ms: int) -> bool:
        """Fire what is due of one schedule; whether there may be more at once."""
        name, keys = one.schedule.name, self._caller.keys.type(one.schedule.type)
        entry = Entry(
            one.schedule, one.record.digest, rule_of_schedule(one.schedule), one.record.mark_ms
        )
        planned, again_ms = ticks_of(entry, now_ms)
        self._again.pop(name, None)
        if again_ms is not None and again_ms > now_ms:
            self._again[name] = again_ms
        moved = False
        for start in range(0, len(planned), MOST_SCHEDULES):
            part = [one.tick for one in planned[start : start + MOST_SCHEDULES]]
            answers = self._link.run(croncalls.tick(self._caller, keys, part))
            if any(answer.code is Ticked.NO_ROOM for answer in answers):
                # It has room when an earlier task has ended, which is looked for at each step.
                self._again.pop(name, None)
                return False
            moved = moved or any(answer.code.is_told for answer in answers)
        return moved

    def _live(self) -> list[_Live]:
        by_type: dict[str, list[str]] = {}
        for name, known in self._known().items():
            by_type.setdefault(known.type, []).append(name)
        return [one for type_name, names in by_type.items() for one in self._read(type_name, names)]

    def _read(self, type_name: str, names: list[str]) -> Iterator[_Live]:
        keys = self._caller.keys.type(type_name)
        for start in range(0, len(names), MOST_SCHEDULES):
            part = names[start : start + MOST_SCHEDULES]
            for record in self._link.run(croncalls.read(self._caller, keys, part)):
                if record is None or record.schedule is None or record.paused_ms is not None:
                    continue
                schedule = record.schedule
                is_used_up = schedule.max_runs is not None and record.runs >= schedule.max_runs
                if schedule.enabled and not is_used_up and not record.moved:
                    yield _Live(schedule, record)

    def _known(self) -> dict[str, Known]:
        (flat,) = self._link.commands(("HGETALL", self._caller.keys.crons))
        pairs = zip(flat[::2], flat[1::2], strict=True)
        found = {raw.decode(errors="replace"): Known.read(text) for raw, text in pairs}
        return {name: known for name, known in found.items() if known is not None}

    def _define(self, schedule: Schedule, known: Known | None) -> None:
        keys = self._caller.keys.type(schedule.type)
        expected = known.digest if known and known.type == schedule.type else ""
        definition = Definition(schedule, "config", expected)
        (answer,) = self._link.run(croncalls.define(self._caller, keys, [definition]))
        if answer.code is Defined.OTHER_ORIGIN:
            return  # added at run time: it keeps the name
        if not answer.code.is_stored:
            raise Conflict(f"schedule {schedule.name} could not be defined: {answer.code.name}")
        entry = str(known_as(schedule, "config"))
        self._link.commands(("HSET", self._caller.keys.crons, schedule.name, entry), writes=True)

    def _remove(self, name: str, type_name: str) -> None:
        keys, start = self._caller.keys.type(type_name), None
        while True:
            call = croncalls.remove(
                self._caller, keys, name, reason="not in the config", start=start
            )
            start = self._link.run(call).start
            if start is None:
                break
        self._link.commands(("HDEL", self._caller.keys.crons, name), writes=True)
