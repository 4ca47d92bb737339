"""Ladders: instants at given distances before and after an anchor, as "a week before" it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduld.calendar.every import Every, mean_ms, read_interval, shifted
from scheduld.calendar.rule import MOST, Named
from scheduld.calendar.zones import FIRST_MS, LAST_MS, wall_clock
from scheduld.errors import WhenError
from scheduld.names import printable

if TYPE_CHECKING:
    from datetime import tzinfo

    from scheduld.schedule import DstOverlap

_MOST_OFFSETS = 100
_HINT = 'write a list such as ["-7d", "-1d", "0", "+2h"]'
_ZERO = re.compile(r"[+-]?0(?:ms|mo|[smhdwy])?")


@dataclass(frozen=True, slots=True)
class Offset:
    """A distance from the anchor: an interval, `sign` times; the anchor itself with sign 0."""

    sign: int
    every: Every

    def __str__(self) -> str:
        return f"{'+' if self.sign > 0 else '-'}{self.every}" if self.sign else "0"


@dataclass(frozen=True, slots=True)
class Offsets:
    """Distances from an anchor, the earliest first, all different."""

    items: tuple[Offset, ...]

    @property
    def calendar(self) -> bool:
        """Whether one of them keeps the wall-clock time, so that a zone is needed."""
        return any(offset.sign and offset.every.calendar for offset in self.items)

    @property
    def texts(self) -> list[str]:
        """The canonical texts, which read back as the same."""
        return [str(offset) for offset in self.items]


def parse_offsets(value: object, *, what: str = "series") -> Offsets:
    """Read a list of distances such as ["-7d", "-1d", "0", "+2h"]; WhenError for all else."""
    if not isinstance(value, list | tuple):
        raise WhenError(f"{what} is no list", hint=_HINT)
    if not value:
        raise WhenError(f"{what} is empty", hint=_HINT)
    if len(value) > _MOST_OFFSETS:
        raise WhenError(f"{what} has {len(value)} entries", hint=f"at most {_MOST_OFFSETS}")
    found = [_read(text, what) for text in value]
    for offset in found:
        if found.count(offset) > 1:
            raise WhenError(f"{what} has {str(offset)!r} twice", hint="leave one out")
    found.sort(key=lambda offset: offset.sign * mean_ms(offset.every))
    return Offsets(tuple(found))


def _read(text: object, what: str) -> Offset:
    if isinstance(text, int) and not isinstance(text, bool) and text == 0:
        return Offset(0, Every())
    if not isinstance(text, str):
        raise WhenError(f"{what} has a {type(text).__name__} in it, not a text", hint=_HINT)
    body = text.strip(" \t")
    if _ZERO.fullmatch(body):
        return Offset(0, Every())
    if not body.startswith(("+", "-")):
        shown = printable(body[:40])
        raise WhenError(
            f"{what}: {shown!r} has no sign", hint="write - for before and + for after the anchor"
        )
    return Offset(1 if body[0] == "+" else -1, read_interval(body[1:], what))


class LadderRule:
    """The instants of a ladder at an anchor. It never changes.

    Distances in days, weeks, months and years keep the wall-clock time of the anchor; what
    falls into a gap runs at its end, what happens twice runs the first time.
    """

    shifts = True
    overlap: DstOverlap = "first"

    def __init__(self, offsets: Offsets, anchor_ms: int, zone: tzinfo | None) -> None:
        """Raises WhenError for calendar distances without a zone, and an anchor beyond years."""
        if offsets.calendar and zone is None:
            raise WhenError(
                "a series in days needs a time zone",
                hint="days and months follow the clocks of a place: name its `timezone`",
            )
        if not FIRST_MS < anchor_ms < LAST_MS:
            raise WhenError(f"the anchor {anchor_ms} ms is outside the calendar")
        self.offsets = offsets
        self.anchor_ms = anchor_ms
        self.zone = zone
        self.clock = wall_clock(zone) if offsets.calendar and zone is not None else None
        found = {self._instant(offset) for offset in offsets.items}
        self.instants = tuple(sorted(instant for instant in found if instant is not None))

    def __str__(self) -> str:
        return f"series {' '.join(self.offsets.texts)} around {self.anchor_ms} ms"

    def after(self, ms: int) -> int | None:
        """The first instant later than `ms`; None: never again."""
        at = bisect_right(self.instants, ms)
        return self.instants[at] if at < len(self.instants) else None

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """The newest `count` instants in (after_ms, until_ms], the oldest first."""
        low, high = bisect_right(self.instants, after_ms), bisect_right(self.instants, until_ms)
        return list(self.instants[max(low, high - max(count, 0)) : high])

    def count(self, after_ms: int, until_ms: int, most: int = MOST) -> int:
        """How many instants are in (after_ms, until_ms], at most `most`."""
        return len(self.newest(after_ms, until_ms, most))

    def named(self, low: int, high: int) -> Named | None:
        """The wall times of the distances in low <= wall < high."""
        walls = (self._wall(offset) for offset in self.offsets.items)
        found = sorted({wall for wall in walls if wall is not None and low <= wall < high})
        return Named(found[0], found[-1], len(found)) if found else None

    def _wall(self, offset: Offset) -> int | None:
        """The wall time of a calendar distance, whether the zone has it or not."""
        if not offset.sign or not offset.every.calendar or self.clock is None:
            return None
        return shifted(self.clock.wall(self.anchor_ms), offset.every, offset.sign)

    def _instant(self, offset: Offset) -> int | None:
        wall = self._wall(offset)
        if wall is None or self.clock is None:
            return self.anchor_ms + offset.sign * offset.every.ms
        return self.clock.settle(wall).run_at()
