"""What is fired of a schedule now, as the calls that do it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduld.engine.deciding import ticks_of
from scheduld.engine.timetable import Entry
from scheduld.schedule import Schedule
from tests.support.rules import EveryMs

HOUR = 3_600_000
NOW = 1_800_000_000_000


def entry(mark_ms: int, every_ms: int = 1_000, **values: Any) -> Entry:
    """Make an entry that was fired up to `mark_ms`."""
    schedule = Schedule(**{"name": "s", "type": "a", "every": "1s", **values})
    return Entry(schedule, "digest", EveryMs(every_ms), mark_ms)


def test_nothing_is_due_before_the_next_instant() -> None:
    """The answer is when to look again."""
    assert ticks_of(entry(NOW), NOW + 999) == ([], NOW + 1_000)


def test_an_instant_that_has_come_is_one_call() -> None:
    """It names what it was decided from, and the schedule is looked at at the next one."""
    ((one,), again) = ticks_of(entry(NOW), NOW + 1_000)
    tick = one.tick
    assert (tick.name, tick.digest, tick.mark_ms, tick.tick_ms) == ("s", "digest", NOW, NOW + 1_000)
    assert tick.due_ms == NOW + 1_000
    assert tick.raw_id == b"s@2027-01-15T08:00:01Z"
    assert (tick.gap, tick.is_patient) == (None, False)
    assert one.again_ms == again == NOW + 2_000
    assert one.until_ms == NOW + 1_000


def test_several_late_ones_follow_each_other() -> None:
    """Each names the one before as its mark; only behind the last the schedule may rest."""
    planned, _ = ticks_of(entry(NOW, 400), NOW + 900)
    assert [one.tick.tick_ms for one in planned] == [NOW + 400, NOW + 800]
    assert [one.tick.mark_ms for one in planned] == [NOW, NOW + 400]
    assert [one.again_ms for one in planned] == [NOW + 900, NOW + 1_200]


def test_what_is_passed_over_goes_with_the_first_call() -> None:
    """An hour away: one gap, one run made up for, and those that are merely late."""
    planned, _ = ticks_of(entry(NOW), NOW + HOUR)
    first, *others = [one.tick for one in planned]
    assert first.gap is not None
    assert (first.gap.from_ms, first.gap.to_ms) == (NOW + 1_000, NOW + HOUR - 3_000)
    assert first.gap.count == 1_000
    assert first.tick_ms == NOW + HOUR - 2_000
    assert [tick.gap for tick in others] == [None, None]


def test_a_gap_without_a_run_is_a_call_of_its_own() -> None:
    """With nothing to make up for only the record is written, and the next instant waited for."""
    ((one,), _) = ticks_of(entry(NOW, HOUR, catch_up="none"), NOW + HOUR + 5_000)
    assert one.tick.tick_ms is None
    assert one.tick.gap is not None
    assert one.until_ms == one.tick.gap.to_ms == NOW + HOUR
    assert one.again_ms == NOW + 2 * HOUR


@pytest.mark.parametrize(("overlap", "is_patient"), [("queue", True), ("allow", False)])
def test_all_that_was_missed_comes_one_by_one(overlap: str, is_patient: bool) -> None:
    """They are paced, and wait for room where two must not run at once."""
    late = entry(NOW, HOUR, catch_up="all", overlap=overlap)
    ((one,), again) = ticks_of(late, NOW + 3 * HOUR + 5_000)
    assert (one.tick.tick_ms, one.tick.is_patient) == (NOW + HOUR, is_patient)
    assert again == NOW + 3 * HOUR + 5_100


def test_jitter_moves_the_due_and_nothing_else() -> None:
    """It stays before the next instant, however large it is, and is the same each time."""
    marks = range(NOW, NOW + 50_000, 1_000)
    moved = [ticks_of(entry(mark_ms, jitter_ms=HOUR), mark_ms + 1_000) for mark_ms in marks]
    offsets = []
    for number, (planned, _) in enumerate(moved):
        tick = planned[0].tick
        assert tick.tick_ms == NOW + number * 1_000 + 1_000
        assert tick.raw_id == f"s@2027-01-15T08:00:{number + 1:02}Z".encode()
        offsets.append(tick.due_ms - tick.tick_ms)
    assert all(0 <= offset < 1_000 for offset in offsets)
    assert len(set(offsets)) > 30
    again, _ = ticks_of(entry(NOW, jitter_ms=HOUR), NOW + 1_000)
    assert again[0].tick == moved[0][0][0].tick


def test_ids_of_fine_grids_have_milliseconds() -> None:
    """Also at whole seconds, so that all ids of a schedule look alike."""
    ((one,), _) = ticks_of(entry(NOW + 500, 500, every="500ms"), NOW + 1_000)
    assert one.tick.raw_id == b"s@2027-01-15T08:00:01.000Z"
