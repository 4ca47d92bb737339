"""What rules have in common: bounds, ladders, long pasts, and the guard against standing still."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduld import CronError, WhenError
from scheduld.calendar.cron import CronRule
from scheduld.calendar.every import parse_every
from scheduld.calendar.expression import parse
from scheduld.calendar.grid import GridRule
from scheduld.calendar.ladder import LadderRule, parse_offsets
from scheduld.calendar.rule import Bounded, Rule
from scheduld.calendar.walls import Walls
from scheduld.errors import RuleBroken

MADRID = ZoneInfo("Europe/Madrid")
DAY = 86_400_000


def ms(text: str) -> int:
    """The instant of an ISO text."""
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def test_bounds_are_inclusive() -> None:
    """The first and the last instant of a rule count when the bounds are just there."""
    inner = GridRule(parse_every("10s"), 0, None)
    rule: Rule = Bounded(inner, 20_000, 50_000)
    assert rule.after(-1) == 20_000
    assert rule.after(20_000) == 30_000
    assert rule.after(40_000) == 50_000
    assert rule.after(50_000) is None
    assert rule.newest(0, 10**9, 2) == [40_000, 50_000]
    assert rule.newest(0, 30_000, 9) == [20_000, 30_000]
    assert rule.count(0, 10**9) == 4
    assert rule.count(20_000, 10**9) == 3
    assert Bounded(inner, 20_001, None).after(0) == 30_000
    assert Bounded(inner, None, 49_999).count(0, 10**9) == 4
    assert Bounded(inner, 60_000, 50_000).after(0) is None
    assert Bounded(inner, 60_000, 50_000).count(0, 10**9) == 0
    assert Bounded(inner, 60_000, 50_000).newest(0, 10**9) == []


def test_a_rule_that_stands_still_is_broken() -> None:
    """An engine that answers the past is told of, not asked again."""

    class Backwards(Walls):
        """An engine with a fault that real ones have had."""

        def next(self, wall: int) -> int | None:
            """The match of three days before."""
            found = super().next(wall)
            return None if found is None else found - 3 * DAY

    rule = CronRule(parse("0 0 * * *"), MADRID)
    rule.walls = Backwards(rule.spec)
    with pytest.raises(RuleBroken, match=r"0 0 \* \* \* in Europe/Madrid") as caught:
        rule.after(ms("2026-01-01T12:00Z"))
    assert isinstance(caught.value, CronError)
    assert caught.value.kind == "rule_broken"


@pytest.mark.parametrize(
    "expr",
    ["* * * * *", "0 7 * * 1-5", "30 2 29 2 *", "0 0 29 2 */7", "*/15 2 13 * 5", "0 0 1 1 *"],
)
@pytest.mark.parametrize("zone", ["Europe/Madrid", "Africa/Casablanca", "UTC"])
def test_ten_years_are_counted_at_once(expr: str, zone: str) -> None:
    """The newest instants and the count of a long past take below 20 ms, the next one too."""
    low, high = ms("2016-01-01T00:00Z"), ms("2026-01-01T00:00Z")
    rule = CronRule(parse(expr), ZoneInfo(zone))
    rule.after(high)  # zones are read once
    rule.count(low, high)
    best = 1.0
    for _ in range(3):
        before = time.process_time()
        counted, newest = rule.count(low, high, 10**9), rule.newest(low, high, 2)
        best = min(best, time.process_time() - before)
    assert best < 0.02
    assert newest == sorted(newest)
    assert len(newest) == min(counted, 2)
    assert rule.count(low, high) == min(counted, 1_000)
    assert rule.count((newest or [high])[0] - 1, high) == len(newest)
    if counted < 300:  # few enough to go through them one by one
        found, at = [], low
        while (following := rule.after(at)) is not None and following <= high:
            found.append(following)
            at = following
        assert (len(found), found[-2:]) == (counted, newest)


def test_every_second_is_counted_too() -> None:
    """Ten years of seconds have 315,619,200; the last is found without the others."""
    rule = CronRule(parse("* * * * * *", "extended"), MADRID)
    low, high = ms("2016-01-01T00:00Z"), ms("2026-01-01T00:00Z")
    assert rule.count(low, high, 10**9) == 315_619_200 == (high - low) // 1_000
    assert rule.newest(low, high, 3) == [high - 2_000, high - 1_000, high]
    assert rule.after(high) == high + 1_000
    assert rule.newest(low, high, 0) == rule.newest(high, low) == []
    assert rule.count(high, low) == 0


def test_a_ladder_in_days_follows_the_wall_clock() -> None:
    """A week before 09:00 is at 09:00, also over a change of the clock; hours are elapsed."""
    offsets = parse_offsets(["0", "-1d", "+2h", "-7d", "+36h", "-1mo"])
    assert offsets.texts == ["-1mo", "-7d", "-1d", "0", "+2h", "+36h"]
    rule = LadderRule(offsets, ms("2026-03-31T09:00+02:00"), MADRID)
    assert list(rule.instants) == [
        ms("2026-02-28T09:00+01:00"),
        ms("2026-03-24T09:00+01:00"),
        ms("2026-03-30T09:00+02:00"),
        ms("2026-03-31T09:00+02:00"),
        ms("2026-03-31T11:00+02:00"),
        ms("2026-04-01T21:00+02:00"),
    ]
    assert rule.after(0) == rule.instants[0]
    assert rule.after(rule.instants[2]) == rule.instants[3]
    assert rule.after(rule.instants[-1]) is None
    assert rule.newest(0, rule.instants[3], 2) == list(rule.instants[2:4])
    assert rule.newest(0, rule.instants[3], 0) == rule.newest(0, rule.instants[3], -1) == []
    assert rule.count(rule.instants[0], rule.instants[3]) == 3
    assert rule.count(0, 10**14, 4) == 4


def test_a_ladder_meets_changes_of_the_clock() -> None:
    """What falls into a gap runs at its end, what happens twice the first time, equal ones once."""
    spring = LadderRule(parse_offsets(["-1d", "0"]), ms("2026-03-30T02:30+02:00"), MADRID)
    assert spring.instants[0] == ms("2026-03-29T03:00+02:00")
    autumn = LadderRule(parse_offsets(["-1d", "0"]), ms("2026-10-26T02:30+01:00"), MADRID)
    assert autumn.instants[0] == ms("2026-10-25T02:30+02:00")
    same = LadderRule(parse_offsets(["-1d", "-24h", "0"]), ms("2026-06-01T09:00Z"), MADRID)
    assert len(same.instants) == 2
    assert LadderRule(parse_offsets(["-1h", "0"]), 10_000_000, None).after(0) == 6_400_000
    apia = ZoneInfo("Pacific/Apia")
    lost = LadderRule(parse_offsets(["-1d", "0"]), ms("2011-12-31T10:00+14:00"), apia)
    assert lost.instants == (lost.anchor_ms,)
    with pytest.raises(WhenError, match="needs a time zone"):
        LadderRule(parse_offsets(["-1d"]), 0, None)
    with pytest.raises(WhenError, match="outside the calendar"):
        LadderRule(parse_offsets(["0"]), -(10**16), None)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("-7d", "no list"),
        (None, "no list"),
        ({"-7d": 1}, "no list"),
        ([], "empty"),
        (["0"] * 101, "101 entries"),
        (["-7d", 3], "int"),
        (["-7d", True], "bool"),
        (["-7d", False], "bool"),
        (["7d"], "no sign"),
        ([""], "no sign"),
        (["- 7d"], "not an interval"),
        (["--7d"], "sign"),
        (["-7d", "-1w"], "'-7d' twice"),
        (["0", "0d"], "'0' twice"),
        (["-1d2h"], "mixes"),
        (["-101y"], "longer"),
        (["-1.5d"], "part of a day"),
    ],
)
def test_no_ladders(value: Any, fault: str) -> None:
    """What is no list of signed intervals, or says one twice, is refused in one line."""
    with pytest.raises(WhenError, match=fault) as caught:
        parse_offsets(value)
    assert caught.value.message.isprintable()
    assert caught.value.hint


def test_first_ticks_of_many_schedules_are_found_fast() -> None:
    """2,000 expressions are read and asked for their first tick in less than a second."""
    dice = random.Random(7)
    texts = [f"{n % 60} {n // 60 % 24} * * {dice.randrange(7)}" for n in range(2_000)]
    base = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp()) * 1_000
    before = time.process_time()
    found = [CronRule(parse(text), MADRID).after(base) for text in texts]
    assert time.process_time() - before < 1.5  # 0.5 s on a quiet machine
    assert all(instant is not None and base < instant <= base + 8 * DAY for instant in found)
