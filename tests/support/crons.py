"""Schedules of a store under test: short words for their calls, at the store's clock by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld.schedule import Schedule, tick_id
from scheduld.store import croncalls
from scheduld.store.croncalls import Definition, Gap, Tick
from scheduld.store.keys import encode_id

if TYPE_CHECKING:
    from scheduld.schedule import Origin
    from scheduld.store.cronanswers import DefinedAs, Ticked, TickedAs
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
    ) -> DefinedAs:
        """Define a schedule in place of the one that is known here."""
        one = schedule or daily()
        before = self.known.get(one.name)
        digest = before[0].digest if before else ""
        definition = Definition(one, origin, digest if expected is None else expected)
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
