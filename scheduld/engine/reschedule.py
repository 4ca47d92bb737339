"""What comes after an occurrence of a periodic task, as the store takes it. Pure.

How the store reads it: scheduld/store/lua/include/period.lua.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld import payload as codec
from scheduld.calendar.period import Period, rule_of
from scheduld.errors import InvalidInput, ScheduldError
from scheduld.model import Claim, Verdict, VerdictKind
from scheduld.policies.endings import error_of, masked_error, reason_of
from scheduld.policies.merge import merge
from scheduld.schedule import tick_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduld.calendar.rule import Rule
    from scheduld.policies.reschedule import Answer

_ID_BYTES = 200
_MOST_MISSED = 10**12
FINAL = frozenset((VerdictKind.DONE, VerdictKind.DEAD, VerdictKind.PLAN))
"""The verdicts that end an occurrence; all others are waits within it."""


class _After(NamedTuple):
    """What follows: the rule it was found by, the new payload or None, and what went wrong."""

    rule: Rule
    payload: bytes | None
    error: Mapping[str, Any] | None


def ends_occurrence(claim: Claim, result: Verdict) -> bool:
    """Whether a verdict is the end of an occurrence of a periodic task."""
    return claim.fields is not None and claim.is_periodic and result.kind in FINAL


def of_what_is_over(claim: Claim) -> Verdict:
    """Make the verdict of a claim that is not to be run, as its occurrence has ended."""
    if claim.over != "interrupted":
        return Verdict(claim.raw_id, claim.fence, VerdictKind.PLAN)
    words = f"the worker was lost in {claim.interruptions} runs"
    error = error_of("interrupted", words)
    return Verdict(
        claim.raw_id,
        claim.fence,
        VerdictKind.DEAD,
        detail=json.dumps(error),
        reason=reason_of(error),
        counted=False,
    )


def with_next(
    claim: Claim,
    result: Verdict,
    answer: Answer,
    *,
    now_ms: float,
    max_payload: int,
    mask: Callable[[str], str] = str,
) -> Verdict:
    """Give the last verdict of an occurrence what comes after it; never raises ScheduldError.

    `now_ms` is the server's now. A series whose rule cannot be read is dead.
    """
    told = _seen(claim, result)
    try:
        period = Period.read(claim.fields or {})
        if period is None:
            told["ends"] = "no longer periodic"  # somebody has changed it since
        else:
            period = period.begun_at(_nominal_ms(claim))
            after = _after(claim, period, answer, max_payload)
            told |= _next(claim, result, period, answer, after.rule, int(now_ms))
            told |= _told(after, mask)
    except ScheduldError as exc:
        error = error_of("period", f"the series cannot go on: {exc.message}")
        result = result._replace(
            kind=VerdictKind.DEAD, detail=json.dumps(error), reason=reason_of(error), counted=False
        )
        told = {**_seen(claim, result), "ends": "broken"}
    lines = [name.encode() + b"=" + _line(value) for name, value in told.items()]
    return result._replace(told=b"\n".join(lines))


def _line(value: bytes | str | int) -> bytes:
    data = value if isinstance(value, bytes) else str(value).encode()
    # Payloads of other programs may have line breaks; between the parts of JSON a blank is one.
    return data.replace(b"\n", b" ")


def _seen(claim: Claim, result: Verdict) -> dict[str, bytes | str | int]:
    """What the run was of: an edit since then counts more than what is said here."""
    payload = claim.payload or b""
    told: dict[str, bytes | str | int] = {
        "revision": _number(claim, "revision"),
        "digest": hashlib.sha1(payload, usedforsecurity=False).hexdigest(),
    }
    if result.kind is VerdictKind.DEAD:
        told |= {"copy": _copy_id(claim), "seen": payload or b"{}"}
    return told


def _copy_id(claim: Claim) -> bytes:
    """Name the task that an occurrence is kept as when it is dead."""
    stamp = tick_id("", claim.due_ms).encode()
    raw_id = claim.raw_id
    if len(raw_id) + len(stamp) > _ID_BYTES:
        digest = hashlib.sha1(raw_id, usedforsecurity=False).hexdigest()[:12].encode()
        head = raw_id[: _ID_BYTES - len(stamp) - len(digest) - 1]
        raw_id = head.decode(errors="ignore").encode() + b"~" + digest
    return raw_id + stamp


def _after(claim: Claim, period: Period, answer: Answer, max_payload: int) -> _After:
    """Change the payload, and find the rule; a patch that breaks either is left out."""
    try:
        payload = codec.decode(claim.payload)
    except InvalidInput:
        if period.series is not None:
            raise
        return _After(rule_of(period, {}), None, answer.error)  # a grid needs none
    if not answer.patch:
        return _After(rule_of(period, payload), None, answer.error)
    try:
        merged = merge(payload, answer.patch)
        data = codec.encode(merged, max_bytes=max_payload)
        return _After(rule_of(period, codec.decode(data)), data, None)
    except InvalidInput as exc:
        error = error_of("reschedule_if", f"its patch was left out: {exc.message}")
        return _After(rule_of(period, payload), None, error)


def _next(
    claim: Claim, result: Verdict, period: Period, answer: Answer, rule: Rule, now_ms: int
) -> dict[str, str | int]:
    if not answer.goes_on:
        return {"ends": "predicate"}
    runs = _number(claim, "runs") + (result.kind is not VerdictKind.PLAN)
    if period.max_runs is not None and runs >= period.max_runs:
        return {"ends": "max_runs"}
    nominal = _nominal_ms(claim)
    after_ms = max(nominal, now_ms)
    if period.series is not None and not rule.count(nominal - 1, nominal):
        after_ms = now_ms  # the ladder was moved: of the new one nothing ahead is left out
    grid_ms = rule.after(after_ms)
    at_ms = grid_ms if answer.at_ms is None else answer.at_ms
    told: dict[str, str | int] = {}
    if now_ms > nominal and (missed := rule.count(nominal, now_ms, _MOST_MISSED)):
        told["missed"] = missed
    if at_ms is None or (period.until_ms is not None and at_ms > period.until_ms):
        is_whole = period.series is not None and period.until_ms is None
        return {**told, "ends": "series" if is_whole else "until"}
    told["at"] = at_ms
    if grid_ms is not None and at_ms != grid_ms:
        told["grid"] = grid_ms
    return told


def _told(after: _After, mask: Callable[[str], str]) -> dict[str, bytes | str | int]:
    told: dict[str, bytes | str | int] = {}
    if after.payload is not None:
        told["payload"] = after.payload
    if after.error is not None:
        error = masked_error(after.error, mask)
        told |= {"error": json.dumps(error), "failed": reason_of(error)}
    return told


def _nominal_ms(claim: Claim) -> int:
    """The instant of the grid that an occurrence stands for, also if it was moved."""
    return _number(claim, "grid") or claim.due_ms


def _number(claim: Claim, name: str) -> int:
    raw = (claim.fields or {}).get(name, b"")
    return int(raw) if raw.isdigit() and len(raw) <= 15 else 0
