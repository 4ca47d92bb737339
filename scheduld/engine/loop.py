"""What every loop shares: repeat, pause after trouble, never end by itself, never spin."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import structlog

from scheduld.clock import monotonic
from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable

if TYPE_CHECKING:
    from scheduld.engine.outage import Outage

log = structlog.get_logger("scheduld.loop")
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.3
"""After an outage a loop may fail once more, by a connection that was opened in it: two of these
and the deadline of a call are to be less than that deadline and 3 s."""
_TELL_AGAIN_S = 30.0


class Loop(Protocol):
    """One office of the daemon. `run_once` does its work; `is_over` says when it may rest."""

    name: str

    async def run_once(self) -> None:
        """Wait until there is something to do, and do it once."""

    def is_over(self) -> bool:
        """Whether the loop has nothing left to do after a stop."""


async def repeat(loop: Loop, outage: Outage) -> None:
    """Run a loop until it is over; whatever it raises pauses it, and it goes on."""
    pause = FIRST_PAUSE_S
    told = -_TELL_AGAIN_S
    while not loop.is_over():
        try:
            await loop.run_once()
        except (Unreachable, OutcomeUnknown) as error:
            outage.trouble(error)
        except Exception as error:
            if monotonic() - told >= _TELL_AGAIN_S:
                told = monotonic()
                log.error("loop paused by an error", loop=loop.name, error=_words(error))
                log.debug("traceback", loop=loop.name, exc_info=error)
        else:
            pause = FIRST_PAUSE_S
            continue
        # A random part, so that the loops of all replicas do not come back together.
        await asyncio.sleep(pause * random.uniform(0.7, 1.0))  # noqa: S311
        pause = min(pause * 2, LONGEST_PAUSE_S)


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, at most so long; tells whether it came."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0)):
            await event.wait()
    return event.is_set()


def _words(error: Exception) -> str:
    if isinstance(error, ScheduldError):
        return error.message
    return f"{type(error).__name__}: {error}"
