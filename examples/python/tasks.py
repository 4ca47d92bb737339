"""Handlers: what they return or raise says what comes next. See scheduld.toml."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from scheduld import Dead, Retry, Run, Snooze


async def fetch(payload: dict[str, Any], run: Run) -> dict[str, Any]:
    """`async def` runs in the event loop: good for waiting, bad for computing.

    The first two attempts play a server that is busy. A `Retry` counts as a failed attempt;
    without `after` the wait would be that of the type's retry policy.
    """
    if "url" not in payload:
        raise Dead("the payload has no url")  # trying again would not help
    await asyncio.sleep(0.01)
    if run.attempt < 3:
        raise Retry(after="200ms", reason="the server is busy")
    return {"url": payload["url"], "attempts": run.attempt}


def open_shop(payload: dict[str, Any]) -> str | Snooze:
    """`def` runs in a thread. `Snooze` is no failure: not yet, look again then."""
    opens_at = datetime.fromisoformat(payload["opens_at"])
    if datetime.now(UTC) < opens_at:
        return Snooze(until=opens_at)
    return "open"


def set_price(payload: dict[str, Any], run: Run) -> str:
    """Exact, although runs are at least once: a run that lost its lease cannot undo a newer one.

    The fence rises with every claim of the type. It is stored with what it wrote, and a write
    counts only if its fence is higher. A run that was stopped in the middle and goes on later,
    when another has done its work, changes nothing.
    """
    with closing(sqlite3.connect(run.options["database"])) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS prices (name PRIMARY KEY, cents, fence)")
        changed = db.execute(
            "INSERT INTO prices VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET cents = excluded.cents, fence = excluded.fence WHERE fence < excluded.fence",
            (payload["name"], payload["cents"], run.fence),
        ).rowcount
    return "stored" if changed else "a newer run was here before"
