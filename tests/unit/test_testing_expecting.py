"""What the test kit's assertions say: what is there, and in what it differs."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from scheduld.testing.expecting import Clock, Expected, Found, differences, fault, nothing

NOW = 1_798_099_200_000
SHOW = Clock("Europe/Madrid", NOW)


@pytest.mark.parametrize(
    ("wanted", "is_", "told"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": ANY}, {"a": {"b": [1]}}, []),
        ({"a": (1, 2)}, {"a": [1, 2]}, []),
        ({}, {}, []),
        ({"a": 1}, {"a": 2}, ["payload.a is 2, expected 1"]),
        ({"a": 1}, {}, ["payload.a is missing, expected 1"]),
        ({}, {"a": 1}, ["payload.a is 1, expected no such key"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["payload.a.b[1] is 3, expected 2"]),
        ({"a": [1]}, {"a": [1, 2]}, ["payload.a is [1, 2], expected [1]"]),
        ({"a": {}}, {"a": None}, ["payload.a is None, expected {}"]),
        ({"a": None}, {}, ["payload.a is missing, expected None"]),
        ({"a": True}, {"a": 1}, ["payload.a is 1, expected True"]),
        ({"a": 1}, {"a": 1.0}, []),
    ],
)
def test_differences(wanted: Any, is_: Any, told: list[str]) -> None:
    """Each place that differs has a line, and nothing else has."""
    assert differences(wanted, is_, "payload") == told


def test_long_values_are_cut() -> None:
    """A payload of any size makes a line that can be read."""
    (line,) = differences({"a": "x" * 10_000}, {"a": "y" * 10_000}, "payload")
    assert len(line) < 500


def test_the_nearest_is_first() -> None:
    """Tasks of the type come first, the most alike before the others, with what differs."""
    found = [
        Found("other", "o", {"n": 1}, NOW),
        Found("job", "far", {"n": 2, "m": 3}, NOW + 60_000),
        Found("job", "near", {"n": 1}, NOW + 60_000),
    ]
    expected = Expected("job", payload={"n": 1}, at_ms=NOW)
    told = fault(expected, found, None, "is scheduled", SHOW)
    assert told == (
        "no task job with payload {'n': 1} at 2026-12-24 09:00:00+01:00 (now) is scheduled\n"
        "what is scheduled:\n"
        "  job/near at 2026-12-24 09:01:00+01:00 (in 1m) {'n': 1}\n"
        "      it is at 2026-12-24 09:01:00+01:00 (in 1m)\n"
        "  job/far at 2026-12-24 09:01:00+01:00 (in 1m) {'n': 2, 'm': 3}\n"
        "      it is at 2026-12-24 09:01:00+01:00 (in 1m)\n"
        "      payload.n is 2, expected 1\n"
        "      payload.m is 3, expected no such key\n"
        "  other/o at 2026-12-24 09:00:00+01:00 (now) {'n': 1}"
    )


def test_counts() -> None:
    """`times` is exact: too many is a fault as well as too few, and none can be asked for."""
    found = [Found("job", str(n), {}, NOW, "done") for n in range(15)]
    job = Expected("job")
    assert fault(job, found, None, "ran", SHOW) is None
    assert fault(job, found, 15, "ran", SHOW) is None
    assert fault(Expected("other"), found, 0, "ran", SHOW) is None
    told = fault(job, found, 14, "ran", SHOW)
    assert told is not None
    assert told.startswith("job ran 15 times, expected 14\nwhat ran:\n  job/0 done at ")
    assert told.endswith("\n  ... and 5 more")
    assert fault(job, [], 1, "ran", SHOW) == "job ran 0 times, expected 1\nnothing at all ran"


def test_reasons_and_outcomes() -> None:
    """Both are compared, and shown; what could forge a line is escaped."""
    dead = Found("job", "1", {}, NOW, "dead", "ValueError: no\nluck")
    assert not Expected("job", outcome="dead", reason="no\nluck").differences(dead, SHOW)
    told = fault(Expected("job", id="1", outcome="done", reason="x"), [dead], None, "ran", SHOW)
    assert told == (
        "no task job/1 with outcome 'done' with 'x' in its reason ran\n"
        "what ran:\n"
        "  job/1 dead [ValueError: no\\nluck] at 2026-12-24 09:00:00+01:00 (now) {}\n"
        "      outcome is 'dead'\n"
        "      its reason is 'ValueError: no\\nluck'"
    )


def test_nothing() -> None:
    """Where nothing should be, all there is is told, up to ten."""
    assert nothing([], "run", SHOW) is None
    found = [Found("job", str(n), {}, None) for n in range(12)]
    told = nothing(found, "run", SHOW)
    assert told is not None
    first, second, *_, last = told.splitlines()
    assert first == "nothing should have run, but there is"
    assert second == "  job/0 at no time {}"
    assert last == "  ... and 2 more"


def test_instants_that_no_calendar_has() -> None:
    """A score that somebody wrote into Redis is shown too."""
    for at_ms in (0, 253_402_300_799_999, 9_007_199_254_740_991, -1):
        assert "(" in Clock("Asia/Tokyo", NOW)(at_ms)
        assert Clock(None, NOW)(at_ms)
