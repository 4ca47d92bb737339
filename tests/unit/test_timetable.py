"""The order in which a replica looks at its schedules."""

from __future__ import annotations

import random

from scheduld.engine.timetable import Entry, Timetable
from scheduld.schedule import Schedule
from tests.support.rules import EveryMs


def entry(name: str) -> Entry:
    """Make an entry that nothing was fired of."""
    schedule = Schedule(name=name, type="work", every="1s")
    return Entry(schedule, schedule.digest, EveryMs(1_000), 0)


def test_entries_come_when_they_are_due_the_earliest_first() -> None:
    """Only what is due comes out, in order, and stays an entry."""
    table = Timetable()
    for name, look_ms in (("c", 30), ("a", 10), ("never", None), ("b", 20)):
        table.put(entry(name), look_ms)
    assert table.next_ms() == 10
    assert [one.name for one in table.due(25, 10)] == ["a", "b"]
    assert table.next_ms() == 30
    assert len(table) == 4


def test_at_most_so_many_come_at_once() -> None:
    """What is left over stays due."""
    table = Timetable()
    for number in range(5):
        table.put(entry(f"s{number}"), number)
    assert len(table.due(10, 3)) == 3
    assert len(table.due(10, 3)) == 2
    assert not table.due(10, 3)


def test_an_entry_that_is_replaced_or_dropped_does_not_come() -> None:
    """A changed definition and a removed one leave nothing behind."""
    table = Timetable()
    old, gone = entry("a"), entry("gone")
    table.put(old, 10)
    table.put(gone, 10)
    new = entry("a")
    table.put(new, 20)
    table.drop("gone")
    table.drop("never there")
    assert not table.due(15, 10)
    table.plan(old, 15)
    assert not table.has(old)
    assert table.due(30, 10) == [new]
    assert table.next_ms() is None


def test_the_last_plan_counts_and_the_heap_stays_small() -> None:
    """Planned anew a thousand times, each entry comes once, at its last instant."""
    table, chance = Timetable(), random.Random(1)
    entries = [entry(f"s{number}") for number in range(20)]
    for one in entries:
        table.put(one, 0)
    for _ in range(1_000):
        table.plan(chance.choice(entries), chance.randrange(1_000))
    expected = sorted(one.look_ms or 0 for one in entries)
    assert len(table._heap) < 200
    looks = []
    while (at := table.next_ms()) is not None:
        looks += [at] * len(table.due(at, 100))
    assert looks == expected
