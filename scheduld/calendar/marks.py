"""What changes of the clock do to a rule, in words: ticks that are moved, skipped or repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from scheduld.calendar.rule import Bounded, Zoned
from scheduld.calendar.zones import DATE_LINE_MS, to_datetime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.calendar.rule import Rule
    from scheduld.calendar.zones import Stretch, WallClock


class Marked(NamedTuple):
    """An instant of a rule in ms, and what a change of the clock does to it, or an empty note.

    Where a change takes ticks away, and nothing runs instead, `ms` is None.
    """

    ms: int | None
    note: str


def marked(rule: Rule, after_ms: int) -> Iterator[Marked]:
    """Tell the instants of a rule later than `after_ms`, each with its note.

    A change of the clock that takes ticks away has an entry of its own, before the next tick.
    """
    inner, base = rule, after_ms
    while isinstance(inner, Bounded):
        base = base if inner.starts_ms is None else max(base, inner.starts_ms - 1)
        inner = inner.rule
    zoned = cast("Zoned", inner)
    clock = zoned.clock
    while (found := rule.after(base)) is not None:
        if clock is not None:
            for stretch in clock.changes(base, found):
                yield from _taken(zoned, stretch)
        yield Marked(found, _note(zoned, found, clock) if clock else "")
        base = found


def _taken(rule: Zoned, stretch: Stretch) -> Iterator[Marked]:
    if stretch.gap <= 0 or (rule.shifts and stretch.gap < DATE_LINE_MS):
        return
    named = rule.named(stretch.end + stretch.offset, stretch.end + stretch.after)
    if named:
        day = to_datetime(named.first).date()
        if named.number == 1:
            yield Marked(None, f"{day} {_time(named.first)} does not exist, skipped")
        else:
            times = f"{_time(named.first)} to {_time(named.last)}"
            yield Marked(None, f"{day} {times} do not exist, {named.number} ticks skipped")


def _note(rule: Zoned, ms: int, clock: WallClock) -> str:
    stretch = clock.stretch(ms)
    wall = ms + stretch.offset
    gap = stretch.offset - stretch.before
    if ms == stretch.start and rule.shifts and 0 < gap < DATE_LINE_MS:
        named = rule.named(wall - gap, wall)
        if named:
            return _moved(named.first, named.number, wall, regular=bool(rule.named(wall, wall + 1)))
    instants = clock.settle(wall).instants
    if len(instants) == 1:
        return ""
    which = "first" if ms == instants[0] else "second"
    if rule.overlap == "both":
        return f"{_time(wall)} happens twice, this is the {which} time"
    return f"{_time(wall)} happens twice, runs the {which} time only"


def _moved(first: int, count: int, wall: int, *, regular: bool) -> str:
    if count > 1:
        return f"{_time(first)} and {count - 1} more do not exist, run once at {_time(wall)}"
    how = "runs together with" if regular else "moved to"
    return f"{_time(first)} does not exist, {how} {_time(wall)}"


def _time(wall: int) -> str:
    moment = to_datetime(wall)
    if moment.microsecond:
        return moment.time().isoformat("milliseconds")
    return moment.time().isoformat("seconds" if moment.second else "minutes")
