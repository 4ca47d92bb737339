"""Answers for ticks: fires each schedule at its instants by the server's clock.

All replicas try each tick; the watermark in the store lets the first one make the task, and
tells the others how far it is. So nobody need be elected, and none is missed while one lives.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.clock import monotonic
from scheduld.engine.deciding import ticks_of
from scheduld.engine.loop import FIRST_PAUSE_S, LONGEST_PAUSE_S, wait_for
from scheduld.engine.timetable import Entry, Timetable
from scheduld.engine.watermarks import Watermarks
from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable
from scheduld.policies.catch_up import LATE_MS, PACE_MS
from scheduld.store import croncalls
from scheduld.store.cronanswers import Ticked
from scheduld.store.croncalls import MOST_SCHEDULES

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from scheduld.engine.deciding import Planned
    from scheduld.engine.outage import Outage
    from scheduld.schedule import Schedule
    from scheduld.store.calls import Caller
    from scheduld.store.cronanswers import TickedAs
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.ticker")
_LONGEST_S = 15.0
"""Longest sleep: a clock that was set is noticed then at the latest."""
_AT_ONCE = 4
"""So many types are fired at one time: a minute begins for all of them."""
_AT_A_TIME = 5_000
"""So many schedules are decided about at one instant: those of a type go in one call, and none
is late for the time that the others take."""
_TURN_S = 0.01
"""So long the loop may compute before others have their turn."""
_LATER_MS = 10_000
"""When to try again what somebody must change first: a pause, a broken key."""
_ROOM_MS = 500
"""When to try again what waits for the end of an earlier task."""
_TELL_AFTER_S = 3.0


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
        outage: Outage,
        *,
        on_due: Callable[[str, int], None],
        on_changed: Callable[[str], None],
    ) -> None:
        self._link = link
        self._caller = caller
        self._outage = outage
        self._on_due = on_due
        self._on_changed = on_changed
        self._table = Timetable()
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._pause_s = FIRST_PAUSE_S
        self._failing_since: float | None = None
        self._has_told = False
        self._broken: set[str] = set()
        self._parked: dict[str, str] = {}
        self._watermarks = Watermarks(link, caller)
        self._turn_at = 0.0

    # --- what others tell it

    def serves(self, name: str, digest: str) -> bool:
        """Whether it fires this definition of a schedule, or knows that it cannot be fired."""
        entry = self._table.get(name)
        served = self._parked.get(name) if entry is None else entry.digest
        return served == digest

    def mark_ms(self, name: str, digest: str) -> int | None:
        """The watermark of a schedule, as far as is known here; None if it fires none such."""
        entry = self._table.get(name)
        return entry.mark_ms if entry is not None and entry.digest == digest else None

    async def serve(self, schedule: Schedule, digest: str, mark_ms: int) -> None:
        """Fire a schedule from now on; `mark_ms` is its watermark as it is stored."""
        entry = self._table.get(schedule.name)
        if entry is None or entry.digest != digest:
            try:
                entry = Entry(schedule, digest, rule_of_schedule(schedule), mark_ms)
            except Exception as error:  # noqa: BLE001 - a definition may hold anything
                self._table.drop(schedule.name)
                await self._park(schedule, digest, error)
                return
            self._table.put(entry, None)
        self._watermarks.take(entry, mark_ms)
        await self._plan_next(entry)
        self._wake.set()
        await self._breathe()

    def drop(self, name: str) -> None:
        """Fire a schedule no more."""
        self._table.drop(name)
        self._parked.pop(name, None)

    def keep(self, names: Container[str]) -> None:
        """Fire none but these."""
        for entry in self._table:
            if entry.name not in names:
                self._table.drop(entry.name)

    @property
    def schedules(self) -> list[Schedule]:
        """Those that it fires."""
        return [entry.schedule for entry in self._table]

    @property
    def count(self) -> int:
        """How many schedules it fires."""
        return len(self._table)

    def clock_was_set(self) -> None:
        """Plan anew: the server's clock is another one than when the loop went to sleep."""
        self._wake.set()

    def begin_stop(self) -> None:
        """Fire nothing more."""
        self._stopped.set()
        self._wake.set()

    def is_over(self) -> bool:
        """Whether it was stopped."""
        return self._stopped.is_set()

    # --- the loop

    async def run_once(self) -> None:
        """Wait until a schedule is to be looked at, and fire what is due."""
        await self._wait()
        if self.is_over():
            return
        try:
            await self._fire_due()
        except (Unreachable, OutcomeUnknown) as error:
            # What was not answered is still due: tried again, the watermark tells what is done.
            self._fails(error)
            await wait_for(self._stopped, self._pause_s)
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        else:
            self._works()

    async def _wait(self) -> None:
        self._wake.clear()
        look_ms = self._table.next_ms()
        left_s = _LONGEST_S
        if look_ms is not None:
            left_s = min(left_s, self._link.server.monotonic_at(look_ms) - monotonic())
        if left_s > 0:
            await wait_for(self._wake, left_s)

    async def _fire_due(self) -> None:
        now_ms = int(self._link.server.now_ms())
        by_type: dict[str, list[Entry]] = {}
        for entry in self._table.due(now_ms, _AT_A_TIME):
            # Due until that is answered, whatever happens in between.
            self._table.plan(entry, now_ms)
            by_type.setdefault(entry.schedule.type, []).append(entry)
        groups = list(by_type.items())
        for start in range(0, len(groups), _AT_ONCE):
            jobs = [self._fire(*group, now_ms) for group in groups[start : start + _AT_ONCE]]
            for error in await asyncio.gather(*jobs, return_exceptions=True):
                if error is not None:
                    raise error
        await self.mend()

    async def _fire(self, type_name: str, entries: Sequence[Entry], now_ms: int) -> None:
        """Fire what is due of the schedules of one type."""
        planned: list[Planned] = []
        for entry in entries:
            planned += await self._decide(entry, now_ms)
            await self._breathe()
        for start in range(0, len(planned), MOST_SCHEDULES):
            if not self.is_over():
                await self._send(type_name, planned[start : start + MOST_SCHEDULES])

    async def _decide(self, entry: Entry, now_ms: int) -> list[Planned]:
        """Decide about one schedule; a rule that is broken must not stop the others."""
        try:
            planned, again_ms = ticks_of(entry, now_ms)
        except Exception as error:  # noqa: BLE001 - a broken rule must not stop the others
            self._table.plan(entry, None)
            await self._park(entry.schedule, entry.digest, error)
            return []
        if not planned:
            self._table.plan(entry, again_ms)
        return planned

    async def _send(self, type_name: str, planned: Sequence[Planned]) -> None:
        ticks = [one.tick for one in planned]
        call = croncalls.tick(self._caller, self._caller.keys.type(type_name), ticks)
        try:
            answers = await self._link.run(call)
        except (Unreachable, OutcomeUnknown):
            raise
        except ScheduldError as error:
            self._tell_broken(f"type {type_name}", error.message)
            for one in planned:
                self._later(one.entry, _LATER_MS)
            return
        made = [
            one.tick.due_ms
            for one, answer in zip(planned, answers, strict=True)
            if answer.code is Ticked.FIRED
        ]
        if made:
            self._on_due(type_name, min(made))
        for one, answer in zip(planned, answers, strict=True):
            if self._table.has(one.entry):
                await self._answered(one, answer)
                await self._breathe()

    async def _answered(self, one: Planned, answer: TickedAs) -> None:
        entry, code = one.entry, answer.code
        if code.is_told:
            self._parked.pop(entry.name, None)
            if self._broken:
                self._broken -= {f"schedule {entry.name}", f"type {entry.schedule.type}"}
            self._watermarks.take(entry, answer.mark_ms or 0)
            self._table.plan(entry, one.again_ms)
        elif code is Ticked.OTHER_MARK:
            self._watermarks.take(entry, answer.mark_ms or 0)
            await self._plan_next(entry, is_outrun=True)
        elif code is Ticked.EARLY:
            self._table.plan(entry, one.until_ms)
        elif code is Ticked.PAUSED:
            self._later(entry, _LATER_MS)
        elif code is Ticked.NO_ROOM:
            self._later(entry, _ROOM_MS)
        elif code is Ticked.BROKEN:
            self._tell_broken(f"schedule {entry.name}", "a key of it holds another kind of value")
            self._later(entry, _LATER_MS)
        else:
            self._table.plan(entry, None)
            if code is not Ticked.ENDED:
                self._on_changed(entry.name)

    # --- watermarks

    async def mend(self) -> None:
        """Raise watermarks that the store has set back, so that nothing is fired twice."""
        await self._watermarks.mend(self._table.has)

    def tell_ahead(self) -> None:
        """Say once if schedules wait for a clock that was set back to get to where it was."""
        self._watermarks.tell_ahead(self._table)

    # --- planning

    async def _plan_next(self, entry: Entry, *, is_outrun: bool = False) -> None:
        try:
            look_ms = entry.rule.after(entry.mark_ms)
            now_ms = int(self._link.server.now_ms())
            if is_outrun and look_ms is not None and look_ms < now_ms - LATE_MS:
                # Whoever was quicker catches up: all replicas together keep the pace of one.
                look_ms = now_ms + PACE_MS
            self._table.plan(entry, look_ms)
        except Exception as error:  # noqa: BLE001 - a broken rule must not stop the others
            self._table.plan(entry, None)
            await self._park(entry.schedule, entry.digest, error)

    def _later(self, entry: Entry, ms: int) -> None:
        self._table.plan(entry, int(self._link.server.now_ms()) + ms)

    async def _breathe(self) -> None:
        """Let others have their turn now and then: two thousand may be due at one midnight."""
        if monotonic() - self._turn_at > _TURN_S:
            await asyncio.sleep(0)
            self._turn_at = monotonic()

    # --- telling

    async def _park(self, schedule: Schedule, digest: str, error: Exception) -> None:
        """Fire a schedule no more whose rule gives no next instant, and say so where it is seen."""
        why = error.message if isinstance(error, ScheduldError) else repr(error)
        if self._parked.get(schedule.name) != digest:
            self._parked[schedule.name] = digest
            words = "schedule is parked: its rule gives no next instant"
            log.error(words, schedule=schedule.name, error=why)
        keys = self._caller.keys.type(schedule.type)
        call = croncalls.park(self._caller, keys, schedule.name, digest=digest, why=why[:500])
        with suppress(ScheduldError):
            await self._link.run(call)

    def _tell_broken(self, what: str, error: str) -> None:
        if what not in self._broken:
            self._broken.add(what)
            log.error("ticks are not fired", of=what, error=error)

    def _fails(self, error: ScheduldError) -> None:
        """Say once that ticks are refused where all else works: a full server takes no tasks."""
        now = monotonic()
        if self._failing_since is None:
            self._failing_since = now
        is_known = self._has_told or self._outage.away.is_set()
        if not is_known and now - self._failing_since > _TELL_AFTER_S:
            self._has_told = True
            log.warning("ticks cannot be fired now, and are tried again", error=error.message)

    def _works(self) -> None:
        if self._has_told:
            log.info("ticks are fired again")
        self._failing_since, self._has_told, self._pause_s = None, False, FIRST_PAUSE_S
