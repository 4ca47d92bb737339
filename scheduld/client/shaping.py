"""What an add says about load: order, keys, expiry, and what a task must be alone in.

It is checked here, and goes to the store packed: lines of NAME=VALUE, read by
`store/lua/include/load.lua`. A plain add has none of it, and pays nothing.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from scheduld.client.adding import PERIOD_OPTIONS
from scheduld.clock import wall_ms
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput
from scheduld.model import instant
from scheduld.names import id_fault, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    from scheduld.calendar.period import Series
    from scheduld.client.adding import TaskSpec
    from scheduld.client.periods import Recurrence

HIGHEST = 100
_UNIQUE_LIMIT = 1_000
_TOGETHER = "cannot be given both"


class Shape:
    """The packed load of one task, the fields of the `Task` that it leads to, and its due."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.fields: dict[str, Any] = {}
        self.expires_after_ms: int | None = None
        self.due: tuple[int | None, int] = (None, 0)
        self.recurrence: Recurrence | None = None

    @property
    def packed(self) -> str:
        """The text for the store."""
        return "\n".join(self._lines)

    def add(self, name: str, value: object) -> None:
        """Add one line."""
        self._lines.append(f"{name}={value}")

    def recur(self, found: Recurrence) -> None:
        """Take what makes the task come again."""
        for name, value in found.packed().items():
            self.add(name, value)
        self.due, self.recurrence = found.due, found

    def task_fields(self, due_ms: int | None) -> dict[str, Any]:
        """Return the fields of the task that is due at `due_ms`."""
        if due_ms is None:
            return self.fields
        if self.expires_after_ms is not None:
            return {**self.fields, "expires_ms": due_ms + self.expires_after_ms}
        if self.recurrence is not None:
            return {**self.fields, **self.recurrence.task_fields(due_ms)}
        return self.fields


def shape_of(
    spec: TaskSpec,
    payload: Mapping[str, Any],
    due: tuple[int | None, int],
    *,
    timezone: str | tzinfo | None,
    on_conflict: str,
    series: Series | None = None,
) -> Shape:
    """Check what a task says about load and coming again; `due` is its instant, or None and ms
    from now, `series` the ladder of its type.

    Raises InvalidInput or WhenError.
    """
    shape = Shape()
    shape.due = due
    if series is not None or any(getattr(spec, name) is not None for name in PERIOD_OPTIONS):
        _recurrence(shape, spec, payload, timezone, series)
    if _priority(spec.priority):
        shape.add("priority", spec.priority)
        shape.fields["priority"] = spec.priority
    if spec.key is not None:
        shape.add("key", _key(spec.key))
        shape.fields["key"] = spec.key
    if spec.expires is not None:
        _expiry(shape, spec.expires, due, timezone)
    _contradictions(spec, on_conflict)
    if spec.unique is not None and spec.unique is not False:
        shape.add("unique", _digest(spec.unique, payload))
    period = spec.unique_for if spec.throttle is None else spec.throttle
    if period is not None:
        what = "unique_for" if spec.throttle is None else "throttle"
        shape.add("unique_for", _positive(period, what))
    if spec.throttle is not None:
        shape.add("on_conflict", "keep")
    if spec.debounce is not None:
        _debounce(shape, spec)
    return shape


def _recurrence(
    shape: Shape,
    spec: TaskSpec,
    payload: Mapping[str, Any],
    timezone: str | tzinfo | None,
    series: Series | None,
) -> None:
    from scheduld.client.periods import recurrence_of  # the calendar is large

    found = recurrence_of(spec, payload, shape.due, timezone=timezone, series=series)
    if found is not None:
        shape.recur(found)


def _contradictions(spec: TaskSpec, on_conflict: str) -> None:
    has_unique = spec.unique is not None and spec.unique is not False
    for name in ("unique_for", "throttle"):
        if getattr(spec, name) is not None and not has_unique:
            raise InvalidInput(f"{name} needs unique", hint="say in what there is to be only one")
    if spec.debounce is None:
        if spec.debounce_max is not None:
            raise InvalidInput("debounce_max needs debounce")
    elif not (has_unique or spec.id is not None):
        raise InvalidInput("debounce needs unique or id", hint="say which adds belong together")
    elif spec.at is not None or spec.delay is not None:
        raise InvalidInput("debounce says when the task is due", hint="leave at and delay out")
    pairs = (("debounce", "throttle"), ("debounce", "unique_for"), ("throttle", "unique_for"))
    for first, second in pairs:
        if getattr(spec, first) is not None and getattr(spec, second) is not None:
            raise InvalidInput(f"{first} and {second} {_TOGETHER}", hint="give one of them")
    for name in ("debounce", "throttle"):
        if getattr(spec, name) is not None and on_conflict != "error":
            raise InvalidInput(f"{name} decides itself what a clash means", hint="no on_conflict")


def _priority(value: object) -> bool:
    if not isinstance(value, int) or isinstance(value, bool) or not -HIGHEST <= value <= HIGHEST:
        raise InvalidInput(
            f"priority is a whole number from -{HIGHEST} to {HIGHEST}, "
            f"not {printable(repr(value)[:60])}"
        )
    return value != 0


def _key(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"key is a text, not {type(value).__name__}")
    fault = id_fault(value)
    if fault:
        raise InvalidInput(
            f"key {printable(value[:60])!r} {fault}",
            hint="1 to 200 bytes of UTF-8 without spaces and control characters",
        )
    return value


def _expiry(
    shape: Shape, value: Any, due: tuple[int | None, int], timezone: str | tzinfo | None
) -> None:
    after = _duration_or_none(value)
    if after is not None:
        shape.add("expires_after", after)
        shape.expires_after_ms = after
        return
    from scheduld.when import instant_ms

    now_ms = wall_ms()
    at_ms = instant_ms(value, timezone=timezone, now=instant(now_ms))
    due_ms = now_ms + due[1] if due[0] is None else due[0]
    if at_ms <= due_ms:
        raise InvalidInput("expires is not after the due time", hint="it could never start")
    shape.add("expires", at_ms)
    shape.fields["expires_ms"] = at_ms


def _duration_or_none(value: Any) -> int | None:
    """Read a length of time; None for an instant. A text is one if it can be read as one."""
    from datetime import datetime

    if isinstance(value, datetime) or (isinstance(value, str) and not is_duration(value)):
        return None
    return _positive(value, "expires")


def is_duration(text: str) -> bool:
    """Whether a text means a length of time, right or wrong, and no instant."""
    return not ("-" in text or ":" in text or text.strip()[:1] in ("+", "@"))


def _positive(value: Any, what: str) -> int:
    ms = parse_duration_ms(value, what=what)
    if ms == 0:
        raise InvalidInput(f"{what} is no time at all", hint="at least 1ms")
    return ms


def _debounce(shape: Shape, spec: TaskSpec) -> None:
    wait = _positive(spec.debounce, "debounce")
    shape.add("debounce", wait)
    if spec.debounce_max is not None:
        longest = _positive(spec.debounce_max, "debounce_max")
        if longest < wait:
            raise InvalidInput("debounce_max is shorter than debounce")
        shape.add("debounce_max", longest)


def _digest(unique: object, payload: Mapping[str, Any]) -> str:
    """Name what a task is unique in, the same in every program: a hash of canonical JSON."""
    return hashlib.blake2b(
        json.dumps(
            _subject(unique, payload), sort_keys=True, separators=(",", ":"), ensure_ascii=True
        ).encode(),
        digest_size=16,
    ).hexdigest()


def _subject(unique: object, payload: Mapping[str, Any]) -> list[Any]:
    if unique is True:
        return ["payload", payload]
    if isinstance(unique, str):
        if not 1 <= len(unique) <= _UNIQUE_LIMIT:
            raise InvalidInput(
                f"unique has {len(unique)} characters, 1 to {_UNIQUE_LIMIT} are fine"
            )
        return ["text", unique]
    if not isinstance(unique, list | tuple) or not unique:
        raise InvalidInput(
            f"unique is True, a text or a list of payload fields, not {type(unique).__name__}"
        )
    for name in unique:
        if not isinstance(name, str) or name not in payload:
            raise InvalidInput(
                f"the payload has no field {printable(str(name)[:60])!r} to be unique in",
                hint=f"it has: {printable(', '.join(payload)[:200]) or 'none'}",
            )
    return ["fields", {name: payload[name] for name in unique}]
