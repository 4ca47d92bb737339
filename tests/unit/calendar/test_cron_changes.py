"""Cron where clocks are set: against a look at every minute, around the changes of 20 zones."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduld import CronError
from scheduld.calendar.cron import CronRule
from scheduld.calendar.expression import parse
from tests.support.cron_checks import check, check_around, fired, ms
from tests.support.cron_oracle import ZONES, Window, changes, expression


@pytest.mark.parametrize("name", ZONES)
def test_cron_fires_as_debian_does_around_each_change(name: str) -> None:
    """Any expression, both kinds of job and all options: what each minute says, no more or less."""
    dice = random.Random(name)
    zone = ZoneInfo(name)
    moments = changes(zone) or [datetime(2026, 5, 5, tzinfo=UTC)]
    for moment in dice.sample(moments, min(5, len(moments))):
        check_around(zone, moment, dice, 4)


@pytest.mark.parametrize("name", ["UTC", "Asia/Kolkata", "America/Phoenix"])
def test_without_changes_every_minute_that_matches_fires(name: str) -> None:
    """In a zone whose clocks are never set, a rule is the scan of all minutes."""
    dice = random.Random(name)
    start = datetime(2028, 2, 27, tzinfo=UTC)
    window = Window(ZoneInfo(name), start, start + timedelta(days=9))
    for _ in range(25):
        check(window, expression(dice, start + timedelta(hours=60)), "shift", "first")


@pytest.mark.parametrize("name", ZONES)
def test_going_on_is_the_same_as_starting_again(name: str) -> None:
    """From any base, seconds and all, each answer is later, a whole minute, and found again."""
    dice = random.Random(f"{name} again")
    zone = ZoneInfo(name)
    for moment in dice.sample(changes(zone) or [datetime(2026, 1, 1, tzinfo=UTC)], 1):
        for _ in range(30):
            text = expression(dice, moment)
            try:
                spec = parse(text)
            except CronError:
                continue
            base = ms(moment) + dice.randrange(-170_000_000, 170_000_000)
            rule, at, found = CronRule(spec, zone), base, []
            for _ in range(12):
                following = rule.after(at)
                assert following is not None
                assert following > at
                found.append(following)
                at = following
            again = [CronRule(spec, zone).after(before) for before in [base, *found[:-1]]]
            assert again == found
            assert not any(instant % 60_000 for instant in found)
            assert rule.newest(base, found[-1], 12) == found
            assert rule.count(base, found[-1]) == 12
            assert rule.count(base, found[-1], 7) == 7


def test_a_fixed_job_runs_once_for_each_date() -> None:
    """Whatever the clocks do, 02:30 is once a day, also on the days that lack or repeat it."""
    for name in ("Europe/Madrid", "America/St_Johns", "Antarctica/Troll", "Africa/Casablanca"):
        zone = ZoneInfo(name)
        rule = CronRule(parse("30 2 * * *"), zone)
        start, end = datetime(2024, 1, 1, tzinfo=zone), datetime(2027, 1, 1, tzinfo=zone)
        dates = [tick.astimezone(zone).date() for tick in fired(rule, start, end)]
        assert len(dates) == len(set(dates)) == 366 + 365 + 365
        assert rule.count(ms(start) - 1, ms(end) - 1, 10_000) == len(dates)
