"""Handlers of the benchmark: they do nothing but note on a board that they ran.

The board is a file of doubles shared with the driver, so that noting costs a fraction of a
microsecond and asks nothing of the daemon. Slot SLOTS * `BENCH_REPLICA` and those after it
belong to this daemon; the starts follow, by the number in the payload.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from typing import Any

COUNT, FIRST, LAST, CPU = range(4)
SLOTS = 4
"""Doubles a replica has: runs so far, first start, last end (monotonic s), CPU s at the first."""
MOST_REPLICAS = 8
STARTS = SLOTS * MOST_REPLICAS


def open_board(path: str) -> memoryview[float]:
    """Map a board that exists."""
    with open(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("d")


_board: memoryview[float]
if "BENCH_BOARD" in os.environ:
    _board = open_board(os.environ["BENCH_BOARD"])
_base = SLOTS * int(os.environ.get("BENCH_REPLICA", "0"))
_count, _last = _base + COUNT, _base + LAST
_lock = threading.Lock()
_runs = 0


def _note_first() -> None:
    _board[_base + FIRST] = time.monotonic()
    _board[_base + CPU] = time.process_time()


async def noop(payload: dict[str, Any]) -> None:  # noqa: ARG001
    """Count the run."""
    global _runs
    if not _runs:
        _note_first()
    _runs += 1
    _board[_last] = time.monotonic()
    _board[_count] = _runs


def thread_noop(payload: dict[str, Any]) -> None:  # noqa: ARG001
    """Count the run, from one of several threads."""
    global _runs
    with _lock:
        if not _runs:
            _note_first()
        _runs += 1
        _board[_last] = time.monotonic()
        _board[_count] = _runs


async def stamp(payload: dict[str, Any]) -> None:
    """Count the run and note when it started, in ms since the epoch."""
    _board[STARTS + payload["n"]] = time.time() * 1000
    await noop(payload)


async def spin(payload: dict[str, Any]) -> None:
    """Compute for a millisecond, as an inline handler should not: nothing else runs meanwhile."""
    until = time.perf_counter() + 0.001
    while time.perf_counter() < until:
        pass
    await noop(payload)
