"""What of a replica fires schedules: its two loops, wired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.engine.announced import Announced
from scheduld.engine.defining import Definer
from scheduld.engine.duty import ladders
from scheduld.engine.orphans import Orphans
from scheduld.engine.presence import Presence
from scheduld.engine.schedules import Schedules
from scheduld.engine.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduld.engine.duty import Duty
    from scheduld.engine.loop import Loop
    from scheduld.engine.shared import Shared
    from scheduld.schedule import Schedule


class Timekeeping:
    """The ticker, what it fires, and the record by which replicas know each other's schedules.

    `own`: the schedules of the config; `on_due(type, ms)` hears of tasks that were made.
    """

    def __init__(
        self,
        shared: Shared,
        duties: Sequence[Duty],
        own: Mapping[str, Schedule],
        on_due: Callable[[str, int], None],
    ) -> None:
        types, told = [duty.name for duty in duties], ladders(duties)
        link, caller = shared.link, shared.caller
        digests = {name: one.digest for name, one in own.items()}
        self.presence = Presence(
            link, caller.keys, caller.node, types, digests, on_lost=self.look, ladders=told
        )
        self.ticker = Ticker(link, caller, shared.outage, on_due=on_due, on_changed=self.look)
        announced = Announced(link, caller.keys)
        self.schedules = Schedules(
            link,
            caller,
            self.ticker,
            Definer(link, caller, announced, own),
            Orphans(link, caller, announced),
            self.presence,
            types,
            own,
        )

    @property
    def loops(self) -> list[Loop]:
        """The loops, in start order."""
        return [self.presence, self.schedules, self.ticker]

    def look(self, name: str | None = None) -> None:
        """Read a schedule again, or all."""
        self.schedules.look(name)

    def begin_stop(self) -> None:
        """Fire nothing more; but for its schedules the record stays until the replica has ended."""
        self.schedules.stop()
        self.ticker.begin_stop()
        self.presence.withdraw()
