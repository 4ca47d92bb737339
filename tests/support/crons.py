"""Schedules of a store under test: short words for their calls, at the store's clock by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld.schedule import Schedule, tick_id
from scheduld.store import croncalls
from scheduld.store.cronanswers import Steered, tick_records
from scheduld.store.croncalls import NOTHING, Definition, Gap, PastTick, Tick
from scheduld.store.keys import encode_id

if TYPE_CHECKING:
    from scheduld.schedule import Origin
    from scheduld.store.cronanswers import (
        Backfilled,
        CronRecord,
        DefinedAs,
        Orphaned,
        Paused,
        Removed,
        Skips,
        Ticked,
        TickedAs,
        TickRecord,
    )
    from scheduld.store.croncalls import Carried
    from tests.support.store import Store

MINUTE = 60_000


def daily(name: str = "daily", **values: Any) -> Schedule:
    """A schedule of the store's type; nothing here reads its rule."""
    return Schedule(name=name, type="job", **{"cron": "0 7 * * *", **values})


class Crons:
    """The schedules of a store. `mark` follows what the calls answer."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.known: dict[str, tuple[Schedule, int]] = {}

    def define(
        self,
        schedule: Schedule | None = None,
        *,
        expected: str | None = None,
        origin: Origin = "config",
        carried: Carried = NOTHING,
    ) -> DefinedAs:
        """Define a schedule in place of the one that is known here."""
        one = schedule or daily()
        before = self.known.get(one.name)
        digest = before[0].digest if before else ""
        definition = Definition(one, origin, digest if expected is None else expected, carried)
        call = croncalls.define(self.store.caller(), self.store.type, [definition])
        told = self.store.run(call)[0]
        if told.code.is_stored:
            self.known[one.name] = (one, told.mark_ms)
        return told

    def a_tick(self, at_ms: int | None = None, *, name: str = "daily", **values: Any) -> Tick:
        """Build a tick as a replica would that knows all; `values` replace parts of it."""
        schedule, mark = self.known[name]
        tick = self.store.time if at_ms is None else at_ms
        made = {
            "name": name,
            "digest": schedule.digest,
            "mark_ms": mark,
            "tick_ms": tick,
            "due_ms": tick,
            "raw_id": encode_id(tick_id(name, tick)),
            **values,
        }
        return Tick(**made)

    def fire(self, *ticks: Tick) -> list[TickedAs]:
        """Fire ticks in one call."""
        told = self.store.run(croncalls.tick(self.store.caller("ticker"), self.store.type, ticks))
        for tick, one in zip(ticks, told, strict=True):
            if one.code.is_told and one.mark_ms is not None and tick.name in self.known:
                self.known[tick.name] = (self.known[tick.name][0], one.mark_ms)
        return told

    def tick(self, at_ms: int | None = None, **values: Any) -> Ticked:
        """Fire one tick, now if no instant is given; what became of it."""
        return self.fire(self.a_tick(at_ms, **values))[0].code

    def gap(self, from_ms: int, to_ms: int, count: int = 1, **values: Any) -> Ticked:
        """Record a gap only."""
        gap = Gap(from_ms, to_ms, count, "missed")
        return self.tick(tick_ms=None, raw_id=b"", gap=gap, **values)

    def pause(self, name: str = "daily", reason: str = "") -> Paused:
        """Pause a schedule."""
        call = croncalls.pause(
            self.store.caller("cli"), self.store.type, name, reason=reason, who="ana@host"
        )
        return self.store.run(call)

    def resume(self, name: str = "daily", **options: Any) -> Paused:
        """Resume a schedule; options as of the call."""
        told = self.store.run(
            croncalls.resume(self.store.caller("cli"), self.store.type, name, **options)
        )
        if told.code is Steered.DONE:
            self.known[name] = (self.known[name][0], told.at_ms)
        return told

    def skips(self, name: str = "daily", **changes: Any) -> Skips:
        """Change the ranges whose ticks are skipped."""
        caller = self.store.caller("cli")
        return self.store.run(croncalls.skips(caller, self.store.type, name, **changes))

    def remove(self, name: str = "daily", **options: Any) -> Removed:
        """Remove a schedule, one step."""
        self.known.pop(name, None)
        caller, reason = self.store.caller("cli"), "no longer needed"
        call = croncalls.remove(caller, self.store.type, name, reason=reason, **options)
        return self.store.run(call)

    def trigger(self, name: str = "daily", number: int = 1, payload: bytes = b"") -> Ticked:
        """Make a task by hand."""
        raw_id = encode_id(f"{name}@manual-{number}")
        caller = self.store.caller("cli")
        return self.store.run(
            croncalls.trigger(caller, self.store.type, name, raw_id=raw_id, payload=payload)
        )

    def backfill(
        self, *ticks_ms: int, name: str = "daily", due_ms: int | None = None
    ) -> Backfilled:
        """Make tasks for past ticks, due now unless said otherwise."""
        due = self.store.time if due_ms is None else due_ms
        ticks = [PastTick(tick, due, encode_id(tick_id(name, tick))) for tick in ticks_ms]
        caller = self.store.caller("cli")
        return self.store.run(croncalls.backfill(caller, self.store.type, name, ticks))

    def orphan(self, name: str = "daily", after_ms: int = 600_000) -> Orphaned:
        """Say that nobody announces a schedule."""
        call = croncalls.orphan(self.store.caller(), self.store.type, name, after_ms=after_ms)
        return self.store.run(call)

    # Looking.

    def read(self, name: str = "daily") -> CronRecord | None:
        """Read a schedule as it is stored."""
        return self.store.run(croncalls.read(self.store.caller(), self.store.type, [name]))[0]

    def record(self, name: str = "daily") -> CronRecord:
        """Read a schedule that is there."""
        found = self.read(name)
        assert found is not None
        return found

    def history(self, name: str = "daily", limit: int = 1000) -> list[TickRecord]:
        """The history, oldest first."""
        command = croncalls.history(self.store.type, name, limit=limit)
        return tick_records(self.store.link.commands(command)[0])[::-1]

    def outcomes(self, name: str = "daily") -> list[str]:
        """Outcomes in the history, with their reasons, oldest first."""
        return [f"{one.outcome} {one.why}".strip() for one in self.history(name)]

    def live(self, name: str = "daily") -> list[str]:
        """Ids of the tasks that count as unfinished."""
        found: Any = self.store.redis.zrange(self.store.type.live(name), 0, -1)
        return [raw_id.decode() for raw_id in found]
