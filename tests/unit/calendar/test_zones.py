"""Zones: wall times to instants and back, gaps, overlaps, and where the changes are."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from scheduld.calendar.zones import (
    FIRST_MS,
    LAST_MS,
    from_datetime,
    in_zone,
    to_datetime,
    wall_clock,
)
from tests.support.cron_oracle import ZONES, changes

HOUR = 3_600_000


def ms(text: str) -> int:
    """An instant of an ISO text with offset, or a wall time of one without."""
    moment = datetime.fromisoformat(text)
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1_000)


def test_a_wall_time_has_one_instant_two_or_none() -> None:
    """Gaps tell their end and length, overlaps both instants in order."""
    clock = wall_clock(ZoneInfo("Europe/Madrid"))
    plain = clock.settle(ms("2026-06-01T09:00"))
    assert plain.instants == (ms("2026-06-01T09:00+02:00"),)
    gap = clock.settle(ms("2026-03-29T02:30"))
    assert (gap.instants, gap.gap_end, gap.gap_ms) == ((), ms("2026-03-29T03:00+02:00"), HOUR)
    assert gap.run_at() == gap.gap_end
    overlap = clock.settle(ms("2026-10-25T02:30"))
    assert overlap.instants == (ms("2026-10-25T02:30+02:00"), ms("2026-10-25T02:30+01:00"))
    assert overlap.run_at() == overlap.instants[0]
    for edge in ("2026-03-29T01:59:59.999", "2026-03-29T03:00", "2026-10-25T01:59:59.999"):
        assert len(clock.settle(ms(edge)).instants) == 1
    assert len(clock.settle(ms("2026-10-25T02:00")).instants) == 2
    assert len(clock.settle(ms("2026-10-25T02:59:59.999")).instants) == 2
    assert len(clock.settle(ms("2026-10-25T03:00")).instants) == 1


def test_a_move_over_the_date_line_runs_nothing() -> None:
    """A day that a place skipped is a gap of a day, in which nothing is due."""
    apia = wall_clock(ZoneInfo("Pacific/Apia")).settle(ms("2011-12-30T10:00"))
    assert (apia.instants, apia.gap_ms, apia.run_at()) == ((), 24 * HOUR, None)
    kwajalein = wall_clock(ZoneInfo("Pacific/Kwajalein")).settle(ms("1993-08-21T12:00"))
    assert (kwajalein.instants, kwajalein.run_at()) == ((), None)


@pytest.mark.parametrize("name", [*ZONES, "Asia/Hebron", "Africa/El_Aaiun", "Pacific/Kwajalein"])
def test_offsets_and_changes_are_those_of_the_zone(name: str) -> None:
    """At any instant the offset is Python's, and the changes are where a scan finds them."""
    zone = ZoneInfo(name)
    clock = wall_clock(zone)
    dice = random.Random(name)
    for _ in range(500):
        instant = dice.randrange(ms("1900-01-01T00:00"), ms("2100-01-01T00:00"))
        local = in_zone(instant, zone)
        assert clock.wall(instant) == from_datetime(local.replace(tzinfo=None))
        assert instant in clock.settle(clock.wall(instant)).instants
    start, end = ms("2005-01-01T00:00"), ms("2037-12-31T00:00")
    found = [stretch.end for stretch in clock.changes(start, end)]
    assert found == [int(change.timestamp()) * 1_000 for change in changes(zone)]
    row = list(clock.stretches(start, end))
    assert all(a.end == b.start and a.after == b.offset for a, b in pairwise(row))
    assert row[0].start <= start < row[0].end
    assert row[-1].start <= end < row[-1].end
    back = list(clock.stretches_back(start, end))
    assert all(a.start == b.end and a.before == b.offset for a, b in pairwise(back))
    starts = [stretch.start for stretch in row]
    assert all(row[max(0, bisect_right(starts, s.start) - 1)].offset == s.offset for s in back)


class Careless(tzinfo):
    """A zone that somebody wrote: no hash, no name, one hour ahead in summer."""

    __hash__ = None  # type: ignore[assignment]

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """An hour, and another from April to September."""
        return timedelta(hours=1) + self.dst(moment)

    def dst(self, moment: datetime | None) -> timedelta:
        """An hour from April to September."""
        return timedelta(hours=int(moment is not None and 4 <= moment.month <= 9))

    def tzname(self, moment: datetime | None) -> str:
        """A name."""
        return "careless"


def test_other_zones_than_those_with_names() -> None:
    """Fixed offsets and zones of somebody's own are taken as they are."""
    assert wall_clock(UTC).wall(5) == 5
    assert wall_clock(timezone(-timedelta(minutes=210))).wall(0) == -210 * 60_000
    clock = wall_clock(Careless())
    assert clock.wall(ms("2026-07-01T00:00Z")) == ms("2026-07-01T02:00")
    assert clock.wall(ms("2026-01-01T00:00Z")) == ms("2026-01-01T01:00")
    assert len(list(clock.changes(ms("2026-01-01T00:00Z"), ms("2028-01-01T00:00Z")))) == 4


def test_the_calendar_has_ends() -> None:
    """Wall times outside have no instant; those just inside do not overflow."""
    clock = wall_clock(ZoneInfo("Pacific/Kiritimati"))
    for outside in (FIRST_MS - 1, LAST_MS + 1, -(10**18), 10**18):
        assert clock.settle(outside).instants == ()
        assert clock.settle(outside).run_at() is None
    for inside in (FIRST_MS, LAST_MS):
        assert abs(to_datetime(clock.wall(inside)).year - 5_000) > 4_900
        stretch = clock.stretch(inside)
        assert stretch.start <= inside < stretch.end
