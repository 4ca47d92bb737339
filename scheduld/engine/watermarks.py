"""Keeps watermarks from going back: a failover or a restore makes the store forget some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from scheduld.engine.timetable import listed
from scheduld.store import croncalls
from scheduld.store.cronanswers import Steered
from scheduld.store.croncalls import MOST_SCHEDULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduld.engine.timetable import Entry
    from scheduld.store.calls import Caller
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.ticker")
_AHEAD_MS = 60_000
"""A watermark this far ahead of the server's clock shows that the clock was set back."""


class Watermarks:
    """Those that this replica remembers, against those that are stored."""

    def __init__(self, link: AsyncLink, caller: Caller) -> None:
        self._link = link
        self._caller = caller
        self._set_back: set[Entry] = set()
        self._is_ahead = False

    def take(self, entry: Entry, mark_ms: int) -> None:
        """Take over a watermark as it is stored, unless the store has forgotten a newer one."""
        is_ahead = entry.mark_ms > self._link.server.now_ms() + _AHEAD_MS
        if mark_ms >= entry.mark_ms or is_ahead:
            # A resume sets it to now; only a failover or a restore sets it back from the past.
            entry.mark_ms = mark_ms
        else:
            self._set_back.add(entry)

    async def mend(self, is_served: Callable[[Entry], bool]) -> None:
        """Raise those that the store has set back, and say so."""
        entries = [entry for entry in self._set_back if is_served(entry)]
        self._set_back.clear()
        raised: list[str] = []
        by_type: dict[str, list[Entry]] = {}
        for entry in entries:
            by_type.setdefault(entry.schedule.type, []).append(entry)
        for type_name, group in by_type.items():
            keys = self._caller.keys.type(type_name)
            for start in range(0, len(group), MOST_SCHEDULES):
                part = group[start : start + MOST_SCHEDULES]
                marks = [(entry.name, entry.mark_ms) for entry in part]
                answers = await self._link.run(croncalls.raise_marks(self._caller, keys, marks))
                for entry, answer in zip(part, answers, strict=True):
                    if answer.code is Steered.DONE:
                        raised.append(entry.name)
        if raised:
            log.warning(
                "watermarks were set back, as by a failover or a restore: raised to what this "
                "replica has seen",
                schedules=listed(raised),
            )

    def tell_ahead(self, entries: Iterable[Entry]) -> None:
        """Say once if schedules wait for a clock that was set back to get to where it was."""
        limit_ms = self._link.server.now_ms() + _AHEAD_MS
        ahead = [entry.name for entry in entries if entry.mark_ms > limit_ms]
        if ahead and not self._is_ahead:
            log.warning(
                "schedules have fired instants that are yet to come: the clock of Redis was set "
                "back; they go on when it gets there",
                schedules=listed(ahead),
                hint="'scheduld cron pause NAME' and 'resume NAME' let one go on from now",
            )
        self._is_ahead = bool(ahead)
