"""What the verbs of schedules answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from scheduld.model import instant, iso

if TYPE_CHECKING:
    from datetime import datetime

    from scheduld.schedule import Origin, Schedule

ScheduleState = Literal["active", "paused", "disabled", "ended", "parked", "orphaned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What became of a tick, or of a gap with several that were missed. Instants are ms.

    `outcome`: fired, queued, coalesced, skipped, backlog, exists, missed, backfilled, triggered.
    `late_ms` is from the tick to its record. Of a gap `from_ms`, `to_ms` and `count` say which,
    `count` at most 1,000. `id` is the task that it made. `why` is one line, or empty.
    """

    schedule: str
    outcome: str
    at_ms: int
    tick_ms: int | None = None
    late_ms: int | None = None
    why: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    count: int | None = None
    id: str | None = None
    cursor: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as `--json` prints it."""
        times = {
            "tick": iso(self.tick_ms),
            "at": iso(self.at_ms),
            "from": iso(self.from_ms),
            "to": iso(self.to_ms),
        }
        return {**times, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Skip:
    """Ticks that are not to fire: those from `from_ms` to `to_ms`, both included."""

    from_ms: int
    to_ms: int

    def to_dict(self) -> dict[str, Any]:
        """The range as `--json` prints it."""
        return {"from": iso(self.from_ms), "to": iso(self.to_ms), **asdict(self)}


@dataclass(frozen=True, slots=True)
class SchedulePause:
    """A paused schedule: it does not fire. `who` is user@host, `since_ms` when it began."""

    schedule: str
    reason: str
    who: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class NextTick:
    """An instant at which a schedule fires, or, `ms` being None, one that it leaves out.

    `note` tells what a clock change did to it, or who asked for it to be left out.
    """

    ms: int | None
    local: str
    note: str

    @property
    def at(self) -> datetime | None:
        """The instant, aware, in UTC."""
        return None if self.ms is None else instant(self.ms)

    def to_dict(self) -> dict[str, Any]:
        """The tick as `--json` prints it."""
        return {"utc": iso(self.ms), "local": self.local, "note": self.note or None}
