"""Histograms of times on a logarithmic scale: plain counts that can be added up. Pure.

The number of a bucket is the upper 16 bits of a double (sign, exponent, four bits of mantissa)
less those of 2**-20 s: a bucket is a sixteenth of a power of two wide. So a percentile that is
read from counts is within `RESOLUTION` of the exact one, whether it is microseconds or days, and
many times are sorted into buckets without a Python instruction for each.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping

RESOLUTION = 1 / 32
"""Largest error of a percentile, as a part of the exact one, from 2**-20 s (1 µs) on."""
_SHORTEST_S = 2.0**-20
_LONGEST_S = 2.0**31
_SIGN = 0x8000
_HALVES = 4
_UPPER = _HALVES - 1 if sys.byteorder == "little" else 0


@dataclass(frozen=True, slots=True)
class Spread:
    """How long something took: how often it was measured, and percentiles in ms."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


def _upper(seconds: float) -> int:
    return int.from_bytes(struct.pack(">d", seconds)[:2], "big")


_LOWEST = _upper(_SHORTEST_S)
MOST = _upper(_LONGEST_S) - _LOWEST
"""Highest number of a bucket."""


def bucket(seconds: float) -> int:
    """Number of the bucket of a time; what is shorter than 1 µs or longer than 68 years is clipped.

    A negative time, which a clock that was set back makes, is a short one.
    """
    return _upper(min(max(seconds, _SHORTEST_S), _LONGEST_S)) - _LOWEST


def counted(times: array[float]) -> Counter[int]:
    """Count times, an `array("d")` of seconds, by bucket."""
    uppers = Counter(memoryview(times).cast("B").cast("H")[_UPPER::_HALVES].tolist())
    counts: Counter[int] = Counter()
    for upper, count in uppers.items():
        number = 0 if upper & _SIGN else upper - _LOWEST
        counts[min(max(number, 0), MOST)] += count
    return counts


def middle(number: int) -> float:
    """Middle of a bucket, in seconds."""
    lower, upper = (
        struct.unpack(">d", (edge + _LOWEST).to_bytes(2, "big") + bytes(6))[0]
        for edge in (number, number + 1)
    )
    return float(lower + upper) / 2


def percentile(counts: Mapping[int, int], part: float) -> float:
    """Time in seconds that `part` (0 to 1) of the measured ones do not exceed, by nearest rank.

    Raises ValueError if nothing was counted.
    """
    total = sum(counts.values())
    if total <= 0:
        raise ValueError("nothing was counted")
    # In whole numbers: as floats, 0.07 * 100 is more than 7, which would be rank 8.
    rank = max(-(-total * round(part * 10_000) // 10_000), 1)
    for number in sorted(counts):
        rank -= counts[number]
        if rank <= 0:
            return middle(number)
    raise AssertionError("the counts add up to less than their total")  # pragma: no cover


def spread(counts: Mapping[int, int]) -> Spread | None:
    """Sum up counts; None if nothing was counted."""
    total = sum(counts.values())
    if total <= 0:
        return None
    p50, p95, p99 = (percentile(counts, part) * 1000 for part in (0.50, 0.95, 0.99))
    return Spread(total, round(p50, 3), round(p95, 3), round(p99, 3))
