"""Answers for which schedules this replica fires: its config's and those added at run time.

It reads what is stored at the start, whenever a wake-up names a schedule, after each
(re)connection, and every few seconds; and hands the ticker what is to be fired.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from scheduld.clock import monotonic, wall_ms
from scheduld.engine.acceptance import Known, known_as
from scheduld.engine.loop import wait_for
from scheduld.engine.timetable import listed
from scheduld.engine.wallclock import WallClock
from scheduld.errors import Conflict, OutcomeUnknown, Unreachable
from scheduld.store import croncalls
from scheduld.store.croncalls import MOST_SCHEDULES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduld.engine.defining import Definer
    from scheduld.engine.orphans import Orphans
    from scheduld.engine.presence import Presence
    from scheduld.engine.ticker import Ticker
    from scheduld.schedule import Schedule
    from scheduld.store.calls import Caller
    from scheduld.store.cronanswers import CronRecord
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.schedules")
EVERY_S = 10.0
_SOON_S = 2.0
_PAUSE_S = 0.05
"""Between two looks: a burst of changes is read together."""
_SET_MS = 100
"""Two readings of the server's clock that differ by more were not of one clock that goes on."""


class Schedules:
    """The loop that keeps the ticker's timetable.

    `own`: the schedules of this replica's config; `types`: those it serves.
    """

    name = "schedules"

    def __init__(
        self,
        link: AsyncLink,
        caller: Caller,
        ticker: Ticker,
        definer: Definer,
        orphans: Orphans,
        presence: Presence,
        types: Collection[str],
        own: Mapping[str, Schedule],
    ) -> None:
        self._link = link
        self._caller = caller
        self._ticker = ticker
        self._definer = definer
        self._orphans = orphans
        self._presence = presence
        self._types = frozenset(types)
        self._own = own
        self._wall = WallClock()
        self._wake = asyncio.Event()
        self._wake.set()
        self._asked: set[str] = set()
        self._is_new = True
        self._unread: set[str] = set()
        self._count = 0
        self._look_at = 0.0
        self._not_before = 0.0
        self._stopped = asyncio.Event()

    def is_over(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End the loop."""
        self._stopped.set()
        self._wake.set()

    def look(self, name: str | None = None) -> None:
        """Read a schedule again; None: all of them, as anything may have happened unheard."""
        if name is None:
            self._is_new = True
        else:
            self._asked.add(name)
        self._wake.set()

    async def run_once(self) -> None:
        """Wait until something may have changed, and read it."""
        await wait_for(self._wake, self._look_at - monotonic())
        await wait_for(self._stopped, self._not_before - monotonic())
        if self.is_over():
            return
        self._wake.clear()
        asked, self._asked = self._asked, set()
        is_new, self._is_new = self._is_new, False
        is_whole = is_new or monotonic() >= self._look_at
        done = False
        try:
            # The pollers tell outages, the ticker what a full server refuses.
            with suppress(Unreachable, OutcomeUnknown):
                await self._refresh(asked, is_whole=is_whole, is_new=is_new)
                done = True
        finally:
            if not done:
                self._asked |= asked
                self._is_new = self._is_new or is_new
                self._look_at = monotonic() + _SOON_S
            elif is_whole:
                self._look_at = monotonic() + EVERY_S
            self._not_before = monotonic() + _PAUSE_S

    async def _refresh(self, asked: set[str], *, is_whole: bool, is_new: bool) -> None:
        if is_new:
            # In this order: who sees a definition announced can tell how old it is, and who
            # defines one has announced it.
            await self._definer.first_see()
            await self._presence.announce_schedules()
            await self._definer.forget_old()
        known = await (self._read_all() if is_whole else self._read_some(asked))
        await self._mend_index(known, is_whole=is_whole)
        fresh = set(known) if is_new else asked
        await self._serve_own(known, fresh)
        await self._serve_others(known, fresh)
        if is_whole:
            self._ticker.keep(known)
            self._tell_count()
            self._ticker.tell_ahead()
            await self._orphans.look(known, self._own)
        await self._ticker.mend()

    def _tell_count(self) -> None:
        if self._count != self._ticker.count:
            self._count = self._ticker.count
            log.info("schedules are served", count=self._count)

    async def _read_all(self) -> dict[str, Known | None]:
        flat = await self._ask(("HGETALL", self._caller.keys.crons))
        found = {
            raw.decode(errors="replace"): Known.read(text)
            for raw, text in zip(flat[::2], flat[1::2], strict=True)
        }
        return {**dict.fromkeys(self._own), **found}

    async def _read_some(self, names: Collection[str]) -> dict[str, Known | None]:
        if not names:
            return {}
        texts = await self._ask(("HMGET", self._caller.keys.crons, *names))
        return {name: Known.read(text) for name, text in zip(names, texts, strict=True)}

    async def _mend_index(self, known: dict[str, Known | None], *, is_whole: bool) -> None:
        """Name again what was added at run time, if nothing but its name was lost.

        A removal takes the schedule away before its name.
        """
        by_type: dict[str, list[str]] = {}
        for one in self._ticker.schedules:
            is_read = is_whole or one.name in known
            if is_read and known.get(one.name) is None and one.name not in self._own:
                by_type.setdefault(one.type, []).append(one.name)
        for type_name, names in by_type.items():
            found: dict[str, Known] = {}
            for start in range(0, len(names), MOST_SCHEDULES):
                for record in await self._records(type_name, names[start : start + MOST_SCHEDULES]):
                    if record is not None and record.origin == "runtime" and not record.moved:
                        found[record.name] = Known(type_name, "runtime", record.digest)
            for name, entry in found.items():
                command = ("HSETNX", self._caller.keys.crons, name, str(entry))
                await self._link.commands(command, writes=True)
            if found:
                log.warning("schedules were lost from the index: named again", names=listed(found))
            known.update(found)

    async def _ask(self, command: tuple[str, ...]) -> list[bytes]:
        """Ask one command, and compare the clocks on the way."""
        sent_at, wall = monotonic(), wall_ms()
        time, reply = await self._link.commands(("TIME",), command)
        at = monotonic()
        server_ms = int(time[0]) * 1000 + int(time[1]) / 1000
        expected_ms = self._link.server.now_ms(at=at)
        self._link.server.told(server_ms, at=at, sent_at=sent_at)
        if abs(self._link.server.now_ms(at=at) - expected_ms) > _SET_MS:
            self._ticker.clock_was_set()
        half_ms = (at - sent_at) * 500
        self._wall.compared(wall + half_ms - server_ms, half_ms + 1)
        return list(reply)

    async def _serve_own(self, known: Mapping[str, Known | None], fresh: Collection[str]) -> None:
        """Settle the schedules of the config, where anything may be new about them."""
        names = [
            name
            for name, one in known.items()
            if name in self._own and (name in fresh or not self._is_settled(self._own[name], one))
        ]
        seen = {name: self._ticker.mark_ms(name, self._own[name].digest) for name in names}
        marks = await self._definer.settle(
            names, known, {name: ms for name, ms in seen.items() if ms is not None}
        )
        for name in names:
            one, stored = self._own[name], known[name]
            if name in marks and one.enabled:
                await self._ticker.serve(one, one.digest, marks[name])
            elif stored is None or stored.origin == "config":
                self._ticker.drop(name)

    def _is_settled(self, one: Schedule, known: Known | None) -> bool:
        """Whether this replica's definition is accepted, and fired here if it is to be."""
        if known != known_as(one, "config"):
            return False
        return not one.enabled or self._ticker.serves(one.name, one.digest)

    async def _serve_others(
        self, known: Mapping[str, Known | None], fresh: Collection[str]
    ) -> None:
        """Fire what was added at run time to types of this replica."""
        by_type: dict[str, list[str]] = {}
        for name, one in known.items():
            if one is not None and one.origin == "runtime" and one.type in self._types:
                if name in fresh or not self._ticker.serves(name, one.digest):
                    by_type.setdefault(one.type, []).append(name)
            elif name not in self._own:
                self._ticker.drop(name)
        for type_name, names in by_type.items():
            for start in range(0, len(names), MOST_SCHEDULES):
                await self._read_definitions(type_name, names[start : start + MOST_SCHEDULES])

    async def _records(self, type_name: str, names: list[str]) -> list[CronRecord | None]:
        """Read schedules of one type; none at all if a common key of it is broken."""
        call = croncalls.read(self._caller, self._caller.keys.type(type_name), names)
        try:
            return await self._link.run(call)
        except Conflict as error:
            log.error("cannot read schedules", type=type_name, error=error.message)
            return []

    async def _read_definitions(self, type_name: str, names: list[str]) -> None:
        for name, record in zip(names, await self._records(type_name, names), strict=False):
            if record is None or not self._is_readable(record, type_name):
                self._ticker.drop(name)
            elif (one := record.schedule) is not None and one.enabled and not record.moved:
                await self._ticker.serve(one, record.digest, record.mark_ms)

    def _is_readable(self, record: CronRecord, type_name: str) -> bool:
        """Whether a stored definition can be fired; else that is told once."""
        if record.schedule is not None and record.schedule.type == type_name:
            self._unread.discard(record.name)
            return True
        if record.name not in self._unread:
            self._unread.add(record.name)
            what = "its definition cannot be read"
            if record.key_type != "hash":
                what = f"its key in Redis is a {record.key_type}"
            log.error("schedule is not fired: " + what, schedule=record.name)
        return False
