"""Things kept open between runs: one per event loop, since nothing open outlives its loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

Thing = TypeVar("Thing")
# Strong: what became garbage with its handler could not be closed in its loop any more.
_keepers: dict[asyncio.AbstractEventLoop, list[AsyncGenerator[None, None]]] = {}


class PerLoop(Generic[Thing]):
    """Opens a thing at its first use in a loop, keeps it, and closes it when the loop ends.

    The daemon has one loop for all its runs; a worker process may have one for each.
    """

    def __init__(
        self, opening: Callable[[], Thing], closing: Callable[[Thing], Awaitable[None]]
    ) -> None:
        self._open = opening
        self._close = closing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thing: Thing | None = None

    async def get(self) -> Thing:
        """Return the thing of the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._thing is None:
            self._thing = self._open()
            self._loop = loop
            # A loop ends its unfinished async generators before it is closed: no other hook is
            # called by whoever runs the loop, be it the daemon, a worker or a test.
            keeper = self._keep(loop, self._thing)
            _keepers.setdefault(loop, []).append(keeper)
            await anext(keeper)
        return self._thing

    async def _keep(
        self, loop: asyncio.AbstractEventLoop, thing: Thing
    ) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            _keepers.pop(loop, None)
            if self._thing is thing:
                self._thing = None
            await self._close(thing)
            # A transport lets go of its socket one turn after it was closed: the loop's last.
            await asyncio.sleep(0)
