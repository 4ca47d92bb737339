"""What a run's end means for its task: from an ending to a verdict. Pure, apart from `fraction`."""

from __future__ import annotations

import inspect
import json
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduld.duration import format_ms, parse_duration_ms
from scheduld.errors import InvalidInput, WhenError
from scheduld.model import Claim, RetryPolicy, Verdict, VerdictKind
from scheduld.names import printable
from scheduld.outcomes import Dead, Outcome, Retry, Snooze
from scheduld.payload import encode_json
from scheduld.policies.retry import wait_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RESULT_LIMIT = 64 * 1024
SHORTEST_SNOOZE_MS = 1_000
"""What a snooze until a time that has passed lasts."""
ERROR_LIMIT = 4 * 1024
TRACEBACK_LIMIT = 16 * 1024
_REASON_LIMIT = 200
_EDGE = 1_000
"""Characters that go where a text was cut: they may hold a part of a secret, which nobody knows."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler came to its end."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised, whatever it was."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed, and its error is described already: `kind`, `message`, `traceback`."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The run took longer than run_timeout."""

    limit_ms: int


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A stop, or a lease that was lost, ended the run; nothing is held against the task."""

    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The task cannot be run as it is stored: it is dead, and no attempt was made."""

    kind: str
    message: str


Ending = Returned | Raised | Failed | TimedOut | GivenBack | Unreadable


def verdict(
    claim: Claim,
    ending: Ending,
    *,
    policy: RetryPolicy,
    now_ms: float,
    fraction: float,
    output: str = "",
) -> Verdict:
    """Decide what becomes of a task; `now_ms` is the server's now, `fraction` random in [0, 1).

    `output` is the end of what the run wrote; it is kept with the error of a failed one.
    """

    def failed(
        error: dict[str, Any], after_ms: int | None = None, *, final: bool = False
    ) -> Verdict:
        if output:
            error = {**error, "output": output}
        failures = claim.failed + 1
        if final or failures >= policy.attempts:
            return _verdict(claim, VerdictKind.DEAD, error)
        wait = wait_ms(policy, failures, fraction) if after_ms is None else after_ms
        return _verdict(claim, VerdictKind.RETRY, error, delay_ms=wait)

    match ending:
        case Returned(Outcome() as outcome) | Raised(Outcome() as outcome):
            return _chosen(claim, outcome, failed, now_ms)
        case Returned(value):
            return done(claim, value)
        case Raised(error):
            return failed(error_dict(error))
        case Failed(error):
            return failed(error)
        case TimedOut(limit_ms):
            return failed(
                error_of("timeout", f"the run took longer than {format_ms(limit_ms)} (run_timeout)")
            )
        case GivenBack(delay_ms):
            return Verdict(claim.raw_id, claim.fence, VerdictKind.RELEASE, delay_ms=delay_ms)
        case Unreadable(kind, message):
            return _verdict(claim, VerdictKind.DEAD, error_of(kind, message), counted=False)


def returned(value: Any) -> Returned:
    """Take what a `def` handler returned; one that hides an `async def` has not run at all."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the handler returned a coroutine: declare it with async def")
    return Returned(value)


def done(claim: Claim, value: Any) -> Verdict:
    """Make the verdict of a run that came to its end with a result, or None."""
    detail = "" if value is None else result_text(value)
    return Verdict(claim.raw_id, claim.fence, VerdictKind.DONE, 0, 0, detail)


def masked(result: Verdict, mask: Callable[[str], str]) -> Verdict:
    """Take secrets out of what a failed run is stored with; any other verdict is as it was."""
    if result.kind not in (VerdictKind.RETRY, VerdictKind.DEAD):
        return result
    error = masked_error(json.loads(result.detail), mask)
    # From the whole text: a secret that was cut in the middle would not be found in the reason.
    return result._replace(detail=json.dumps(error), reason=reason_of(error))


def masked_error(error: Mapping[str, Any], mask: Callable[[str], str]) -> dict[str, Any]:
    """Take secrets out of the description of a failure, and what may be a part of one."""
    found = {key: mask(part) if isinstance(part, str) else part for key, part in error.items()}
    if len(error["message"]) >= ERROR_LIMIT:
        found["message"] = f"{found['message'][:-_EDGE]}..."
    if len(error.get("traceback") or "") >= TRACEBACK_LIMIT:
        found["traceback"] = f"...\n{found['traceback'][_EDGE:]}"
    return found


def _chosen(
    claim: Claim, outcome: Outcome, failed: Callable[..., Verdict], now_ms: float
) -> Verdict:
    try:
        match outcome:
            case Retry():
                after = None if outcome.after is None else parse_duration_ms(outcome.after)
                return failed(error_of("retry", safe_text(outcome)), after)
            case Snooze():
                at_ms = instant_of(outcome.until, now_ms)
                return Verdict(claim.raw_id, claim.fence, VerdictKind.SNOOZE, at_ms=at_ms)
            case Dead():
                return failed(error_of("dead", safe_text(outcome)), final=True)
    except WhenError as exc:
        hint = "; a reason goes as reason=..." if isinstance(outcome, Retry) else ""
        return failed(error_of("outcome", f"{type(outcome).__name__}: {exc.message}{hint}"))
    except BaseException as exc:  # noqa: BLE001 - a value's own methods may raise anything
        return failed(error_of("outcome", f"{type(outcome).__name__}: {safe_text(exc)}"))
    return failed(error_of("outcome", f"unknown outcome {type(outcome).__name__}"))


def instant_of(until: Any, now_ms: float, what: str = "until") -> int:
    """Read a time as outcomes take it, in ms; raises WhenError."""
    if isinstance(until, datetime):
        if until.tzinfo is None:
            raise WhenError(f"{what} is a datetime without a time zone")
        # Between two datetimes of one zone Python would count wall-clock hours.
        at_ms = (until - _EPOCH) // timedelta(milliseconds=1)
    else:
        at_ms = int(now_ms) + parse_duration_ms(until)
    # A time that has passed would run it again at once, and again: that is no snooze.
    return at_ms if at_ms > now_ms else int(now_ms) + SHORTEST_SNOOZE_MS


def result_text(value: Any) -> str:
    """Encode a result; one that cannot be stored becomes a marker that says why."""
    try:
        data = encode_json(value, what="the result")
    except InvalidInput as exc:
        return _marker(exc.message)
    except BaseException as exc:  # noqa: BLE001 - a value's own methods may raise anything
        return _marker(f"{type(value).__name__} is not JSON: {safe_text(exc)}")
    if len(data) > RESULT_LIMIT:
        return _marker(f"the result has {len(data)} bytes, at most {RESULT_LIMIT} are kept")
    return data.decode()


def error_dict(error: BaseException) -> dict[str, Any]:
    """Describe an exception within the limits; never raises, whatever the exception does."""
    try:
        trace = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - its own methods may raise anything
        trace = ""
    if len(trace) > TRACEBACK_LIMIT:
        # The end names what happened, the beginning is the way there.
        trace = "...\n" + trace[-TRACEBACK_LIMIT:]
    return {**error_of(type(error).__name__, safe_text(error)), "traceback": trace or None}


def safe_text(error: BaseException) -> str:
    """Text of an exception, even of one whose `__str__` fails."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - its own methods may raise anything
        return "(its text cannot be read)"
    return text[:ERROR_LIMIT]


def error_of(kind: str, message: str) -> dict[str, Any]:
    """Describe a failure within the limits."""
    return {"kind": kind[:200], "message": message[:ERROR_LIMIT]}


def _marker(why: str) -> str:
    return json.dumps({"not_stored": why[:500]})


def _verdict(
    claim: Claim,
    kind: VerdictKind,
    error: dict[str, Any],
    *,
    delay_ms: int = 0,
    counted: bool = True,
) -> Verdict:
    return Verdict(
        claim.raw_id,
        claim.fence,
        kind,
        delay_ms=delay_ms,
        # ASCII: an error text may hold lone surrogates, which are no UTF-8.
        detail=json.dumps(error),
        reason=reason_of(error),
        counted=counted,
    )


def reason_of(error: Mapping[str, Any]) -> str:
    """Say an error in one short line, for the events."""
    text = f"{error['kind']}: {error['message']}"[:_REASON_LIMIT]
    return printable(text).encode("ascii", "backslashreplace").decode()
