"""One typed function per script: what it is called with and what its answer means.

A function here builds a `Call` and touches no connection; `link` carries calls out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from scheduld.clock import moved_ms
from scheduld.store.answers import (
    Added,
    AddedTask,
    ClaimAnswer,
    Renewed,
    Settled,
    Started,
    claimed,
    text,
    to_ms,
)
from scheduld.store.scripts import Script, load
from scheduld.store.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduld.model import OnConflict, TaskType, Verdict
    from scheduld.store.keys import Keys, TypeKeys

T = TypeVar("T")
Arg = bytes | str | int | float
MAX_IDS = 500
"""Most ids a call may carry."""
MAX_SHAPED = 200
"""Most tasks that an add should carry if one says something about load: it takes longer."""
MAX_BYTES = 4 * 1024 * 1024
"""Most bytes a call may carry, payloads included."""
MAX_CLAIMED = 200
"""Most tasks a claim takes: with as many verdicts it keeps the server some 20 ms."""
EARLY_MS = 50
"""How long before its due a task may be claimed."""
LEAD_MS = 3
"""How long before its due an early claim becomes a run; the start waits for the due."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One script call: keys and arguments in the header's order, and how to read the answer.

    `args[DEADLINE]` is filled in when the call is sent.
    """

    script: Script
    keys: tuple[Arg, ...]
    args: tuple[Arg, ...]
    parse: Callable[[list[Any]], T]


DEADLINE = 2
"""Position of `valid_until` among the arguments (lua/include/type.lua)."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, for one namespace. `now_ms` stands in for the server's clock in tests."""

    keys: Keys
    node: str
    now_ms: int | None = None

    def call(
        self,
        name: str,
        type_keys: TypeKeys,
        parse: Callable[[list[Any]], T],
        *,
        args: Mapping[str, Arg],
        extra_keys: Sequence[Arg] = (),
        rest: Iterable[Arg] = (),
    ) -> Call[T]:
        """Build the call of a script; `args` are its own arguments by their header's names."""
        script = load(name)
        own = script.args[6:]
        if args.keys() != script.own:
            raise TypeError(f"{name}.lua takes {own}, not {tuple(args)}")
        now_ms = moved_ms() if self.now_ms is None else self.now_ms
        now = "" if now_ms is None else now_ms
        common = (type_keys.task_prefix, now, "", self.node, type_keys.type, self.keys.wake)
        return Call(
            script,
            (*type_keys.common(), *extra_keys),
            (*common, *(args[argument] for argument in own), *rest),
            parse,
        )


class NewTask(NamedTuple):
    """One task to add. `at_ms` None: `delay_ms` after the server's now."""

    raw_id: bytes
    payload: bytes
    token: str
    at_ms: int | None = None
    delay_ms: int = 0
    load: str = ""
    """What it says about load, packed (lua/include/load.lua)."""


def add(
    caller: Caller, type_keys: TypeKeys, tasks: Sequence[NewTask], *, on_conflict: OnConflict
) -> Call[list[AddedTask]]:
    """Schedule tasks; at most MAX_IDS and MAX_BYTES a call."""
    check_size(tasks)
    rest: list[Arg] = []
    for task in tasks:
        at = "" if task.at_ms is None else task.at_ms
        rest += (task.raw_id, at, task.delay_ms, task.payload, task.token)
    loads = [task.load for task in tasks] if any(task.load for task in tasks) else []
    rest += loads

    def parse(answer: list[Any]) -> list[AddedTask]:
        if answer[2]:
            return [
                AddedTask(Added(code), to_ms(due), text(state), *other)
                for code, due, state, *other in answer[2]
            ]
        now_ms = answer[1] // 1000
        return [
            AddedTask(
                Added.CREATED,
                now_ms + task.delay_ms if task.at_ms is None else task.at_ms,
                "scheduled",
            )
            for task in tasks
        ]

    return caller.call(
        "add",
        type_keys,
        parse,
        extra_keys=type_keys.tasks([task.raw_id for task in tasks]),
        rest=rest,
        args={"on_conflict": on_conflict, "loads": len(loads) or "", "count": len(tasks)},
    )


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One numbered claim of a replica; repeated as it is until it is answered."""

    sequence: int
    want: int
    verdicts: tuple[Verdict, ...]
    bound_ms: int
    early_ms: int = EARLY_MS


def claim(
    caller: Caller, type_keys: TypeKeys, kind: TaskType, request: ClaimRequest, *, lease_ms: int
) -> Call[ClaimAnswer]:
    """Take due tasks, and store the verdicts that free slots for them."""

    def parse(answer: list[Any]) -> ClaimAnswer:
        now_us, fence, plain, rows, codes, next_due, next_end = answer[1:]
        return ClaimAnswer(
            now_ms=now_us / 1000,
            count=len(plain) // 3 + len(rows),
            read=lambda: claimed(type_keys.type, int(fence), plain, rows),
            refused=verdicts.refused(codes),
            next_due_ms=to_ms(next_due),
            next_lease_end_ms=to_ms(next_end),
        )

    check_size(request.verdicts)
    verdicts = Verdicts(type_keys, request.verdicts)

    return caller.call(
        "claim",
        type_keys,
        parse,
        extra_keys=[type_keys.claim(caller.node), *verdicts.keys],
        rest=verdicts.args,
        args={
            "sequence": request.sequence,
            "want": request.want,
            "early": request.early_ms,
            "lead": LEAD_MS,
            "lease": lease_ms,
            "bound": request.bound_ms,
            "max_interruptions": kind.max_interruptions,
            "limit": _limit(kind),
            "plain_count": len(verdicts.plain),
            "fences": verdicts.fences,
            "verdict_count": len(verdicts.others),
            **_retention(kind),
        },
    )


def finish(
    caller: Caller, type_keys: TypeKeys, verdicts: Sequence[Verdict]
) -> Call[list[tuple[Verdict, Settled]]]:
    """Store the ends of runs; answers those that were refused."""
    check_size(verdicts)
    ends = Verdicts(type_keys, verdicts)
    return caller.call(
        "finish",
        type_keys,
        lambda answer: ends.refused(answer[2]),
        extra_keys=ends.keys,
        rest=ends.args,
        args={
            "plain_count": len(ends.plain),
            "fences": ends.fences,
            "verdict_count": len(ends.others),
        },
    )


def start(
    caller: Caller, type_keys: TypeKeys, pairs: Sequence[tuple[bytes, int]]
) -> Call[list[Started]]:
    """Confirm early claims (raw id, fence) just before they start."""
    return caller.call(
        "start",
        type_keys,
        lambda answer: [Started(code) for code in answer[2]],
        extra_keys=type_keys.tasks([raw_id for raw_id, _ in pairs]),
        rest=_pairs(pairs),
        args={"lead": LEAD_MS, "count": len(pairs)},
    )


def renew(
    caller: Caller, type_keys: TypeKeys, pairs: Sequence[tuple[bytes, int]], *, lease_ms: int
) -> Call[list[Renewed]]:
    """Push the lease ends of (raw id, fence) pairs out to `lease_ms` from now."""
    return caller.call(
        "renew",
        type_keys,
        lambda answer: [Renewed(code) for code in answer[2]],
        extra_keys=type_keys.tasks([raw_id for raw_id, _ in pairs]),
        rest=_pairs(pairs),
        args={"lease": lease_ms, "count": len(pairs)},
    )


def recover(
    caller: Caller, type_keys: TypeKeys, kind: TaskType, *, lease_ms: int, bound_ms: int, limit: int
) -> Call[int]:
    """Give expired leases back; answers how many."""
    return caller.call(
        "recover",
        type_keys,
        lambda answer: int(answer[2]),
        args={
            "lease": lease_ms,
            "bound": bound_ms,
            "max_interruptions": kind.max_interruptions,
            "limit": limit,
        },
    )


def prune(caller: Caller, type_keys: TypeKeys, kind: TaskType, *, limit: int) -> Call[int]:
    """Remove ended tasks beyond their retention; answers how many."""
    return caller.call(
        "prune",
        type_keys,
        lambda answer: int(answer[2]),
        args={"limit": limit, **_retention(kind)},
    )


def audit(
    caller: Caller, type_keys: TypeKeys, raw_ids: Sequence[bytes], *, mend: bool
) -> Call[list[int]]:
    """Tell which ids are whole (0), lack an index (1) or a hash (2); `mend` makes these dead."""
    return caller.call(
        "audit",
        type_keys,
        lambda answer: [int(code) for code in answer[2]],
        extra_keys=type_keys.tasks(raw_ids),
        rest=raw_ids,
        args={"mend": "1" if mend else "", "count": len(raw_ids)},
    )


def _retention(kind: TaskType) -> dict[str, Arg]:
    return {
        "done_count": kind.keep_done.count,
        "done_age": kind.keep_done.age_ms,
        "dead_count": kind.keep_dead.count,
        "dead_age": kind.keep_dead.age_ms,
    }


def _limit(kind: TaskType) -> str:
    """Write the limits of a type as lua/include/limit.lua reads them; '' if it has none."""
    if not kind.is_limited:
        return ""
    rates = [
        (None, None) if rate is None else (rate.count, rate.period_ms)
        for rate in (kind.rate_limit, kind.rate_limit_per_key)
    ]
    numbers = (kind.max_running, *rates[0], kind.max_running_per_key, *rates[1])
    return " ".join("-" if number is None else str(number) for number in numbers)


def _pairs(pairs: Iterable[tuple[bytes, int]]) -> list[Arg]:
    return [part for pair in pairs for part in pair]


def check_size(items: Sequence[object]) -> None:
    """Refuse what Lua could not unpack half way through a script."""
    if len(items) > MAX_IDS:
        raise ValueError(f"a call takes at most {MAX_IDS} tasks, not {len(items)}")
