"""`stats` in words: pure functions from the numbers of types to tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.duration import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.client.stats import TypeStats
    from scheduld.policies.histogram import Spread

COUNTS = ("TYPE", "SCHEDULED", "RUNNING", "DONE", "DEAD", "WAITING", "OLDEST", "NEXT DUE")
TIMES = ("TYPE", "RUNS", "LATE p50", "p95", "p99", "RUN TIME p50", "p95", "p99")


def counts_row(stats: TypeStats) -> tuple[str, ...]:
    """Tell the counts of a type in the cells of COUNTS."""
    counts = (stats.scheduled, stats.running, stats.done, stats.dead, stats.depth)
    age = stats.oldest_due_age_ms
    due = stats.next_due_ms
    return (
        stats.type,
        *map(str, counts),
        "" if age is None else in_words(-age).removesuffix(" ago"),
        "paused" if stats.paused else "" if due is None else in_words(max(due - stats.now_ms, 0)),
    )


def times_rows(found: Sequence[TypeStats]) -> list[tuple[str, ...]]:
    """Tell the times of the types that had runs in the cells of TIMES."""
    return [
        (one.type, str(_runs(one)), *_cells(one.lateness), *_cells(one.run_time))
        for one in found
        if one.lateness or one.run_time
    ]


def _runs(stats: TypeStats) -> int:
    return max(part.count for part in (stats.lateness, stats.run_time) if part)


def _cells(part: Spread | None) -> tuple[str, str, str]:
    if part is None:
        return "", "", ""
    return short_time(part.p50_ms), short_time(part.p95_ms), short_time(part.p99_ms)


def short_time(ms: float) -> str:
    """Write a time that was measured, with as many digits as it is exact: 0.42ms, 1.3s, 5m."""
    if ms < 9.95:
        return f"{ms:.2g}ms"
    if ms < 999.5:
        return f"{ms:.0f}ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f}s"
    return in_words(-round(ms)).removesuffix(" ago")
