"""Histograms of times: percentiles within the resolution, whatever was measured."""

from __future__ import annotations

import math
from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.policies.histogram import (
    MOST,
    RESOLUTION,
    bucket,
    counted,
    middle,
    percentile,
    spread,
)

SECONDS = st.floats(2.0**-20, 2.0**31)
TIMES = st.lists(SECONDS, min_size=1, max_size=300)
PARTS = st.sampled_from([0.0, 0.01, 0.07, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0])


@given(values=TIMES, part=PARTS)
def test_a_percentile_is_within_the_resolution_of_the_exact_one(
    values: list[float], part: float
) -> None:
    """The nearest-rank percentile of the values themselves, with the promised error."""
    exact = sorted(values)[max(math.ceil(round(part * len(values), 6)), 1) - 1]
    found = percentile(Counter(map(bucket, values)), part)
    assert abs(found - exact) <= exact * RESOLUTION


@given(st.lists(st.floats(-5, 2.0**40)))
def test_many_are_counted_like_each(values: list[float]) -> None:
    """The quick way for many leads to the same buckets, out of range too."""
    assert counted(array("d", values)) == Counter(map(bucket, values))


@given(one=TIMES, other=TIMES, part=PARTS)
def test_counts_of_replicas_add_up(one: list[float], other: list[float], part: float) -> None:
    """Added counts tell what the counts of all values together tell."""
    added = Counter(map(bucket, one)) + Counter(map(bucket, other))
    assert percentile(added, part) == percentile(Counter(map(bucket, one + other)), part)


@given(low=st.floats(-10, 2.0**33), more=st.floats(0, 2.0**33))
def test_buckets_are_in_the_order_of_times(low: float, more: float) -> None:
    """A longer time never falls into a lower bucket."""
    assert bucket(low) <= bucket(low + more)


def test_every_bucket_holds_its_own_middle() -> None:
    """Each number up to the highest is reached, and leads back to itself."""
    numbers = list(range(MOST))
    assert [bucket(middle(number)) for number in numbers] == numbers


@pytest.mark.parametrize(("value", "number"), [(-5, 0), (0, 0), (1e-9, 0), (1e18, MOST)])
def test_what_is_out_of_range_is_clipped(value: float, number: int) -> None:
    """A clock that was set back, or a task that waited for ever, breaks nothing."""
    assert bucket(value) == number


def test_nothing_counted_is_no_percentile() -> None:
    """No runs, no numbers: never a zero that looks like a good one."""
    assert counted(array("d")) == Counter()
    assert spread({}) is None
    with pytest.raises(ValueError, match="nothing"):
        percentile({}, 0.5)


def test_a_spread_is_in_milliseconds() -> None:
    """A hundred times of 1 to 100 ms."""
    found = spread(Counter(bucket(ms / 1000) for ms in range(1, 101)))
    assert found is not None
    assert found.count == 100
    assert found.p50_ms == pytest.approx(50, rel=RESOLUTION)
    assert found.p95_ms == pytest.approx(95, rel=RESOLUTION)
    assert found.p99_ms == pytest.approx(99, rel=RESOLUTION)
