"""Medians, spans, percentiles and ratios of figures."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Spread:
    """Median of several rounds, with the least and the most."""

    median: float
    least: float
    most: float
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    """Sum up rounds; raises ValueError if there is none."""
    if not values:
        raise ValueError("no rounds")
    return Spread(statistics.median(values), min(values), max(values), len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The least value that so many percent of all do not exceed (nearest rank)."""
    if not values:
        raise ValueError("no values")
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]


def ratio(value: float, base: float) -> float | None:
    """How many times the base a value is; None where there is no base."""
    return value / base if base else None


def short(value: float) -> str:
    """Write a figure with three digits that count, thousands apart."""
    if abs(value) >= 1000:
        return f"{round(value, 2 - math.floor(math.log10(abs(value)))):,.0f}"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 4)}f}"
