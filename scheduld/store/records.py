"""Stored tasks as people read them: from indexes and fields to a `Task`. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld import notes
from scheduld import payload as codec
from scheduld.errors import InvalidInput
from scheduld.model import State, Task, iso
from scheduld.names import id_time_ms
from scheduld.store.answers import to_ms
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from scheduld.store.answers import RawTask

_PLAIN = {"payload", "token"}


def state_of(raw: RawTask) -> State | None:
    """Where the task is; None if it is in no index. The same order as lua/include/state.lua."""
    if raw.lease_end_ms is not None:
        return State.SCHEDULED if "early" in raw.fields else State.RUNNING
    if raw.due_ms is not None:
        return State.SCHEDULED
    if raw.died_ms is not None:
        return State.DEAD
    if raw.finished_ms is None:
        return None
    return State.CANCELLED if raw.fields.get("outcome") == b"cancelled" else State.DONE


def to_task(type_name: str, raw: RawTask) -> Task | None:
    """Read a stored task; None if there is none."""
    state = state_of(raw)
    if state is None:
        return None
    fields = raw.fields
    payload, error = _payload(fields)
    if _is_plain(raw) and error is None:
        task_id = decode_id(raw.raw_id)
        added_ms = id_time_ms(_text(fields, "token") or task_id)
        return Task.scheduled(type_name, task_id, raw.due_ms, added_ms, payload, None)
    ended = state not in (State.SCHEDULED, State.RUNNING)
    if not ended:
        fields = _of_this_life(raw)
    failed = _number(fields, "failed") or 0
    return Task(
        type=type_name,
        id=decode_id(raw.raw_id),
        state=state,
        due_ms=_due_ms(raw, state),
        added_ms=id_time_ms(_text(fields, "token") or decode_id(raw.raw_id)),
        payload=payload,
        attempt=_attempt(state, failed),
        failed=failed,
        releases=_number(fields, "releases") or 0,
        interruptions=_number(fields, "interruptions") or 0,
        fence=_number(fields, "fence"),
        revision=_number(fields, "revision") or 0,
        **_recurrence(fields),
        owner=_text(fields, "owner") if state is not State.SCHEDULED else None,
        started_ms=_started_ms(fields) if state is not State.SCHEDULED else None,
        cancelling=_cancelling(fields) if state is State.RUNNING else None,
        finished_ms=(raw.died_ms if state is State.DEAD else raw.finished_ms) if ended else None,
        outcome=_text(fields, "outcome") or ("success" if state is State.DONE else None),
        result=_json(fields, "result"),
        progress=_json(fields, "progress"),
        log=_log(fields),
        successor=_successor(fields),
        error=_error(raw) or _json(fields, "error") or error,
        priority=_priority(fields),
        key=_text(fields, "key"),
        expires_ms=_number(fields, "expires"),
        waits_until_ms=_waits_until_ms(raw, state),
    )


def _of_this_life(raw: RawTask) -> dict[str, bytes]:
    """Leave out what an ended id keeps until its next claim after a plain ZADD scheduled it."""
    is_in_ended = raw.finished_ms is not None or raw.died_ms is not None
    if (is_in_ended and "fence" in raw.fields) or "outcome" in raw.fields:
        return {name: raw.fields[name] for name in ("payload", "token") if name in raw.fields}
    return raw.fields


def _is_plain(raw: RawTask) -> bool:
    """Whether nothing has happened to a task that waits, as to most: then its defaults hold."""
    is_scheduled = raw.due_ms is not None and raw.lease_end_ms is None
    return is_scheduled and raw.key_type == "hash" and raw.fields.keys() <= _PLAIN


def _due_ms(raw: RawTask, state: State) -> int | None:
    if state is State.SCHEDULED:
        moved_from = _moved_from(raw)
        if moved_from is not None:
            return moved_from
        return raw.due_ms if raw.due_ms is not None else _number(raw.fields, "early")
    return _number(raw.fields, "due")


def _moved_from(raw: RawTask) -> int | None:
    """Where a task stood in `due` before it was moved, for its priority or its key."""
    moved = raw.fields.get("moved", b"").split()
    if len(moved) == 2 and raw.due_ms is not None and to_ms(moved[1]) == raw.due_ms:
        return to_ms(moved[0])
    return None


def _waits_until_ms(raw: RawTask, state: State) -> int | None:
    moved_from = _moved_from(raw) if state is State.SCHEDULED else None
    is_later = moved_from is not None and raw.due_ms is not None and raw.due_ms > moved_from
    return raw.due_ms if is_later else None


def _attempt(state: State, failed: int) -> int | None:
    if state in (State.RUNNING, State.DONE):
        return failed + 1
    return failed if state is State.DEAD and failed else None


def _started_ms(fields: dict[str, bytes]) -> int | None:
    fence = _number(fields, "fence")
    # The fence is at least the server's time of the claim, in µs.
    return _number(fields, "started") or (None if fence is None else fence // 1000)


def _payload(fields: dict[str, bytes]) -> tuple[Any, dict[str, Any] | None]:
    try:
        return codec.decode(fields.get("payload")), None
    except InvalidInput as exc:
        return None, {"kind": "payload", "message": exc.message, "traceback": None}


def _cancelling(fields: dict[str, bytes]) -> dict[str, Any] | None:
    at_ms = _number(fields, "cancel")
    return None if at_ms is None else {"at_ms": at_ms, "this_run": "this_run" in fields}


def _successor(fields: dict[str, bytes]) -> dict[str, Any] | None:
    due = _number(fields, "next")
    if due is None:
        return None
    payload, _ = _payload({"payload": fields.get("next_payload", b"{}")})
    return {"due_ms": due, "payload": payload}


def _recurrence(fields: dict[str, bytes]) -> dict[str, Any]:
    """What made a task, what makes it come again, and how far it has come."""
    if "schedule" in fields:
        return {"schedule": _text(fields, "schedule"), "tick_ms": _number(fields, "tick")}
    if "every" not in fields and "series" not in fields:
        return {}
    return {
        "every": _text(fields, "every"),
        "until": iso(_number(fields, "until")),
        "max_runs": _number(fields, "max_runs"),
        "timezone": _text(fields, "zone"),
        "runs": _number(fields, "runs") or 0,
        "missed": _number(fields, "missed") or 0,
        "anchor_ms": _number(fields, "anchor"),
        "grid_ms": _number(fields, "grid"),
        "next_ms": _number(fields, "next_at"),
        "ends": _text(fields, "ends"),
        "series": _series(fields),
    }


def _series(fields: dict[str, bytes]) -> dict[str, Any] | None:
    text = _text(fields, "series")
    if text is None:
        return None
    offsets, _, anchor = text.partition(" ")
    return {"offsets": offsets.split(","), "anchor": anchor}


def _log(fields: dict[str, bytes]) -> list[dict[str, Any]] | None:
    raw = fields.get("log")
    return notes.lines(raw.decode(errors="replace")) if raw else None


def _error(raw: RawTask) -> dict[str, Any] | None:
    if raw.key_type in ("hash", "none"):
        return None
    return {
        "kind": "wrong_type",
        "message": f"the key of the task holds a {raw.key_type}, not a hash",
        "traceback": None,
    }


def _number(fields: dict[str, bytes], name: str) -> int | None:
    raw = fields.get(name)
    if raw is not None and raw.isdigit():
        return int(raw)
    return to_ms(raw)


def _priority(fields: dict[str, bytes]) -> int:
    try:
        value = int(fields.get("priority", b"0"))
    except ValueError:
        return 0
    return value if -100 <= value <= 100 else 0


def _text(fields: dict[str, bytes], name: str) -> str | None:
    raw = fields.get(name)
    return None if raw is None else decode_id(raw)


def _json(fields: dict[str, bytes], name: str) -> Any:
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        value = codec.parse(raw)
    except InvalidInput:
        return None
    if name == "error" and isinstance(value, dict):
        return {"kind": None, "message": None, "traceback": None, **value}
    return value
