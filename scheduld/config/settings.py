"""What a config file becomes: frozen values, with every default of `[scheduld]` in one place.

The defaults of a task type are those of `scheduld.model.TaskType`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from scheduld.config.url import mask_url
from scheduld.payload import DEFAULT_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduld.calendar.period import Series
    from scheduld.config.interpolate import Filled
    from scheduld.model import Durable, TaskType
    from scheduld.schedule import Schedule

Appendfsync = Literal["everysec", "always"]
LogFormat = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

LEASE_PER_TIMEOUT = 6
"""A call to Redis may take at most this part of a lease, or renewal comes too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that daemon and client commands share.

    `path` is the absolute path of the file they came from, None if only a URL was given.
    `notes` are sentences about the search for a user to see, such as a file that was skipped.
    """

    path: str | None = None
    redis_url: str = "embedded"
    redis_timeout_ms: int = 2_000
    namespace: str = "scheduld"
    timezone: str | None = None
    state_dir: Path
    lease_ms: int = 30_000
    max_payload: int = DEFAULT_MAX_BYTES
    """Largest payload, in bytes."""
    durable: Durable = "memory"
    """Where a task must be stored before its add is answered."""
    appendfsync: Appendfsync = "everysec"
    notes: tuple[str, ...] = ()


def _shown(settings: Settings, **more: object) -> str:
    """Write the settings without the secrets of the URL."""
    shown = {
        "path": settings.path,
        "redis_url": mask_url(settings.redis_url),
        "namespace": settings.namespace,
        "state_dir": str(settings.state_dir),
        **more,
    }
    parts = ", ".join(f"{key}={value!r}" for key, value in shown.items())
    return f"{type(settings).__name__}({parts})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientSettings(Settings):
    """What a client command needs. `type_names` is None if there is no config file.

    `series` are the ladders of those types that have one.
    """

    type_names: frozenset[str] | None = None
    schedule_names: frozenset[str] = frozenset()
    series: Mapping[str, Series] = field(default_factory=dict)

    def __repr__(self) -> str:
        return _shown(self, type_names=self.type_names and sorted(self.type_names))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How the daemon logs. `mask` names keys whose values are never written, at any depth."""

    format: LogFormat = "auto"
    level: LogLevel = "info"
    mask: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Config(Settings):
    """A whole config file, valid and with every default filled in."""

    concurrency: int = 100
    shutdown_grace_ms: int = 30_000
    log: LogSettings = field(default_factory=LogSettings)
    types: Mapping[str, TaskType] = field(default_factory=lambda: MappingProxyType({}))
    schedules: Mapping[str, Schedule] = field(default_factory=lambda: MappingProxyType({}))
    filled: tuple[Filled, ...] = ()
    """The values that came from `${...}`: most are secrets."""

    def __repr__(self) -> str:
        # Only the names: options and payloads may hold secrets.
        return _shown(self, types=sorted(self.types), schedules=sorted(self.schedules))


DEFAULTS = Config(state_dir=Path())
"""Every default; `state_dir`, which depends on the user, is a placeholder."""
