"""Answers for the ends of runs of one type: reports them beside a claim that is under way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from scheduld.engine.outbox import Outbox
from scheduld.store import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduld.engine.shared import Shared
    from scheduld.model import Verdict
    from scheduld.store.answers import Settled

log = structlog.get_logger("scheduld.reporter")
MANY = 10
"""So many claims or verdicts at once are worth the trouble of having server and loop work side
by side; fewer wait for the next claim, which carries them without a call of their own."""


class Reporter:
    """The verdicts of one type on their way. As a loop it sends what `hurry` asks for.

    Claims carry verdicts too, and take them from the same outbox. `on_change` is called when a
    report of this loop has come to its end.
    """

    def __init__(self, type_name: str, shared: Shared, on_change: Callable[[], None]) -> None:
        self.name = f"reporter of {type_name}"
        self.outbox = Outbox()
        self._type_name = type_name
        self._shared = shared
        self._keys = shared.caller.keys.type(type_name)
        self._on_change = on_change
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Send what waits now: a claim is under way, and the next one would come too late."""
        self._hurry.set()

    def is_over(self) -> bool:
        """Never: it ends with the replica."""
        return False

    async def run_once(self) -> None:
        """Wait until it is asked for, and send what waits."""
        await self._hurry.wait()
        self._hurry.clear()
        if len(self.outbox) >= MANY:
            try:
                await self.report()
            finally:
                self._on_change()

    async def report(self) -> None:
        """Store verdicts, as many as fit a call; raises what the link raises, and keeps them."""
        verdicts = self.outbox.take()
        try:
            refused = await self._shared.link.run(
                calls.finish(self._shared.caller, self._keys, verdicts)
            )
        except BaseException:
            self.outbox.put_back(verdicts)
            raise
        self._shared.outage.fine()
        self.outbox.stored(verdicts)
        self.let_go(verdicts, refused)

    def let_go(
        self, verdicts: Sequence[Verdict], refused: Sequence[tuple[Verdict, Settled]]
    ) -> None:
        """Hold the leases of stored verdicts no longer, and say which were not stored."""
        self._shared.holds.remove(self._type_name, verdicts)
        for verdict, _ in refused:
            log.warning(
                "a run's end was not stored: the task was claimed again, or changed, or is gone",
                type=self._type_name,
                id=verdict.raw_id.decode(errors="backslashreplace"),
                verdict=verdict.kind.value,
            )
