"""Compare the rules of the package with the second opinion, around changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from scheduld import CronError
from scheduld.calendar.cron import CronRule
from scheduld.calendar.expression import parse
from tests.support.cron_oracle import MINUTE, Expression, Window, expression

if TYPE_CHECKING:
    import random
    from zoneinfo import ZoneInfo

    from scheduld.schedule import DstGap, DstOverlap

WIDTH = timedelta(hours=46)
EDGE = timedelta(hours=26)
"""What happens at the edge of a window may be decided outside; no change is longer."""
NEAR = timedelta(hours=6)
_MOST_ASKED = 150


def ms(moment: datetime) -> int:
    """An instant as the rules count it."""
    return int(moment.timestamp()) * 1_000


def fired(rule: CronRule, start: datetime, end: datetime) -> list[datetime]:
    """What a rule gives in start <= instant < end, asked one by one."""
    found = []
    at = rule.after(ms(start) - 1)
    while at is not None and at < ms(end):
        found.append(at)
        at = rule.after(at)
    assert all(first < second for first, second in pairwise(found))
    return [datetime.fromtimestamp(instant / 1_000, UTC) for instant in found]


def check(
    window: Window, text: str, gap: DstGap, overlap: DstOverlap, *, is_long: bool = False
) -> None:
    """Compare all that a rule can be asked with the window, cut where its edges decide.

    Of very many ticks only those near the middle are asked for one by one, unless `is_long`.
    """
    try:
        spec = parse(text)
    except CronError:
        return  # no such date
    rule = CronRule(spec, window.zone, gap, overlap)
    start, end = window.start + EDGE, window.end - EDGE
    expected = [t for t in window.ticks(Expression(text), gap, overlap) if start <= t < end]
    first, last = start, end
    if len(expected) > _MOST_ASKED and not is_long:
        middle = window.start + (window.end - window.start) / 2
        first, last = middle - NEAR, middle + NEAR
    near = [t for t in expected if first <= t < last]
    assert fired(rule, first, last) == near, (text, window.zone)
    instants = [ms(t) for t in expected]
    low, high = ms(start) - 1, ms(end) - 1
    assert rule.count(low, high, 10_000) == len(expected), (text, window.zone)
    assert rule.newest(low, high, 10_000) == instants
    assert rule.newest(low, high, 3) == instants[-3:]
    for instant in instants[:3]:
        assert rule.after(instant - 1) == instant
        assert rule.newest(low, instant) == [instant]
        assert rule.newest(low, instant - 1) == instants[: instants.index(instant)][-1:]


def check_around(
    zone: ZoneInfo, moment: datetime, dice: random.Random, number: int, *, is_long: bool = False
) -> None:
    """Check so many random expressions, with random options, around a change of a zone."""
    window = Window(zone, moment - WIDTH, moment + WIDTH)
    near = (moment - MINUTE).astimezone(zone)
    for _ in range(number):
        gap: DstGap = dice.choice(("shift", "shift", "skip"))
        overlap: DstOverlap = dice.choice(("first", "first", "second", "both"))
        check(window, expression(dice, near), gap, overlap, is_long=is_long)
