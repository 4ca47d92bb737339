"""What an HTTP answer means for the task: done, dead, or a failed attempt. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from scheduld import payload as codec
from scheduld.errors import InvalidInput, ScheduldError
from scheduld.names import printable
from scheduld.outcomes import Dead, Retry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MOST_BODY = 48 * 1024
"""Bytes; what `max_response` may be at most, so that a result with it can be stored."""
LONGEST_WAIT_S = 86_400
"""A Retry-After beyond this is cut: a server that says "in a year" has a fault."""
RETRYABLE_4XX = frozenset({408, 425, 429})
_EXCERPT = 300
_MOST_ESCAPED = 60 * 1024


class CallFailed(ScheduldError):
    """The server could not be reached, or did not take the request now."""

    kind = "http_failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; `body` is its beginning if it is not `is_whole`. `headers` find any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    is_whole: bool = True


def without(answer: Answer, credentials: Collection[str]) -> Answer:
    """Return the answer without what it was sent to prove who asks: some servers send it back."""
    body = answer.body
    for text in sorted(credentials, key=len, reverse=True):
        for form in (text, json.dumps(text)[1:-1]):
            body = body.replace(form.encode(), b"***")
    return answer if body == answer.body else replace(answer, body=body)


def hidden(text: str, secrets: Collection[str]) -> str:
    """Return a text of the server without these, the longest first: one may hold another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def judge(answer: Answer, *, where: str, now_ms: float, secrets: Collection[str]) -> dict[str, Any]:
    """Return the result of a 2xx; raises Dead, Retry or CallFailed for all else.

    `where` names the server in the message; `secrets` are texts that must not be in it, since
    some servers answer with what they were sent. `now_ms` is for a Retry-After with a date.
    """
    if 200 <= answer.status <= 299:
        return result(answer)
    excerpt = _excerpt(answer, secrets)
    text = f"{where} answered {answer.status}{f': {excerpt}' if excerpt else ''}"
    if 400 <= answer.status <= 499 and answer.status not in RETRYABLE_4XX:
        raise Dead(text)
    wait_s = retry_after_s(answer.headers.get("Retry-After"), now_ms)
    if wait_s:
        raise Retry(after=wait_s, reason=text)
    raise CallFailed(text)


def result(answer: Answer) -> dict[str, Any]:
    """`status`, and `body`: JSON if it is that, else text; `body_cut` if it was longer."""
    told: dict[str, Any] = {"status": answer.status}
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        # Asked for as it is, sent packed: unpacked it could be a thousand times as long.
        return told | {"body_encoding": printable(answer.headers["Content-Encoding"])[:40]}
    body, is_cut = _content(answer)
    if body not in ("", None):
        told["body"] = body
    return told | ({"body_cut": True} if is_cut else {})


def retry_after_s(text: str | None, now_ms: float) -> int | None:
    """Seconds of a Retry-After header (a number or a date), at most LONGEST_WAIT_S.

    None if there is none, or it is over, or it says nothing that can be read.
    """
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        seconds = int(text[:12])
    else:
        try:
            moment = parsedate_to_datetime(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = int(moment.timestamp() - now_ms / 1000 + 0.999)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return min(seconds, LONGEST_WAIT_S) if seconds > 0 else None


def _content(answer: Answer) -> tuple[Any, bool]:
    kind = Message()
    kind["Content-Type"] = printable(answer.headers.get("Content-Type", ""))
    is_json = kind.get_content_type().endswith(("/json", "+json"))
    if is_json and answer.is_whole and answer.body:
        try:
            value = codec.parse(answer.body)
            codec.encode_json(value)  # not so if it has a lone surrogate
            return value, False
        except InvalidInput:
            pass  # a text, then
    text = _decoded(answer.body, kind.get_content_charset("utf-8"))
    if len(json.dumps(text, ensure_ascii=False).encode()) > _MOST_ESCAPED:
        return text[: _MOST_ESCAPED // 6], True
    return text, not answer.is_whole


def _decoded(body: bytes, charset: str) -> str:
    if "punycode" in charset.lower():
        charset = "utf-8"  # no charset of a text, and takes a second
    try:
        text = body.decode(charset, "replace")
    except (LookupError, ValueError):
        text = body.decode(errors="replace")
    return text.encode(errors="replace").decode()  # some charsets can spell a lone surrogate


def _excerpt(answer: Answer, secrets: Collection[str]) -> str:
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        return ""
    text = hidden(_decoded(answer.body, "utf-8"), secrets)
    text = printable(" ".join(text.split()))
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."
