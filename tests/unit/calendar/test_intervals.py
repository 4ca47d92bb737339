"""Intervals and their grids: texts, drift, changes of the clock, and long pasts."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduld import WhenError
from scheduld.calendar.every import Every, parse_every
from scheduld.calendar.grid import GridRule, epoch_anchor_ms
from tests.support.cron_oracle import ZONES, changes

MADRID = ZoneInfo("Europe/Madrid")


def ms(text: str) -> int:
    """The instant of an ISO text."""
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def told(instants: list[int], zone: ZoneInfo) -> list[str]:
    """Instants as local ISO texts."""
    return [
        datetime.fromtimestamp(instant / 1_000, zone).isoformat(timespec="minutes")
        for instant in instants
    ]


def first(rule: GridRule, count: int, after: int | None = None) -> list[int]:
    """The first instants of a rule, asked one by one."""
    found: list[int] = []
    at = rule.anchor_ms - 1 if after is None else after
    while len(found) < count and (following := rule.after(at)) is not None:
        found.append(following)
        at = following
    return found


@pytest.mark.parametrize(
    ("value", "every", "text"),
    [
        ("7d", Every(days=7), "7d"),
        (" 1w ", Every(days=7), "7d"),
        ("1w2d", Every(days=9), "9d"),
        ("1mo", Every(months=1), "1mo"),
        ("1y6mo", Every(months=18), "1y6mo"),
        ("24mo", Every(months=24), "2y"),
        ("1mo15d", Every(months=1, days=15), "1mo15d"),
        ("24h", Every(ms=86_400_000), "24h"),
        ("90s", Every(ms=90_000), "1m30s"),
        ("1h30m", Every(ms=5_400_000), "1h30m"),
        ("1.5h", Every(ms=5_400_000), "1h30m"),
        ("250ms", Every(ms=250), "250ms"),
        (90, Every(ms=90_000), "1m30s"),
        (0.25, Every(ms=250), "250ms"),
        (604_800, Every(ms=604_800_000), "168h"),
        (timedelta(days=7), Every(ms=604_800_000), "168h"),
        (timedelta(microseconds=1_500), Every(ms=2), "2ms"),
        ("36500d", Every(days=36_500), "36500d"),
    ],
)
def test_intervals(value: Any, every: Every, text: str) -> None:
    """Days, weeks, months and years are of the calendar; all else, and all numbers, is elapsed."""
    read = parse_every(value)
    assert (read, str(read), read.calendar) == (every, text, not every.ms)
    assert parse_every(text) == every


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("", "empty"),
        ("7", "no unit"),
        ("-7d", "sign"),
        ("+7d", "sign"),
        ("0d", "is 0"),
        ("0mo0y", "is 0"),
        ("0s", "is 0"),
        (0, "is 0"),
        (0.0, "is 0"),
        (-1, "negative"),
        (timedelta(days=-1), "negative"),
        (True, "bool"),
        (False, "bool"),
        (None, "NoneType"),
        ([7], "list"),
        (float("nan"), "no length"),
        (float("inf"), "no length"),
        (Fraction(1, 3), "Fraction"),
        ("1.5d", "part of a day"),
        ("0.5mo", "part of a day"),
        ("1d12h", "mixes"),
        ("1mo1s", "mixes"),
        ("1d1d", "twice"),
        ("7 d", "blank"),
        ("7D", "not an interval"),
        ("1M", "not an interval"),
        ("weekly", "not an interval"),
        ("\u0667d", "not an interval"),
        ("1d\n", "not an interval"),
        ("36501d", "longer"),
        ("100y", "longer"),
        ("1201mo", "longer"),
        ("900000h", "longer"),
        (10**30, "longer"),
        ("9" * 90 + "d", "not an interval"),
        ("1" * 101, "100 characters"),
    ],
)
def test_no_intervals(value: Any, fault: str) -> None:
    """What is no interval, or nothing, or beyond a century, is refused in one line."""
    with pytest.raises(WhenError, match=fault) as caught:
        parse_every(value)
    assert caught.value.message.isprintable()
    assert caught.value.hint


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=30), st.text("0123456789.+-dwmoyhs ", max_size=14)))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Only WhenError escapes, and what is read can be written and read again."""
    try:
        every = parse_every(text)
    except WhenError:
        return
    assert parse_every(str(every)) == every


def test_month_ends_do_not_drift() -> None:
    """A grid of months is clipped to each month's end, and goes back to the day of the anchor."""
    rule = GridRule(parse_every("1mo"), ms("2026-01-31T09:00+01:00"), MADRID)
    assert told(first(rule, 5), MADRID) == [
        "2026-01-31T09:00+01:00",
        "2026-02-28T09:00+01:00",
        "2026-03-31T09:00+02:00",
        "2026-04-30T09:00+02:00",
        "2026-05-31T09:00+02:00",
    ]
    leap = GridRule(parse_every("1y"), ms("2028-02-29T09:00+01:00"), MADRID)
    assert [text[:10] for text in told(first(leap, 5), MADRID)] == [
        "2028-02-29",
        "2029-02-28",
        "2030-02-28",
        "2031-02-28",
        "2032-02-29",
    ]


def test_days_keep_the_wall_clock_and_hours_do_not() -> None:
    """Over a change of the clock 7d stays at 09:00, 168h moves; a gap moves one instant only."""
    anchor = ms("2026-03-25T09:00+01:00")
    assert told(first(GridRule(parse_every("7d"), anchor, MADRID), 2), MADRID)[1].endswith(
        "04-01T09:00+02:00"
    )
    assert told(first(GridRule(parse_every("168h"), anchor, MADRID), 2), MADRID)[1].endswith(
        "04-01T10:00+02:00"
    )
    daily = GridRule(parse_every("1d"), ms("2026-03-28T02:30+01:00"), MADRID)
    assert told(first(daily, 3), MADRID) == [
        "2026-03-28T02:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]
    autumn = GridRule(parse_every("1d"), ms("2026-10-24T02:30+02:00"), MADRID)
    assert told(first(autumn, 3), MADRID)[1:] == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]
    apia = GridRule(parse_every("1d"), ms("2011-12-29T10:00-10:00"), ZoneInfo("Pacific/Apia"))
    assert told(first(apia, 2), ZoneInfo("Pacific/Apia"))[1] == "2011-12-31T10:00+14:00"
    assert apia.count(apia.anchor_ms - 1, ms("2012-01-02T00:00+14:00")) == 3


def test_the_anchor_is_always_the_first_instant() -> None:
    """Also when it is the second of two equal wall times, or asked for from long before."""
    second = ms("2026-10-25T02:30+01:00")
    rule = GridRule(parse_every("1d"), second, MADRID)
    assert first(rule, 1, after=0) == [second]
    assert told(first(rule, 2), MADRID)[1] == "2026-10-26T02:30+01:00"
    assert rule.newest(0, second) == [second]
    assert rule.newest(0, second - 1) == []
    assert rule.count(0, second) == 1
    assert rule.count(0, second - 1) == 0


def test_a_grid_of_elapsed_time_is_plain_arithmetic() -> None:
    """No zone is needed, and ten years of every second cost nothing."""
    rule = GridRule(parse_every("1s"), 500, None)
    assert rule.after(-5) == 500
    assert rule.after(500) == 1_500
    assert rule.after(1_499) == 1_500
    assert rule.newest(0, 10_000, 2) == [8_500, 9_500]
    assert rule.newest(9_000, 10_000, 5) == [9_500]
    assert rule.count(500, 9_500) == 9
    assert rule.count(0, 10**13, 10**12) == 10**10
    assert rule.count(0, 10**13) == 1_000


def test_days_need_a_zone() -> None:
    """Without one nobody knows when a day begins."""
    with pytest.raises(WhenError, match="every 7d needs a time zone"):
        GridRule(parse_every("7d"), 0, None)
    with pytest.raises(WhenError, match="outside the calendar"):
        GridRule(parse_every("7s"), 10**16, None)


def test_schedules_without_a_start_begin_in_1970() -> None:
    """Their anchor is midnight of that day in the zone, or when its clocks first show it."""
    assert epoch_anchor_ms(ZoneInfo("UTC")) == 0
    assert epoch_anchor_ms(MADRID) == -3_600_000
    assert epoch_anchor_ms(ZoneInfo("America/New_York")) == 5 * 3_600_000
    daily = GridRule(parse_every("1d"), epoch_anchor_ms(MADRID), MADRID)
    following = daily.after(ms("2026-07-04T12:00+02:00"))
    assert following == ms("2026-07-05T00:00+02:00")


@pytest.mark.parametrize("name", ZONES)
def test_a_grid_is_the_same_from_everywhere(name: str) -> None:
    """From any base: later, the same as going on from the anchor, and counted and found back."""
    dice = random.Random(name)
    zone = ZoneInfo(name)
    moments = changes(zone) or [datetime(2026, 1, 1, tzinfo=UTC)]
    for _ in range(12):
        every = dice.choice(
            ("1d", "3d", "1w", "1mo", "5mo", "1y", "1mo15d", "7h", "100m", "86399s")
        )
        moment = int(dice.choice(moments).timestamp()) * 1_000
        anchor = moment - dice.randrange(200) * 86_400_000 + dice.randrange(-90, 90) * 60_000
        rule = GridRule(parse_every(every), anchor, zone)
        row = first(rule, 60)
        assert row[0] == anchor
        assert all(a < b for a, b in pairwise(row))
        for at in (0, 1, 20, 59):
            assert rule.after(row[at] - 1) == row[at]
            assert rule.newest(0, row[at], 3) == row[max(0, at - 2) : at + 1]
            assert rule.newest(0, row[at] - 1) == row[:at][-1:]
            assert rule.count(row[at] - 1, row[59]) == 60 - at
            assert rule.count(row[at], row[59] - 1) == max(0, 58 - at)
        assert rule.count(0, row[59], 10) == 10
        if rule.every.calendar:
            _check_walls(rule, row, zone)


def _check_walls(rule: GridRule, row: list[int], zone: ZoneInfo) -> None:
    """The wall-clock time is that of the anchor, but where a gap has moved it."""
    start = datetime.fromtimestamp(row[0] / 1_000, zone)
    for instant in row:
        local = datetime.fromtimestamp(instant / 1_000, zone)
        if (local.hour, local.minute) != (start.hour, start.minute):
            before = datetime.fromtimestamp(instant / 1_000 - 1, zone)
            assert before.utcoffset() != local.utcoffset(), (rule, local)


def test_a_long_past_costs_nothing() -> None:
    """Ten years of any interval are counted, and the newest found, within 20 ms."""
    low, high = ms("2016-01-01T00:00Z"), ms("2026-01-01T00:00Z")
    for text in ("1ms", "1s", "1h", "1d", "1w", "1mo", "1y"):
        best = 1.0
        for _ in range(3):
            rule = GridRule(parse_every(text), ms("2000-01-31T02:30Z"), MADRID)
            before = time.process_time()
            counted, newest = rule.count(low, high), rule.newest(low, high)
            best = min(best, time.process_time() - before)
        assert best < 0.02, text
        assert 10 <= counted <= 1_000
        assert low < newest[0] <= high


def test_a_few_of_an_endless_grid_are_counted_at_once() -> None:
    """Clocks are not read for centuries to find that there are three more instants."""
    for text in ("1d", "1mo", "1y"):
        best = 1.0
        for _ in range(3):
            rule = GridRule(parse_every(text), 0, ZoneInfo.no_cache("Europe/Madrid"))
            before = time.process_time()
            counted = rule.count(ms("2026-01-01T00:00Z"), ms("2200-01-01T00:00Z"), 3)
            best = min(best, time.process_time() - before)
            assert counted == 3
        assert best < 0.03, text
