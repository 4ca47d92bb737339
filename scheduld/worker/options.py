"""The options of a type on their way to its workers, as JSON; TOML has times, JSON has none."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMES: dict[str, Callable[[str], Any]] = {
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
}


def plain(options: Any) -> str:
    """Write options."""
    return json.dumps(options, default=_plain)


def restored(text: str) -> Any:
    """Read options as `plain` wrote them."""
    return json.loads(text, object_hook=_restored)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date | time):
        return {f"${type(value).__name__}": value.isoformat()}
    return dict(value) if hasattr(value, "keys") else list(value)


def _restored(table: dict[str, Any]) -> Any:
    if len(table) == 1:
        ((key, value),) = table.items()
        if key in _TIMES:
            with suppress(TypeError, ValueError):  # a table of the user's own
                return _TIMES[key](value)
    return table
