"""What the pollers of one replica share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.engine.heartbeat import Holds
    from scheduld.engine.outage import Outage
    from scheduld.engine.plan import Bound
    from scheduld.engine.watchdog import Pulse
    from scheduld.policies.slots import Slots
    from scheduld.store.calls import Caller
    from scheduld.store.link import AsyncLink


@dataclass(slots=True)
class Shared:
    """What the pollers of one replica share."""

    link: AsyncLink
    caller: Caller
    slots: Slots
    holds: Holds
    bound: Bound
    outage: Outage
    pulse: Pulse
    lease_ms: int
    slot_freed: Callable[[], None] = lambda: None
    """Tells all pollers that slots were given back."""
    renew_soon: Callable[[], None] = lambda: None
    """Asks for a renewal of all leases, which tells what runs should stop."""
    is_freed: bool = False

    def free_slot(self, name: str) -> None:
        """Give a slot back; the pollers hear of all slots of one turn of the loop together."""
        self.slots.give(name, 1)
        if not self.is_freed:
            self.is_freed = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self.is_freed = False
        self.slot_freed()
