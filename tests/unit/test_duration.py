"""Durations: what is read, what is refused, and how lengths are written."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.duration import LONGEST_MS, UNITS_MS, format_ms, in_words, parse_duration_ms
from scheduld.errors import InvalidInput, WhenError

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("1h30m", 5_400_000),
        ("30m1h", 5_400_000),
        ("1.5h", 5_400_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("0ms", 0),
        ("007s", 7_000),
        (" \t2m ", 120_000),
        ("36500d", LONGEST_MS),
        (0, 0),
        (2, 2_000),
        (0.25, 250),
        (timedelta(days=1), DAY_MS),
    ],
)
def test_durations_are_read_as_whole_milliseconds(value: Any, expected_ms: int) -> None:
    """Each unit, compounds in any order, fractions, numbers of seconds and timedeltas are read."""
    assert parse_duration_ms(value) == expected_ms


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("0.1ms", 1),
        ("1.0001s", 1_001),
        ("0." + "0" * 80 + "1s", 1),
        (1e-9, 1),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1_001), 2),
    ],
)
def test_parts_of_a_millisecond_are_rounded_up(value: Any, expected_ms: int) -> None:
    """A wait is never shorter than what was asked for."""
    assert parse_duration_ms(value) == expected_ms


@pytest.mark.parametrize(("value", "expected_ms"), [(0.1, 100), ("0.1s", 100), (1.001, 1_001)])
def test_decimal_fractions_are_exact(value: Any, expected_ms: int) -> None:
    """A decimal fraction of a second is not raised to the next ms by its binary form."""
    assert parse_duration_ms(value) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "90",
        "1.5",
        "s",
        "5M",
        "5S",
        "5m5m",
        "1h1m1h",
        "1:30",
        "1mo",
        "1y",
        "-5s",
        "+5s",
        ".5h",
        "1.h",
        "1,5h",
        "1e3s",
        "1h 30m",
        "1 h",
        "5s\n",
        "5s;",
        "5us",
        "inf",
        "nan",
        "none",
        "٣s",
        "５s",  # noqa: RUF001 - a digit that is not ASCII
        "1_0s",
        "36500d1ms",
        "36501d",
        "9" * 99 + "w",
        pytest.param("9" * 5_000 + "s", id="5000 digits"),
        pytest.param("1s" * 300, id="300 parts"),
        pytest.param("\ud800", id="surrogate"),
        "5\0s",
    ],
)
def test_texts_that_are_no_duration_are_refused(text: str) -> None:
    """Anything without exactly one reading is refused, with examples of what is right."""
    with pytest.raises(WhenError) as caught:
        parse_duration_ms(text)
    assert caught.value.hint == 'use a duration such as "500ms", "10s", "1h30m"'
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        None,
        b"5s",
        Decimal(5),
        [5],
        {},
        float("nan"),
        float("inf"),
        float("-inf"),
        -1,
        -0.001,
        1e300,
        2**63,
        pytest.param(10**5_000, id="huge"),
        pytest.param(-(10**5_000), id="huge negative"),
        timedelta(microseconds=-1),
        timedelta.max,
        timedelta.min,
    ],
)
def test_values_that_are_no_length_are_refused(value: Any) -> None:
    """Booleans, other types, no-numbers, negative and endless lengths are refused."""
    with pytest.raises(WhenError):
        parse_duration_ms(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("90", 'such as "90s"'),
        ("5m5m", "the unit m twice"),
        ("1mo", "calendar unit"),
        ("-5s", "a sign"),
        ("1h 30m", "a blank inside"),
        ("36501d", "longer than 36500d"),
    ],
)
def test_a_refusal_names_the_value_and_its_fault(text: str, said: str) -> None:
    """The message starts with what the value is for and says what is wrong with it."""
    with pytest.raises(InvalidInput) as caught:
        parse_duration_ms(text, what="poll_timeout")
    assert str(caught.value).startswith("poll_timeout ")
    assert said in str(caught.value)


@given(st.integers(0, LONGEST_MS))
def test_what_is_written_is_read_back(ms: int) -> None:
    """Every length survives being written as text and read again."""
    assert parse_duration_ms(format_ms(ms)) == ms


@given(st.dictionaries(st.sampled_from(sorted(UNITS_MS)), st.integers(0, 10_000), min_size=1))
def test_a_compound_is_the_sum_of_its_parts(parts: dict[str, int]) -> None:
    """Units add up, in whatever order they are given."""
    text = "".join(f"{number}{unit}" for unit, number in parts.items())
    expected = sum(number * UNITS_MS[unit] for unit, number in parts.items())
    if expected <= LONGEST_MS:
        assert parse_duration_ms(text) == expected
    else:
        with pytest.raises(WhenError):
            parse_duration_ms(text)


@given(st.text() | st.binary() | st.integers() | st.floats() | st.from_regex(r"[0-9.]+[msdhw ]*"))
def test_nothing_but_a_when_error_escapes(value: Any) -> None:
    """Any value is read as a length from 0 to the longest, or refused with the one error."""
    try:
        ms = parse_duration_ms(value)
    except WhenError as error:
        assert str(error).isprintable()  # noqa: PT017 - either outcome is right
    else:
        assert 0 <= ms <= LONGEST_MS


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "0s"),
        (1, "1ms"),
        (1_001, "1s1ms"),
        (5_400_000, "1h30m"),
        (30 * DAY_MS, "30d"),
        (-5_000, "-5s"),
    ],
)
def test_lengths_are_written_with_the_largest_units(ms: int, expected: str) -> None:
    """Parts that are zero are left out, and weeks are told in days."""
    assert format_ms(ms) == expected


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "now"),
        (250, "in 250ms"),
        (4_990, "in 5s"),
        (59_900, "in 1m"),
        (90_000, "in 1m 30s"),
        (3_599_990, "in 1h"),
        (7_199_990, "in 2h"),
        (3 * DAY_MS + 7_200_000 + 59_000, "in 3d 2h"),
        (DAY_MS - 1, "in 1d"),
        (400 * DAY_MS, "in 400d"),
        (-(3 * DAY_MS + 7_200_000), "3d 2h ago"),
        (-1, "1ms ago"),
    ],
)
def test_distances_are_told_in_two_units(ms: int, expected: str) -> None:
    """People are told the two largest units, rounded, ahead or ago."""
    assert in_words(ms) == expected
