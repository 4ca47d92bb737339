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
from scheduld.engine.acceptance import Known, Stand, known_as, stand
from scheduld.engine.announced import Announced, digests_of
from scheduld.engine.loop import wait_for
from scheduld.engine.wallclock import WallClock
from scheduld.errors import OutcomeUnknown, Unreachable
from scheduld.schedule import Schedule
from scheduld.store.answers import to_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from scheduld.engine.defining import Definer
    from scheduld.engine.presence import Presence
    from scheduld.engine.ticker import Ticker
    from scheduld.store.keys import Keys
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.schedules")
EVERY_S = 10.0
_SOON_S = 2.0
_ORPHANS_EVERY_S = 30.0


class Schedules:
    """The loop that keeps the ticker's timetable.

    `own`: the schedules of this replica's config; `types`: those it serves.
    """

    name = "schedules"

    def __init__(
        self,
        link: AsyncLink,
        keys: Keys,
        ticker: Ticker,
        definer: Definer,
        presence: Presence,
        types: Collection[str],
        own: Mapping[str, Schedule],
    ) -> None:
        self._link = link
        self._keys = keys
        self._ticker = ticker
        self._definer = definer
        self._presence = presence
        self._types = frozenset(types)
        self._own = own
        self._announced = Announced(link, keys)
        self._wall = WallClock()
        self._wake = asyncio.Event()
        self._wake.set()
        self._asked: set[str] = set()
        self._is_new = True
        self._told: dict[str, tuple[Stand, str]] = {}
        self._orphans_at = 0.0
        self._pause_s = EVERY_S
        self._is_stopped = False

    def is_over(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    def stop(self) -> None:
        """End the loop."""
        self._is_stopped = True
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
        await wait_for(self._wake, self._pause_s)
        if self._is_stopped:
            return
        is_all = self._is_new or not self._wake.is_set()
        self._wake.clear()
        asked, self._asked = self._asked, set()
        self._pause_s = _SOON_S
        # The pollers tell outages, the ticker tells what a full server refuses.
        with suppress(Unreachable, OutcomeUnknown):
            await self._refresh(None if is_all else asked)
            self._pause_s = EVERY_S
            return
        self._asked |= asked

    async def _refresh(self, names: set[str] | None) -> None:
        """Bring the timetable up to date about some schedules, or all."""
        is_new = self._is_new
        if is_new:
            # In this order: who sees a definition announced knows how old it is, and who
            # defines one has announced it.
            await self._definer.first_see()
            await self._presence.announce()
        known = await self._known(names)
        await self._serve_own(known, is_new=is_new)
        await self._serve_others(known, names or set(), is_new=is_new)
        if names is None:
            self._is_new = False
            await self._orphans(known)

    async def _known(self, names: set[str] | None) -> dict[str, Known | None]:
        """Read what is stored about schedules, and compare clocks on the way."""
        crons = self._keys.crons
        ordered = sorted(names or ())
        ask = ("HGETALL", crons) if names is None else ("HMGET", crons, *ordered)
        sent_at, wall = monotonic(), wall_ms()
        time, reply = await self._link.commands(("TIME",), ask)
        self._compare_clocks(time, sent_at, wall)
        if names is not None:
            return {name: Known.read(text) for name, text in zip(ordered, reply, strict=True)}
        pairs = zip(reply[::2], reply[1::2], strict=True)
        found = {raw.decode(errors="replace"): Known.read(text) for raw, text in pairs}
        return {**dict.fromkeys(self._own), **found}

    def _compare_clocks(self, time: Sequence[bytes], sent_at: float, wall: int) -> None:
        server_ms = int(time[0]) * 1000 + int(time[1]) / 1000
        at = monotonic()
        self._link.server.told(server_ms, at=at, sent_at=sent_at)
        doubt_ms = (at - sent_at) * 500
        self._wall.compared(wall + doubt_ms - server_ms, doubt_ms + 1)

    async def _serve_own(self, known: Mapping[str, Known | None], *, is_new: bool) -> None:
        """Settle the schedules of the config, where anything may be new about them."""
        names = [
            name
            for name in known
            if (one := self._own.get(name)) is not None
            and (is_new or name in self._asked_now or not self._is_settled(one, known[name]))
        ]
        marks = await self._definer.settle(names, known)
        for name in names:
            one = self._own[name]
            if name in marks and one.enabled:
                await self._ticker.serve(one, one.digest, marks[name])
            elif not self._is_runtime(known[name]):
                self._ticker.drop(name)

    def _is_settled(self, one: Schedule, known: Known | None) -> bool:
        """Whether this replica's definition is accepted, and fired here if it is to be."""
        if known != known_as(one, "config"):
            return False
        return not one.enabled or self._ticker.serves(one.name, one.digest)

    async def _serve_runtime(self, known: Mapping[str, Known | None], *, is_new: bool) -> None:
        """Fire the schedules that were added at run time, to types of this replica."""
        by_type: dict[str, list[str]] = {}
        for name, one in known.items():
            if one is None or not self._is_runtime(one) or one.type not in self._types:
                if name not in self._own:
                    self._ticker.drop(name)
            elif is_new or name in self._asked_now or not self._ticker.serves(name, one.digest):
                by_type.setdefault(one.type, []).append(name)
        for type_name, names in by_type.items():
            for start in range(0, len(names), MOST_SCHEDULES):
                await self._read(type_name, names[start : start + MOST_SCHEDULES])

    async def _read(self, type_name: str, names: list[str]) -> None:
        call = croncalls.read(self._caller, self._caller.keys.type(type_name), names)
        for name, stored in zip(names, await self._link.run(call), strict=True):
            pass
