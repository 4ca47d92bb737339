"""From the end of a run to its verdict: total, within limits, whatever a handler did."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.model import Claim, RetryPolicy, Verdict, VerdictKind
from scheduld.outcomes import Dead, Outcome, Retry, Snooze
from scheduld.policies import endings
from scheduld.policies.endings import (
    SHORTEST_SNOOZE_MS,
    Ending,
    GivenBack,
    Raised,
    Returned,
    TimedOut,
    Unreadable,
    done,
    masked,
    verdict,
)

CLAIM = Claim(
    type="a",
    id="x",
    raw_id=b"x",
    payload=b"{}",
    fence=7,
    due_ms=1_000,
    start_ms=1_000,
    early=False,
    failed=0,
    releases=0,
    interruptions=0,
)
NOW_MS = 1_800_000_000_000.25
POLICY = RetryPolicy(attempts=3, delays_ms=(2_000,), jitter=0.5)


def end(ending: Ending, *, failed: int = 0, policy: RetryPolicy = POLICY) -> Verdict:
    """Decide with half of the jitter."""
    claim = CLAIM._replace(failed=failed)
    return verdict(claim, ending, policy=policy, now_ms=NOW_MS, fraction=0.5)


def error_of(found: Verdict) -> dict[str, Any]:
    """Read the error of a verdict."""
    error = json.loads(found.detail)
    assert isinstance(error, dict)
    return error


class TestCounting:
    """Failures, and when there were enough."""

    @pytest.mark.parametrize(
        ("failed", "kind", "delay_ms"),
        [(0, VerdictKind.RETRY, 2_500), (1, VerdictKind.RETRY, 5_000), (2, VerdictKind.DEAD, 0)],
    )
    def test_the_last_failure_is_the_end(
        self, failed: int, kind: VerdictKind, delay_ms: int
    ) -> None:
        """With three attempts the third failure is dead, the ones before it wait."""
        found = end(Raised(ValueError("x")), failed=failed)
        assert (found.kind, found.delay_ms, found.counted) == (kind, delay_ms, True)

    def test_a_timeout_is_a_failure(self) -> None:
        """It counts as an attempt, and says the limit."""
        found = end(TimedOut(60_000))
        assert found.kind is VerdictKind.RETRY
        assert error_of(found) == {
            "kind": "timeout",
            "message": "the run took longer than 1m (run_timeout)",
        }

    def test_given_back_counts_nothing(self) -> None:
        """A stop releases the task, after a wait if told so."""
        found = end(GivenBack(500), failed=2)
        assert (found.kind, found.delay_ms, found.detail) == (VerdictKind.RELEASE, 500, "")

    def test_what_cannot_be_read_is_dead_without_an_attempt(self) -> None:
        """It is not counted as a failed run."""
        found = end(Unreadable("unreadable", "payload is not JSON"))
        assert (found.kind, found.counted) == (VerdictKind.DEAD, False)
        assert found.reason == "unreadable: payload is not JSON"

    def test_fence_and_id_are_those_of_the_claim(self) -> None:
        """Every verdict names its claim."""
        for ending in (Returned(1), Raised(OSError()), TimedOut(1), GivenBack()):
            assert (end(ending).raw_id, end(ending).fence) == (b"x", 7)


@pytest.mark.parametrize("how", [Returned, Raised])
class TestOutcomes:
    """Outcomes mean the same returned and raised."""

    def test_retry_with_a_wait(self, how: Any) -> None:
        """Its wait is kept exactly, beyond cap and jitter."""
        tight = replace(POLICY, max_delay_ms=10)
        for after in (timedelta(minutes=2), "2m", 120, 120.0):
            found = end(how(Retry(after)), policy=tight)
            assert (found.kind, found.delay_ms) == (VerdictKind.RETRY, 120_000)

    def test_retry_without_a_wait(self, how: Any) -> None:
        """It waits as the policy says, and tells its reason."""
        found = end(how(Retry(reason="busy")))
        assert (found.kind, found.delay_ms) == (VerdictKind.RETRY, 2_500)
        assert error_of(found)["message"] == "busy"

    def test_retry_in_the_last_attempt(self, how: Any) -> None:
        """It counts: the last one is dead."""
        assert end(how(Retry("1s")), failed=2).kind is VerdictKind.DEAD

    @pytest.mark.parametrize("until", ["90s", 90, 90.0, timedelta(seconds=90)])
    def test_snooze_for_a_while(self, how: Any, until: Any) -> None:
        """It is counted from the server's now."""
        found = end(how(Snooze(until)), failed=2)
        assert (found.kind, found.at_ms) == (VerdictKind.SNOOZE, int(NOW_MS) + 90_000)

    @pytest.mark.parametrize(
        "zone",
        [UTC, timezone(timedelta(hours=-8)), ZoneInfo("Europe/Madrid"), ZoneInfo("Asia/Kolkata")],
        ids=str,
    )
    @pytest.mark.parametrize("month", [1, 7])
    def test_snooze_until_an_instant(self, how: Any, zone: Any, month: int) -> None:
        """An aware datetime is its instant, in winter and in summer."""
        until = datetime(2030, month, 1, 12, 0, 0, 250_000, tzinfo=zone)
        found = end(how(Snooze(until)))
        assert found.at_ms == round(until.timestamp() * 1000)

    def test_snooze_into_the_past(self, how: Any) -> None:
        """It lasts a second: at once would be an endless loop that nobody sees."""
        for until in (datetime(1950, 1, 1, tzinfo=UTC), 0):
            assert end(how(Snooze(until))).at_ms == int(NOW_MS) + SHORTEST_SNOOZE_MS

    @pytest.mark.parametrize("year", [1, 9999])
    def test_snooze_to_the_ends_of_time(self, how: Any, year: int) -> None:
        """No datetime is beyond what can be decided."""
        zone = timezone(timedelta(hours=14 if year == 1 else -14))
        assert end(how(Snooze(datetime(year, 12, 31, tzinfo=zone)))).kind is VerdictKind.SNOOZE

    def test_dead(self, how: Any) -> None:
        """It is the end in the first attempt too, with the reason."""
        found = end(how(Dead("no such user")))
        assert (found.kind, found.counted) == (VerdictKind.DEAD, True)
        assert found.reason == "dead: no such user"

    @pytest.mark.parametrize(
        "outcome",
        [
            Retry("soon"),
            Retry(-1),
            Retry(True),
            Retry(float("inf")),
            Snooze(float("nan")),
            Snooze("later"),
            Snooze(datetime(2030, 1, 1)),  # noqa: DTZ001 - what is refused
            Snooze(None),  # type: ignore[arg-type]
            Outcome("of my own"),
        ],
        ids=repr,
    )
    def test_what_cannot_be_meant_is_a_failure(self, how: Any, outcome: Outcome) -> None:
        """An outcome with an impossible value fails the attempt and says what is wrong."""
        found = end(how(outcome))
        assert (found.kind, found.delay_ms) == (VerdictKind.RETRY, 2_500)
        assert error_of(found)["kind"] == "outcome"
        assert type(outcome).__name__ in error_of(found)["message"]

    def test_an_outcome_that_was_never_initialised(self, how: Any) -> None:
        """A subclass that forgets its base is a failure too."""

        class Lazy(Retry):
            def __init__(self) -> None:
                pass

        assert error_of(end(how(Lazy())))["kind"] == "outcome"


def itself() -> list[Any]:
    """Make a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


class Hostile:
    """Raises wherever it is touched."""

    def __repr__(self) -> str:
        raise SystemExit(3)


class HostileDict(dict[str, Any]):
    """Raises when it is walked."""

    def items(self) -> Any:
        """Raise."""
        raise KeyboardInterrupt


class TestResults:
    """What a handler returns."""

    @pytest.mark.parametrize(
        "value",
        [
            threading.Lock(),
            lambda: 1,
            (number for number in [1]),
            "x" * (endings.RESULT_LIMIT + 1),
            itself(),
            float("nan"),
            float("inf"),
            {1, 2},
            b"bytes",
            datetime(2030, 1, 1, tzinfo=UTC),
            "\ud800",
            {"\ud800": 1},
            {1: 2},
            {Hostile(): 1},
            HostileDict(x=1),
            Hostile(),
            object,
            10**5000,
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_what_cannot_be_stored_stays_a_success(self, value: Any) -> None:
        """It is done, and a marker says why there is no result (B64)."""
        found = end(Returned(value))
        assert found.kind is VerdictKind.DONE
        marker = json.loads(found.detail)
        assert list(marker) == ["not_stored"]
        assert 0 < len(marker["not_stored"]) <= 500
        found.detail.encode()

    @pytest.mark.parametrize("value", [0, False, "", [], {}, {"a": [1, None, 0.5]}, "é\u2028😀"])
    def test_json_values_are_kept(self, value: Any) -> None:
        """They come back as they were."""
        assert json.loads(end(Returned(value)).detail) == value

    def test_nothing_is_no_result(self) -> None:
        """A handler that returns nothing stores nothing."""
        assert end(Returned(None)).detail == ""

    def test_the_limit_is_inclusive(self) -> None:
        """A result of exactly the limit is kept."""
        value = "x" * (endings.RESULT_LIMIT - 2)
        assert end(Returned(value)).detail == f'"{value}"'


class Unprintable(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


class NotEvenText(Exception):
    """Is shown as something else than a text."""

    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Ends(Exception):
    """Ends the process when it is shown."""

    def __str__(self) -> str:
        raise SystemExit(3)


class TestErrors:
    """What a handler raises."""

    @pytest.mark.parametrize(
        "error", [Unprintable(), NotEvenText(), Ends()], ids=lambda error: type(error).__name__
    )
    def test_errors_that_cannot_be_shown(self, error: Exception) -> None:
        """The kind is told, and that there is no text."""
        found = error_of(end(Raised(error)))
        assert found["kind"] == type(error).__name__
        assert found["message"] == "(its text cannot be read)"

    def test_a_huge_message_is_cut(self) -> None:
        """Message and traceback keep to their limits, and the traceback to its end."""
        found = error_of(end(Raised(ValueError("m" * 1_000_000 + "!"))))
        assert len(found["message"]) == endings.ERROR_LIMIT
        assert len(found["traceback"]) <= endings.TRACEBACK_LIMIT + 4
        assert found["traceback"].endswith("!\n")

    def test_control_characters_are_escaped_in_the_reason(self) -> None:
        """NUL, ESC, newlines and lone surrogates are data in the error, and forge no line."""
        found = end(Raised(ValueError("a\0b\x1b[31m\nc\u2028\ud800")))
        assert error_of(found)["message"] == "a\0b\x1b[31m\nc\u2028\ud800"
        assert found.reason == r"ValueError: a\x00b\x1b[31m\nc\u2028\ud800"
        found.detail.encode()
        found.reason.encode()

    @pytest.mark.parametrize(
        "error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), BaseException("x")]
    )
    def test_base_exceptions_are_failures(self, error: BaseException) -> None:
        """They fail the attempt as any other."""
        found = end(Raised(error))
        assert found.kind is VerdictKind.RETRY
        assert error_of(found)["kind"] == type(error).__name__

    def test_the_traceback_shows_the_way(self) -> None:
        """Causes are part of it."""
        try:
            try:
                raise KeyError("inner")
            except KeyError as inner:
                raise ValueError("outer") from inner
        except ValueError as error:
            trace = error_of(end(Raised(error)))["traceback"]
        assert "KeyError: 'inner'" in trace
        assert "direct cause" in trace

    def test_groups_and_loops_of_causes(self) -> None:
        """Exception groups, and errors that are their own cause, end in a verdict."""
        error = ExceptionGroup("several", [ValueError("one"), OSError("two")])
        error.__cause__ = error
        assert error_of(end(Raised(error)))["kind"] == "ExceptionGroup"


@given(st.text(), st.integers(0, 5))
def test_any_message_becomes_a_line_and_a_json_text(message: str, failed: int) -> None:
    """Whatever the text, the reason is one printable line and the detail is JSON in ASCII."""
    found = end(Raised(ValueError(message)), failed=failed)
    assert found.reason.isascii()
    assert found.reason.isprintable()
    assert len(found.detail.encode()) < 200_000
    assert error_of(found)["message"] == message[: endings.ERROR_LIMIT]


@pytest.mark.parametrize("before", range(endings.ERROR_LIMIT - 40, endings.ERROR_LIMIT + 1, 5))
def test_no_part_of_a_secret_is_left_where_a_text_was_cut(before: int) -> None:
    """Of a message the end is cut, of a traceback the beginning, wherever the secret stands."""
    secret = "".join(chr(0x4E00 + index) for index in range(40))
    after = "y" * (endings.TRACEBACK_LIMIT - before % 50)
    result = end(Raised(ValueError("x" * before + secret + after)))
    stored = masked(result, lambda text: text.replace(secret, "***"))
    error = error_of(stored)
    assert not set(secret) & set(error["message"] + error["traceback"])
    assert len(error["message"]) > endings.ERROR_LIMIT / 2
    assert error["traceback"].endswith("y\n")


@pytest.mark.parametrize("secret", ["message", "kind", "traceback", '"}', "no luck"])
def test_secrets_are_masked_in_what_is_stored(secret: str) -> None:
    """In message, traceback and reason, whatever the secret is; the record keeps its shape."""
    result = end(Raised(ValueError(f"was {secret}")))
    stored = masked(result, lambda text: text.replace(secret, "***"))
    error = json.loads(stored.detail)
    assert error["message"] == "was ***"
    assert error["traceback"].rstrip().endswith("ValueError: was ***")
    assert stored.reason == "ValueError: was ***"
    assert masked(done(CLAIM, secret), str.upper) == done(CLAIM, secret)
