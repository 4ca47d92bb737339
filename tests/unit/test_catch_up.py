"""What a schedule makes up for: late and missed instants, gaps, windows, pace."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.policies.catch_up import LATE_MS, MOST_CAUGHT_UP, PACE_MS, Decision, decide
from tests.support.rules import EveryMs

if TYPE_CHECKING:
    from scheduld.schedule import CatchUp, Overlap

HOUR = 3_600_000
DAY = 24 * HOUR
YEAR = 366 * DAY


@dataclass
class Listed:
    """A rule of a few instants. `most_asked` is the largest number that was asked for."""

    times: list[int]
    most_asked: int = field(default=0)

    def after(self, ms: int) -> int | None:
        """The first instant later than `ms`."""
        place = bisect.bisect_right(self.times, ms)
        return self.times[place] if place < len(self.times) else None

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """The newest instants of a span."""
        self.most_asked = max(self.most_asked, count)
        return [time for time in self.times if after_ms < time <= until_ms][-count:]

    def count(self, after_ms: int, until_ms: int, most: int = 1000) -> int:
        """How many lie in a span."""
        return min(most, sum(after_ms < time <= until_ms for time in self.times))


def decided(
    mark: int,
    now: int,
    rule: Listed | EveryMs,
    catch_up: CatchUp = "latest",
    window_ms: int = 7 * DAY,
    overlap: Overlap = "skip",
) -> Decision:
    """Decide as a schedule with the default settings would."""
    return decide(mark, now, rule, catch_up=catch_up, window_ms=window_ms, overlap=overlap)


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
def test_nothing_to_do_before_the_next_instant(catch_up: CatchUp) -> None:
    """The answer is when that is."""
    assert decided(DAY, DAY + 5, EveryMs(DAY), catch_up) == Decision(again_ms=2 * DAY)
    assert decided(DAY, 2 * DAY - 1, EveryMs(DAY), catch_up) == Decision(again_ms=2 * DAY)


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
def test_a_rule_that_has_ended(catch_up: CatchUp) -> None:
    """There is never anything again."""
    assert decided(9, 99, Listed([5, 9]), catch_up) == Decision()


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
@pytest.mark.parametrize("late", [0, 1, LATE_MS])
def test_a_late_instant_fires_under_every_setting(catch_up: CatchUp, late: int) -> None:
    """Up to a second is late, not missed: no gap, nothing patient."""
    found = decided(DAY, 2 * DAY + late, EveryMs(DAY), catch_up)
    assert found == Decision((2 * DAY,), None, 3 * DAY)


def test_several_late_instants_fire_in_their_order() -> None:
    """A fine grid fires each of them."""
    found = decided(DAY, DAY + 950, EveryMs(100), "none")
    assert found == Decision(tuple(range(DAY + 100, DAY + 901, 100)), None, DAY + 1000)


def test_none_tells_the_gap_only() -> None:
    """What is older than a second is one record; the watermark becomes its last instant."""
    found = decided(DAY, 4 * DAY + LATE_MS + 1, EveryMs(DAY), "none")
    assert found.gap is not None
    assert (found.ticks, found.again_ms) == ((), 5 * DAY)
    assert (found.gap.from_ms, found.gap.to_ms, found.gap.count) == (2 * DAY, 4 * DAY, 3)
    assert found.gap.why == "catch_up is none"


def test_none_fires_what_is_late_behind_a_gap() -> None:
    """Both at once: the gap, then what is at most a second old."""
    found = decided(0, 10_000, EveryMs(1000), "none")
    assert (found.ticks, found.again_ms) == ((9000, 10_000), 11_000)
    assert found.gap is not None
    assert (found.gap.from_ms, found.gap.to_ms, found.gap.count) == (1000, 8000, 8)


def test_latest_fires_the_newest_missed_one() -> None:
    """And those that are late; what lies before is a gap."""
    found = decided(DAY, 4 * DAY + HOUR, EveryMs(DAY), "latest")
    assert found.ticks == (4 * DAY,)
    assert found.gap is not None
    assert (found.gap.from_ms, found.gap.to_ms, found.gap.count) == (2 * DAY, 3 * DAY, 2)
    assert (found.again_ms, found.is_patient) == (5 * DAY, False)
    assert decided(0, 10_000, EveryMs(1000), "latest").ticks == (8000, 9000, 10_000)


@pytest.mark.parametrize(("age", "fires"), [(DAY, True), (DAY + 1, False)])
def test_latest_inside_the_window_only(age: int, fires: bool) -> None:
    """Measured when the late run is released; an instant as old as the window is inside."""
    found = decided(0, 10 * DAY + age, Listed([10 * DAY]), "latest", window_ms=DAY)
    assert found.ticks == ((10 * DAY,) if fires else ())
    assert found.gap is None or (found.gap.count, found.gap.why) == (
        1,
        "out of the catch_up_window",
    )
    assert (found.gap is None) == fires


def test_all_releases_the_oldest_first_at_its_pace() -> None:
    """One at a time, again a tenth of a second later, and patient unless overlap allows more."""
    fired: list[int] = []
    now, mark = 10 * DAY + HOUR, 5 * DAY
    for _ in range(5):
        found = decided(mark, now, EveryMs(DAY), "all")
        assert (found.gap, found.is_patient, found.again_ms) == (None, True, now + PACE_MS)
        fired += found.ticks
        mark, now = found.ticks[-1], now + PACE_MS
    assert fired == [number * DAY for number in range(6, 11)]
    assert decided(mark, now, EveryMs(DAY), "all") == Decision(again_ms=11 * DAY)
    assert not decided(5 * DAY, now, EveryMs(DAY), "all", overlap="allow").is_patient


def test_all_makes_up_for_the_newest_hundred() -> None:
    """What is older is a gap, told with the first of them."""
    found = decided(0, 1000 * HOUR + HOUR // 2, EveryMs(HOUR), "all", window_ms=YEAR)
    assert found.ticks == (901 * HOUR,)
    assert found.gap is not None
    assert (found.gap.from_ms, found.gap.to_ms, found.gap.count) == (HOUR, 900 * HOUR, 900)
    found = decided(found.ticks[-1], 1000 * HOUR + HOUR // 2, EveryMs(HOUR), "all")
    assert (found.ticks, found.gap) == ((902 * HOUR,), None)


def test_all_inside_the_window_only() -> None:
    """The window cuts before the hundred does."""
    found = decided(0, 10 * DAY + HOUR, EveryMs(DAY), "all", window_ms=2 * DAY)
    assert found.ticks == (9 * DAY,)
    assert found.gap is not None
    assert (found.gap.from_ms, found.gap.to_ms) == (DAY, 8 * DAY)


def test_no_late_one_is_lost_on_the_finest_grid() -> None:
    """An instant each ms: all of the last second fire, and the gap ends right before them."""
    found = decided(0, 5000, EveryMs(1), "none")
    assert found.ticks == tuple(range(4000, 5001))
    assert found.gap is not None
    assert found.gap.to_ms == 3999


@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
def test_an_outage_of_ten_years_is_one_record(catch_up: CatchUp) -> None:
    """However many instants lie in it, a thousand are counted and none is gone through."""
    found = decided(0, 10 * YEAR + 500, EveryMs(1000), catch_up)
    assert len(found.ticks) <= 3
    assert found.gap is not None
    assert (found.gap.from_ms, found.gap.count) == (1000, 1000)


def test_a_clock_set_back_waits_for_the_watermark() -> None:
    """No instant is decided about twice."""
    assert decided(5 * DAY, 2 * DAY, EveryMs(DAY)) == Decision(again_ms=6 * DAY)


@given(
    times=st.lists(st.integers(0, 20_000), unique=True, max_size=150),
    mark=st.integers(0, 20_000),
    now=st.integers(0, 25_000),
    window_ms=st.integers(0, 25_000),
    catch_up=st.sampled_from(["none", "latest", "all"]),
    overlap=st.sampled_from(["skip", "queue", "cancel", "allow"]),
)
def test_each_instant_is_dealt_with_once(
    times: list[int],
    mark: int,
    now: int,
    window_ms: int,
    catch_up: CatchUp,
    overlap: Overlap,
) -> None:
    """Deciding until nothing is left fires or tells every instant in (watermark, now], in order."""
    rule = Listed(sorted(times))
    first_mark, first_now = mark, now
    fired: list[int] = []
    gaps: list[tuple[int, int, int]] = []
    while True:
        found = decide(mark, now, rule, catch_up=catch_up, window_ms=window_ms, overlap=overlap)
        passed = [*((found.gap.to_ms,) if found.gap else ()), *found.ticks]
        if not passed:
            break
        assert passed == sorted(set(passed))
        assert mark < passed[0]
        assert passed[-1] <= now
        if found.gap is not None:
            gaps.append((found.gap.from_ms, found.gap.to_ms, found.gap.count))
            assert not found.ticks or found.gap.to_ms < found.ticks[0]
        fired += found.ticks
        assert found.again_ms is None or found.again_ms > mark
        mark = passed[-1]
        now = now + PACE_MS if found.is_patient or catch_up == "all" else now
    told = [time for first, last, _ in gaps for time in rule.times if first <= time <= last]
    due = [time for time in rule.times if first_mark < time <= now]
    assert sorted(fired + told) == due
    assert sum(count for *_, count in gaps) == len(told)
    assert rule.most_asked <= LATE_MS + 1
    missed = [time for time in fired if time < first_now - LATE_MS]
    assert len(missed) <= {"none": 0, "latest": 1, "all": MOST_CAUGHT_UP}[catch_up]
    if catch_up != "all":
        assert [time for time in due if time >= first_now - LATE_MS] == fired[len(missed) :]
    assert all(time >= first_now - max(window_ms, LATE_MS) for time in fired)
    assert found.again_ms == rule.after(mark)
