"""Answers for ticks: fires each schedule at its instants by the server's clock.

All replicas try each tick; the watermark in the store lets the first one make the task, and
tells the others how far it is. So nobody need be elected, and none is missed while one lives.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.clock import monotonic
from scheduld.engine.loop import wait_for
from scheduld.engine.timetable import Entry, Timetable
from scheduld.errors import InvalidInput, OutcomeUnknown, RuleBroken, ScheduldError, Unreachable
from scheduld.store import croncalls
from scheduld.store.croncalls import MOST_SCHEDULES, Ticked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduld.schedule import Schedule
    from scheduld.store.calls import Caller
    from scheduld.store.croncalls import Tick, TickedAs
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.ticker")
_LONGEST_S = 15.0
"""Longest sleep: a clock that was set is noticed then at the latest."""
_TURN_S = 0.01
"""So long the loop may compute before others have their turn."""
_AGAIN_MS = 10_000
"""When to try again what others must change first: a pause, a broken key."""
_BACK_MS = 60_000
"""A watermark this far ahead of the server's clock shows that the clock was set back."""


class Ticker:
    """The loop that fires.

    `on_due(type, ms)` hears of tasks that were made, `on_changed(name)` of a schedule whose
    definition is another one now.
    """

    name = "ticker"

    def __init__(
        self,
        link: AsyncLink,
        caller: Caller,
        *,
        on_due: Callable[[str, int], None],
        on_changed: Callable[[str], None],
    ) -> None:
        self._link = link
        self._caller = caller
        self._on_due = on_due
        self._on_changed = on_changed
        self._table = Timetable()
        self._wake = asyncio.Event()
        self._refused = ""
        self._told_broken: set[str] = set()
        self._is_stopped = False

    # --- what others tell it

    def serves(self, name: str, digest: str) -> bool:
        """Whether it fires this definition of a schedule."""
        entry = self._table.get(name)
        return entry is not None and entry.digest == digest

    async def serve(self, schedule: Schedule, digest: str, mark_ms: int) -> None:
        """Fire a schedule from now on; `mark_ms` is its watermark as it is stored."""
        before = self._table.get(schedule.name)
        if before is not None and before.digest == digest:
            if self._is_set_back(before, mark_ms):
                mark_ms = await self._raise(before)
            before.mark_ms = mark_ms
            entry = before
        else:
            try:
                entry = Entry(schedule, digest, rule_of_schedule(schedule), mark_ms)
            except InvalidInput as error:
                await self._park(schedule, digest, error)
                return
            self._table.put(entry, None)
        self._plan(entry)
        self._wake.set()
        await self._breathe()

    def drop(self, name: str) -> None:
        """Fire a schedule no more."""
        self._table.drop(name)

    def begin_stop(self) -> None:
        """Fire nothing more."""
        self._is_stopped = True
        self._wake.set()

    def is_over(self) -> bool:
        """Whether it was stopped."""
        return self._is_stopped

    # --- the loop

    async def run_once(self) -> None:
        """Wait until a schedule is to be looked at, and fire what is due."""
        await self._wait()
        now_ms = self._link.server.now_ms()
        entries = [] if self._is_stopped else self._table.due(now_ms, MOST_SCHEDULES)
        by_type: dict[str, list[Entry]] = {}
        for entry in entries:
            by_type.setdefault(entry.schedule.type, []).append(entry)
        for type_name, group in by_type.items():
            await self._fire(type_name, group)

    async def _wait(self) -> None:
        self._wake.clear()
        look_ms = self._table.next_ms()
        if look_ms is None:
            await wait_for(self._wake, _LONGEST_S)
        elif (left := self._link.server.monotonic_at(look_ms) - monotonic()) > 0:
            await wait_for(self._wake, min(left, _LONGEST_S))

    async def _fire(self, type_name: str, entries: list[Entry]) -> None:
        """Fire what is due of schedules of one type; they stay due until that is answered."""
        now_ms = int(self._link.server.now_ms())
        for entry in entries:
            self._table.plan(entry, now_ms)
        pairs: list[tuple[Entry, Tick]] = []
        for entry in entries:
            pairs += [(entry, tick) for tick in self._decide(entry, now_ms)]
            await self._breathe()
        for start in range(0, len(pairs), MOST_SCHEDULES):
            await self._send(type_name, pairs[start : start + MOST_SCHEDULES])

    async def _send(self, type_name: str, pairs: Sequence[tuple[Entry, Tick]]) -> None:
        ticks = [tick for _, tick in pairs]
        call = croncalls.tick(self._caller, self._caller.keys.type(type_name), ticks)
        try:
            answers = await self._link.run(call)
        except (Unreachable, OutcomeUnknown):
            raise
        except ScheduldError as error:
            self._tell_refused(type_name, error)
            for entry, _ in pairs:
                self._later(entry)
            return
        dues = []
        for (entry, tick), answer in zip(pairs, answers, strict=True):
            if answer.code in _MADE:
                dues.append(tick.due_ms)
            if self._table.has(entry):
                self._answered(entry, tick, answer)
        if dues:
            self._on_due(type_name, min(dues))
        
