"""The tables of `stats`: human times, in columns that fit a terminal."""

from __future__ import annotations

import pytest

from scheduld.cli.numbers import COUNTS, TIMES, counts_row, short_time, times_rows
from scheduld.cli.output import table
from scheduld.client.stats import TypeStats
from scheduld.policies.histogram import Spread

NOW = 1_790_000_000_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        *((0.0, "0ms"), (0.024, "0.024ms"), (0.4567, "0.46ms"), (9.87, "9.9ms"), (12.3, "12ms")),
        *((999.4, "999ms"), (1_340, "1.3s"), (59_900, "59.9s"), (61_000, "1m 1s")),
        *((7_500_000, "2h 5m"), (9.97, "10ms"), (999.7, "1.0s"), (59_990, "1m")),
    ],
)
def test_times_have_the_digits_they_are_exact_to(ms: float, text: str) -> None:
    """Two digits below 10 ms, whole ms, tenths of seconds, then two units."""
    assert short_time(ms) == text


def test_busy_types_fit_a_hundred_columns() -> None:
    """A million of everything, and times of all sizes."""
    slow = Spread(1_000_000, 0.456, 59_900.0, 7_500_000.0)
    busy = TypeStats(
        type="weekday-reports",
        scheduled=1_000_000,
        depth=1_000_000,
        running=1_000_000,
        done=1_000_000,
        dead=1_000_000,
        oldest_due_age_ms=90_000_000,
        next_due_ms=NOW - 90_000_000,
        now_ms=NOW,
        lateness=slow,
        run_time=slow,
    )
    idle = TypeStats(type="idle", scheduled=1, next_due_ms=NOW + 3_600_000, now_ms=NOW)
    lines = table(COUNTS, [counts_row(busy), counts_row(idle)]).splitlines()
    lines += table(TIMES, times_rows([busy, idle])).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[1].split()[-3:] == ["1d", "1h", "now"]
    assert lines[2].endswith("in 1h")
    assert lines[4].split()[:4] == ["weekday-reports", "1000000", "0.46ms", "59.9s"]
    assert len(lines) == 5


def test_what_has_begun_and_not_ended_has_no_run_time() -> None:
    """A type with starts alone shows its lateness."""
    (row,) = times_rows([TypeStats(type="a", lateness=Spread(2, 1.0, 2.0, 3.0))])
    assert row == ("a", "2", "1ms", "2ms", "3ms", "", "", "")


def test_a_pause_is_told_in_the_place_of_the_next_due() -> None:
    """Nothing is started, whatever is due."""
    paused = TypeStats(type="a", scheduled=1, depth=1, next_due_ms=NOW, now_ms=NOW, paused=True)
    assert counts_row(paused)[-1] == "paused"
