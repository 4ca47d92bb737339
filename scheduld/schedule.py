"""The noun of schedules: a definition with every default filled in, and its digests.

All instants are integer milliseconds since the Unix epoch, all durations integer
milliseconds.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from scheduld.model import Keep, instant

if TYPE_CHECKING:
    from collections.abc import Mapping

CronDialect = Literal["vixie", "extended"]
CatchUp = Literal["none", "latest", "all"]
Overlap = Literal["skip", "queue", "cancel", "allow"]
DstGap = Literal["shift", "skip"]
DstOverlap = Literal["first", "second", "both"]
Origin = Literal["config", "runtime"]
OnScheduleConflict = Literal["error", "keep", "replace"]

_DAY_MS = 86_400_000
_RULE = (
    "cron",
    "cron_dialect",
    "dst_gap",
    "dst_overlap",
    "enabled",
    "every",
    "starts_at_ms",
    "timezone",
    "type",
)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One `[schedules.NAME]`, or one added at run time. Either `cron` or `every` is given."""

    name: str
    type: str
    cron: str | None = None
    every: str | None = None
    """A period in its canonical text, such as "15m" or "1mo"."""
    cron_dialect: CronDialect = "vixie"
    timezone: str = "UTC"
    payload: Mapping[str, Any] = field(default_factory=dict)
    catch_up: CatchUp = "latest"
    catch_up_window_ms: int = 7 * _DAY_MS
    overlap: Overlap = "skip"
    max_unfinished: int = 100
    starts_at_ms: int | None = None
    """No instant before it; of `every` also where the grid begins."""
    ends_at_ms: int | None = None
    """No instant after it; itself is one, if the rule says so."""
    max_runs: int | None = None
    jitter_ms: int = 0
    enabled: bool = True
    dst_gap: DstGap = "shift"
    dst_overlap: DstOverlap = "first"
    keep_history: Keep = field(default_factory=lambda: Keep(count=1_000, age_ms=90 * _DAY_MS))

    def to_json(self) -> str:
        """Write the definition without its name, for its hash and its digest."""
        values = {key: value for key, value in self._values().items() if key != "name"}
        return _canonical(values)

    @classmethod
    def from_json(cls, name: str, text: str | bytes) -> Schedule:
        """Read a stored definition; what is unknown in it, from a newer version, is passed over.

        Raises ValueError for what is none: others can write there too.
        """
        try:
            values = json.loads(text)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(values, dict) or "type" not in values:
            raise ValueError("it is no definition")
        values = {key: value for key, value in values.items() if key in _KINDS}
        for key, value in values.items():
            if not _is_of_kind(value, _KINDS[key]):
                raise ValueError(f"its {key} cannot be read")
        if (keep := values.get("keep_history")) is not None:
            values["keep_history"] = Keep(count=keep["count"], age_ms=keep["age_ms"])
        return cls(**values, name=name)

    @cached_property
    def digest(self) -> str:
        """Names this definition among those that replicas with other configs have."""
        return _digest(self.to_json())

    @cached_property
    def rule_digest(self) -> str:
        """Names what decides the instants: where it changes, the past is not made up for."""
        values = self._values()
        return _digest(_canonical({key: values[key] for key in _RULE}))

    def _values(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        keep = self.keep_history
        values["keep_history"] = {"count": keep.count, "age_ms": keep.age_ms}
        values["payload"] = dict(self.payload)
        return values


_KINDS: dict[str, Any] = {
    "type": str,
    "cron": str | None,
    "every": str | None,
    "cron_dialect": CronDialect,
    "timezone": str,
    "payload": dict,
    "catch_up": CatchUp,
    "catch_up_window_ms": int,
    "overlap": Overlap,
    "max_unfinished": int,
    "starts_at_ms": int | None,
    "ends_at_ms": int | None,
    "max_runs": int | None,
    "jitter_ms": int,
    "enabled": bool,
    "dst_gap": DstGap,
    "dst_overlap": DstOverlap,
    "keep_history": {"count": int, "age_ms": int},
}
"""What each value of a stored definition is: a type, one of some texts, or an object of such."""


def _is_of_kind(value: object, kind: Any) -> bool:
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(
            key in value and _is_of_kind(value[key], kind[key]) for key in kind
        )
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if isinstance(value, bool):  # which is an int for Python
        return kind is bool
    return isinstance(value, kind)


def _canonical(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def tick_id(name: str, tick_ms: int, *, is_fine: bool = False) -> str:
    """Name the task of a tick: `NAME@2026-12-24T07:00:00Z`.

    `is_fine`: the grid is finer than a second, so that ids carry milliseconds.
    """
    timespec = "milliseconds" if is_fine or tick_ms % 1000 else "seconds"
    when = instant(tick_ms).isoformat(timespec=timespec).replace("+00:00", "Z")
    return f"{name}@{when}"
