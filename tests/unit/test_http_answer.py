"""What an HTTP answer means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from scheduld.handlers.http_answer import (
    LONGEST_WAIT_S,
    MOST_BODY,
    Answer,
    CallFailed,
    judge,
    result,
    retry_after_s,
)
from scheduld.outcomes import Dead, Retry
from scheduld.policies.endings import result_text

NOW = datetime(2026, 12, 24, 8, tzinfo=UTC)
NOW_MS = NOW.timestamp() * 1000


def judged(status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> Any:
    """What an answer means."""
    answer = Answer(status, headers or {}, body)
    return judge(answer, where="https://x.org", now_ms=NOW_MS, secrets={"s3cret-key"})


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_done(status: int) -> None:
    """Any 2xx is a result."""
    assert judged(status) == {"status": status}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 451, 499])
def test_4xx_is_dead(status: int) -> None:
    """What the server will not take at the next try either is dead at once."""
    with pytest.raises(Dead, match=f"https://x.org answered {status}: no"):
        judged(status, {"Retry-After": "5"}, b"no")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599, 301, 304, 999, 100])
def test_others_are_failed_attempts(status: int) -> None:
    """All else may be over at the next try; a Retry-After says when that is."""
    with pytest.raises(CallFailed, match=f"answered {status}"):
        judged(status)
    with pytest.raises(Retry) as caught:
        judged(status, {"Retry-After": "7"})
    assert caught.value.after == 7
    assert f"answered {status}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 120 ", 120),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        ("Thu, 24 Dec 2026 08:00:30 -0000", 30),
        ("999999999999999999999", LONGEST_WAIT_S),
        (format_datetime(NOW + timedelta(days=900), usegmt=True), LONGEST_WAIT_S),
        ("0", None),
        ("-5", None),
        ("1.5", None),
        ("\u0663", None),
        ("", None),
        (None, None),
        ("soon", None),
        ("Thu, 99 Dec 2026 08:00:00 GMT", None),
        ("Thu, 24 Dec 99999 08:00:00 GMT", None),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), None),
    ],
)
def test_retry_after(text: str | None, seconds: int | None) -> None:
    """Seconds or a date, cut at a day; what is over or unreadable is as if it were not there."""
    assert retry_after_s(text, NOW_MS) == seconds


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"Content-Type": "application/json"}, b'{"a": [1]}', {"a": [1]}),
        ({"Content-Type": "application/problem+json; charset=utf-8"}, b"[1]", [1]),
        ({"Content-Type": "application/json"}, b'{"a": NaN}', '{"a": NaN}'),
        ({"Content-Type": "application/json"}, b"{", "{"),
        ({"Content-Type": "application/json"}, b'["\\ud800"]', '["\\ud800"]'),
        ({"Content-Type": "text/plain; charset=utf-7"}, b"+2AA-", "?"),
        ({"Content-Type": "text/plain; charset=latin-1"}, b"\xe9", "\u00e9"),
        ({"Content-Type": "text/plain; charset=no-such"}, b"\xe9", "\ufffd"),
        ({"Content-Type": "text/plain; charset=hex"}, b"zz", "zz"),
        ({"Content-Type": "\x00;;;=\n"}, b"x", "x"),
        ({"Content-Type": "text/plain; charset=Punycode"}, b"Mnchen-3ya", "Mnchen-3ya"),
        ({}, b"\xff\x00", "\ufffd\x00"),
    ],
)
def test_the_body_is_kept(headers: dict[str, str], body: bytes, expected: Any) -> None:
    """JSON as JSON, all else as text, whatever it claims to be."""
    assert result(Answer(200, headers, body)) == {"status": 200, "body": expected}


def test_a_body_that_was_cut_says_so() -> None:
    """Part of a JSON text is a text."""
    answer = Answer(200, {"Content-Type": "application/json"}, b'{"a"', is_whole=False)
    assert result(answer) == {"status": 200, "body": '{"a"', "body_cut": True}


def test_a_packed_body_is_not_unpacked() -> None:
    """What was packed although nobody asked for it is left alone."""
    told = result(Answer(200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"))
    assert told == {"status": 200, "body_encoding": "gzip"}


@pytest.mark.parametrize("char", [b"\x00", b"a", b'"', b"\xff"])
def test_every_body_can_be_stored(char: bytes) -> None:
    """The longest body that is read fits into a result, however much it grows as JSON."""
    told = result(Answer(200, {}, char * MOST_BODY))
    assert "not_stored" not in result_text(told)
    assert told["body"].startswith(char.decode(errors="replace"))


def test_messages_repeat_no_secret_and_are_one_line() -> None:
    """A server that answers with what it was sent does not get it into our errors."""
    with pytest.raises(Dead) as caught:
        judged(401, body=b"bad key:\n s3cret-key\x1b[2J " + b"x" * 9_000)
    text = str(caught.value)
    assert "***" in text
    assert "s3cret-key" not in text
    assert text.isprintable()
    assert len(text) < 400
