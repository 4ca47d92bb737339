"""How a run ended, as a message: written by the worker, read by the daemon.

Outcomes are built again on the other side, so that they mean there what they mean inline. What
is none of the kinds of time that an outcome takes is refused here, in the daemon's words.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduld.duration import parse_duration_ms
from scheduld.errors import WhenError
from scheduld.outcomes import Again, Dead, Outcome, Retry, Snooze
from scheduld.policies.endings import (
    TRACEBACK_LIMIT,
    Ending,
    Failed,
    Raised,
    Returned,
    error_dict,
    error_of,
    result_text,
    safe_text,
)
from scheduld.worker.frames import MOST_UP, BadFrame

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST = MOST_UP - 1024


def write(ending: Ending) -> bytes:
    """Write how a call ended: members of a JSON object."""
    return _members(ending).encode()


def message(number: int, members: bytes, *, is_spent: bool) -> bytes:
    """Make a message of what was written about a call; `is_spent`: the worker is to be replaced."""
    return b'{"end":%d,"spent":%b,%b}' % (number, b"true" if is_spent else b"false", members)


def read(message: dict[str, Any]) -> Ending:
    """Read what `write` wrote; raises BadFrame."""
    try:
        if "outcome" in message:
            return Returned(_outcome(message))
        if "error" in message:
            return Failed(_error(message["error"]))
        return Returned(message["value"])
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise BadFrame(f"an end that cannot be read ({type(exc).__name__})") from None


def _members(ending: Ending) -> str:
    match ending:
        case Returned(Outcome() as outcome) | Raised(Outcome() as outcome):
            return _outcome_members(outcome)
        case Returned(value):
            return f'"value": {"null" if value is None else result_text(value)}'
        case Raised(error):
            return f'"error": {json.dumps(error_dict(error))}'
        case Failed(described):
            return f'"error": {json.dumps(described)}'
    raise TypeError(f"{type(ending).__name__} is no end of a call")


def _outcome_members(outcome: Outcome) -> str:
    name = type(outcome).__name__
    told: dict[str, Any] = {"text": safe_text(outcome)}
    try:
        match outcome:
            case Retry():
                told |= {"outcome": "retry", "time": _time(outcome.after)}
            case Snooze():
                told |= {"outcome": "snooze", "time": _time(outcome.until)}
            case Dead():
                told |= {"outcome": "dead"}
            case Again():
                told |= {"outcome": "again", "time": _time(outcome.at), "patch": outcome.payload}
            case _:
                return f'"error": {json.dumps(error_of("outcome", f"unknown outcome {name}"))}'
        members = json.dumps(told)[1:-1]
        if len(members) > _MOST:
            error = error_of("outcome", f"{name}: more than {_MOST} bytes as a message")
            return f'"error": {json.dumps(error)}'
        return members
    except WhenError as exc:
        hint = "; a reason goes as reason=..." if isinstance(outcome, Retry) else ""
        error = error_of("outcome", f"{name}: {exc.message}{hint}")
    except BaseException as exc:  # noqa: BLE001 - a value's own methods may raise anything
        error = error_of("outcome", f"{name}: {safe_text(exc)}")
    return f'"error": {json.dumps(error)}'


def _time(value: Any) -> Any:
    """Write a time as it is: a text, number or null, or an object that says its kind."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return {"naive": value.isoformat()}
        return {"at_us": (value - _EPOCH) // _MICROSECOND}
    if isinstance(value, timedelta):
        return {"length_us": value // _MICROSECOND}
    if value is not None:
        parse_duration_ms(value)
    return value


_KINDS: dict[str, Callable[[Any], Any]] = {
    "naive": datetime.fromisoformat,
    "at_us": lambda us: _EPOCH + us * _MICROSECOND,
    "length_us": lambda us: us * _MICROSECOND,
}


def _outcome(message: dict[str, Any]) -> Outcome:
    text = str(message["text"])
    match message["outcome"]:
        case "retry":
            return Retry(_read_time(message["time"]), text)
        case "snooze":
            return Snooze(_read_time(message["time"]))
        case "dead":
            return Dead(text)
        case "again":
            return Again(_read_time(message["time"]), message["patch"])
    raise ValueError(message["outcome"])


def _read_time(told: Any) -> Any:
    if isinstance(told, dict):
        ((kind, value),) = told.items()
        return _KINDS[kind](value)
    return told


def _error(told: dict[str, Any]) -> dict[str, Any]:
    error = error_of(str(told["kind"]), str(told["message"]))
    trace = told.get("traceback")
    if trace is not None:
        error["traceback"] = str(trace)[: TRACEBACK_LIMIT + 8]
    return error
