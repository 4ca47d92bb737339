"""What the calls about schedules answer, typed. Instants are ms of the server's clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from scheduld.schedule import Schedule
from scheduld.store.answers import text, to_ms
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from scheduld.schedule import Origin


_CARRIED = ("paused", "pause_reason", "pause_who", "skips", "runs")


class Defined(IntEnum):
    """What became of a definition. From 5 on nothing was changed."""

    NEW = 1
    RULE_CHANGED = 2
    CHANGED = 3
    SAME = 4
    OTHER_DIGEST = 5
    OTHER_ORIGIN = 6
    BROKEN = 7

    @property
    def is_stored(self) -> bool:
        """Whether this definition is the one that counts."""
        return self <= Defined.SAME


class Ticked(IntEnum):
    """What became of a tick. From 11 on nothing was changed."""

    FIRED = 1
    QUEUED = 2
    OVERLAP = 3
    """Skipped, as an earlier task is unfinished."""
    COALESCED = 4
    BACKLOG = 5
    EXISTS = 6
    ASKED = 7
    """Skipped, as somebody asked for it."""
    GAP = 8
    OTHER_MARK = 11
    OTHER_DIGEST = 12
    PAUSED = 13
    EARLY = 14
    """It is not that late by the server's clock."""
    GONE = 15
    ENDED = 16
    """`max_runs` are reached."""
    BROKEN = 17
    MOVED = 18
    """To another type."""
    NO_ROOM = 19
    """A patient tick: an earlier task is unfinished."""

    @property
    def is_told(self) -> bool:
        """Whether the watermark has moved on to the tick."""
        return self <= Ticked.GAP


class Steered(IntEnum):
    """What became of a change to a schedule. From 15 on nothing was changed."""

    DONE = 1
    UNNEEDED = 2
    GONE = 15
    BROKEN = 17
    MOVED = 18
    OTHER_ORIGIN = 20
    TOO_MANY = 21


class DefinedAs(NamedTuple):
    """What became of a definition; `mark_ms` and `digest` are those that count now.

    OTHER_DIGEST with the definition's own digest: there is none, though one was expected.
    """

    code: Defined
    mark_ms: int
    digest: str


class TickedAs(NamedTuple):
    """What became of a tick; `mark_ms` is the watermark now, None if there is none.

    `detail`: the digest that counts, or the type that the schedule has moved to.
    """

    code: Ticked
    mark_ms: int | None
    detail: str


class Raised(NamedTuple):
    """What became of a watermark that was to be raised, and what it is."""

    code: Steered
    mark_ms: int | None


class Paused(NamedTuple):
    """Answer of pause (`at_ms`: since when) and resume (`at_ms`: the watermark)."""

    code: Steered
    at_ms: int


class Skips(NamedTuple):
    """The ranges (first and last ms) whose ticks are skipped."""

    code: Steered
    ranges: tuple[tuple[int, int], ...]


class Removed(NamedTuple):
    """How many tasks were cancelled; `start`: the place to go on from, None if that is all."""

    code: Steered
    cancelled: int
    start: int | None


class Orphaned(NamedTuple):
    """Since when nobody announces a schedule, and whether it is removed for that now."""

    code: Steered
    is_removed: bool
    since_ms: int
    start: int | None


class Backfilled(NamedTuple):
    """What became of each tick: FIRED, EXISTS or EARLY; none of them unless `code` is DONE."""

    code: Steered
    ticks: list[Ticked]


@dataclass(frozen=True)
class CronRecord:
    """A schedule as it is stored."""

    name: str
    fields: dict[str, bytes]
    unfinished: int
    """Tasks in `live`: of those that have ended some may not be taken out yet."""
    key_type: str
    """As Redis names it; anything but "hash" is a broken key."""
    now_ms: int

    @cached_property
    def schedule(self) -> Schedule | None:
        """The definition; None if it is none that this version can read."""
        try:
            return Schedule.from_json(self.name, self.fields["definition"])
        except (KeyError, ValueError):
            return None

    @property
    def digest(self) -> str:
        """Digest of the definition, which a new one is to expect; '' if there is none.

        Of one that has moved to another type it is `moved:TYPE`.
        """
        return f"moved:{self.moved}" if self.moved else text(self.fields.get("digest", b""))

    @property
    def origin(self) -> Origin:
        """Where it comes from."""
        return cast("Origin", text(self.fields.get("origin", b"config")))

    @property
    def carried(self) -> dict[str, str]:
        """What it keeps when it moves to another type: what people said, and how often it ran."""
        return {name: text(self.fields[name]) for name in _CARRIED if name in self.fields}

    @property
    def mark_ms(self) -> int:
        """The watermark: last nominal instant that was dealt with."""
        return self._number("mark") or 0

    @property
    def runs(self) -> int:
        """How many ticks have made a task."""
        return self._number("runs") or 0

    @property
    def queued_ms(self) -> int | None:
        """The tick that waits for the end of an earlier task; None also for a trigger by hand."""
        return to_ms(self.fields.get("queued", b"").partition(b" ")[0])

    @property
    def is_queued(self) -> bool:
        """Whether a tick, or a trigger by hand, waits for the end of an earlier task."""
        return "queued" in self.fields

    @property
    def paused_ms(self) -> int | None:
        """Since when it is paused."""
        return self._number("paused")

    @property
    def pause_reason(self) -> str:
        """Why it is paused."""
        return text(self.fields.get("pause_reason", b""))

    @property
    def pause_who(self) -> str:
        """Who paused it."""
        return text(self.fields.get("pause_who", b""))

    @property
    def skips(self) -> tuple[tuple[int, int], ...]:
        """Ranges (first and last ms) whose ticks are skipped, in their order."""
        return read_ranges(self.fields.get("skips", b""))

    @property
    def moved(self) -> str:
        """The type that it has moved to, or ''."""
        return text(self.fields.get("moved", b""))

    @property
    def parked(self) -> str:
        """Why it cannot be fired, or ''."""
        return text(self.fields.get("parked", b""))

    @property
    def orphan_ms(self) -> int | None:
        """Since when no replica announces it."""
        return self._number("orphan")

    @property
    def last(self) -> tuple[int, int, str] | None:
        """The newest tick, when it was dealt with, and its outcome as in the history."""
        parts = text(self.fields.get("last", b"")).split()
        if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            return None
        return int(parts[0]), int(parts[1]), parts[2]

    def _number(self, name: str) -> int | None:
        return to_ms(self.fields.get(name))


@dataclass(frozen=True, slots=True)
class TickRecord:
    """One entry of the history, newest first. What does not apply is None or ''.

    `outcome`: fired, queued, skipped, coalesced, backlog, exists, backfilled, gap, removed.
    """

    cursor: str
    at_ms: int
    outcome: str
    tick_ms: int | None
    late_ms: int | None
    why: str
    task_id: str
    from_ms: int | None
    to_ms: int | None
    count: int | None


def cron_record(name: str, now_ms: int, row: list[Any]) -> CronRecord | None:
    """Read one row of cron_read.lua; None if there is no such schedule."""
    flat, unfinished, key_type = row
    if text(key_type) == "none":
        return None
    fields = {text(key): value for key, value in zip(flat[::2], flat[1::2], strict=True)}
    return CronRecord(name, fields, unfinished, text(key_type), now_ms)


def read_ranges(raw: bytes) -> tuple[tuple[int, int], ...]:
    """Read the text of ranges: `FROM-TO FROM-TO`; what is none is passed over."""
    pairs = (part.split("-") for part in text(raw).split())
    return tuple(
        (int(pair[0]), int(pair[1]))
        for pair in pairs
        if len(pair) == 2 and all(number.isdecimal() for number in pair)
    )


def tick_records(reply: list[Any]) -> list[TickRecord]:
    """Read the reply to `croncalls.history`."""
    found = []
    for cursor, flat in reply:
        fields = dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
        found.append(
            TickRecord(
                cursor=text(cursor),
                at_ms=int(text(cursor).partition("-")[0]),
                outcome=text(fields.get(b"o", b"")),
                tick_ms=to_ms(fields.get(b"t")),
                late_ms=to_ms(fields.get(b"late")),
                why=text(fields.get(b"why", b"")),
                task_id=decode_id(fields.get(b"id", b"")),
                from_ms=to_ms(fields.get(b"from")),
                to_ms=to_ms(fields.get(b"to")),
                count=to_ms(fields.get(b"n")),
            )
        )
    return found
