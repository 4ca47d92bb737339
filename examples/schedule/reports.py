"""A handler that knows which tick it is for: the nominal time, however late it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduld import Run


def write(payload: dict[str, Any], run: Run) -> str:
    """Write a report for the day of its tick; triggered by hand it has none."""
    day = run.tick.date().isoformat() if run.tick else "today"
    return f"{payload['kind']} report of {day}"
