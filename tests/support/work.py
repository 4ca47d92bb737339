"""Handlers that write a ledger of what they do, and the reading of it.

Daemons of tests import this as `tests.support.work`, so it imports nothing heavy. The ledger
is the file `$LEDGER`, a JSON object a line; each is one write to a file opened for appending,
so the lines of several processes never mix. `$LEDGER_DAEMON` says which daemon wrote it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from scheduld.handlers.contract import Run

START, END, STOPPED = "start", "end", "stopped"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the ledger; `at` is a monotonic second, the same clock in all processes.

    `due_ms` and `count` are of runs of periodic tasks only: which occurrence, and what it saw.
    """

    what: str
    type: str
    id: str
    attempt: int
    fence: int
    daemon: int
    at: float
    due_ms: int = 0
    count: int = -1


def read_ledger(path: Path) -> list[Line]:
    """Read all complete lines, in the order they were written."""
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    return [Line(**json.loads(text)) for text in whole.splitlines()]


def starts(lines: list[Line]) -> dict[str, list[Line]]:
    """Group the starts by id, in order."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        if line.what == START:
            found.setdefault(line.id, []).append(line)
    return found


def ended(lines: list[Line]) -> set[str]:
    """Ids that came to an end at least once."""
    return {line.id for line in lines if line.what == END}


_ledger = (
    os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if ("LEDGER" in os.environ)
    else None
)


def note(what: str, run: Run, **more: int) -> None:
    """Write one line."""
    line = {
        "what": what,
        "type": run.type,
        "id": run.id,
        "attempt": run.attempt,
        "fence": run.fence,
        "daemon": int(os.environ.get("LEDGER_DAEMON", "0")),
        "at": time.monotonic(),
        **more,
    }
    if _ledger is not None:
        os.write(_ledger, json.dumps(line).encode() + b"\n")


def told(run: Run) -> dict[str, int]:
    """Result of a run: who came to its end."""
    return {"daemon": int(os.environ.get("LEDGER_DAEMON", "0")), "fence": run.fence}


async def sleep(payload: dict[str, Any], run: Run) -> dict[str, int]:
    """Sleep for `s` seconds; ignore cancellation if `deaf`.

    If `fail`, raise at the end, with so many bytes of `locals` in the frame; if `fails`, in
    so many first attempts.
    """
    note(START, run)
    until = time.monotonic() + payload.get("s", 0)
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            if not payload.get("deaf"):
                note(STOPPED, run)
                raise
    note(END, run)
    if payload.get("fail") or run.attempt <= payload.get("fails", 0):
        locals_that_must_not_stay = bytearray(payload.get("locals", 0))
        raise ValueError(len(locals_that_must_not_stay))
    return told(run)


async def spin(payload: dict[str, Any], run: Run) -> dict[str, int]:
    """Block the event loop for `s` seconds, computing."""
    note(START, run)
    until = time.monotonic() + payload.get("s", 0)
    while time.monotonic() < until:
        sum(range(1000))
    note(END, run)
    return told(run)


def thread(payload: dict[str, Any], run: Run) -> dict[str, int]:
    """Wait in a thread for `s` seconds; with `deaf` also when asked to stop.

    Raise in the first attempts, so many as `fails` says.
    """
    note(START, run)
    until = time.monotonic() + payload.get("s", 0)
    while (left := until - time.monotonic()) > 0:
        if run.cancelled and not payload.get("deaf"):
            note(STOPPED, run)
            raise InterruptedError
        time.sleep(min(left, 0.01))
    note(END, run)
    if run.attempt <= payload.get("fails", 0):
        raise ValueError("one of the attempts that fail")
    return told(run)


async def exits(payload: dict[str, Any], run: Run) -> None:
    """Call sys.exit in a task of its own, which asyncio lets out of the loop."""

    async def leave() -> None:
        raise SystemExit(3)

    note(START, run)
    await asyncio.gather(leave())


def crash(payload: dict[str, Any]) -> None:
    """End the process as it stands."""
    os._exit(3)


async def cancels_loops(payload: dict[str, Any], run: Run) -> None:
    """Cancel the loops of the daemon, as a careless clean-up would."""
    note(START, run)
    for task in asyncio.all_tasks():
        if task.get_name().startswith(("poller", "listener", "presence", "janitor")):
            task.cancel()
    note(END, run)


async def breaks_logging(payload: dict[str, Any], run: Run) -> None:
    """Install a log handler that raises, then fail."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the log server is away")

    note(START, run)
    logging.getLogger().addHandler(Broken())
    raise ValueError("a failure that wants to be logged")


def occurs(payload: dict[str, Any], run: Run) -> None:
    """Note the occurrence and the counter that it finds; each fifth one fails if `fails`."""
    count = payload.get("count", 0)
    of = {"due_ms": round(run.due.timestamp() * 1000), "count": count}
    note(START, run, **of)
    time.sleep(payload.get("s", 0))
    note(END, run, **of)
    if payload.get("fails") and count % 5 == 4:
        raise ValueError(f"occurrence {count}")


async def occurs_inline(payload: dict[str, Any], run: Run) -> None:
    """The same in the event loop."""
    occurs(payload, run)
