"""Rules for tests of what goes by rules, and not of the calendar."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EveryMs:
    """The multiples of so many milliseconds, up to `last` inclusive."""

    every: int
    last: int | None = None

    def after(self, ms: int) -> int | None:
        """The first one later than `ms`."""
        found = (ms // self.every + 1) * self.every
        return None if self.last is not None and found > self.last else found

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """The newest ones up to `until_ms`, oldest first."""
        if self.last is not None:
            until_ms = min(until_ms, self.last)
        end = until_ms // self.every
        first = max(after_ms // self.every + 1, end - count + 1)
        return [number * self.every for number in range(first, end + 1)]

    def count(self, after_ms: int, until_ms: int, most: int = 1_000) -> int:
        """How many there are, at most `most`."""
        if self.last is not None:
            until_ms = min(until_ms, self.last)
        return max(0, min(most, until_ms // self.every - after_ms // self.every))
