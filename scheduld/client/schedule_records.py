"""What the verbs of schedules answer. Instants are ms since the epoch, on the server's clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from scheduld.model import instant, iso

if TYPE_CHECKING:
    from datetime import datetime

    from scheduld.schedule import Origin, Schedule

ScheduleState = Literal["active", "paused", "disabled", "ended", "orphaned", "broken", "new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What became of a tick, or of a gap: several that were missed.

    `outcome`: fired, queued, coalesced, skipped, backlog, exists, gap, backfilled or removed.
    `late_ms` is from the tick to its record. Of a gap `from_ms`, `to_ms` and `count` (at most
    1,000) say which. `task_id` is the task that it made, or would have made. `why` is one line,
    or empty. `tick_ms` is None for a trigger by hand.
    """

    schedule: str
    outcome: str
    at_ms: int
    tick_ms: int | None = None
    late_ms: int | None = None
    why: str = ""
    task_id: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    count: int | None = None
    cursor: str = ""

    @property
    def tick(self) -> datetime | None:
        """The nominal instant, aware, in UTC."""
        return None if self.tick_ms is None else instant(self.tick_ms)

    def to_dict(self) -> dict[str, Any]:
        """The record as `--json` prints it."""
        head = {"schedule": self.schedule, "outcome": self.outcome, "tick": iso(self.tick_ms)}
        times = {"at": iso(self.at_ms), "from": iso(self.from_ms), "to": iso(self.to_ms)}
        return {**head, **times, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Skip:
    """Ticks that are left out: those from `from_ms` to `to_ms`, both included."""

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

    def to_dict(self) -> dict[str, Any]:
        """The pause as `--json` prints it."""
        return {"since": iso(self.since_ms), **asdict(self)}


@dataclass(frozen=True, slots=True)
class Resumed:
    """A schedule that fires again. `passed_over`: ticks left out meanwhile, at most 1,000."""

    schedule: str
    was_paused: bool
    passed_over: int


@dataclass(frozen=True, slots=True)
class Triggered:
    """What became of a trigger by hand: fired, queued, coalesced, skipped or backlog.

    A task `type`/`id` was made, or (queued) will be when an earlier one has ended.
    """

    schedule: str
    type: str
    id: str
    outcome: str

    @property
    def ref(self) -> str:
        """`TYPE/ID` of the task."""
        return f"{self.type}/{self.id}"


@dataclass(frozen=True, slots=True)
class PastTick:
    """A tick of a backfill: its task, when that is due, and whether it ran already.

    `is_known`: its task exists, or the history tells that it fired; none is made.
    """

    tick_ms: int
    id: str
    due_ms: int | None
    is_known: bool

    def to_dict(self) -> dict[str, Any]:
        """The tick as `--json` prints it."""
        return {"tick": iso(self.tick_ms), "due": iso(self.due_ms), **asdict(self)}


@dataclass(frozen=True, slots=True)
class Backfill:
    """What a backfill did, or with `dry_run` would do, to each tick of the range."""

    schedule: str
    type: str
    ticks: tuple[PastTick, ...]
    dry_run: bool

    @property
    def added(self) -> int:
        """How many tasks were made, or would be."""
        return sum(not one.is_known for one in self.ticks)

    @property
    def known(self) -> int:
        """How many ticks had run, or have a task."""
        return len(self.ticks) - self.added


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule as it is stored at `now_ms`; absent things are None.

    `state`: it fires (active), or why not: paused, disabled (`enabled = false`), ended (its end,
    or `max_runs`), orphaned (no replica announces it any more), broken (`error` says why).
    `last` is the newest tick; `unfinished` counts tasks that have not ended. `queued_ms` is the
    tick that waits for one of them. `is_served`: whether a live replica works on its type.
    `overdue_ms`: the oldest tick that should have been fired by now, and was not.
    """

    name: str
    type: str
    origin: Origin
    state: ScheduleState
    definition: Schedule | None = None
    next_ms: int | None = None
    last: Tick | None = None
    runs: int = 0
    unfinished: int = 0
    is_queued: bool = False
    queued_ms: int | None = None
    pause: SchedulePause | None = None
    skips: tuple[Skip, ...] = ()
    orphan_ms: int | None = None
    overdue_ms: int | None = None
    is_served: bool = False
    error: str | None = None
    now_ms: int = 0
    created: bool | None = None
    """Only in the answer of an add: whether this call stored it."""

    @property
    def next(self) -> datetime | None:
        """When it fires next, aware, in UTC."""
        return None if self.next_ms is None else instant(self.next_ms)

    def to_dict(self) -> dict[str, Any]:
        """The schedule as `--json` prints it; the settings are in `definition`."""
        told = {
            "name": self.name,
            "type": self.type,
            "origin": self.origin,
            "state": self.state,
            "next": iso(self.next_ms),
            "next_ms": self.next_ms,
            "last": self.last and self.last.to_dict(),
            "runs": self.runs,
            "unfinished": self.unfinished,
            "is_queued": self.is_queued,
            "queued_ms": self.queued_ms,
            "pause": self.pause and self.pause.to_dict(),
            "skips": [skip.to_dict() for skip in self.skips],
            "orphan_ms": self.orphan_ms,
            "overdue_ms": self.overdue_ms,
            "is_served": self.is_served,
            "error": self.error,
            "definition": self.definition and settings_dict(self.definition),
        }
        return told if self.created is None else {**told, "created": self.created}


def settings_dict(schedule: Schedule) -> dict[str, Any]:
    """The settings of a schedule as `--json` prints them, instants in both forms."""
    values = asdict(schedule)
    times = {key: iso(values[f"{key}_ms"]) for key in ("starts_at", "ends_at")}
    return {**values, **times, "payload": dict(schedule.payload)}
