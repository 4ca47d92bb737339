"""When a cron expression fires in a zone: the rules of Debian's cron where clocks are set.

Time is walked in stretches of one offset, in which a wall time is an instant and nothing can
go wrong. What a change skips or repeats is decided between two stretches:

- wild (the minute or hour begins with `*`): fires whenever the clocks show a match.
- fixed: a skipped time runs at the end of the gap (`dst_gap="skip"`: not at all), and not at
  all if the gap is a move over the date line. A repeated time runs the first time, the second
  time, or both times.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, get_args

from scheduld.calendar.rule import MOST, Named, later
from scheduld.calendar.walls import walls_of
from scheduld.calendar.zones import DATE_LINE_MS, FIRST_MS, LAST_MS, Stretch, wall_clock
from scheduld.errors import CronError
from scheduld.schedule import DstGap, DstOverlap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from scheduld.calendar.expression import CronSpec

_MOST_NAMED = 100_000
"""More than a day of seconds, so more than any change can skip."""


class CronRule:
    """The instants at which a cron expression fires in a zone. It never changes."""

    def __init__(
        self,
        spec: CronSpec,
        zone: tzinfo,
        dst_gap: DstGap = "shift",
        dst_overlap: DstOverlap = "first",
    ) -> None:
        """Raises CronError for other values of `dst_gap` and `dst_overlap`."""
        check_choice("dst_gap", dst_gap, get_args(DstGap))
        check_choice("dst_overlap", dst_overlap, get_args(DstOverlap))
        self.spec = spec
        self.zone = zone
        self.shifts = dst_gap == "shift" and not spec.wild
        self.overlap: DstOverlap = "both" if spec.wild else dst_overlap
        self.clock = wall_clock(zone)
        self.walls = walls_of(spec)

    def __str__(self) -> str:
        return f"{self.spec} in {self.zone}"

    def after(self, ms: int) -> int | None:
        """The first instant later than `ms`; None: never again."""
        if ms >= LAST_MS:
            return None
        base = max(ms, FIRST_MS)
        for stretch in self.clock.stretches(base, LAST_MS):
            low, high = self._shown(stretch)
            found = self.walls.next(max(low - 1, base + stretch.offset))
            if found is None:
                return None
            if found < high:
                return later(found - stretch.offset, ms, self)
            if self._moves(stretch) and found < stretch.end + stretch.after:
                return later(stretch.end, ms, self)
        return None

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """The newest `count` instants in (after_ms, until_ms], the oldest first."""
        after_ms, until_ms = max(after_ms, FIRST_MS), min(until_ms, LAST_MS)
        if after_ms >= until_ms or count < 1:
            return []
        return list(islice(self._back(after_ms, until_ms), count))[::-1]

    def count(self, after_ms: int, until_ms: int, most: int = MOST) -> int:
        """How many instants are in (after_ms, until_ms], at most `most`."""
        after_ms, until_ms, found = max(after_ms, FIRST_MS), min(until_ms, LAST_MS), 0
        if after_ms >= until_ms:
            return 0
        for stretch in self.clock.stretches(after_ms, until_ms):
            low, high = self._asked(stretch, after_ms, until_ms)
            found += self.walls.count(low, high, most)
            found += stretch.end <= until_ms and self._fires_moved(stretch)
            if found >= most:
                return most
        return found

    def named(self, low: int, high: int) -> Named | None:
        """The wall times of the expression in low <= wall < high."""
        last = next(self.walls.back(low, high), None)
        first = self.walls.next(low - 1)
        if last is None or first is None:
            return None
        return Named(first, last, self.walls.count(low, high, _MOST_NAMED))

    def _back(self, after_ms: int, until_ms: int) -> Iterator[int]:
        for stretch in self.clock.stretches_back(after_ms, until_ms):
            if stretch.end <= until_ms and self._fires_moved(stretch):
                yield stretch.end
            low, high = self._asked(stretch, after_ms, until_ms)
            for wall in self.walls.back(low, high):
                yield wall - stretch.offset

    def _asked(self, stretch: Stretch, after_ms: int, until_ms: int) -> tuple[int, int]:
        """The wall times to fire at in a stretch, within (after_ms, until_ms]."""
        low, high = self._shown(stretch)
        offset = stretch.offset
        return max(low, after_ms + offset + 1), min(high, until_ms + offset + 1)

    def _shown(self, stretch: Stretch) -> tuple[int, int]:
        """The wall times at which a stretch fires: those it shows, but for what runs elsewhere."""
        low, high = stretch.start + stretch.offset, stretch.end + stretch.offset
        if self.overlap == "first" and stretch.before > stretch.offset:
            low = stretch.start + stretch.before
        if self.overlap == "second" and stretch.after < stretch.offset:
            high = stretch.end + stretch.after
        return low, high

    def _moves(self, stretch: Stretch) -> bool:
        """Whether what the end of a stretch skips runs at its end."""
        return self.shifts and 0 < stretch.gap < DATE_LINE_MS

    def _fires_moved(self, stretch: Stretch) -> bool:
        """Whether the end of a stretch fires only because of what it skips."""
        if not self._moves(stretch):
            return False
        low, high = stretch.end + stretch.offset, stretch.end + stretch.after
        return self.walls.count(low, high, 1) > 0 and not self.walls.count(high, high + 1, 1)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise CronError unless `value` is one of the choices."""
    if value not in choices:
        raise CronError(f"unknown {name} {str(value)[:40]!r}", hint=f"use {' or '.join(choices)}")
