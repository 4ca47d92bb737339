"""Texts that are no one-off time: each is refused, with advice."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduld.errors import WhenError
from scheduld.when import parse_when

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
MADRID = "Europe/Madrid"


def refusal(text: Any, **options: Any) -> WhenError:
    """Return the error that refuses `text`; fails if it is accepted."""
    with pytest.raises(WhenError) as caught:
        parse_when(text, **{"timezone": MADRID, "now": NOW, **options})
    assert str(caught.value).isprintable()
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "tomorrow 09:00"),
        ("now", "--now"),
        ("31", "+31m"),
        ("99", "2026-12-24 09:00"),
        ("2026", "2026-12-24 09:00"),
        ("20261224", "2026-12-24T09:00"),
        ("1798099200", "@1798099200"),
        ("1798099200000", "@1798099200"),
        ("@1798099200000", "@1798099200"),
        ("@1798099200.5", "@1798099200"),
        ("@-5", "@1798099200"),
        ("@", "@1798099200"),
        ("@ 5", "@1798099200"),
        ("+5", "+5m"),
        ("5m", "+5m"),
        ("in 5m", "+5m"),
        ("-15m", "+15m"),
        ("+-5m", "+2h15m"),
        ("++5m", "+2h15m"),
        ("+1.5h", "+2h15m"),
        ("+2h 15m", "+2h15m"),
        ("+5M", "+2h15m"),
        ("+500ms", "+2h15m"),
        ("+5m5m", "+2h15m"),
        ("+1mo", "+30d"),
        ("+1y", "+30d"),
        ("+1 year", "+30d"),
        ("feb", "2026-12-24 09:00"),
        ("next friday", "2026-12-24 09:00"),
        ("24 dec 2026", "2026-12-24 09:00"),
        ("i may go with 10 friends", "2026-12-24 09:00"),
        ("01/02/2027", '"2027-02-01T09:00" or "2027-01-02T09:00"'),
        ("01/02/2027 09:00", '"2027-02-01T09:00" or "2027-01-02T09:00"'),
        ("01/02/27", '"2027-02-01T09:00" or "2027-01-02T09:00" or "2001-02-27T09:00"'),
        ("13/02/2027", '"2027-02-13T09:00"'),
        ("1.2.2027", "2027-02-01"),
        ("99/99/2027", "2026-12-24 09:00"),
        ("2026/12/24 09:00", "2026-12-24T09:00"),
        ("09:00", 'say "today 09:00" or "tomorrow 09:00"'),
        ("9:00", 'say "today 09:00" or "tomorrow 09:00"'),
        ("24:00", "tomorrow"),
        ("9am", "tomorrow"),
        ("12:00 -5", "tomorrow"),
        ("today", "today 09:00"),
        ("Tomorrow 09:00", "tomorrow 21:30:00"),
        ("tomorrow 9am", "tomorrow 21:30:00"),
        ("tomorrow 24:00", "tomorrow 21:30:00"),
        ("today 09:00Z", "--timezone"),
        ("today 09:00:00.5", "tomorrow 21:30:00"),
        ("yesterday 09:00", "tomorrow 09:00"),
        ("2026-12-24", "2026-12-24T00:00 or 2026-12-24T23:59"),
        ("2026-12", "2026-12-24T09:00"),
        ("2026-W52-4", "2026-12-24T09:00"),
        ("2026-12-31T24:00", "2027-01-01T00:00"),
        ("2026-13-31T24:00", "2026-12-24T09:00"),
        ("9999-12-31T24:00", "2026-12-24T09:00"),
        ("2026-12-24T25:00", "00 to 23"),
        ("2026-12-24T09:60", "00 to 59"),
        ("2026-12-24T09:00:60", "00 to 59"),
        ("2026-12-24T09:00:00.1234567Z", "6 digits"),
        ("2026-12-24T09:00:00,5Z", "6 digits"),
        ("2026-12-24t09:00z", "upper"),
        ("2026-12-24T09", "2026-12-24T09:00"),
        ("2026-12-24  09:00", "2026-12-24 09:00"),
        ("2027-02-29T09:00", "2026-12-24T09:00"),
        ("0000-01-01T00:00Z", "2026-12-24T09:00"),
        ("2026-12-24T09:00+0100", "+01:00"),
        ("2026-12-24T09:00+1", "+01:00"),
        ("2026-12-24T09:00+24:00", "+01:00"),
        ("2026-12-24T09:00+01:75", "+01:00"),
        ("2026-12-24T09:00 +01:00", '"2026-12-24T09:00+01:00"'),
        ("2026-12-24 09:00 Z", '"2026-12-24T09:00Z"'),
        ("2026-12-24 09:00 PST", "--timezone"),
        ("2026-12-24 09:00 CET", "--timezone"),
        ("2026-12-24 09:00 GMT", "2026-12-24T09:00Z"),
        ("2026-12-24 09:00 UTC+5", "2026-12-24T09:00+HH:MM"),
        ("2026-12-24 09:00 Europe/Paris", "--timezone Europe/Paris"),
        ("2026-12-24T09:00Z tomorrow", "2026-12-24 09:00"),
        ("2026-12-24T09:00Z\n", "2026-12-24T09:00"),
        ("\n2026-12-24T09:00Z", "2026-12-24T09:00"),
        ("2026-12-24T09:00Z\0", "2026-12-24T09:00"),
        ("٢٠٢٦-12-24T09:00Z", "2026-12-24T09:00"),
        ("2026−12−24T09:00Z", "2026-12-24T09:00"),  # noqa: RUF001 - the minus sign is the point
        pytest.param("\ud800", "2026-12-24T09:00", id="surrogate"),
        ("1" * 20, "2026-12-24T09:00"),
        ("1" * 400, "2026-12-24T09:00"),
        ("-inf", "+2h15m"),
        ("nan", "2026-12-24T09:00"),
        pytest.param("x" * 1_000_000, "2026-12-24T09:00", id="1 MB"),
    ],
)
def test_texts_without_one_reading_are_refused_with_advice(text: str, advice: str) -> None:
    """Each refusal says what could be written instead."""
    error = refusal(text)
    assert advice in str(error.hint)
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"+5m",
        5,
        1.5,
        True,
        pytest.param(10**5_000, id="huge"),
        NOW,
        date(2026, 12, 24),
        ["+5m"],
        object(),
    ],
)
def test_other_types_than_text_are_refused(value: Any) -> None:
    """A WHEN is a text; the message names the type that came."""
    assert type(value).__name__ in str(refusal(value))


@pytest.mark.parametrize("text", ["2026-12-24 09:00", "today 12:00", "tomorrow 12:00"])
def test_a_wall_clock_time_without_a_zone_is_refused(text: str) -> None:
    """Nothing is guessed from the host: the advice is an offset or a zone."""
    error = refusal(text, timezone=None)
    assert "has no time zone" in str(error)
    assert "--timezone" in str(error.hint)


@given(st.text() | st.text(alphabet="0123456789-+:.TZ @smhdwtodayrUC", max_size=40))
@example("+" + "1" * 99)
@example("2026-12-24T09:00:00.")
def test_nothing_but_a_when_error_escapes(text: str) -> None:
    """Any text is an instant from 1970 to 2200 on a whole ms, or refused with the one error."""
    for zone in (None, MADRID):
        try:
            got = parse_when(text, timezone=zone, now=NOW, allow_past=True)
        except WhenError as error:
            assert str(error).isprintable()  # noqa: PT017 - either outcome is right
            assert error.hint  # noqa: PT017
        else:
            assert 1970 <= got.year <= 2200
            assert got.microsecond % 1_000 == 0


@given(st.binary(max_size=30))
def test_bytes_are_never_a_time(data: bytes) -> None:
    """Bytes are refused as a type; as text of any encoding they follow the rule of texts."""
    refusal(data)
    try:
        parse_when(data.decode("utf-8", "surrogateescape"), timezone=MADRID, now=NOW)
    except WhenError as error:
        assert error.kind == "when"  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    "now",
    [
        datetime(2026, 11, 30),  # noqa: DTZ001 - a naive one is the point
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        "2026-11-30",
        5,
    ],
)
def test_a_useless_now_is_refused(now: Any) -> None:
    """`now` must be an aware datetime of this age."""
    with pytest.raises(WhenError, match="`now` must be an aware datetime"):
        parse_when("tomorrow 09:00", timezone=MADRID, now=now)
