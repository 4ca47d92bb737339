"""What an add says about coming again, and the instants that follow. No value is computed here."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduld import clock
from scheduld.calendar.period import Coming, Period, Series, coming, rule_of
from scheduld.client.adding import Pending, TaskSpec, prepare, prepare_all
from scheduld.client.periods import instants
from scheduld.errors import InvalidInput, WhenError
from scheduld.model import instant

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
MADRID = ZoneInfo("Europe/Madrid")
LADDER = Series(("-7d", "-1d", "0"), "season_start")


def ms(text: str) -> int:
    """An instant as the product handles it."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.fixture(autouse=True)
def _now() -> Any:
    """It is noon of 10 January 2026, UTC."""
    clock.move(int(NOW.timestamp() * 1000))
    yield
    clock.move(None)


def made(
    payload: dict[str, Any] | None = None,
    zone: Any = None,
    series: Series | None = None,
    default: str | None = "Europe/Madrid",
    *,
    past: bool = False,
    **fields: Any,
) -> Pending:
    """A checked task."""
    return prepare(
        TaskSpec(payload=payload, **fields),
        timezone=zone,
        default_zone=default,
        allow_past=past,
        max_payload=9_999,
        series=series,
    )


def packed(task: Pending) -> dict[str, str]:
    """What the store is told of it, by name."""
    return dict(line.split("=", 1) for line in task.new.load.splitlines())


def local(task: Pending, most: int = 5) -> list[str]:
    """The first instants, on the clocks of Madrid."""
    found = instants(task, clock.wall_ms(), most=most).first
    return [instant(at).astimezone(MADRID).strftime("%Y-%m-%d %H:%M %z") for at in found]


def test_a_period_is_told_in_its_canonical_form() -> None:
    """Texts, seconds and timedeltas; the anchor goes without saying where it is the first due."""
    told = packed(made(at="2026-02-01 09:00", every="1w", until="2026-03-01", max_runs=4))
    assert told == {
        "every": "7d",
        "until": str(ms("2026-03-01T23:59:59.999+01:00")),
        "max_runs": "4",
        "zone": "Europe/Madrid",
    }
    assert packed(made(every=90)) == packed(made(every="1m30s")) == packed(made(every="90s"))
    assert packed(made(every=timedelta(days=1)))["every"] == "24h"


def test_it_reads_back_as_it_was_stored() -> None:
    """Fields of the hash, of a grid and of a ladder; a foreign task may have no anchor."""
    for period in (
        Period(every="7d", until_ms=5, max_runs=3, zone="UTC", anchor_ms=7),
        Period(series=LADDER, zone="Europe/Madrid"),
        Period(series=Series(("0",), "when it begins"), zone="UTC"),
    ):
        fields = {name: value.encode() for name, value in period.fields().items()}
        assert Period.read(fields) == period
    assert Period.read({"payload": b"{}"}) is None
    assert Period(every="7d").begun_at(9).anchor_ms == 9
    assert Period(every="7d", anchor_ms=1).begun_at(9).anchor_ms == 1
    for fields in ({"every": b"7d", "anchor": b"x"}, {"series": b"-7d"}):
        with pytest.raises(InvalidInput):
            Period.read(fields)
    for broken in (Period(every="\ufffd", anchor_ms=0), Period(every="7d", zone="UTC")):
        with pytest.raises(InvalidInput):
            rule_of(broken, {})


def test_weeks_keep_the_time_on_the_clock() -> None:
    """Five occurrences across the change to summer time, however the first was said."""
    right = [
        "2026-03-15 09:00 +0100",
        "2026-03-22 09:00 +0100",
        "2026-03-29 09:00 +0200",
        "2026-04-05 09:00 +0200",
        "2026-04-12 09:00 +0200",
    ]
    for at in (
        "2026-03-15 09:00",
        "2026-03-15T08:00Z",
        datetime(2026, 3, 15, 9, tzinfo=MADRID),
        datetime(2026, 3, 15, 8, tzinfo=UTC),
        "@1773561600",
    ):
        assert local(made(at=at, every="7d")) == right
    # Elapsed time does not.
    assert local(made(at="2026-03-22 09:00", every="168h"), 2)[1] == "2026-03-29 10:00 +0200"


def test_a_datetime_of_a_place_brings_its_zone() -> None:
    """It goes before the config's, and what the call says before both."""
    at = datetime(2026, 3, 15, 9, tzinfo=ZoneInfo("America/New_York"))
    assert packed(made(at=at, every="1d"))["zone"] == "America/New_York"
    assert packed(made(at=at, zone="Asia/Tokyo", every="1d"))["zone"] == "Asia/Tokyo"
    assert packed(made(at=at, zone=UTC, every="1d"))["zone"] == "UTC"


def test_until_is_inclusive_in_any_notation() -> None:
    """To the end of a date in the zone, or to the very instant."""
    for until, count in (
        ("2026-03-29", 3),
        (date(2026, 3, 29), 3),
        ("2026-03-29 09:00", 3),
        ("2026-03-29T07:00:00Z", 3),
        ("2026-03-29T07:00:00.000+00:00", 3),
        ("2026-03-29T06:59:59Z", 2),
        (datetime(2026, 3, 29, 9, tzinfo=MADRID), 3),
        ("2026-03-28", 2),
    ):
        task = made(at="2026-03-15 09:00", every="7d", until=until)
        assert instants(task, clock.wall_ms(), most=9).count == count, until
    # Clocks of this zone are set at midnight: the day ends when they have been.
    task = made(at="2026-03-01 10:00", every="1d", until="2026-03-28", zone="Asia/Beirut")
    assert packed(task)["until"] == str(ms("2026-03-29T00:00:00+02:00") - 1)
    # Here the first hour of a day comes twice: both are of that day, not of the one before.
    task = made(at="2026-10-30 00:30", every="1d", until="2026-10-31", zone="America/Havana")
    assert instants(task, clock.wall_ms(), most=9).count == 2


def test_what_was_due_in_the_past_goes_on_with_its_grid() -> None:
    """With allow_past the next instant is the first; the grid begins where it was said to."""
    task = made(at="2026-01-01 09:00", every="7d", past=True)
    assert local(task, 2) == ["2026-01-15 09:00 +0100", "2026-01-22 09:00 +0100"]
    assert packed(task)["anchor"] == str(ms("2026-01-01T09:00:00+01:00"))
    with pytest.raises(WhenError, match="no occurrence is left"):
        made(at="2026-01-01 09:00", every="7d", until="2026-01-09", past=True)


def test_what_there_is_is_counted() -> None:
    """All where there is an end, a bound where it is far, None where there is none."""
    period = Period(every="1d", zone="UTC", anchor_ms=0)
    assert coming(period, {}, -1, most=2) == Coming([0, 86_400_000], None)
    bounded = Period(every="1s", until_ms=10**12, anchor_ms=0)
    assert coming(bounded, {}, -1, most=1) == Coming([0], 1_000)
    runs = Period(every="1s", max_runs=5, anchor_ms=0)
    assert coming(runs, {}, 0, most=9, runs=2) == Coming([1_000, 2_000, 3_000], 3)
    assert coming(runs, {}, 0, most=9, runs=7) == Coming([], 0)


def test_a_type_with_a_series_says_when() -> None:
    """A task without a time stands on the ladder, in the order of time; what passed is missed."""
    task = made({"season_start": "2026-03-29 09:00"}, series=LADDER)
    assert local(task) == [
        "2026-03-22 09:00 +0100",
        "2026-03-28 09:00 +0100",
        "2026-03-29 09:00 +0200",
    ]
    assert packed(task) == {"series": "-7d,-1d,0 season_start", "zone": "Europe/Madrid"}
    task = made({"season_start": "2026-01-12T09:00+01:00"}, series=LADDER)
    assert local(task) == ["2026-01-11 09:00 +0100", "2026-01-12 09:00 +0100"]
    assert (packed(task)["missed"], task.missed) == ("1", 1)
    both = prepare_all(
        [{"season_start": "2026-03-29 09:00"}, TaskSpec(payload={}, delay=5)],
        timezone=None,
        default_zone="Europe/Madrid",
        allow_past=False,
        max_payload=999,
        series=LADDER,
    )
    assert [len(instants(one, clock.wall_ms(), most=9).first) for one in both] == [3, 1]


def test_a_time_of_its_own_goes_before_the_series() -> None:
    """Once, at that time, or by a period of its own."""
    for said in ({"delay": 0}, {"at": "2026-02-01 09:00"}, {"delay": "1h"}):
        task = made({}, series=LADDER, **said)
        assert (packed(task), instants(task, clock.wall_ms(), most=9).count) == ({}, 1)
    assert "series" not in packed(made({}, series=LADDER, every="1d"))


SEASON = "season_start"
REFUSED: list[tuple[dict[str, Any], str]] = [
    # a period that is none
    ({"every": "7"}, "has no unit"),
    ({"every": 0}, "is 0"),
    ({"every": "0d"}, "is 0"),
    ({"every": -5}, "negative"),
    ({"every": True}, "bool"),
    ({"every": "1.5d"}, "part of a day"),
    ({"every": "7d12h"}, "mixes"),
    ({"every": "40000d"}, "longer than"),
    ({"every": ["7d"]}, "list"),
    ({"every": float("nan")}, "nan"),
    ({"every": "x" * 9_999}, "longer than"),
    # alone
    ({"until": "2030-01-01"}, "until needs every"),
    ({"max_runs": 3}, "max_runs needs every"),
    # bounds
    ({"every": "1d", "max_runs": 0}, "max_runs"),
    ({"every": "1d", "max_runs": "3"}, "max_runs"),
    ({"every": "1d", "max_runs": True}, "max_runs"),
    ({"every": "1d", "until": "2026-01-09"}, "before the first due"),
    ({"every": "1d", "until": "2026-02-30"}, "until: there is no day 2026-02-30"),
    ({"every": "1d", "until": "01/02/2027"}, "until"),
    ({"every": "1d", "until": 7}, "until: a time is a text"),
    ({"every": "1d", "until": date(2300, 1, 1)}, "between 1970 and 2200"),
    ({"every": "1d", "until": "2026-02-01 09:00", "zone": "Mars/Base"}, "Mars/Base"),
    # zones
    ({"every": "1d", "default": None}, "needs a time zone"),
    ({"every": "1h", "default": None, "until": "2026-02-01"}, "no time zone"),
    ({"every": "1mo", "zone": timezone(timedelta(hours=1))}, r"UTC\+01:00 is an offset"),
    # together
    ({"every": "1d", "expires": "1h"}, "expires does not go with every"),
    ({"every": "1d", "debounce": "1h", "id": "x"}, "debounce does not go with every"),
    # series
    ({"series": LADDER}, "the payload's season_start, .* is missing"),
    ({"series": LADDER, "payload": {SEASON: 5}}, "is no time"),
    ({"series": LADDER, "payload": {SEASON: None}}, "is no time"),
    ({"series": LADDER, "payload": {SEASON: "2026-07-01"}}, "date without a time"),
    ({"series": LADDER, "payload": {SEASON: "+7d"}}, "no ISO time"),
    ({"series": LADDER, "payload": {SEASON: "tomorrow 09:00"}}, "no ISO time"),
    ({"series": LADDER, "payload": {SEASON: "2026-03-29 02:30"}}, "does not exist"),
    ({"series": LADDER, "payload": {SEASON: "2025-01-01 09:00"}}, "have passed"),
    ({"series": LADDER, "payload": {SEASON: "2026-02-30 09:00"}}, "there is no 2026-02-30"),
    ({"series": LADDER, "payload": {SEASON: "2026-07-01 09:00"}, "default": None}, "time zone"),
]


@pytest.mark.parametrize(("said", "words"), REFUSED)
def test_what_cannot_be_is_refused_in_a_line(said: dict[str, Any], words: str) -> None:
    """One line that names what is wrong, before anything is sent."""
    with pytest.raises(InvalidInput, match=words) as caught:
        made(**said)
    assert "\n" not in caught.value.message + (caught.value.hint or "")
