"""Built-in handler `log`: writes one line per task, for first tries and for tests of schedules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import structlog

from scheduld.handlers.contract import Handler, Run
from scheduld.handlers.options import OptionReader
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGGER = "scheduld.handler.log"
"""Name of the logger it writes to."""
LEVELS = ("info", "debug", "warning", "error")
_LIMIT = 2_000


def make(options: Mapping[str, Any]) -> Handler:
    """Build the handler; option `level` is one of LEVELS. Raises BadOptions."""
    reader = OptionReader(options, known=("level",))
    level = reader.choice("level", LEVELS)
    reader.finish()

    async def log(payload: dict[str, Any], run: Run) -> None:
        # Only the message and the names of the other keys: their values may be secrets.
        structlog.get_logger(LOGGER).log(
            _NUMBERS[level],
            _line(payload.get("message", "task ran")),
            type=run.type,
            id=_line(run.id),
            attempt=run.attempt,
            keys=_line(" ".join(payload)),
        )

    return Handler(call=log, is_async=True, takes_run=True)


_NUMBERS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def _line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text if len(text) <= _LIMIT else f"{text[:_LIMIT]}...")
