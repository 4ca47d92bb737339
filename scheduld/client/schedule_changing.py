"""The verbs that add and remove schedules at run time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduld.client.schedule_reading import find, get, half_there
from scheduld.client.verbs import Commands, admit_type
from scheduld.errors import Conflict, NotFound, OutcomeUnknown, TaskExists
from scheduld.store import croncalls
from scheduld.store.cronanswers import Defined, Steered
from scheduld.store.croncalls import NOTHING, Definition
from scheduld.store.cronindex import Known, known_as

if TYPE_CHECKING:
    from scheduld.client.schedule_records import ScheduleInfo
    from scheduld.client.verbs import Scope, Verb
    from scheduld.schedule import OnScheduleConflict, Schedule
    from scheduld.store.cronanswers import CronRecord


@dataclass(slots=True)
class Definer:
    """One add of a schedule. Each step may be repeated: a lost answer does no harm.

    First the name is taken in the index of all schedules, for this type and definition; then the
    schedule is defined in the slot of its type. In between it is named and does not fire.
    """

    schedule: Schedule
    on_conflict: OnScheduleConflict
    allow_unknown: bool
    is_ours: bool = False
    """Whether this add, by this attempt or maybe an earlier one, has taken the name."""

    def verb(self, scope: Scope) -> Verb[ScheduleInfo]:
        """Carry it out; raises TaskExists, or Conflict where a config has the name."""
        name = self.schedule.name
        self._check_config(scope)
        yield from admit_type(scope, self.schedule.type, allow_unknown=self.allow_unknown)
        wanted = known_as(self.schedule, "runtime")
        crons = scope.caller.keys.crons
        taking = (("HSETNX", crons, name, str(wanted)), ("HGET", crons, name))
        try:
            is_taken, raw = yield Commands(taking, writes=True)
        except OutcomeUnknown:
            self.is_ours = True
            raise
        self.is_ours = self.is_ours or bool(is_taken)
        known = Known.read(raw)
        if known is None:
            yield Commands((("HSET", crons, name, str(wanted)),), writes=True)
            known = wanted
        return (yield from self._define(scope, known, wanted))

    def _check_config(self, scope: Scope) -> None:
        if self.schedule.name in scope.configured_schedules:
            raise _of_config(self.schedule.name)

    def _define(self, scope: Scope, known: Known, wanted: Known) -> Verb[ScheduleInfo]:
        name = self.schedule.name
        record = yield from _record(scope, known.type, name)
        if known.origin == "config":
            raise _of_config(name, record)
        if record is not None and known == wanted and record.digest == wanted.digest:
            # The same again: an answer was lost, or somebody was quicker with just this.
            return replace((yield from get(scope, name)), created=self.is_ours)
        if record is not None and self.on_conflict != "replace":
            if record.digest != known.digest and not record.moved:
                # The index had lost it, or its change was interrupted.
                there = known._replace(digest=record.digest)
                yield Commands((("HSET", scope.caller.keys.crons, name, str(there)),), writes=True)
            if self.on_conflict == "keep":
                return replace((yield from get(scope, name)), created=False)
            raise _exists(name, known)
        if record is None and known != wanted and self.on_conflict != "replace":
            raise half_there(name)  # or somebody is just adding it
        yield from self._store(scope, known, wanted, record)
        return replace((yield from get(scope, name)), created=True)

    def _store(
        self, scope: Scope, known: Known, wanted: Known, record: CronRecord | None
    ) -> Verb[None]:
        name = self.schedule.name
        keys = scope.type(wanted.type)
        is_moving = record is not None and known.type != wanted.type
        if is_moving:
            # It fires there no more before it fires here.
            yield croncalls.move(scope.caller, scope.type(known.type), name, to=wanted.type)
        there = (yield from _record(scope, wanted.type, name)) if is_moving else record
        expected = "" if there is None else there.digest
        carried = record.carried if is_moving and record is not None else NOTHING
        definition = Definition(self.schedule, "runtime", expected, carried)
        (answer,) = yield croncalls.define(scope.caller, keys, [definition])
        if answer.code is Defined.OTHER_ORIGIN:
            raise _of_config(name)
        if answer.code is Defined.BROKEN:
            raise Conflict(f"a key of schedule {name} holds another kind of value")
        if not answer.code.is_stored:
            raise Conflict(f"schedule {name} was changed by somebody else just now")
        if is_moving:
            yield from _remove_all(scope, known.type, name, f"moved to type {wanted.type}")
        # The index last: whoever reads it finds what it names, and a move that was cut short is
        # made anew. Then once more who fires it.
        wake = f"{wanted.type} cron {name}"
        crons = scope.caller.keys.crons
        telling = (("HSET", crons, name, str(wanted)), ("PUBLISH", scope.caller.keys.wake, wake))
        yield Commands(telling, writes=True)


@dataclass(slots=True)
class Removal:
    """One removal. What it has done outlives attempts: a repeat then meets no schedule."""

    is_sent: bool = False
    cancelled: int = 0

    def verb(self, scope: Scope, name: str) -> Verb[int]:
        """Remove a schedule of run time; how many waiting tasks of it were cancelled.

        Raises NotFound, or Conflict for one of a config.
        """
        try:
            known = yield from find(scope, name)
        except NotFound:
            if self.is_sent:
                return self.cancelled
            raise
        if known.origin == "config":
            record = yield from _record(scope, known.type, name)
            if record is not None and record.orphan_ms is None:
                raise Conflict(
                    f"schedule {name} is in a config file",
                    hint="take it out of the file, and it is removed 10 minutes after the last"
                    " daemon that has it; pause stops it at once",
                )
        self.is_sent = True
        self.cancelled += yield from _remove_all(scope, known.type, name, "removed by hand")
        # Only what was found: somebody may have added another in its place.
        crons = scope.caller.keys.crons
        (raw,) = yield Commands((("HGET", crons, name),))
        if Known.read(raw) == known:
            wake = f"{known.type} cron {name}"
            telling = (("HDEL", crons, name), ("PUBLISH", scope.caller.keys.wake, wake))
            yield Commands(telling, writes=True)
        return self.cancelled


def _remove_all(scope: Scope, type_name: str, name: str, reason: str) -> Verb[int]:
    keys = scope.type(type_name)
    answer = yield croncalls.remove(scope.caller, keys, name, reason=reason)
    cancelled: int = answer.cancelled
    while answer.code is Steered.DONE and answer.start is not None:
        answer = yield croncalls.remove(scope.caller, keys, name, reason=reason, start=answer.start)
        cancelled += answer.cancelled
    return cancelled


def _record(scope: Scope, type_name: str, name: str) -> Verb[CronRecord | None]:
    (record,) = yield croncalls.read(scope.caller, scope.type(type_name), [name])
    found: CronRecord | None = record
    return found


def _of_config(name: str, record: CronRecord | None = None) -> Conflict:
    if record is not None and record.orphan_ms is not None:
        return Conflict(
            f"schedule {name} was in a config file, and is kept for 10 minutes",
            hint="remove it first, if it is not to come back",
        )
    return Conflict(
        f"schedule {name} is in a config file", hint="change it there, or take another name"
    )


def _exists(name: str, known: Known) -> TaskExists:
    return TaskExists(
        f"schedule {name} exists, of type {known.type}, with other settings",
        state="scheduled",
        hint='on_conflict="replace" takes its place, "keep" leaves it as it is',
    )


def check_whole(name: str, code: Steered | int) -> None:
    """Raise for a change that was refused by the state of a schedule."""
    if code == Steered.GONE:
        raise half_there(name)
    if code == Steered.BROKEN:
        raise Conflict(f"a key of schedule {name} holds another kind of value")
    if code == Steered.MOVED:
        raise Conflict(f"schedule {name} is just moving to another type", hint="try again")
    if code == Steered.TOO_MANY:
        raise Conflict(f"schedule {name} has too many skips", hint="remove some, by unskip")
