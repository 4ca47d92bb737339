"""What a reschedule predicate's answer means for its series. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld.duration import format_ms
from scheduld.errors import InvalidInput, WhenError
from scheduld.outcomes import Again, Outcome
from scheduld.payload import encode_json, parse
from scheduld.policies.endings import (
    Ending,
    Failed,
    GivenBack,
    Raised,
    Returned,
    TimedOut,
    error_dict,
    error_of,
    instant_of,
    safe_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_KIND = "reschedule_if"


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of a series; one without a predicate goes on.

    `at_ms`: when the next occurrence is due, if not at the next instant of the grid. `patch`
    changes the payload. `error`: why the answer cannot be followed; then the series goes on as
    it is.
    """

    goes_on: bool = True
    at_ms: int | None = None
    patch: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None


GOES_ON = Answer()


def answer(ending: Ending, now_ms: float) -> Answer:
    """Read how the call of a predicate ended; `now_ms` is the server's now."""
    match plain(ending):
        case Returned(None | False):
            return Answer(goes_on=False)
        case Returned(Again() as again):
            return _again(again, now_ms)
        case Returned(_):
            return GOES_ON
        case Failed(error):
            return Answer(error=_described(error))
        case TimedOut(limit_ms):
            words = f"no answer within {format_ms(limit_ms)} (reschedule_timeout)"
        case GivenBack():
            words = "the daemon stopped before there was an answer"
        case _:
            words = "no answer"
    return Answer(error=error_of(_KIND, words))


def plain(ending: Ending) -> Ending:
    """Reduce an ending to what can be told in a message: True, False, None, Again, an error."""
    try:
        return _plain(ending)
    except BaseException as exc:  # noqa: BLE001 - a value's own methods may raise anything
        return Failed(error_of("answer", f"it cannot be read: {safe_text(exc)}"))


def _plain(ending: Ending) -> Ending:
    match ending:
        case Returned(None | bool()):
            return ending
        case Returned(dict() as patch) if patch:
            return _checked(Again(payload=patch))
        case Returned(dict()):
            return Returned(True)
        case Returned(Again() as again) | Raised(Again() as again):
            return _checked(again)
        case Returned(Outcome() as value) | Raised(Outcome() as value):
            return _rubbish(f"{type(value).__name__}, which is for handlers")
        case Returned(value):
            return _rubbish(type(value).__name__)
        case Raised(error):
            return Failed(error_dict(error))
    return ending


def _checked(again: Again) -> Ending:
    patch = again.payload
    if patch is None:
        return Returned(again)
    if not isinstance(patch, dict):
        return _rubbish(f"Again with a payload of type {type(patch).__name__}")
    try:
        data = encode_json(patch, what="the patch")
    except InvalidInput as exc:
        return Failed(error_of("answer", exc.message))
    # A copy without methods of its own, which nobody changes any more.
    return Returned(Again(again.at, parse(data)))


def _rubbish(what: str) -> Failed:
    fine = "True, False, None, a dict or Again"
    return Failed(error_of("answer", f"it answered {what}; it may answer {fine}"))


def _again(again: Again, now_ms: float) -> Answer:
    try:
        at_ms = None if again.at is None else instant_of(again.at, now_ms, "at")
    except WhenError as exc:
        return Answer(error=error_of(_KIND, f"Again: {exc.message}"))
    except BaseException as exc:  # noqa: BLE001 - a value's own methods may raise anything
        return Answer(error=error_of(_KIND, f"Again: {safe_text(exc)}"))
    return Answer(at_ms=at_ms, patch=again.payload or None)


def _described(error: Mapping[str, Any]) -> dict[str, Any]:
    message = f"{error['kind']}: {error['message']}"
    return {**error_of(_KIND, message), "traceback": error.get("traceback")}
