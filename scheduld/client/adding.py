"""What an add is made of, checked before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scheduld import payload as codec
from scheduld.clock import wall_ms
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput
from scheduld.model import OnConflict, instant
from scheduld.names import check_id, check_name, id_fault, new_id, printable
from scheduld.store.calls import NewTask
from scheduld.store.keys import encode_id
from scheduld.when import instant_ms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta, tzinfo

_CONFLICTS = ("error", "keep", "replace")
_TOKEN_LIMIT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task to schedule.

    `at`: WHEN text or datetime. `delay`: timedelta, duration text or seconds from the server's
    now. Neither: now. `id`: made if None. `token`: names this add; a repeat with the same id
    and token answers like the first time and stores nothing.
    """

    payload: Mapping[str, Any] | None = None
    at: str | datetime | None = None
    delay: timedelta | str | float | None = None
    id: str | None = None
    token: str | None = None

    def named(self) -> TaskSpec:
        """The same with id and token filled in, so that repeating it is safe."""
        task_id = self.id if self.id is not None else new_id(wall_ms())
        token = self.token
        if token is None:
            # A generated id is unique by itself: it is its own token, and costs no memory.
            token = task_id if self.id is None else new_id(wall_ms())
        return replace(self, id=task_id, token=token)


def prepare(
    spec: TaskSpec,
    *,
    timezone: str | tzinfo | None,
    allow_past: bool,
    max_payload: int,
) -> NewTask:
    """Check a named spec and turn it into what the store takes; raises InvalidInput, WhenError."""
    task_id = check_id(spec.id)
    data = codec.encode({} if spec.payload is None else spec.payload, max_bytes=max_payload)
    at_ms, delay_ms = _due(spec, timezone, allow_past)
    return NewTask(encode_id(task_id), data, _token(spec.token), at_ms, delay_ms)


def check_type(name: object) -> str:
    """Return a type's name; raises InvalidInput for what cannot be one."""
    return check_name("type", name)


def check_conflict(value: object) -> OnConflict:
    """Return an on_conflict; raises InvalidInput naming the three there are."""
    for known in _CONFLICTS:
        if value == known:
            return known  # type: ignore[return-value]
    raise InvalidInput(f"on_conflict is error, keep or replace, not {printable(repr(value)[:60])}")


def _due(spec: TaskSpec, timezone: str | tzinfo | None, allow_past: bool) -> tuple[int | None, int]:
    if spec.at is not None and spec.delay is not None:
        raise InvalidInput("at and delay cannot be given both", hint="give one of them")
    if spec.delay is not None:
        return None, parse_duration_ms(spec.delay, what="delay")
    if spec.at is None:
        return None, 0
    now_ms = wall_ms()
    at_ms = instant_ms(spec.at, timezone=timezone, now=instant(now_ms), allow_past=allow_past)
    if isinstance(spec.at, str) and spec.at.strip().startswith("+"):
        # "+5m" counts on the server's clock, like a delay: this host's may be off.
        return None, at_ms - now_ms
    return at_ms, 0


def _token(token: object) -> str:
    if not isinstance(token, str) or len(token) > _TOKEN_LIMIT or id_fault(token):
        raise InvalidInput(
            f"token {printable(str(token)[:60])!r} cannot be used",
            hint=f"1 to {_TOKEN_LIMIT} characters without spaces",
        )
    return token
