"""Histograms of times on a logarithmic scale: plain counts that can be added up. Pure.

A bucket is a sixteenth of a power of two wide, so a percentile read from the counts is within
`RESOLUTION` of the exact one, whether it is microseconds or days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_BITS = 4
_PARTS = 1 << _BITS
_LARGEST = (1 << 50) - 1
RESOLUTION = 1 / (2 * _PARTS)
"""Largest error of a percentile, as a part of the exact one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How long something took: how often it was measured, and percentiles in ms."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


def bucket(value: int) -> int:
    """Number of the bucket that a time in µs belongs to; below 0 counts as 0, 35 years as most."""
    if value < _PARTS:
        return max(value, 0)
    value = min(value, _LARGEST)
    shift = value.bit_length() - _BITS - 1
    return (shift << _BITS) + (value >> shift)


MOST = bucket(_LARGEST)
"""Highest number of a bucket."""


def middle(number: int) -> float:
    """Middle of a bucket, in µs."""
    if number < 2 * _PARTS:
        return float(number)
    shift = (number >> _BITS) - 1
    lowest = (_PARTS + (number & (_PARTS - 1))) << shift
    return lowest + ((1 << shift) - 1) / 2


def percentile(counts: Mapping[int, int], part: float) -> float:
    """Smallest time in µs that `part` (0 to 1) of the measured ones do not exceed.

    Raises ValueError if nothing was counted.
    """
    total = sum(counts.values())
    if total <= 0:
        raise ValueError("nothing was counted")
    # In whole numbers: 0.95 * 20 is 19.000000000000004 or less, depending on the machine's mood.
    rank = max(-(-total * round(part * 10_000) // 10_000), 1)
    for number in sorted(counts):
        rank -= counts[number]
        if rank <= 0:
            return middle(number)
    raise AssertionError("unreachable: the counts add up to the total")  # pragma: no cover


def spread(counts: Mapping[int, int]) -> Spread | None:
    """Sum up counts of times in µs; None if nothing was counted."""
    total = sum(counts.values())
    if total <= 0:
        return None
    p50, p95, p99 = (percentile(counts, part) / 1000 for part in (0.50, 0.95, 0.99))
    return Spread(total, round(p50, 3), round(p95, 3), round(p99, 3))
