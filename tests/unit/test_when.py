"""One-off times: the accepted forms, clock changes, and the limits."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from scheduld.errors import WhenError
from scheduld.when import describe, instant_ms, parse_when

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
MADRID = "Europe/Madrid"
CHICAGO = "America/Chicago"


def utc(text: str) -> datetime:
    """Return the instant of an ISO text, as UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def refusal(text: Any, **options: Any) -> WhenError:
    """Return the error that refuses `text`; fails if it is accepted."""
    with pytest.raises(WhenError) as caught:
        parse_when(text, **{"timezone": MADRID, "now": NOW, **options})
    assert str(caught.value).isprintable()
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-24T09:00Z", "2026-12-24T09:00+00:00"),
        ("2026-12-24 09:00:30Z", "2026-12-24T09:00:30+00:00"),
        ("2026-12-24 09:00 UTC", "2026-12-24T09:00+00:00"),
        ("2026-12-24T09:00UTC", "2026-12-24T09:00+00:00"),
        ("2026-12-24T09:00-05:00", "2026-12-24T14:00+00:00"),
        ("2026-12-24T09:00+05:30", "2026-12-24T03:30+00:00"),
        ("2026-12-24T09:00:00.5+01:00", "2026-12-24T08:00:00.500+00:00"),
        ("2028-02-29T00:00Z", "2028-02-29T00:00+00:00"),
        ("2200-12-31T23:59:59.999Z", "2200-12-31T23:59:59.999+00:00"),
        ("2038-01-19T03:14:08Z", "2038-01-19T03:14:08+00:00"),
        ("@1798099200", "2026-12-24T08:00+00:00"),
        ("@07258118399", "2199-12-31T23:59:59+00:00"),
        ("+0s", "2026-11-30T10:00+00:00"),
        ("+2h15m", "2026-11-30T12:15+00:00"),
        ("+15m2h", "2026-11-30T12:15+00:00"),
        ("+1w1d1h1m1s", "2026-12-08T11:01:01+00:00"),
        (" 2026-12-24T09:00Z\t", "2026-12-24T09:00+00:00"),
    ],
)
@pytest.mark.parametrize("zone", [None, MADRID, "Asia/Kolkata"])
def test_an_instant_is_the_same_in_every_zone(text: str, expected: str, zone: str | None) -> None:
    """Offsets, elapsed times and epoch seconds do not depend on the zone setting."""
    assert parse_when(text, timezone=zone, now=NOW) == utc(expected)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-12-24 09:00", MADRID, "2026-12-24T08:00+00:00"),
        ("2027-07-01T09:00", MADRID, "2027-07-01T07:00+00:00"),
        ("2027-07-01T09:00", CHICAGO, "2027-07-01T14:00+00:00"),
        ("2026-12-24 09:00:01.25", "UTC", "2026-12-24T09:00:01.250+00:00"),
        ("today 12:30", MADRID, "2026-11-30T11:30+00:00"),
        ("tomorrow 00:00", MADRID, "2026-11-30T23:00+00:00"),
        ("tomorrow 23:59:59", MADRID, "2026-12-01T22:59:59+00:00"),
    ],
)
def test_wall_clock_times_take_the_offset_of_their_date(
    text: str, zone: str, expected: str
) -> None:
    """A time without offset is one of the zone, in winter as in summer."""
    assert parse_when(text, timezone=zone, now=NOW) == utc(expected)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Pacific/Kiritimati", "2026-12-01T12:00+14:00"),
        ("Pacific/Pago_Pago", "2026-11-30T12:00-11:00"),
    ],
)
def test_today_is_the_date_of_the_zone(zone: str, expected: str) -> None:
    """At 10:30 UTC it is already tomorrow in Kiritimati, and yesterday evening in Pago Pago."""
    now = utc("2026-11-30T10:30+00:00")
    if zone == "Pacific/Pago_Pago":
        now = utc("2026-12-01T10:30+00:00")
    assert parse_when("today 12:00", timezone=zone, now=now, allow_past=True) == utc(expected)


def test_results_are_utc() -> None:
    """Instants come back in UTC, where comparing and subtracting them is safe."""
    assert parse_when("2026-12-24 09:00", timezone=MADRID, now=NOW).tzinfo is UTC


@pytest.mark.parametrize(
    ("fraction", "micros"),
    [
        ("000001", 1_000),
        ("001", 1_000),
        ("001000", 1_000),
        ("001001", 2_000),
        ("9999", 999_900),
    ],
)
def test_parts_of_a_millisecond_are_rounded_up(fraction: str, micros: int) -> None:
    """A task never starts before the time that was written, by no fraction."""
    got = parse_when(f"2026-12-24T09:00:00.{fraction}Z", now=NOW)
    expected = utc("2026-12-24T09:00+00:00") + timedelta(microseconds=-(-micros // 1_000) * 1_000)
    assert got == expected


def test_the_last_fraction_rounds_into_the_next_second() -> None:
    """Rounding up carries, and an elapsed time is rounded up from a finer clock."""
    assert parse_when("2026-12-31T23:59:59.999999Z", now=NOW) == utc("2027-01-01T00:00+00:00")
    now = NOW + timedelta(microseconds=1)
    assert parse_when("+1s", now=now) == NOW + timedelta(seconds=1, milliseconds=1)


GAPS = [
    ("2027-03-28 02:30", MADRID, "2027-03-28T01:59:59+01:00", "2027-03-28T03:00:00+02:00"),
    ("2027-03-28 02:00", MADRID, "2027-03-28T01:59:59+01:00", "2027-03-28T03:00:00+02:00"),
    (
        "2027-03-28 02:59:59.999999",
        MADRID,
        "2027-03-28T01:59:59+01:00",
        "2027-03-28T03:00:00+02:00",
    ),
    (
        "2027-03-14 02:30",
        "America/New_York",
        "2027-03-14T01:59:59-05:00",
        "2027-03-14T03:00:00-04:00",
    ),
    (
        "2027-10-03 02:15",
        "Australia/Lord_Howe",
        "2027-10-03T01:59:59+10:30",
        "2027-10-03T02:30:00+11:00",
    ),
    (
        "2011-12-30 12:00",
        "Pacific/Apia",
        "2011-12-29T23:59:59-10:00",
        "2011-12-31T00:00:00+14:00",
    ),
]


OVERLAPS = [
    ("2027-10-31 02:30", MADRID, "2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00"),
    ("2027-10-31 02:00", MADRID, "2027-10-31T02:00:00+02:00", "2027-10-31T02:00:00+01:00"),
    (
        "2027-11-07 01:30",
        "America/New_York",
        "2027-11-07T01:30:00-04:00",
        "2027-11-07T01:30:00-05:00",
    ),
    (
        "2027-04-04 01:45",
        "Australia/Lord_Howe",
        "2027-04-04T01:45:00+11:00",
        "2027-04-04T01:45:00+10:30",
    ),
]


@pytest.mark.parametrize(("text", "zone", "before", "after"), GAPS)
def test_a_skipped_time_is_refused_with_its_neighbours(
    text: str, zone: str, before: str, after: str
) -> None:
    """A time that no clock of the zone shows is refused; the nearest ones are named."""
    error = refusal(text, timezone=zone, allow_past=True)
    assert f"does not exist in {zone}" in str(error)
    assert error.hint == f"the nearest times are {before} and {after}"


@pytest.mark.parametrize(("text", "zone", "first", "second"), OVERLAPS)
def test_a_repeated_time_is_refused_with_both_instants(
    text: str, zone: str, first: str, second: str
) -> None:
    """A time that the clocks show twice is refused; both instants are written with offsets."""
    error = refusal(text, timezone=zone)
    assert f"happens twice in {zone}" in str(error)
    assert error.hint == f"write {first} (the first) or {second}"


@pytest.mark.parametrize(("text", "zone", "one", "two"), GAPS + OVERLAPS)
def test_advised_times_are_accepted(text: str, zone: str, one: str, two: str) -> None:
    """What the advice says can be written, and means what it says."""
    for form in (one, two):
        assert parse_when(form, timezone=zone, now=NOW, allow_past=True) == utc(form)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2027-03-28 01:59:59.999", MADRID, "2027-03-28T01:59:59.999+01:00"),
        ("2027-03-28 03:00", MADRID, "2027-03-28T03:00+02:00"),
        ("2027-10-31 01:59:59", MADRID, "2027-10-31T01:59:59+02:00"),
        ("2027-10-31 03:00", MADRID, "2027-10-31T03:00+01:00"),
        ("2027-10-03 02:30", "Australia/Lord_Howe", "2027-10-03T02:30+11:00"),
        ("2027-04-04 02:00", "Australia/Lord_Howe", "2027-04-04T02:00+10:30"),
    ],
)
def test_times_at_the_edges_of_a_change_are_accepted(text: str, zone: str, expected: str) -> None:
    """The last second before and the first after a change have one reading each."""
    assert parse_when(text, timezone=zone, now=NOW) == utc(expected)


def test_named_days_obey_clock_changes() -> None:
    """`tomorrow` on the eve of a change is refused in the gap and in the repeated hour."""
    eve = utc("2027-03-27T12:00+01:00")
    assert "03:00:00+02:00" in str(refusal("tomorrow 02:30", now=eve).hint)
    eve = utc("2027-10-30T12:00+02:00")
    assert "02:30:00+01:00" in str(refusal("tomorrow 02:30", now=eve).hint)
    noon = parse_when("tomorrow 12:00", timezone=MADRID, now=eve)
    assert noon - eve == timedelta(hours=25)


def test_a_day_from_now_is_24_hours() -> None:
    """Elapsed time ignores clock changes: one day over the long night ends an hour earlier."""
    eve = utc("2027-10-30T12:00+02:00")
    assert parse_when("+1d", timezone=MADRID, now=eve) == utc("2027-10-31T11:00+01:00")


@pytest.mark.parametrize("seconds", [0, 0.5, 1])
def test_a_second_of_slack_is_given(seconds: float) -> None:
    """What was now when it was typed is still accepted."""
    then = NOW - timedelta(seconds=seconds)
    assert parse_when(then.isoformat(), now=NOW) == then


def test_past_times_need_permission() -> None:
    """More than a second ago is refused by the instant, unless past times are allowed."""
    error = refusal("2026-11-30T09:59:58.999Z")
    assert "is past: 2026-11-30T09:59:58.999Z was 1s ago" in str(error)
    assert "--allow-past" in str(error.hint)
    refusal("today 10:59")
    refusal("@0")
    assert parse_when("@0", now=NOW, allow_past=True) == utc("1970-01-01T00:00+00:00")
    assert parse_when("today 10:59", timezone=MADRID, now=NOW, allow_past=True) < NOW


@pytest.mark.parametrize(
    "text",
    [
        "2201-01-01T00:00Z",
        "2200-12-31T23:59:59.9991Z",
        "2200-12-31T23:30-05:00",
        "2201-01-01 09:00",
        "9999-12-31T23:59:59.999999",
        "9999-12-31T23:59-23:59",
        "@99999999999",
        "+9" + "9" * 90 + "w",
        "1969-12-31T23:59:59Z",
        "0001-01-01T00:00",
        "0001-01-01T00:00+23:59",
    ],
)
def test_instants_outside_1970_to_2200_are_refused(text: str) -> None:
    """The limits hold for the instant, in every form, past times allowed or not."""
    assert "is not between 1970 and 2200" in str(refusal(text, allow_past=True))


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 12, 30)),  # noqa: DTZ001 - wall clock
    st.sampled_from([MADRID, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]),
)
def test_every_wall_time_is_one_instant_or_refused(wall: datetime, zone: str) -> None:
    """An accepted wall time is what the zone's clocks show at the instant, and only then."""
    wall = wall.replace(microsecond=0)
    info = ZoneInfo(zone)
    shown = {
        instant
        for fold in (0, 1)
        if (instant := wall.replace(tzinfo=info, fold=fold).astimezone(UTC))
        .astimezone(info)
        .replace(tzinfo=None)
        == wall
    }
    if len(shown) == 1:
        got = parse_when(wall.isoformat(" "), timezone=zone, now=NOW, allow_past=True)
        assert {got} == shown
    else:
        error = refusal(wall.isoformat(" "), timezone=zone, allow_past=True)
        forms = re.findall(r"[0-9T:-]{19}[+-][0-9:]{5}", str(error.hint))
        assert len(forms) == 2
        assert not shown or {utc(form) for form in forms} == shown


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"])
def host_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the test with the time zone of the host set to each of these."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_the_zone_of_the_host_changes_nothing(host_zone: str) -> None:
    """Texts, datetimes and descriptions are the same on every host."""
    expected = utc("2026-12-01T08:00+00:00")
    for text in ("2026-12-01 09:00", "tomorrow 09:00", "+22h", "@1796112000"):
        assert parse_when(text, timezone=MADRID, now=NOW) == expected
    naive = datetime(2026, 12, 1, 9)  # noqa: DTZ001 - a naive one is the point
    ms = instant_ms(naive, timezone=MADRID, now=NOW)
    assert ms == 1_796_112_000_000
    assert describe(ms, MADRID, ms) == (
        "2026-12-01T09:00:00+01:00 (Europe/Madrid), 2026-12-01T08:00:00Z, now"
    )
    assert "has no time zone" in str(refusal("2026-12-01 09:00", timezone=None))


def test_now_is_the_wall_clock_by_default() -> None:
    """Without `now`, `today` and elapsed times start from this host's clock."""
    with freeze_time("2027-03-01 23:30:00", real_asyncio=True) as clock:
        assert parse_when("+2h") == utc("2027-03-02T01:30+00:00")
        assert parse_when("today 12:00", timezone=MADRID) == utc("2027-03-02T11:00+00:00")
        clock.tick(86_400)
        assert parse_when("today 12:00", timezone=MADRID) == utc("2027-03-03T11:00+00:00")
        assert "is past" in str(refusal("2027-03-01T23:30Z", now=None))
