"""Who may run how much: slots per type and per replica, one kept for each type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Slots:
    """Counts the runs of a replica.

    Each type has one slot of its own, so that a flood of one never keeps another waiting; the
    rest of `total` is shared. No type goes beyond its own limit.
    """

    def __init__(self, total: int, limits: Mapping[str, int]) -> None:
        self._limits = dict(limits)
        self._used = dict.fromkeys(limits, 0)
        self._shared = max(0, total - len(self._limits))

    def free(self, name: str) -> int:
        """How many runs of a type may begin now."""
        used = self._used[name]
        taken = sum(count - 1 for count in self._used.values() if count > 1)
        own = 1 if used == 0 else 0
        return max(0, min(self._limits[name] - used, own + self._shared - taken))

    def take(self, name: str, count: int) -> None:
        """Count runs as begun, or promised to a claim."""
        self._used[name] += count

    def give(self, name: str, count: int) -> None:
        """Count runs as ended."""
        self._used[name] -= count

    def used(self, name: str) -> int:
        """How many slots a type has taken."""
        return self._used[name]
