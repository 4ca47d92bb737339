"""What scripts answer: their codes, and their rows as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld.clock import moved_ms
from scheduld.model import Claim
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.model import Verdict


class Code(IntEnum):
    """First number of every script's answer."""

    OK = 0
    LATE = -1
    STALE = -2


class Settled(IntEnum):
    """What became of a verdict."""

    STORED = 1
    ALREADY = 2
    REFUSED = 3


class Renewed(IntEnum):
    """What became of a lease."""

    HELD = 1
    CANCELLED = 2
    GIVEN_BACK = 3
    LOST = 4


class Started(IntEnum):
    """What became of an early claim at its due."""

    GO = 1
    TAKEN_BACK = 2
    NOT_YET = 3


class Added(IntEnum):
    """What became of one task of an add."""

    CREATED = 1
    REPEATED = 2
    SUCCESSOR = 3
    KEPT = 4
    EXISTS = 5
    BROKEN = 6
    PUT_OFF = 7


class AddedTask(NamedTuple):
    """What became of one task of an add; `due_ms` and `state` are those of the kept record.

    `raw_id`: of the task that it went to or met, if that is another one, unique in the same.
    """

    code: Added
    due_ms: int | None
    state: str
    raw_id: bytes | None = None


@dataclass(frozen=True)
class ClaimAnswer:
    """What a claim answers: `count` tasks. Verdicts that are not `refused` are stored.

    `next_due_ms` and `next_lease_end_ms` plan the next look. `read` makes the claims.
    """

    now_ms: float
    count: int
    read: Callable[[], list[Claim]]
    refused: list[tuple[Verdict, Settled]]
    next_due_ms: int | None
    next_lease_end_ms: int | None

    @cached_property
    def claims(self) -> list[Claim]:
        """The tasks, oldest due first. Made when asked for: the next call may be sent before."""
        return self.read()


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer of cancel, run_now and requeue: 1 done, 2 asked to stop, 3 refused by `state`, 4 the
    occurrence to cancel is not as it was seen."""

    code: int
    state: str


@dataclass(frozen=True, slots=True)
class Edited:
    """Answer of an edit: 1 done, 3 refused by `state`, 4 the task is not as it was to be."""

    code: int
    state: str
    revision: int


class Looked(NamedTuple):
    """How many tasks one step of a purge looked at, and removed."""

    looked: int
    removed: int


class Entry(NamedTuple):
    """One entry of an index: its place (score, id) and the task."""

    place: tuple[bytes, bytes]
    raw: RawTask


@dataclass(frozen=True, slots=True)
class RawTask:
    """A task as it is stored: scores in ms, fields as bytes, `key_type` as Redis names it."""

    raw_id: bytes
    now_ms: float
    due_ms: int | None
    lease_end_ms: int | None
    finished_ms: int | None
    died_ms: int | None
    fields: dict[str, bytes]
    key_type: str


def claimed(type_name: str, fence: int, plain: list[Any], rows: list[Any]) -> list[Claim]:
    """Read what a claim took (lua/include/take.lua): plain tasks flat, the others as rows."""
    values = iter(plain)
    claims = [
        Claim(type_name, decode_id(raw_id), raw_id, payload, fence, due_ms := int(due), due_ms)
        for raw_id, payload, due in zip(values, values, values, strict=True)
    ]
    for count, row in enumerate(rows):
        raw_id, payload, due, begin, early, failed, releases, interruptions, place, *flat = row
        claim = Claim(
            type=type_name,
            id=decode_id(raw_id),
            raw_id=raw_id,
            payload=payload,
            fence=fence,
            due_ms=int(float(due)),
            start_ms=int(begin),
            early=bool(early),
            failed=int(failed),
            releases=int(releases),
            interruptions=int(interruptions),
            fields=_fields(*flat) if flat else None,
        )
        claims.insert(place + count, claim)
    return claims


def raw_task(raw_id: bytes, now_ms: float, row: list[Any]) -> RawTask:
    """Read one row of read.lua."""
    due, leased, done, dead, flat, key_type = row
    fields = _fields(flat)
    return RawTask(
        raw_id=raw_id,
        now_ms=now_ms,
        due_ms=to_ms(due),
        lease_end_ms=to_ms(leased),
        finished_ms=to_ms(done),
        died_ms=to_ms(dead),
        fields=fields,
        key_type=text(key_type),
    )


def _fields(flat: list[Any]) -> dict[str, bytes]:
    return {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def text(value: bytes | str) -> str:
    """Read an answer's text; broken bytes become lone surrogates."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def to_ms(value: bytes | int | None) -> int | None:
    """Read an answer's instant: '' and what is no finite number are None."""
    if value is None or value in (b"", b"inf", b"-inf"):
        return None
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return None


def server_ms(time: list[bytes]) -> int:
    """Read a reply to TIME; the now of scripts, where the test kit has set one, counts instead."""
    moved = moved_ms()
    return int(time[0]) * 1000 + int(time[1]) // 1000 if moved is None else moved
