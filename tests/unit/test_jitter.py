"""Jitter: the same everywhere, within its bounds, spread over them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduld.policies.jitter import jitter_ms

TICK = 1_790_000_000_000


@given(
    name=st.text(max_size=63),
    tick_ms=st.integers(0, 253_402_300_799_999),
    most_ms=st.integers(0, 10**10),
    period_ms=st.none() | st.integers(1, 10**10),
)
def test_it_stays_before_the_next_instant(
    name: str, tick_ms: int, most_ms: int, period_ms: int | None
) -> None:
    """From 0 to the setting, never up to the next instant, and the same when asked again."""
    next_ms = None if period_ms is None else tick_ms + period_ms
    found = jitter_ms(name, tick_ms, most_ms, next_ms)
    assert 0 <= found <= most_ms
    assert next_ms is None or tick_ms + found < next_ms
    assert found == jitter_ms(name, tick_ms, most_ms, next_ms)


def test_it_is_the_same_on_every_replica() -> None:
    """Values by another implementation (`b2sum -l 64`): no version moves what a fleet agreed on."""
    found = [jitter_ms("report", TICK + day * 86_400_000, 60_000, None) for day in range(3)]
    assert found == [41_160, 52_237, 28_326]


def test_it_spreads_schedules_and_instants() -> None:
    """Neither all schedules of an instant nor all instants of a schedule come together."""
    by_name = [jitter_ms(f"s{number}", TICK, 9_999, None) for number in range(1000)]
    by_tick = [jitter_ms("s", TICK + number, 9_999, None) for number in range(1000)]
    for found in (by_name, by_tick):
        counts = [sum(value // 1000 == part for value in found) for part in range(10)]
        assert min(counts) > 60
        assert max(counts) < 150


def test_none_asked_for_is_none() -> None:
    """Also where the next instant leaves no room."""
    assert jitter_ms("s", TICK, 0, None) == 0
    assert jitter_ms("s", TICK, 1000, TICK + 1) == 0
