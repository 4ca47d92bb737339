"""Messages of workers: frames, ends of runs and options survive the way; garbage is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.outcomes import Dead, Outcome, Retry, Snooze
from scheduld.policies.endings import Ending, Failed, Raised, Returned
from scheduld.worker import ends
from scheduld.worker.frames import BadFrame, Frames, framed, pack
from scheduld.worker.options import plain, restored

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text()), max_size=5), st.integers(1, 50))
def test_frames_come_out_as_they_went_in(messages: list[dict[str, Any]], size: int) -> None:
    """However the stream is cut, the messages are the same, in order."""
    stream = b"".join(pack(message) for message in messages)
    frames, found = Frames(1_000_000), []
    for start in range(0, len(stream), size):
        found += list(frames.feed(stream[start : start + size]))
    assert found == messages


@pytest.mark.parametrize(
    "data",
    [b"garbage of any kind", framed(b"{"), framed(b"[1]"), framed(b"[" * 100_000), framed(b"\xff")],
)
def test_garbage_is_no_message(data: bytes) -> None:
    """A length beyond the limit, broken JSON, and what is no object."""
    with pytest.raises(BadFrame):
        list(Frames(1_000_000).feed(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    """Nothing but BadFrame comes of bytes of any kind."""
    try:
        list(Frames(100).feed(data))
    except BadFrame:
        return


def there_and_back(ending: Ending) -> Ending:
    """Write an ending, and read it."""
    return ends.read(json.loads(ends.message(1, ends.write(ending), is_spent=False)))


@given(JSON)
def test_results_are_the_same(value: Any) -> None:
    """A JSON value comes back equal."""
    ending = there_and_back(Returned(value))
    assert isinstance(ending, Returned)
    marker = isinstance(ending.value, dict) and "not_stored" in ending.value
    assert marker or ending.value == value


@pytest.mark.parametrize(
    "outcome",
    [
        Retry(),
        Retry(after=5, reason="why"),
        Retry(after=0.5),
        Retry(after="1h30m"),
        Retry(after=timedelta(days=-1, microseconds=7)),
        Snooze(until=datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=UTC)),
        Snooze(until="5m"),
        Dead("é\ud800"),
    ],
)
def test_outcomes_are_the_same(outcome: Outcome) -> None:
    """Kind, time and text come back equal, returned or raised."""
    for ending in (Returned(outcome), Raised(outcome)):
        found = there_and_back(ending)
        assert isinstance(found, Returned)
        assert type(found.value) is type(outcome)
        assert str(found.value) == str(outcome)
        assert vars(found.value) == vars(outcome)


def test_an_unknown_outcome_is_told_as_inline() -> None:
    """A class of the user's own is refused by its name."""

    class Later(Outcome):
        pass

    found = there_and_back(Raised(Later()))
    assert found == Failed({"kind": "outcome", "message": "unknown outcome Later"})


@pytest.mark.parametrize(
    "message",
    [
        {"end": 1},
        {"end": 1, "error": 7},
        {"end": 1, "error": {"kind": "x"}},
        {"end": 1, "outcome": "explode", "text": ""},
        {"end": 1, "outcome": "retry", "text": "", "time": {"at_us": 10**30}},
        {"end": 1, "outcome": "retry", "text": "", "time": {"what": 1}},
        {"end": 1, "outcome": "snooze", "text": "", "time": {}},
    ],
)
def test_ends_that_make_no_sense_are_refused(message: dict[str, Any]) -> None:
    """A broken end is BadFrame, never another error."""
    with pytest.raises(BadFrame, match="cannot be read"):
        ends.read(message)


def test_errors_are_cut_again() -> None:
    """The daemon relies on no limit that a worker should have kept."""
    error = {"kind": "k" * 9_000, "message": "m" * 9_000, "traceback": "t" * 90_000, "x": 1}
    found = ends.read({"end": 1, "error": error})
    assert isinstance(found, Failed)
    assert [len(found.error[name]) for name in ("kind", "message", "traceback")] == [
        200,
        4_096,
        16_392,
    ]
    assert "x" not in found.error


def test_options_come_through_with_their_times() -> None:
    """All that TOML has: nested tables, dates, times, infinities."""
    options = {
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "local": datetime(2026, 1, 2),  # noqa: DTZ001 - TOML has such
        "day": date(2026, 1, 2),
        "time": time(1, 2, 3),
        "most": float("inf"),
        "tables": [{"a": {"b": 1}}, {"$date": "of the user's own"}],
    }
    assert restored(plain(MappingProxyType(options))) == options
