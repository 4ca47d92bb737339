"""The calls that people and their programs make, apart from `add`: see `calls`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld.store.answers import Decision, Edited, Entry, Looked, RawTask, raw_task, text
from scheduld.store.calls import check_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.store.calls import Call, Caller
    from scheduld.store.keys import TypeKeys


class Skip(NamedTuple):
    """A cancel of one occurrence: as it was seen, and when the one after it is due, if any."""

    grid_ms: int
    revision: int
    next_ms: int | None


def cancel(
    caller: Caller, type_keys: TypeKeys, raw_id: bytes, skip: Skip | None = None
) -> Call[Decision]:
    """Cancel a task, or ask its run to stop; with `skip` only an occurrence of a periodic one."""
    return caller.call(
        "cancel",
        type_keys,
        _decision,
        extra_keys=[type_keys.task(raw_id)],
        args={
            "id": raw_id,
            "this_run": "" if skip is None else "1",
            "seen": "" if skip is None else f"{skip.grid_ms} {skip.revision}",
            "next_at": "" if skip is None or skip.next_ms is None else skip.next_ms,
        },
    )


def run_now(caller: Caller, type_keys: TypeKeys, raw_id: bytes) -> Call[Decision]:
    """Make a task that waits due now."""
    key = type_keys.task(raw_id)
    return caller.call("run_now", type_keys, _decision, extra_keys=[key], args={"id": raw_id})


def requeue(
    caller: Caller, type_keys: TypeKeys, raw_ids: Sequence[bytes], *, wanted: str = ""
) -> Call[list[Decision]]:
    """Schedule ended tasks again; with `wanted` only those in that state."""
    check_size(raw_ids)
    return caller.call(
        "requeue",
        type_keys,
        lambda answer: [Decision(int(code), text(state)) for code, state in answer[2]],
        extra_keys=type_keys.tasks(raw_ids),
        rest=raw_ids,
        args={"wanted": wanted, "count": len(raw_ids)},
    )


@dataclass(frozen=True, slots=True)
class Edit:
    """What an edit changes, and of which task: None is left as it is, or not looked at.

    `token` names the edit. `old_payload` is the stored payload that it was made from.
    """

    token: str
    payload: bytes | None = None
    at_ms: int | None = None
    delay_ms: int | None = None
    if_revision: int | None = None
    old_payload: bytes | None = None
    period: str = ""
    """What changes of a periodic task, packed (lua/edit.lua)."""

    def of_payload(self, payload: bytes, old_payload: bytes) -> Edit:
        """The same with a payload that was made from an old one."""
        return replace(self, payload=payload, old_payload=old_payload)


def edit(caller: Caller, type_keys: TypeKeys, raw_id: bytes, change: Edit) -> Call[Edited]:
    """Change a task that has not begun, or the next occurrence of a periodic one."""
    old = change.old_payload
    digest = "" if old is None else hashlib.sha1(old, usedforsecurity=False).hexdigest()
    return caller.call(
        "edit",
        type_keys,
        lambda answer: Edited(int(answer[2]), text(answer[3]), int(answer[4])),
        extra_keys=[type_keys.task(raw_id)],
        args={
            "id": raw_id,
            "token": change.token,
            "revision": "" if change.if_revision is None else change.if_revision,
            "digest": digest,
            "at": "" if change.at_ms is None else change.at_ms,
            "delay": "" if change.delay_ms is None else change.delay_ms,
            "payload": "" if change.payload is None else change.payload,
            "period": change.period,
        },
    )


def pause(caller: Caller, type_keys: TypeKeys, *, reason: str, who: str) -> Call[int]:
    """Stop the claims of a type; answers the ms since when it is paused."""
    return caller.call(
        "pause", type_keys, lambda answer: int(answer[2]), args={"reason": reason, "who": who}
    )


def resume(caller: Caller, type_keys: TypeKeys) -> Call[bool]:
    """Let a type be claimed again; answers whether it was paused."""
    return caller.call("resume", type_keys, lambda answer: answer[2] == 1, args={})


def purge(
    caller: Caller,
    type_keys: TypeKeys,
    *,
    state: str,
    before_ms: int | None,
    offset: int,
    limit: int,
) -> Call[Looked]:
    """Remove tasks of a state, from the place `offset` of its index on."""
    return caller.call(
        "purge",
        type_keys,
        lambda answer: Looked(int(answer[2]), int(answer[3])),
        args={
            "state": state,
            "before": "" if before_ms is None else before_ms,
            "offset": offset,
            "limit": limit,
        },
    )


def read(caller: Caller, type_keys: TypeKeys, raw_ids: Sequence[bytes]) -> Call[list[RawTask]]:
    """Read tasks as they are at one instant."""

    def parse(answer: list[Any]) -> list[RawTask]:
        rows = zip(raw_ids, answer[2], strict=True)
        return [raw_task(raw_id, answer[1] / 1000, row) for raw_id, row in rows]

    return caller.call(
        "read",
        type_keys,
        parse,
        extra_keys=type_keys.tasks(raw_ids),
        rest=raw_ids,
        args={"count": len(raw_ids)},
    )


def fields(
    caller: Caller, type_keys: TypeKeys, raw_ids: Sequence[bytes], field: str, *, stop: str = ""
) -> Call[list[bytes]]:
    """Read one field of each of some tasks, up to the text `stop`; empty where there is none."""
    check_size(raw_ids)
    return caller.call(
        "fields",
        type_keys,
        lambda answer: list(answer[2]),
        extra_keys=type_keys.tasks(raw_ids),
        args={"field": field, "stop": stop, "count": len(raw_ids)},
    )


def walk(
    caller: Caller, type_keys: TypeKeys, part: str, place: tuple[bytes, bytes] | None, *, limit: int
) -> Call[list[Entry]]:
    """Read tasks of one index (due, leased, done, dead) from behind a place (score, id)."""

    def parse(answer: list[Any]) -> list[Entry]:
        now_ms = answer[1] / 1000
        return [
            Entry((score, raw_id), raw_task(raw_id, now_ms, row))
            for raw_id, score, row in answer[2]
        ]

    score, member = place or (b"", b"")
    return caller.call(
        "walk",
        type_keys,
        parse,
        args={"part": part, "score": score, "member": member, "limit": limit},
    )


def _decision(answer: list[Any]) -> Decision:
    return Decision(int(answer[2]), text(answer[3]))
