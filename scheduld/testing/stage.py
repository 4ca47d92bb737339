"""What a test changes in its process: the clock, how ids are made, where clients lead."""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from scheduld import clock, names
from scheduld.client import detour
from scheduld.client.default import close_all
from scheduld.config.opening import URL_VARIABLE
from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.config.settings import ClientSettings

_taken = threading.Lock()


@contextmanager
def staged(there: ClientSettings, now_ms: int) -> Iterator[None]:
    """Stop time at `now_ms` and lead all clients to `there`; all is as it was afterwards.

    Raises InvalidInput if that is so already: a process has one time.
    """
    if not _taken.acquire(blocking=False):
        raise InvalidInput(
            "a test's scheduler is at work in this process already: there is one at a time"
        )
    with ExitStack() as stack:
        stack.callback(_taken.release)
        stack.callback(clock.move, None)
        clock.move(now_ms)
        stack.callback(names.draw_from, None)
        # Ids that are made at one instant sort in the order in which they were made.
        numbers = itertools.count()
        names.draw_from(lambda size: _ascending(numbers, size))
        stack.enter_context(_environment(there.redis_url))
        close_all()
        stack.callback(detour.end)
        stack.callback(close_all)
        detour.begin(there)
        yield


def _ascending(numbers: Iterator[int], size: int) -> bytes:
    return b"".join(names.ascending(next(numbers)) for _ in range(size // names.RANDOM_CHARS))


@contextmanager
def _environment(url: str) -> Iterator[None]:
    """Programs that a test starts must not find the user's server either."""
    before = os.environ.get(URL_VARIABLE)
    os.environ[URL_VARIABLE] = url
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(URL_VARIABLE, None)
        else:
            os.environ[URL_VARIABLE] = before
