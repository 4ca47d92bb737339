"""Datetimes and zones of callers, and how an instant is told."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduld.errors import WhenError
from scheduld.when import describe, instant_ms, load_zone, parse_when

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


def test_aware_datetimes_are_the_instant_they_say() -> None:
    """Offset, zone and fold of a datetime count, whatever the zone setting."""
    first = datetime(2027, 10, 31, 2, 30, tzinfo=ZoneInfo(MADRID))
    assert instant_ms(first, timezone=CHICAGO, now=NOW) == 1_824_942_600_000
    assert instant_ms(first.replace(fold=1), now=NOW) == 1_824_942_600_000 + 3_600_000
    fixed = datetime(2026, 12, 24, 9, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert instant_ms(fixed, now=NOW) == 1_798_099_200_001


def test_texts_and_datetimes_give_the_same_milliseconds() -> None:
    """The API reads texts as the command line does."""
    assert instant_ms("2026-12-24 09:00", timezone=MADRID, now=NOW) == 1_798_099_200_000
    assert instant_ms("+1s", now=NOW) == int(NOW.timestamp()) * 1_000 + 1_000


@pytest.mark.parametrize("fold", [0, 1])
def test_naive_datetimes_follow_the_rules_of_texts(fold: int) -> None:
    """They need a zone, and are refused where a clock change skips or repeats them."""
    naive = datetime(2026, 12, 24, 9, fold=fold)  # noqa: DTZ001 - a naive one is the point
    assert instant_ms(naive, timezone=MADRID, now=NOW) == 1_798_099_200_000
    for value, zone, fault in [
        (naive, None, "has no time zone"),
        (naive.replace(year=2027, month=3, day=28, hour=2), MADRID, "does not exist"),
        (naive.replace(year=2027, month=10, day=31, hour=2), MADRID, "happens twice"),
        (naive.replace(year=2025), MADRID, "is past"),
        (naive.replace(year=2201), MADRID, "is not between"),
        (naive.replace(year=1), MADRID, "is not between"),
    ]:
        with pytest.raises(WhenError, match=fault):
            instant_ms(value, timezone=zone, now=NOW)


@pytest.mark.parametrize(
    "value",
    [None, 5, 1.5, True, b"+5m", date(2026, 12, 24), datetime.max.replace(tzinfo=UTC), "", "nan"],
)
def test_other_values_are_no_instant(value: Any) -> None:
    """Numbers have no unit and dates no time of day: refused with the accepted forms."""
    with pytest.raises(WhenError) as caught:
        instant_ms(value, timezone=MADRID, now=NOW)
    assert caught.value.hint


class BrokenZone(tzinfo):
    """A tzinfo that was never finished."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        """Refuse to answer."""
        raise NotImplementedError

    def dst(self, when: datetime | None) -> timedelta | None:
        """Refuse to answer."""
        raise NotImplementedError

    def tzname(self, when: datetime | None) -> str | None:
        """Refuse to answer."""
        raise NotImplementedError


def test_a_broken_tzinfo_is_refused() -> None:
    """An incomplete tzinfo of a caller gives the one error, as zone and in a datetime."""
    with pytest.raises(WhenError, match="BrokenZone is broken"):
        parse_when("+1s", timezone=BrokenZone(), now=NOW)
    with pytest.raises(WhenError, match="is broken"):
        instant_ms(datetime(2027, 1, 1, tzinfo=BrokenZone()), now=NOW)


def test_other_kinds_of_zone_are_understood() -> None:
    """A fixed offset works as it is, a zone of the pytz kind by its name."""

    class Named(BrokenZone):
        zone = MADRID

    plus_two = timezone(timedelta(hours=2))
    for zone, expected in [(plus_two, "09:00+02:00"), (Named(), "09:00+01:00")]:
        got = parse_when("2026-12-24 09:00", timezone=zone, now=NOW)
        assert got == utc(f"2026-12-24T{expected}")


@pytest.mark.parametrize("name", ["UTC", MADRID, "Etc/GMT+5", "America/Port-au-Prince", "EST5EDT"])
def test_zones_are_loaded_by_name(name: str) -> None:
    """Every IANA name gives its zone."""
    assert load_zone(name).key == name


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Europe/Madird", 'did you mean "Europe/Madrid"?'),
        ("europe/madrid", 'did you mean "Europe/Madrid"?'),
        ("Madrid", 'did you mean "Europe/Madrid"?'),
        ("new york", 'did you mean "America/New_York"?'),
        ("PST", "IANA name"),
        ("localtime", "IANA name"),
        ("posixrules", "IANA name"),
        ("right/Europe/Madrid", ""),
        ("", "IANA name"),
        (".", ""),
        ("..", ""),
        ("../etc/passwd", "IANA name"),
        ("/etc/passwd", "IANA name"),
        ("Europe/../Europe/Madrid", ""),
        ("Europe/Madrid/", "Europe/Madrid"),
        ("Europe", ""),
        ("zone.tab", ""),
        ("leapseconds", ""),
        ("\0", "IANA name"),
        ("Europe/Madrid\0", "Europe/Madrid"),
        ("Europe/Madrid\n", "Europe/Madrid"),
        pytest.param("\ud800", "IANA name", id="surrogate"),
        pytest.param("x" * 100_000, "IANA name", id="100 kB"),
    ],
)
def test_unknown_zones_are_refused_with_the_nearest(name: str, advice: str) -> None:
    """No name reaches outside the zone data; a near miss is told the name it missed."""
    with pytest.raises(WhenError, match="unknown time zone") as caught:
        load_zone(name)
    assert advice in str(caught.value.hint)
    assert str(caught.value).isprintable()
    assert "unknown time zone" in str(refusal("+5m", timezone=name))


@pytest.mark.parametrize("zone", [5, b"UTC", True, pytest.param(10**5_000, id="huge"), ["UTC"]])
def test_other_types_are_no_zone(zone: Any) -> None:
    """A zone is a name or a tzinfo."""
    assert type(zone).__name__ in str(refusal("+5m", timezone=zone))
    with pytest.raises(WhenError, match="is a name, not"):
        load_zone(zone)


DAY_3H2 = (3 * 24 + 2) * 3_600_000


@pytest.mark.parametrize(
    ("zone", "distance", "expected"),
    [
        (
            CHICAGO,
            DAY_3H2,
            "2026-07-04T12:00:00-05:00 (America/Chicago), 2026-07-04T17:00:00Z, in 3d 2h",
        ),
        (None, -DAY_3H2, "2026-07-04T17:00:00Z, 3d 2h ago"),
        (
            ZoneInfo("Asia/Kolkata"),
            0,
            "2026-07-04T22:30:00+05:30 (Asia/Kolkata), 2026-07-04T17:00:00Z, now",
        ),
        (
            timezone(timedelta(hours=1)),
            0,
            "2026-07-04T18:00:00+01:00 (UTC+01:00), 2026-07-04T17:00:00Z, now",
        ),
    ],
)
def test_an_instant_is_told_locally_in_utc_and_by_distance(
    zone: str | tzinfo | None, distance: int, expected: str
) -> None:
    """People see the instant in the zone, in UTC, and how far away it is."""
    at = 1_783_184_400_000
    assert describe(at, zone, at - distance) == expected


def test_milliseconds_are_told_where_there_are_any() -> None:
    """Nothing of the instant is hidden by its description."""
    assert describe(1_783_184_400_001, None, 0).startswith("2026-07-04T17:00:00.001Z, in ")


@pytest.mark.parametrize("ms", [10**17, -(10**17), 253_402_300_799_999, -62_135_596_800_000])
def test_instants_beyond_the_calendar_are_told_as_numbers(ms: int) -> None:
    """Any number in Redis can be described."""
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago", None):
        assert describe(ms, zone, 0)
