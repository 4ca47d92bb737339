"""The grid that an interval makes from an anchor.

Each instant is computed from the anchor, so that neither month ends nor late runs make it
drift.
"""

from __future__ import annotations

from itertools import count as counting
from typing import TYPE_CHECKING

from scheduld.calendar.every import Every, mean_ms, shifted
from scheduld.calendar.rule import MOST, Named, later
from scheduld.calendar.zones import DATE_LINE_MS, DAY_MS, FIRST_MS, LAST_MS, wall_clock
from scheduld.errors import WhenError

if TYPE_CHECKING:
    from datetime import tzinfo

    from scheduld.schedule import DstOverlap


def epoch_anchor_ms(zone: tzinfo) -> int:
    """The anchor of a schedule without `starts_at`: local midnight of 1970-01-01."""
    settled = wall_clock(zone).settle(0)
    return settled.instants[0] if settled.instants else settled.gap_end


class GridRule:
    """The instants anchor + k * every, for k = 0, 1, 2 and so on. It never changes.

    With calendar units, what falls into a gap runs at its end, what happens twice runs the
    first time, and what a move over the date line skips does not run. The anchor itself is
    always the first instant.
    """

    shifts = True
    overlap: DstOverlap = "first"

    def __init__(self, every: Every, anchor_ms: int, zone: tzinfo | None) -> None:
        """Raises WhenError for calendar units without a zone, and an anchor beyond years."""
        if every.calendar and zone is None:
            raise WhenError(
                f"every {every} needs a time zone",
                hint="days and months follow the clocks of a place: name its `timezone`",
            )
        if not FIRST_MS < anchor_ms < LAST_MS:
            raise WhenError(f"the anchor {anchor_ms} ms is outside the calendar")
        self.every = every
        self.anchor_ms = anchor_ms
        self.zone = zone
        self.clock = wall_clock(zone) if every.calendar and zone is not None else None
        self._wall = self.clock.wall(anchor_ms) if self.clock else anchor_ms
        self._mean = mean_ms(every)

    def __str__(self) -> str:
        return f"every {self.every} from {self.anchor_ms} ms"

    def after(self, ms: int) -> int | None:
        """The first instant later than `ms`; None: never again."""
        if ms < self.anchor_ms:
            return self.anchor_ms
        if ms >= LAST_MS:
            return None
        for index in counting(self._below(ms)):
            wall = self._wall_at(index)
            if wall >= LAST_MS:
                return None
            found = self._instant(index, wall)
            if found is not None and found > ms:
                return later(found, ms, self)
        return None

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """The newest `count` instants in (after_ms, until_ms], the oldest first."""
        found: list[int] = []
        # The estimate is at most two too low, twice.
        for index in range(self._below(until_ms) + 4, -1, -1):
            instant = self._instant(index, self._wall_at(index))
            if instant is None or instant > until_ms:
                continue
            if instant <= after_ms or len(found) >= count:
                break
            found.append(instant)
        return found[::-1]

    def count(self, after_ms: int, until_ms: int, most: int = MOST) -> int:
        """How many instants are in (after_ms, until_ms], at most `most`."""
        # As far as it takes to find so many, whatever a few changes take away: of a grid without
        # an end the clocks would else be read for centuries.
        far_ms = max(after_ms, self.anchor_ms) + 2 * (most + 10) * self._mean
        until_ms = min(until_ms, far_ms)
        first, last = self._up_to(after_ms), self._up_to(until_ms)
        if self.clock is None or last <= first:
            return max(0, min(most, last - first))
        lost = 0
        for stretch in self.clock.changes(max(after_ms, self.anchor_ms), until_ms):
            if stretch.gap >= DATE_LINE_MS:
                named = self.named(stretch.end + stretch.offset, stretch.end + stretch.after)
                lost += named.number if named else 0
        return min(most, last - first - lost)

    def named(self, low: int, high: int) -> Named | None:
        """The wall times of the grid in low <= wall < high."""
        found = []
        # An offset is less than two days.
        for index in counting(self._below(low - 2 * DAY_MS)):
            wall = self._wall_at(index)
            if wall >= high:
                break
            if wall >= low:
                found.append(wall)
        return Named(found[0], found[-1], len(found)) if found else None

    def _wall_at(self, index: int) -> int:
        """The wall time of an instant of the grid, whether the zone has it or not."""
        if self.clock is None:
            return min(LAST_MS, self.anchor_ms + index * self.every.ms)
        return shifted(self._wall, self.every, index)

    def _instant(self, index: int, wall: int) -> int | None:
        if not index:
            return self.anchor_ms  # the second of two equal wall times, perhaps
        return wall if self.clock is None else self.clock.settle(wall).run_at()

    def _up_to(self, ms: int) -> int:
        """How many places of the grid are at most `ms`, whether something runs there or not."""
        ms = min(ms, LAST_MS)
        if self.clock is None:
            return max(0, (ms - self.anchor_ms) // self.every.ms + 1)
        if ms < self.anchor_ms:
            return 0
        index = self._below(ms)
        while index == 0 or self._place(index) <= ms:
            index += 1
        return index

    def _place(self, index: int) -> int:
        """Where an instant of the grid is, or would be had a move over the date line not been."""
        wall = self._wall_at(index)
        if self.clock is None or wall >= LAST_MS:
            return wall
        settled = self.clock.settle(wall)
        return settled.instants[0] if settled.instants else settled.gap_end

    def _below(self, ms: int) -> int:
        """An index whose instant is at most `ms` (or 0), and at most four below the last such."""
        # Months are shorter or longer than the mean by days, and the clocks were set by hours.
        return max(0, (min(ms, LAST_MS) - self.anchor_ms) // self._mean - 2)
