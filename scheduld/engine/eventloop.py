"""The daemon's event loop: asyncio's own, with timers that are exact to a fraction of a ms.

epoll takes whole milliseconds, and asyncio rounds up: half a millisecond of lateness for every
task, on average. The kernel also lets a long wait end late by a thousandth of it.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import sys

from scheduld.clock import monotonic

_SELECT_FDS = 1024
"""select(2) cannot be asked about file descriptors from this number on."""

if sys.platform == "linux":

    class FineSelector(selectors.EpollSelector):
        """Waits in two parts: epoll until shortly before the end, then select to the microsecond.

        What happens in the first part, such as an answer of Redis, costs no call more than
        with epoll alone; in the second it costs one.
        """

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """Wait for what is registered, at most `timeout` seconds (None: for ever)."""
            if timeout is None or timeout <= 0:
                return super().select(timeout)
            coarse_ms = int(timeout * 998) - 1
            if coarse_ms > 0:
                began = monotonic()
                # Half a millisecond less: it is rounded up to a whole one.
                ready = super().select((coarse_ms - 0.5) / 1000)
                timeout -= monotonic() - began
                if ready or timeout <= 0:
                    return ready
            if select.select([self], [], [], timeout)[0]:
                return super().select(0)
            return []


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make a loop whose timers are never early, and late by 0.1 ms or so on an idle machine."""
    return asyncio.SelectorEventLoop(new_selector())


def new_selector() -> selectors.BaseSelector:
    """Make the finest selector that works here."""
    if sys.platform == "linux":
        fine = FineSelector()
        if fine.fileno() < _SELECT_FDS:
            return fine
        fine.close()
    return selectors.DefaultSelector()  # kqueue takes fractions by itself
