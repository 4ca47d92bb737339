"""The calls about schedules: their definitions, their ticks, and what people do with them.

All keys of a schedule are in the slot of its type. Instants are ms of the server's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from scheduld import payload as codec
from scheduld.store.answers import text, to_ms
from scheduld.store.cronanswers import (
    Backfilled,
    Defined,
    DefinedAs,
    Orphaned,
    Paused,
    Raised,
    Removed,
    Skips,
    Steered,
    Ticked,
    TickedAs,
    cron_record,
    read_ranges,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduld.schedule import Origin, Schedule
    from scheduld.store.calls import Arg, Call, Caller
    from scheduld.store.cronanswers import CronRecord
    from scheduld.store.keys import TypeKeys

T = TypeVar("T")
Carried = Mapping[str, str | int]
"""Fields of a schedule's hash: `mark` as a replica remembers it, and what CronRecord carries."""
NOTHING: Carried = MappingProxyType({})
MOST_SCHEDULES = 200
"""Most schedules, or ticks of them, that a call may carry."""


class Definition(NamedTuple):
    """One schedule to define.

    `expected`: digest of the definition that it replaces; empty: there is none. To take one back
    that has moved to another type it is `moved:TYPE`, as OTHER_DIGEST tells it. `carried`: what
    one that is new in this type takes over.
    """

    schedule: Schedule
    origin: Origin
    expected: str = ""
    carried: Carried = NOTHING


@dataclass(frozen=True, slots=True)
class Gap:
    """Instants that were passed over: the first, the last, how many (up to a limit), and why."""

    from_ms: int
    to_ms: int
    count: int
    why: str


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick to fire, or a gap to record, or both: the gap first.

    `digest`, `mark_ms`: what it was decided from. `due_ms`: tick and jitter. `is_patient`: while
    an earlier task is unfinished it is refused (NO_ROOM) instead of skipped or queued.
    """

    name: str
    digest: str
    mark_ms: int
    tick_ms: int | None = None
    due_ms: int = 0
    raw_id: bytes = b""
    is_patient: bool = False
    gap: Gap | None = None


class PastTick(NamedTuple):
    """One tick of a backfill, and when its task is due."""

    tick_ms: int
    due_ms: int
    raw_id: bytes


def define(
    caller: Caller, type_keys: TypeKeys, definitions: Sequence[Definition]
) -> Call[list[DefinedAs]]:
    """Store definitions of schedules of one type; a repeat answers SAME."""
    check_count(definitions)
    rest: list[Arg] = []
    for schedule, origin, expected, carried in definitions:
        keep = schedule.keep_history
        rest += (schedule.name, schedule.to_json(), schedule.digest, schedule.rule_digest, origin)
        rest += (codec.encode_json(dict(schedule.payload)), schedule.overlap)
        rest += (schedule.max_unfinished, "" if schedule.max_runs is None else schedule.max_runs)
        rest += (f"{keep.count} {keep.age_ms}", expected)
        rest.append("\n".join(f"{field}={value}" for field, value in carried.items()))
    return caller.call(
        "cron_define",
        type_keys,
        lambda answer: [
            DefinedAs(Defined(code), int(mark), text(digest)) for code, mark, digest in answer[2]
        ],
        extra_keys=[type_keys.cron(one.schedule.name) for one in definitions],
        rest=rest,
        args={"count": len(definitions)},
    )


def tick(caller: Caller, type_keys: TypeKeys, ticks: Sequence[Tick]) -> Call[list[TickedAs]]:
    """Fire ticks of schedules of one type; several of one schedule in their order.

    Each next one of the same schedule names the tick before as its `mark_ms`.
    """
    check_count(ticks)
    rest: list[Arg] = []
    for one in ticks:
        at = "" if one.tick_ms is None else one.tick_ms
        rest += (one.name, one.digest, one.mark_ms, at, one.due_ms, one.raw_id)
        rest += ("1" if one.is_patient else "", *_gap(one.gap))
    return caller.call(
        "cron_tick",
        type_keys,
        lambda answer: [
            TickedAs(Ticked(code), to_ms(mark), text(detail)) for code, mark, detail in answer[2]
        ],
        extra_keys=[type_keys.cron(one.name) for one in ticks],
        rest=rest,
        args={"count": len(ticks)},
    )


def raise_marks(
    caller: Caller, type_keys: TypeKeys, marks: Sequence[tuple[str, int]]
) -> Call[list[Raised]]:
    """Raise watermarks (schedule, ms) that were set back; nothing is fired, none is lowered."""
    check_count(marks)
    return caller.call(
        "cron_raise_marks",
        type_keys,
        lambda answer: [Raised(Steered(code), to_ms(mark)) for code, mark in answer[2]],
        extra_keys=[type_keys.cron(name) for name, _ in marks],
        rest=[part for pair in marks for part in pair],
        args={"count": len(marks)},
    )


def pause(caller: Caller, type_keys: TypeKeys, name: str, *, reason: str, who: str) -> Call[Paused]:
    """Stop the ticks of a schedule; its queued tick waits too."""
    args: dict[str, Arg] = {"reason": reason, "who": who}
    return _steer("cron_pause", caller, type_keys, name, _paused, args)


def resume(
    caller: Caller,
    type_keys: TypeKeys,
    name: str,
    *,
    catch_up: bool = False,
    gap: Gap | None = None,
) -> Call[Paused]:
    """Let ticks come again: from now on, or (`catch_up`) from where they were stopped.

    `gap`: what was passed over meanwhile, for the history. UNNEEDED: it was not paused.
    """
    args: dict[str, Arg] = {
        "catch_up": "1" if catch_up else "",
        "gap_from": "" if gap is None else gap.from_ms,
        "gap_to": "" if gap is None else gap.to_ms,
        "gap_n": "" if gap is None else gap.count,
    }
    return _steer("cron_resume", caller, type_keys, name, _paused, args)


def skips(
    caller: Caller,
    type_keys: TypeKeys,
    name: str,
    *,
    add: Iterable[tuple[int, int]] = (),
    remove: Iterable[tuple[int, int]] = (),
) -> Call[Skips]:
    """Have ticks in ranges (first and last ms) skipped, or not skipped any more."""

    def parse(answer: list[Any]) -> Skips:
        return Skips(Steered(answer[2]), read_ranges(answer[3]))

    args: dict[str, Arg] = {"add": _ranges(add), "remove": _ranges(remove)}
    return _steer("cron_skips", caller, type_keys, name, parse, args)


def remove(
    caller: Caller, type_keys: TypeKeys, name: str, *, reason: str, start: int | None = None
) -> Call[Removed]:
    """Remove a schedule and cancel its waiting tasks; repeat with `start` until that is None."""

    def parse(answer: list[Any]) -> Removed:
        return Removed(Steered(answer[2]), int(answer[3]), to_ms(answer[4]))

    args: dict[str, Arg] = {"reason": reason, "start": "" if start is None else start}
    return _steer("cron_remove", caller, type_keys, name, parse, args)


def orphan(caller: Caller, type_keys: TypeKeys, name: str, *, after_ms: int) -> Call[Orphaned]:
    """Say that no replica announces a config's schedule; it is removed `after_ms` after the first.

    A definition in between forgets it. With a `start` in the answer go on by `remove`.
    """

    def parse(answer: list[Any]) -> Orphaned:
        code, since, start = answer[2:]
        is_removed = code == Steered.UNNEEDED
        return Orphaned(
            Steered.DONE if is_removed else Steered(code), is_removed, int(since), to_ms(start)
        )

    return _steer("cron_orphan", caller, type_keys, name, parse, {"after": after_ms})


def move(caller: Caller, type_keys: TypeKeys, name: str, *, to: str) -> Call[Steered]:
    """Mark a schedule as moved to another type; it fires here no more. Then define, then remove."""
    return _steer(
        "cron_move", caller, type_keys, name, lambda answer: Steered(answer[2]), {"to": to}
    )


def park(caller: Caller, type_keys: TypeKeys, name: str, *, digest: str, why: str) -> Call[Steered]:
    """Note why this definition cannot be fired; UNNEEDED: another one is accepted now."""
    args: dict[str, Arg] = {"digest": digest, "why": why}
    return _steer("cron_park", caller, type_keys, name, lambda answer: Steered(answer[2]), args)


def trigger(
    caller: Caller, type_keys: TypeKeys, name: str, *, raw_id: bytes, payload: bytes = b""
) -> Call[Ticked]:
    """Make a task of a schedule now, of no tick; overlap applies. EXISTS: the same call did it.

    `raw_id`: NAME@manual-<generated>. `payload`: JSON text, or empty for the schedule's own.
    """
    args: dict[str, Arg] = {"id": raw_id, "payload": payload}
    return _steer("cron_trigger", caller, type_keys, name, lambda answer: Ticked(answer[2]), args)


def backfill(
    caller: Caller, type_keys: TypeKeys, name: str, ticks: Sequence[PastTick]
) -> Call[Backfilled]:
    """Make tasks for ticks of the past that have none; may be repeated."""
    check_count(ticks)

    def parse(answer: list[Any]) -> Backfilled:
        return Backfilled(Steered(answer[2]), [Ticked(code) for code in answer[3]])

    args: dict[str, Arg] = {"count": len(ticks)}
    rest = [part for one in ticks for part in one]
    return _steer("cron_backfill", caller, type_keys, name, parse, args, rest)


def read(
    caller: Caller, type_keys: TypeKeys, names: Sequence[str]
) -> Call[list[CronRecord | None]]:
    """Read schedules of one type; None where there is none of the name."""
    check_count(names)
    return caller.call(
        "cron_read",
        type_keys,
        lambda answer: [
            cron_record(name, answer[1] // 1000, row)
            for name, row in zip(names, answer[2], strict=True)
        ],
        extra_keys=[type_keys.cron(name) for name in names],
        rest=names,
        args={"count": len(names)},
    )


def history(
    type_keys: TypeKeys, name: str, *, limit: int, before: str | None = None
) -> tuple[Arg, ...]:
    """Build the command that reads the newest entries, or those before a cursor.

    `cronanswers.tick_records` reads its reply.
    """
    end = "+" if before is None else f"({before}"
    return ("XREVRANGE", type_keys.ticks(name), end, "-", "COUNT", limit)


def check_count(items: Sequence[object]) -> None:
    """Refuse more than a call can carry out in a few milliseconds."""
    if len(items) > MOST_SCHEDULES:
        raise ValueError(f"a call takes at most {MOST_SCHEDULES} schedules, not {len(items)}")


def _steer(
    script: str,
    caller: Caller,
    type_keys: TypeKeys,
    name: str,
    parse: Callable[[list[Any]], T],
    args: dict[str, Arg],
    rest: Iterable[Arg] = (),
) -> Call[T]:
    key = type_keys.cron(name)
    return caller.call(
        script, type_keys, parse, extra_keys=[key], args={"name": name, **args}, rest=rest
    )


def _paused(answer: list[Any]) -> Paused:
    return Paused(Steered(answer[2]), int(answer[3]))


def _gap(gap: Gap | None) -> tuple[Arg, ...]:
    return ("", "", "", "") if gap is None else (gap.from_ms, gap.to_ms, gap.count, gap.why)


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{first}-{last}" for first, last in ranges)
