"""A reminder, and what decides whether there will be another."""

from datetime import datetime
from typing import Any

from scheduld import Run


def send(payload: dict[str, Any], run: Run) -> str:
    """Stand in for a mail: the number is what the predicate has counted so far."""
    number = payload.get("sent", 0) + 1
    run.log(f"reminder {number} to {payload['to']}")
    return f"reminder {number}"


def season_not_started(payload: dict[str, Any], run: Run) -> dict[str, Any] | bool:
    """Be asked after each reminder: False ends the series, a dict goes into the payload."""
    starts = datetime.fromisoformat(payload["season_start"])
    if run.due >= starts:
        return False
    return {"sent": payload.get("sent", 0) + 1}
