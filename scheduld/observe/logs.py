"""Log lines: readable on a terminal, JSON otherwise; one record is one line, always.

A log that cannot be written never disturbs the work: the line is dropped and counted. All
records of the process come here, those of handlers and libraries too.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from scheduld.clock import wall_ms
from scheduld.config.settings import LogSettings
from scheduld.model import iso
from scheduld.observe import masking
from scheduld.observe.lines import json_line, line, text_line

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from scheduld.observe.lines import Render

_LEVELS = logging.getLevelNamesMapping()
_OF_STDLIB = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OWN = "scheduld"
_STRAY = f"{_OWN}.stray"


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


class _Loggers(structlog.stdlib.LoggerFactory):
    """Makes loggers; our own ones are out of reach of what handlers do to `logging`.

    `logging.disable`, `basicConfig(force=True)` and `dictConfig`, which frameworks call when they
    are set up, would silence the daemon, or write its lines without masking.
    """

    def __init__(self, handler: logging.Handler, level: int) -> None:
        super().__init__()
        root = logging.RootLogger(level)
        root.addHandler(handler)
        self._own = logging.Manager(root)

    def __call__(self, *args: Any) -> logging.Logger:
        """Make the logger of a name, or of the calling module."""
        if args and str(args[0]).partition(".")[0] == _OWN:
            return self._own.getLogger(args[0])
        return super().__call__(*args)


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Turns every record into a line; one that cannot be read becomes a line that says so."""

    def __init__(self, render: Render, *shared: Any) -> None:
        super().__init__(
            foreign_pre_chain=[_extras, *shared],
            processors=[
                self.remove_processors_meta,
                structlog.processors.format_exc_info,
                _message,
                self._finish,
            ],
            use_get_message=False,
            pass_foreign_args=True,
        )
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as one line."""
        try:
            return super().format(record)
        except BaseException as error:  # noqa: BLE001 - what others log may raise anything
            fields = {
                "timestamp": iso(wall_ms()),
                "level": record.levelname.lower(),
                "event": "a log record could not be read",
                "logger": record.name,
                "error": type(error).__name__,
            }
            return line(self._render, masking.current(), fields)

    def _finish(self, _: Any, __: str, event: MutableMapping[str, Any]) -> str:
        return line(self._render, masking.current(), event)


def configure(
    settings: LogSettings | None = None, stream: TextIO | None = None, *, verbose: bool = False
) -> SafeStream:
    """Set logging up for the daemon, that of handlers and libraries included.

    `verbose` means level `debug`, whatever the settings say.
    """
    settings = settings or LogSettings()
    safe = SafeStream(stream or sys.stderr)
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(safe)
    handler.setFormatter(_Formatter(_renderer(settings, stream or sys.stderr), *shared))
    level = logging.DEBUG if verbose else _LEVELS[settings.level.upper()]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=_Loggers(handler, level),
        wrapper_class=_CalmLogger,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.raiseExceptions = False
    # Its debug lines tell every wait of the loop.
    logging.getLogger("asyncio").setLevel(logging.INFO)
    return safe


def catch_strays() -> None:
    """Log what Python would print by itself: warnings, and what ends a thread or a finalizer.

    For a process that is a daemon and nothing else.
    """
    logging.captureWarnings(True)
    threading.excepthook = _thread_ended
    sys.unraisablehook = _not_raised


def _thread_ended(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit and args.exc_value is not None:
        name = args.thread.name if args.thread else None
        log = structlog.get_logger(_STRAY)
        log.error("a thread was ended by an error", thread=name, exc_info=args.exc_value)


def _not_raised(args: sys.UnraisableHookArgs) -> None:
    log = structlog.get_logger(_STRAY)
    log.error("an error could not be raised", source=args.object, exc_info=args.exc_value)


def _renderer(settings: LogSettings, stream: TextIO) -> Render:
    is_terminal = stream.isatty()
    if settings.format == "json" or (settings.format == "auto" and not is_terminal):
        return json_line
    is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return partial(text_line, colours=is_terminal and not is_plain)


def _extras(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add what a foreign record carries besides (`extra=` of the standard library)."""
    for name, value in vars(event["_record"]).items():
        if name not in _OF_STDLIB and not name.startswith("_"):
            event.setdefault(name, value)
    return event


def _message(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put positional arguments into the message, what stands under telling keys masked."""
    args = event.pop("positional_args", None)
    if args:
        args = masking.current().value(args)
        if isinstance(args, tuple) and len(args) == 1 and isinstance(args[0], dict) and args[0]:
            args = args[0]
        try:
            event["event"] = str(event.get("event")) % args
        except BaseException:  # noqa: BLE001 - a wrong number of arguments costs nobody the line
            event["args"] = args
    return event
