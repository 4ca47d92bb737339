"""What a schedule will do, and where days begin and end: pure functions."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduld.calendar.bounds import as_day, bound_ms, day_ms, range_text
from scheduld.calendar.checking import faults
from scheduld.calendar.preview import in_words, upcoming
from scheduld.errors import WhenError
from scheduld.schedule import Schedule

MADRID = ZoneInfo("Europe/Madrid")
HOUR = 3_600_000


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _schedule(**values: Any) -> Schedule:
    rule = {} if "every" in values else {"cron": "30 2 * * *"}
    return Schedule(name="x", type="y", **{"timezone": "Europe/Madrid", **rule, **values})


@pytest.mark.parametrize(
    ("day", "zone", "begins", "hours"),
    [
        ("2026-01-15", "Europe/Madrid", "2026-01-14T23:00Z", 24),
        ("2026-03-29", "Europe/Madrid", "2026-03-28T23:00Z", 23),
        ("2026-10-25", "Europe/Madrid", "2026-10-24T22:00Z", 25),
        # Midnight does not exist, or happens twice.
        ("2026-04-24", "Africa/Cairo", "2026-04-23T22:00Z", 23),
        ("2026-04-04", "America/Santiago", "2026-04-04T03:00Z", 25),
        ("2026-10-04", "Australia/Lord_Howe", "2026-10-03T13:30Z", 23.5),
    ],
)
def test_days(day: str, zone: str, begins: str, hours: float) -> None:
    """A day is from its first instant to the last ms before the next, however long."""
    first, last = day_ms(date.fromisoformat(day), zone)
    assert first == _ms(begins)
    assert last - first + 1 == hours * HOUR
    assert bound_ms(day, zone) == first
    assert bound_ms(date.fromisoformat(day), zone, is_end=True) == last


@pytest.mark.parametrize(
    "value", ["2026-02-30", "x", "2026-12-24 25:00", 5, None, "1969-12-31", "2201-01-01", True]
)
def test_no_bounds(value: Any) -> None:
    """What is no time and no date is one error, whatever it is."""
    with pytest.raises(WhenError):
        bound_ms(value, "UTC")


def test_a_date_needs_a_zone() -> None:
    """A day is one of a place."""
    with pytest.raises(WhenError, match="no time zone"):
        bound_ms("2026-12-24", None)
    assert as_day("2026-12-24 09:00") is None
    assert as_day(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        ("2026-12-24T00:00+01:00", "2026-12-24T23:59:59.999+01:00", "on 2026-12-24"),
        (
            "2026-03-29T00:00+01:00",
            "2026-03-30T23:59:59.999+02:00",
            "from 2026-03-29 to 2026-03-30",
        ),
        ("2026-12-24T09:00+01:00", "2026-12-24T09:00+01:00", "at 2026-12-24T09:00:00+01:00"),
        (
            "2026-12-24T00:00+01:00",
            "2026-12-24T09:00+01:00",
            "from 2026-12-24T00:00:00+01:00 to 2026-12-24T09:00:00+01:00",
        ),
    ],
)
def test_ranges_in_words(first: str, last: str, text: str) -> None:
    """Whole days are told as days."""
    assert range_text(_ms(first), _ms(last), MADRID) == text


def test_upcoming_with_skips_and_a_limit() -> None:
    """Skipped ticks are told and do not count towards `max_runs`."""
    schedule = _schedule(max_runs=3)
    skips = [day_ms(date(2026, 3, 29), MADRID)]
    ticks = list(upcoming(schedule, _ms("2026-03-28T12:00Z"), skips=skips, runs=1))
    assert [(tick.local, tick.is_skipped) for tick in ticks] == [
        ("2026-03-29T03:00:00+02:00", True),
        ("2026-03-30T02:30:00+02:00", False),
        ("2026-03-31T02:30:00+02:00", False),
    ]
    assert ticks[0].note.startswith("skipped: somebody asked for it; 02:30 does not exist")


def test_upcoming_tells_what_a_change_takes_away() -> None:
    """Where nothing fires because of a clock change, an entry says so."""
    schedule = _schedule(dst_gap="skip")
    first, second = islice(upcoming(schedule, _ms("2026-03-28T12:00Z")), 2)
    assert (first.ms, first.at, first.local) == (None, None, None)
    assert first.to_dict() == {
        "utc": None,
        "local": None,
        "note": "2026-03-29 02:30 does not exist, skipped",
    }
    assert second.at == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


def test_upcoming_within_bounds() -> None:
    """Nothing before the start, and nothing after the end, both included."""
    begin, end = _ms("2026-05-01T02:30+02:00"), _ms("2026-05-03T02:30+02:00")
    ticks = list(upcoming(_schedule(starts_at_ms=begin, ends_at_ms=end), 0))
    days = timedelta(days=1) // timedelta(milliseconds=1)
    assert [tick.ms for tick in ticks] == [begin, begin + days, end]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "fires at 02:30 (Europe/Madrid)"),
        (
            {"every": "15m"},
            "fires every 15m, counted from midnight of 1970-01-01 (Europe/Madrid)",
        ),
        (
            {"every": "1mo", "starts_at_ms": _ms("2026-01-31T09:00+01:00")},
            "fires every 1mo, counted from 2026-01-31T09:00:00+01:00 (Europe/Madrid)",
        ),
    ],
)
def test_rules_in_words(values: dict[str, Any], words: str) -> None:
    """Each kind of rule is told in one line, with its zone."""
    assert in_words(_schedule(**values)) == words


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"cron": None}, "cron"),
        ({"cron": "@daily", "every": "1h"}, "every"),
        ({"cron": "x"}, "cron"),
        ({"every": "x"}, "every"),
        ({"cron": "0 0 12 * * *", "cron_dialect": "extended", "jitter_ms": 86_400_000}, None),
        ({"cron": "*/10 * * * * *", "cron_dialect": "extended", "jitter_ms": 10_000}, "jitter"),
        ({"cron": "0 9,17 * * *", "jitter_ms": 8 * HOUR}, "jitter"),
        ({"cron": "0 9,17 * * *", "jitter_ms": 8 * HOUR - 1}, None),
        ({"every": "1mo", "jitter_ms": 24 * HOUR}, None),
        ({"catch_up": "all", "overlap": "cancel"}, None),
        ({"catch_up": "all"}, "catch_up"),
        ({"ends_at_ms": 0, "starts_at_ms": 1}, "ends_at"),
        ({"cron": "0 0 29 2 *", "starts_at_ms": _ms("2196-03-01T00:00Z")}, None),
        (
            {"every": "1y", "starts_at_ms": 0, "ends_at_ms": 0},
            None,
        ),
    ],
)
def test_contradictions(values: dict[str, Any], key: str | None) -> None:
    """What contradicts itself is found, at its key; and nothing else is."""
    found = [fault.keys[0] for fault in faults(_schedule(**values))]
    assert found == ([] if key is None else [key])
