"""Removes schedules that no live replica's config has any more, after ten minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from scheduld.clock import monotonic
from scheduld.engine.timetable import listed
from scheduld.errors import Conflict
from scheduld.names import is_name
from scheduld.store import croncalls
from scheduld.store.cronanswers import Steered

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduld.engine.acceptance import Known
    from scheduld.engine.announced import Announced
    from scheduld.store.calls import Caller
    from scheduld.store.link import AsyncLink

log = structlog.get_logger("scheduld.schedules")
AFTER_MS = 600_000
SURE_S = 60.0
"""For so long a replica must have seen nobody announce a schedule before it says so: a record
that a flush or a failover lost is written again within that time."""


class Orphans:
    """What this replica has seen of schedules without an owner.

    `sure_s` and `after_ms`: see above.
    """

    def __init__(
        self,
        link: AsyncLink,
        caller: Caller,
        announced: Announced,
        *,
        sure_s: float = SURE_S,
        after_ms: int = AFTER_MS,
    ) -> None:
        self._link = link
        self._caller = caller
        self._announced = announced
        self._sure_s = sure_s
        self._after_ms = after_ms
        self._since: dict[str, float] = {}

    async def look(self, known: Mapping[str, Known | None], own: Collection[str]) -> None:
        """Look at all schedules; `own`: those of this replica's config."""
        strangers = {
            name: one
            for name, one in known.items()
            if one is not None and one.origin == "config" and name not in own
        }
        if not strangers:
            self._since.clear()
            return
        sets = await self._announced.live()
        orphans = [name for name in strangers if not any(name in one for one in sets)]
        now = monotonic()
        self._since = {name: self._since.get(name, now) for name in orphans}
        removed: list[str] = []
        for name, since in self._since.items():
            if now - since >= self._sure_s and await self._orphan(name, strangers[name].type):
                removed.append(name)
        if removed:
            await self._link.commands(("HDEL", self._caller.keys.crons, *removed))
            log.info("schedules removed: no live replica has them", schedules=listed(removed))

    async def _orphan(self, name: str, type_name: str) -> bool:
        """Say so of one schedule; whether it is gone now."""
        if not (is_name(name) and is_name(type_name)):
            return False
        keys = self._caller.keys.type(type_name)
        call = croncalls.orphan(self._caller, keys, name, after_ms=self._after_ms)
        try:
            answer = await self._link.run(call)
            if answer.start is not None:
                await remove(self._link, self._caller, type_name, name, _REASON, answer.start)
        except Conflict as error:
            log.error("cannot remove a schedule", schedule=name, error=error.message)
            return False
        return answer.is_removed or answer.code is Steered.GONE


async def remove(
    link: AsyncLink,
    caller: Caller,
    type_name: str,
    name: str,
    reason: str,
    start: int | None = None,
) -> None:
    """Remove a schedule and cancel its waiting tasks, or (`start`) go on with these."""
    keys = caller.keys.type(type_name)
    while True:
        call = croncalls.remove(caller, keys, name, reason=reason, start=start)
        start = (await link.run(call)).start
        if start is None:
            return


_REASON = "no replica announces it"
