"""The schedules that a replica fires, by the instant at which each is to be looked at. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from scheduld.calendar.rule import Rule
    from scheduld.schedule import Schedule


@dataclass(slots=True, eq=False)
class Entry:
    """One schedule that this replica fires. Instants are ms on the server's clock.

    `mark_ms` is the newest instant that is known to have been fired, by whoever.
    """

    schedule: Schedule
    digest: str
    """Of the definition, as it is stored; a newer version's may say more than `schedule`."""
    rule: Rule
    mark_ms: int
    look_ms: int | None = field(default=None, init=False)
    """When to look at it; None: not until something about it changes."""

    @property
    def name(self) -> str:
        """Name of the schedule."""
        return self.schedule.name


class Timetable:
    """Entries by name, and a heap of when to look at them."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        # An entry that was planned anew has older places left in the heap: passed over there.
        self._heap: list[tuple[int, int, Entry]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, name: str) -> Entry | None:
        """The entry of a schedule."""
        return self._entries.get(name)

    def put(self, entry: Entry, look_ms: int | None) -> None:
        """Take an entry in, in place of one of the same name."""
        self.drop(entry.name)
        self._entries[entry.name] = entry
        self.plan(entry, look_ms)

    def drop(self, name: str) -> None:
        """Forget a schedule."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            entry.look_ms = None

    def has(self, entry: Entry) -> bool:
        """Whether this very entry is still the one of its schedule."""
        return self._entries.get(entry.name) is entry

    def plan(self, entry: Entry, look_ms: int | None) -> None:
        """Look at an entry at `look_ms`, and at no other time."""
        entry.look_ms = look_ms
        if look_ms is not None and self.has(entry):
            heappush(self._heap, (look_ms, next(self._numbers), entry))
            if len(self._heap) > 2 * len(self._entries) + 64:
                self._tidy()

    def next_ms(self) -> int | None:
        """When the next entry is to be looked at."""
        while self._heap:
            look_ms, _, entry = self._heap[0]
            if entry.look_ms == look_ms and self.has(entry):
                return look_ms
            heappop(self._heap)
        return None

    def due(self, now_ms: float, most: int) -> list[Entry]:
        """Take out those to be looked at by now, the earliest first, at most so many.

        They keep their place among the entries; each is to be planned anew.
        """
        found: list[Entry] = []
        while len(found) < most and (look_ms := self.next_ms()) is not None and look_ms <= now_ms:
            entry = heappop(self._heap)[2]
            entry.look_ms = None
            found.append(entry)
        return found

    def _tidy(self) -> None:
        held = [item for item in self._heap if item[2].look_ms == item[0] and self.has(item[2])]
        self._heap = sorted(held)


_NAMED = 10


def listed(names: Collection[str]) -> str:
    """Name the first few of many schedules."""
    first = " ".join(sorted(names)[:_NAMED])
    more = len(names) - _NAMED
    return f"{first} and {more} more" if more > 0 else first
