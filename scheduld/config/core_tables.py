"""The tables of the daemon itself: `[scheduld]`, `[embedded]`, `[log]`.

Defaults come from the frozen dataclasses that the tables are turned into, descriptions are
printed in the settings table of the docs.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from scheduld.config import values
from scheduld.config.settings import DEFAULTS, Appendfsync, LogFormat, LogLevel, LogSettings
from scheduld.config.table import Table
from scheduld.config.values import DAY, Choice, Duration, Texts, Whole
from scheduld.model import Durable


class ScheduldTable(Table):
    """`[scheduld]`."""

    redis_url: Annotated[str, BeforeValidator(values.REDIS_URL)] = Field(
        default=DEFAULTS.redis_url,
        description="where the tasks are: `redis://`, `rediss://`, `unix://`, or `embedded` for "
        "a server of its own in `state_dir`; `--redis-url` and `$SCHEDULD_REDIS_URL` go before",
    )
    redis_timeout: Annotated[int, BeforeValidator(values.REDIS_TIMEOUT)] = Field(
        default=DEFAULTS.redis_timeout_ms,
        description="deadline of each call to Redis; at most lease/6, and by default no more",
    )
    namespace: Annotated[str, BeforeValidator(values.NAMESPACE)] = Field(
        default=DEFAULTS.namespace,
        description="first part of all keys; several may share one Redis",
    )
    timezone: Annotated[str | None, BeforeValidator(values.ZONE)] = Field(
        default=DEFAULTS.timezone,
        description="zone of times that have no offset; without it such times are refused",
    )
    state_dir: Annotated[Path | None, BeforeValidator(values.STATE_DIR)] = Field(
        default=None,
        description="data of the embedded server; by default `$STATE_DIRECTORY`, else "
        "`$XDG_STATE_HOME/scheduld`, else `~/.local/state/scheduld`",
    )
    concurrency: Annotated[int, BeforeValidator(Whole(1, 10_000))] = Field(
        default=DEFAULTS.concurrency,
        description="runs at once in this replica; at least the number of types",
    )
    lease: Annotated[int, BeforeValidator(values.LEASE)] = Field(
        default=DEFAULTS.lease_ms,
        description="how long a replica may be silent before others take over its tasks; "
        "renewed every third of it",
    )
    shutdown_grace: Annotated[int, BeforeValidator(Duration(0, DAY))] = Field(
        default=DEFAULTS.shutdown_grace_ms,
        description="how long a stop waits for running tasks before it gives them back",
    )
    max_payload: Annotated[int, BeforeValidator(values.MAX_PAYLOAD)] = Field(
        default=DEFAULTS.max_payload,
        description="largest payload of a task, as JSON",
    )
    durable: Annotated[Durable, BeforeValidator(values.DURABLE)] = Field(
        default=DEFAULTS.durable,
        description="where a task must be stored before its add is answered: in the server's "
        "`memory`, on its `disk` (Valkey, Redis 7.2), or on a `replica`",
    )


class EmbeddedTable(Table):
    """`[embedded]`."""

    appendfsync: Annotated[Appendfsync, BeforeValidator(values.APPENDFSYNC)] = Field(
        default=DEFAULTS.appendfsync,
        description="how often the embedded server writes to disk: a power cut loses up to two "
        "seconds, or nothing",
    )


class LogTable(Table):
    """`[log]`."""

    format: Annotated[LogFormat, BeforeValidator(Choice(("auto", "text", "json")))] = Field(
        default=DEFAULTS.log.format,
        description="`auto`: readable on a terminal, JSON otherwise",
    )
    level: Annotated[LogLevel, BeforeValidator(Choice(("debug", "info", "warning", "error")))] = (
        Field(
            default=DEFAULTS.log.level,
            description="least severity that is written; `run --verbose` means `debug`",
        )
    )
    mask: Annotated[tuple[str, ...], BeforeValidator(Texts())] = Field(
        default=DEFAULTS.log.mask,
        description="keys, of payloads too, whose values are never logged, at any depth",
    )

    def settings(self) -> LogSettings:
        """Return the settings this table describes."""
        return LogSettings(format=self.format, level=self.level, mask=self.mask)
