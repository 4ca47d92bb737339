"""What all rules can be asked, and rules within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scheduld.errors import RuleBroken

if TYPE_CHECKING:
    from scheduld.calendar.zones import WallClock
    from scheduld.schedule import DstOverlap

MOST = 1_000
"""How far `count` counts unless told otherwise."""


class Rule(Protocol):
    """A set of instants, in ms since the epoch, that may go on for ever."""

    def after(self, ms: int) -> int | None:
        """The first instant strictly later than `ms`; None: never again.

        Raises RuleBroken rather than return an instant that is not later.
        """
        ...

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """The newest `count` instants in (after_ms, until_ms], the oldest first.

        The cost does not grow with the length of the past.
        """
        ...

    def count(self, after_ms: int, until_ms: int, most: int = MOST) -> int:
        """How many instants are in (after_ms, until_ms], at most `most`."""
        ...


class Named(NamedTuple):
    """Wall times of a rule, in ms: the first, the last, and how many there are."""

    first: int
    last: int
    number: int


class Zoned(Protocol):
    """A rule that may follow the clocks of a zone; `clock` is None if it does not."""

    clock: WallClock | None
    shifts: bool
    """Whether what a gap skips runs at its end."""
    overlap: DstOverlap
    """Which of two instants with the same wall time counts."""

    def named(self, low: int, high: int) -> Named | None:
        """The wall times of the rule in low <= wall < high, whether the zone has them or not."""
        ...


def later(found: int | None, base: int, rule: object) -> int | None:
    """Return what was found as the next time, once sure that it is later than the base."""
    if found is not None and found <= base:
        raise RuleBroken(f"the rule {rule} gave {found} ms as the next time after {base} ms")
    return found


@dataclass(frozen=True, slots=True)
class Bounded:
    """A rule from one instant to another, both inclusive; None leaves a side open."""

    rule: Rule
    starts_ms: int | None = None
    ends_ms: int | None = None

    def after(self, ms: int) -> int | None:
        """The first instant later than `ms` within the bounds; None: never again."""
        base = ms if self.starts_ms is None else max(ms, self.starts_ms - 1)
        found = self.rule.after(base)
        if found is None or (self.ends_ms is not None and found > self.ends_ms):
            return None
        return found

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """As `Rule.newest`, within the bounds."""
        return self.rule.newest(*self._within(after_ms, until_ms), count)

    def count(self, after_ms: int, until_ms: int, most: int = MOST) -> int:
        """As `Rule.count`, within the bounds."""
        return self.rule.count(*self._within(after_ms, until_ms), most)

    def _within(self, after_ms: int, until_ms: int) -> tuple[int, int]:
        low = after_ms if self.starts_ms is None else max(after_ms, self.starts_ms - 1)
        return low, until_ms if self.ends_ms is None else min(until_ms, self.ends_ms)
