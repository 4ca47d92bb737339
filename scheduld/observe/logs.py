"""Log lines: readable on a terminal, JSON otherwise; one record is one line, always.

A log that cannot be written never disturbs the work: the line is dropped and counted.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_LEVELS = logging.getLevelNamesMapping()


class SafeStream:
    """A stream to log to: full disks and closed pipes cost lines, not work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.dropped = 0

    def write(self, text: str) -> int:
        """Write, or count the text as dropped."""
        try:
            self._stream.write(text)
        except (OSError, ValueError, UnicodeError):
            self.dropped += 1
        return len(text)

    def flush(self) -> None:
        """Flush, or count one line as dropped."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self.dropped += 1


class _CalmLogger(structlog.stdlib.BoundLogger):
    """A logger that never raises, whatever log handlers a task's handler has installed."""

    def _proxy_to_logger(self, method_name: str, *args: Any, **event: Any) -> Any:
        with suppress(Exception):
            # Asked first: a record that nobody sees costs as much as one that is written.
            level = _LEVELS.get(method_name.upper(), logging.CRITICAL)
            if self._logger.isEnabledFor(level):
                return super()._proxy_to_logger(method_name, *args, **event)
        return None


def configure(stream: TextIO | None = None, *, verbose: bool = False) -> SafeStream:
    """Set logging up for the daemon, that of handlers and libraries included."""
    target = stream or sys.stderr
    safe = SafeStream(target)
    is_terminal = target.isatty()
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _one_line,
    ]
    renderer: Any = structlog.dev.ConsoleRenderer(colors=True) if is_terminal else _json_renderer
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=_CalmLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(safe)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.raiseExceptions = False
    # Its debug lines tell every wait of the loop.
    logging.getLogger("asyncio").setLevel(logging.INFO)
    return safe


def _one_line(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape what could forge a second line, in every text of the record."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = printable(value)
    return event


def _json_renderer(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    ordered = {name: event.pop(name) for name in ("timestamp", "level", "event") if name in event}
    return json.dumps({**ordered, **event}, default=repr)
