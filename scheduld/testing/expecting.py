"""What a test expects, held against what there is; the messages say what there is instead."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

from scheduld.duration import in_words
from scheduld.model import instant
from scheduld.names import printable
from scheduld.when import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduld.model import Task
    from scheduld.testing.worker import RunRecord

_SHOWN = 10
_MOST_CHARS = 200


@dataclass(frozen=True, slots=True)
class Found:
    """A task or a run, as far as it can be expected to be something."""

    type: str
    id: str
    payload: Any
    at_ms: int | None = None
    outcome: str | None = None
    reason: str = ""

    @classmethod
    def task(cls, task: Task) -> Found:
        """A task that is kept."""
        return cls(task.type, task.id, task.payload, task.due_ms, None, _reason(task))

    @classmethod
    def run(cls, run: RunRecord) -> Found:
        """A run that was made."""
        at_ms = int(run.at.timestamp() * 1000)
        reason = "" if run.outcome == "done" or run.task is None else _reason(run.task)
        return cls(run.type, run.id, run.payload, at_ms, run.outcome, reason)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a task or a run must be; None: anything. `reason` is a part of the text."""

    type: str
    id: str | None = None
    payload: Any = None
    at_ms: int | None = None
    outcome: str | None = None
    reason: str | None = None

    def differences(self, found: Found, show: Clock) -> list[str]:
        """Say in what a found one differs; empty if it is as expected."""
        told = [] if self.type == found.type else [f"type is {found.type!r}"]
        for name in ("id", "outcome"):
            wanted, is_ = getattr(self, name), getattr(found, name)
            if wanted is not None and wanted != is_:
                told.append(f"{name} is {is_!r}")
        if self.at_ms is not None and self.at_ms != found.at_ms:
            told.append(f"it is at {show(found.at_ms)}")
        if self.reason is not None and self.reason not in found.reason:
            told.append(f"its reason is {found.reason!r}")
        if self.payload is not None:
            told += differences(self.payload, found.payload, "payload")
        return told

    def words(self, show: Clock) -> str:
        """Say what is expected."""
        told = [str(self.type) if self.id is None else f"{self.type}/{self.id}"]
        if self.outcome is not None:
            told.append(f"with outcome {self.outcome!r}")
        if self.payload is not None:
            told.append(f"with payload {_short(self.payload)}")
        if self.at_ms is not None:
            told.append(f"at {show(self.at_ms)}")
        if self.reason is not None:
            told.append(f"with {self.reason!r} in its reason")
        return " ".join(told)


@dataclass(frozen=True, slots=True)
class Clock:
    """How instants are shown: in a zone, and how far from the test's now."""

    zone: str | None
    now_ms: int

    def __call__(self, at_ms: int | None) -> str:
        """Tell one instant."""
        if at_ms is None:
            return "no time"
        moment = instant(at_ms)
        with suppress(OverflowError):
            moment = moment.astimezone(load_zone(self.zone) if self.zone else UTC)
        text = moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds")
        return f"{text} ({in_words(at_ms - self.now_ms)})"


def fault(
    expected: Expected, found: Sequence[Found], times: int | None, did: str, show: Clock
) -> str | None:
    """Say what is wrong with what was found, None if nothing is.

    `times`: how many must be as expected; None: at least one. `did`: such as "ran".
    """
    count = sum(not expected.differences(one, show) for one in found)
    if (count and times is None) or times == count:
        return None
    words = expected.words(show)
    if times is None:
        head = f"no task {words} {did}"
    else:
        head = f"{words} {did} {count} times, expected {times}"
    return "\n".join([head, *_told(expected, found, did, show)])


def nothing(found: Sequence[Found], did: str, show: Clock) -> str | None:
    """Say what there is where nothing should be, None if there is nothing."""
    if not found:
        return None
    lines = [_line(one, show) for one in found[:_SHOWN]]
    return "\n".join([f"nothing should have {did}, but there is", *lines, *_more(found)])


def _told(expected: Expected, found: Sequence[Found], did: str, show: Clock) -> Iterator[str]:
    if not found:
        yield f"nothing at all {did}"
        return
    yield f"what {did}:"
    near = sorted(found, key=lambda one: _distance(expected, one, show))
    for one in near[:_SHOWN]:
        yield _line(one, show)
        # In what another type differs is of no interest.
        if one.type == expected.type:
            told = expected.differences(one, show)
            yield from (f"      {line}" for line in told or ["is as expected"])
    yield from _more(near)


def _distance(expected: Expected, found: Found, show: Clock) -> tuple[bool, int]:
    return found.type != expected.type, len(expected.differences(found, show))


def _line(one: Found, show: Clock) -> str:
    outcome = f" {one.outcome}" if one.outcome else ""
    reason = f" [{printable(one.reason)}]" if one.reason else ""
    payload = _short(one.payload)
    return f"  {one.type}/{printable(one.id)}{outcome}{reason} at {show(one.at_ms)} {payload}"


def _more(found: Sequence[Found]) -> list[str]:
    return [f"  ... and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []


def differences(wanted: Any, is_: Any, place: str) -> list[str]:
    """Say where two JSON values differ, one line a place; `wanted` may hold `mock.ANY`."""
    if isinstance(wanted, Mapping) and isinstance(is_, dict):
        told = []
        for key in [*wanted, *(key for key in is_ if key not in wanted)]:
            inside = f"{place}.{key}"
            if key not in is_:
                told.append(f"{inside} is missing, expected {_short(wanted[key])}")
            elif key not in wanted:
                told.append(f"{inside} is {_short(is_[key])}, expected no such key")
            else:
                told += differences(wanted[key], is_[key], inside)
        return told
    # JSON has no tuples: what was added as one is a list.
    if isinstance(wanted, list | tuple) and isinstance(is_, list) and len(wanted) == len(is_):
        pairs = enumerate(zip(wanted, is_, strict=True))
        return [line for at, pair in pairs for line in differences(*pair, f"{place}[{at}]")]
    # Python takes True for 1, JSON does not.
    is_mixed = isinstance(wanted, int) and isinstance(wanted, bool) != isinstance(is_, bool)
    if wanted == is_ and not is_mixed:
        return []
    return [f"{place} is {_short(is_)}, expected {_short(wanted)}"]


def _reason(task: Task) -> str:
    error = task.error or {}
    kind, message = error.get("kind"), error.get("message")
    return ": ".join(str(part) for part in (kind, message) if part)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}..."
