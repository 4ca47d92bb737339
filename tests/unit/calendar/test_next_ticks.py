"""`next_ticks`: known faults of cron engines, as a table, and what callers may give it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduld import CronError, WhenError, next_ticks

C, P, MADRID = "America/Chicago", "Europe/Paris", "Europe/Madrid"


def ticks(expr: str, zone: Any, after: str, count: int, **options: Any) -> list[str]:
    """The next ticks as ISO texts, with the offset."""
    base = datetime.fromisoformat(after)
    found = islice(next_ticks(expr, timezone=zone, after=base, **options), count)
    return [tick.isoformat(timespec="minutes") for tick in found]


@pytest.mark.parametrize(
    ("expr", "zone", "after", "expected"),
    [
        # A time that comes twice runs the first time, also for a base between the two.
        (
            "25 1 * * *",
            C,
            "2025-11-02T00:00-05:00",
            "2025-11-02T01:25-05:00 2025-11-03T01:25-06:00",
        ),
        ("0,20 2 * * *", P, "2025-10-26T02:05+01:00", "2025-10-27T02:00+01:00"),
        # A wildcard job is not moved out of the gap, a fixed one is.
        ("*/30 2 * * *", P, "2025-03-30T01:00+01:00", "2025-03-31T02:00+02:00"),
        ("30 */2 * * *", C, "2025-03-09T01:00-06:00", "2025-03-09T04:30-05:00"),
        ("30 0-23/2 * * *", C, "2025-03-09T01:00-06:00", "2025-03-09T03:00-05:00"),
        # Two skipped times that meet at the end of the gap are one run.
        (
            "10,40 2 * * *",
            P,
            "2025-03-30T01:00+01:00",
            "2025-03-30T03:00+02:00 2025-03-31T02:10+02:00",
        ),
        (
            "0 2,3 * * *",
            P,
            "2025-03-30T01:00+01:00",
            "2025-03-30T03:00+02:00 2025-03-31T02:00+02:00",
        ),
        # The day fields: AND if one begins with *, else OR.
        (
            "0 0 */3 * 2",
            "UTC",
            "2026-01-01T00:00Z",
            "2026-01-13T00:00+00:00 2026-02-10T00:00+00:00",
        ),
        ("0 0 13 * 5", "UTC", "2026-01-09T00:00Z", "2026-01-13T00:00+00:00 2026-01-16T00:00+00:00"),
        ("0 0 1-31 * 4", "UTC", "2026-01-01T00:00Z", "2026-01-02T00:00+00:00"),
        ("0 0 1 * 0-7", "UTC", "2026-01-01T00:00Z", "2026-01-02T00:00+00:00"),
        ("0 0 31 6 2", "UTC", "2026-01-01T00:00Z", "2026-06-02T00:00+00:00 2026-06-09T00:00+00:00"),
        # A range of one value is that value.
        (
            "0 9-9 * * *",
            "UTC",
            "2026-01-01T00:00Z",
            "2026-01-01T09:00+00:00 2026-01-02T09:00+00:00",
        ),
        (
            "0 0 * * SUN-SUN",
            "UTC",
            "2026-01-01T00:00Z",
            "2026-01-04T00:00+00:00 2026-01-11T00:00+00:00",
        ),
        # Aliases, in any case and with blanks around.
        (" @DAILY\t", "UTC", "2026-01-01T12:24Z", "2026-01-02T00:00+00:00"),
        ("@weekly", "UTC", "2026-01-01T00:00Z", "2026-01-04T00:00+00:00"),
        # The base may have another offset than the zone, seconds, and any year.
        ("0 9 * * *", C, "2026-03-07T10:00-06:00", "2026-03-08T09:00-05:00"),
        ("0 9 * * *", C, "2026-01-01T14:59:59.999999+00:00", "2026-01-01T09:00-06:00"),
        ("0 9 * * *", C, "2026-01-01T15:00:00.000001+00:00", "2026-01-02T09:00-06:00"),
        ("* * * * *", "UTC", "2026-01-01T00:00:00.0001Z", "2026-01-01T00:01+00:00"),
        (
            "0 0 29 2 */7",
            "UTC",
            "2026-01-01T00:00Z",
            "2032-02-29T00:00+00:00 2060-02-29T00:00+00:00",
        ),
        # Odd changes: half an hour, at midnight, two hours, a day.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00Z", "2026-10-04T02:30+11:00"),
        ("*/15 5 * * *", "Australia/Lord_Howe", "2024-10-05T14:30Z", "2024-10-06T05:00+11:00"),
        (
            "@daily",
            "America/Santiago",
            "2026-09-05T12:00Z",
            "2026-09-06T01:00-03:00 2026-09-07T00:00-03:00",
        ),
        (
            "@daily",
            "America/Havana",
            "2026-10-31T12:00Z",
            "2026-11-01T00:00-04:00 2026-11-02T00:00-05:00",
        ),
        ("30 1 * * *", "Antarctica/Troll", "2026-03-28T12:00Z", "2026-03-29T03:00+02:00"),
        ("0 10 * * *", "Pacific/Apia", "2011-12-30T00:00-10:00", "2011-12-31T10:00+14:00"),
        # Three hours are the date line's, a minute less would be moved.
        ("30 3 * * *", "Antarctica/Casey", "2009-10-17T12:00Z", "2009-10-19T03:30+11:00"),
        ("35 23 * * *", "America/Asuncion", "2020-03-21T23:05-04:00", "2020-03-22T23:35-04:00"),
        ("0 7 * * *", "Africa/Casablanca", "2026-02-14T12:00Z", "2026-02-15T07:00+00:00"),
    ],
)
def test_ticks(expr: str, zone: str, after: str, expected: str) -> None:
    """Each expression gives these ticks first, as Debian's cron would start them."""
    wanted = expected.split()
    assert ticks(expr, zone, after, len(wanted)) == wanted


def test_options_for_changes_of_the_clock() -> None:
    """Fixed jobs may skip what a gap skips, or run the second time, or both times."""
    spring, autumn = "2026-03-28T12:00+01:00", "2026-10-24T12:00+02:00"
    assert ticks("30 2 * * *", MADRID, spring, 1, dst_gap="skip") == ["2026-03-30T02:30+02:00"]
    assert ticks("30 2 * * *", MADRID, autumn, 2, dst_overlap="second") == [
        "2026-10-25T02:30+01:00",
        "2026-10-26T02:30+01:00",
    ]
    first, second = "2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00"
    both = ticks("30 2 * * *", MADRID, autumn, 3, dst_overlap="both")
    assert both == [first, second, "2026-10-26T02:30+01:00"]
    assert ticks("30 2 * * *", MADRID, first, 1, dst_overlap="second") == [second]
    # A wildcard job runs by the clock on the wall, whatever they say.
    options = {"dst_gap": "skip", "dst_overlap": "second"}
    assert ticks("*/30 2 * * *", MADRID, autumn, 4, **options) == [
        "2026-10-25T02:00+02:00",
        first,
        "2026-10-25T02:00+01:00",
        second,
    ]


def test_the_extended_dialect() -> None:
    """Seconds come first; L, 5L and 5#2 mean what they say, also together with dates."""
    base = datetime(2026, 1, 1, tzinfo=UTC)

    def days(expr: str, count: int) -> list[str]:
        found = next_ticks(expr, timezone="UTC", after=base, dialect="extended")
        return [tick.strftime("%d.%m %H:%M:%S") for tick in islice(found, count)]

    assert days("*/25 * * * * *", 3) == ["01.01 00:00:25", "01.01 00:00:50", "01.01 00:01:00"]
    assert days("5 30 9 L * *", 3) == ["31.01 09:30:05", "28.02 09:30:05", "31.03 09:30:05"]
    assert [text[:5] for text in days("0 0 9 * * 5L", 7)] == (
        ["30.01", "27.02", "27.03", "24.04", "29.05", "26.06", "31.07"]
    )
    assert days("0 0 0 10 * fri#2", 4) == [
        "09.01 00:00:00",
        "10.01 00:00:00",
        "10.02 00:00:00",
        "13.02 00:00:00",
    ]
    assert days("0 0 0 */2 * 5#2", 2) == ["09.01 00:00:00", "13.02 00:00:00"]
    assert days("0 0 0 L * 1", 3) == ["05.01 00:00:00", "12.01 00:00:00", "19.01 00:00:00"]
    assert days("0 0 0 * * 0#5,7L", 2) == ["25.01 00:00:00", "22.02 00:00:00"]
    assert days("0 0 0 29 2 *", 1) == ["29.02 00:00:00"]


def test_zones_may_be_names_or_tzinfos() -> None:
    """The ticks are datetimes of that zone, each later than the last in UTC."""
    base = datetime(2026, 10, 24, 12, tzinfo=UTC)
    zones: list[str | tzinfo] = [
        MADRID,
        ZoneInfo(MADRID),
        UTC,
        timezone(timedelta(hours=5, minutes=30)),
    ]
    for zone in zones:
        found = list(islice(next_ticks("*/20 * * * *", timezone=zone, after=base), 100))
        moments = [tick.astimezone(UTC) for tick in found]
        assert all(first < second for first, second in pairwise([base, *moments]))
        assert all(tick.minute in {0, 20, 40} for tick in found)
        assert {tick.tzinfo for tick in found} == {
            ZoneInfo(zone) if isinstance(zone, str) else zone
        }


def test_bad_input_is_refused_at_the_call() -> None:
    """Nothing waits for the first tick to tell that it will not come."""
    good: dict[str, Any] = {"timezone": "UTC", "after": datetime(2026, 1, 1, tzinfo=UTC)}
    bad: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ("61 * * * *", {}, CronError, "out of range"),
        ("0 0 30 2 *", {}, CronError, "never fires"),
        (None, {}, CronError, "not NoneType"),
        ("* * * * *", {"dialect": "quartz"}, CronError, "unknown cron dialect"),
        ("* * * * *", {"dst_gap": "later"}, CronError, "unknown dst_gap"),
        ("* * * * *", {"dst_overlap": "third"}, CronError, "unknown dst_overlap"),
        ("* * * * *", {"timezone": "Europe/Madird"}, WhenError, "unknown time zone"),
        ("* * * * *", {"timezone": None}, WhenError, "needed"),
        ("* * * * *", {"timezone": 3}, WhenError, "not int"),
        ("* * * * *", {"after": datetime(2026, 1, 1)}, WhenError, "no time zone"),  # noqa: DTZ001
        ("* * * * *", {"after": "2026-01-01T00:00Z"}, WhenError, "not str"),
        ("* * * * *", {"after": date(2026, 1, 1)}, WhenError, "not date"),
    ]
    for expr, options, error, words in bad:
        with pytest.raises(error, match=words) as caught:
            next_ticks(expr, **{**good, **options})
        assert str(caught.value).isprintable()


def test_the_ends_of_the_calendar_are_no_crash() -> None:
    """Before the first year that counts ticks begin late, after the last there is none."""
    early = datetime.min.replace(tzinfo=UTC)
    assert next(next_ticks("@yearly", timezone=MADRID, after=early)).year < 10
    late = datetime.max.replace(tzinfo=UTC)
    assert list(next_ticks("@yearly", timezone=MADRID, after=late)) == []
    near = datetime(9990, 1, 1, tzinfo=UTC)
    assert len(list(next_ticks("0 0 29 2 1", timezone="UTC", after=near, dialect="vixie"))) < 60
