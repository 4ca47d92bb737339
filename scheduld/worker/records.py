"""What handlers log, on its way to the daemon's log: there it stands as if they ran inline."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

from scheduld.clock import monotonic

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from scheduld.worker.channel import Channel

LONGEST = 4_000
"""Most characters of a record; the rest is cut."""
_MOST = 500
_PERIOD_S = 1.0
_WAIT_S = 1.0


class SentRecords(logging.Handler):
    """Sends records to the daemon, up to 500 a second; says how many were left out."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self._began_at = 0.0
        self._count = 0
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record; one that cannot be formatted or sent is counted."""
        now = monotonic()
        if now - self._began_at > _PERIOD_S:
            self._began_at, self._count = now, 0
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                self._send("scheduld.worker", logging.WARNING, f"{dropped} records were left out")
        self._count += 1
        if self._count > _MOST:
            self._dropped += 1
            return
        try:
            self._send(record.name, record.levelno, self.format(record)[:LONGEST])
        except Exception:  # noqa: BLE001 - such as arguments that do not fit the text
            self._dropped += 1

    def _send(self, name: str, level: int, text: str) -> None:
        body = json.dumps({"record": [name, level, text]}).encode()
        # A wait without end could be for ourselves: a signal handler may log too.
        if not self._channel.send_if_free(lambda: body, wait_s=_WAIT_S):
            self._dropped += 1


def configure(channel: Channel, level: int) -> None:
    """Lead the log of handlers and libraries to the daemon."""
    root = logging.getLogger()
    root.handlers[:] = [SentRecords(channel)]
    root.setLevel(level)
    logging.raiseExceptions = False


def configure_structlog() -> None:
    """Lead structlog to the log too, if a handler has imported it and not set it up."""
    structlog = sys.modules.get("structlog")
    if structlog is not None and not structlog.is_configured():
        structlog.configure(
            processors=[structlog.processors.format_exc_info, _as_text],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )


def _as_text(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    text = str(event.pop("event", ""))
    return " ".join([text, *(f"{name}={value!r}" for name, value in event.items())])
