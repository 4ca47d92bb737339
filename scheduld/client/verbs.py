"""What can be asked of scheduld, once for both clients.

A verb is a generator: it yields script calls or plain commands, is sent their results, and
returns what the caller gets. It does no I/O; `AsyncClient` and `Client` drive it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from scheduld.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    ScheduldError,
)
from scheduld.names import is_name, printable
from scheduld.store import usercalls
from scheduld.store.calls import Call
from scheduld.store.keys import TypeKeys, encode_id
from scheduld.store.records import to_task

if TYPE_CHECKING:
    from scheduld.model import Task
    from scheduld.store.calls import Caller
    from scheduld.store.durable import Confirm
    from scheduld.store.wire import Command

T = TypeVar("T")
READ_AT_ONCE = 50
LIVE_MS = 60_000
LIST_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Commands:
    """Plain commands to send in one exchange; `writes`: a lost answer leaves an open outcome."""

    commands: tuple[Command, ...]
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Ahead:
    """Calls to carry out in order, the next sent before the last is answered.

    Its results may end early: after an error, for those that were not sent.
    """

    calls: Iterator[Call[Any]]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to send for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Calls to carry out one after the other, each stored where `confirm` says, or doubted.

    Of each it is sent a pair: its result, and why it may be lost again, or None.
    """

    calls: Sequence[Call[Any]]
    confirm: Confirm


Step = Call[Any] | Sequence[Call[Any]] | Commands | Ahead | Sleep | Confirmed
"""What a verb asks for; of one call it is sent the result itself, of others a list."""
Verb = Generator[Step, Any, T]


@dataclass(slots=True)
class Scope:
    """What the verbs of one client know: who calls, and which types there are."""

    caller: Caller
    configured_types: frozenset[str] = frozenset()
    configured_schedules: frozenset[str] = frozenset()
    announced: set[str] = field(default_factory=set)
    series: dict[str, bytes] = field(default_factory=dict)
    """Ladders of types that the config does not know, as their daemons tell them."""
    confirm: Confirm | None = None
    """Where a task must be stored before its add is answered, beyond the server's memory."""
    is_disk_known: bool = False
    """Whether the server was found to be one that can tell what is on its disk."""

    def type(self, name: str) -> TypeKeys:
        """The keys of a type."""
        return self.caller.keys.type(name)


def known_types(scope: Scope) -> Verb[list[str]]:
    """All types of the config and of `ns:types`, sorted."""
    (members,) = yield Commands((("SMEMBERS", scope.caller.keys.types),))
    seen = {member.decode(errors="replace") for member in members}
    # Others may have put anything there; what is no name can have no tasks.
    return sorted({name for name in seen if is_name(name)} | scope.configured_types)


def admit_type(scope: Scope, name: str, *, allow_unknown: bool) -> Verb[None]:
    """Let a known type pass and register it; raises InvalidInput naming the nearest."""
    if name in scope.announced:
        return
    if not allow_unknown:
        yield from must_be_known(scope, name)
    register = ("SADD", scope.caller.keys.types, name)
    if name in scope.configured_types:
        yield Commands((register,))
    else:
        _, series = yield Commands((register, ("HGET", scope.type(name).meta, "series")))
        if series:
            scope.series[name] = series
    scope.announced.add(name)


def must_be_known(scope: Scope, name: str) -> Verb[None]:
    """Raise InvalidInput for a type that nobody knows, naming the nearest."""
    if name in scope.configured_types:
        return
    types = yield from known_types(scope)
    if name not in types:
        raise InvalidInput(f"there is no task type {name!r}", hint=_nearest(name, types))


def not_found(scope: Scope, type_name: str, task_id: str) -> Verb[NotFound]:
    """Make the error for a task that is not there; of an unknown type it names the nearest."""
    types = yield from known_types(scope)
    hint = None
    if type_name not in types:
        hint = f"there is no task type {type_name!r}: {_nearest(type_name, types)}"
    return NotFound(f"there is no task {type_name}/{printable(task_id)}", hint=hint)


def _nearest(name: str, types: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, types, 1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(types) or 'none'}"


def is_served(scope: Scope, type_name: str) -> Verb[bool]:
    """Whether a live replica works on a type: one that was heard of within a minute."""
    return type_name in (yield from served_types(scope))


def served_types(scope: Scope) -> Verb[set[str]]:
    """The types that live replicas work on."""
    keys = scope.caller.keys
    (time,) = yield Commands((("TIME",),))
    since = int(time[0]) * 1000 - LIVE_MS
    (replicas,) = yield Commands((("ZRANGEBYSCORE", keys.nodes, since, "+inf"),))
    if not replicas:
        return set()
    wanted = tuple(
        ("HGET", keys.node(replica.decode(errors="replace")), "types") for replica in replicas
    )
    answers = yield Commands(wanted)
    return {name for types in answers for name in (types or b"").decode(errors="replace").split()}


def get(scope: Scope, type_name: str, task_id: str) -> Verb[Task]:
    """Read one task; raises NotFound."""
    found = yield from read_tasks(scope, type_name, [encode_id(task_id)])
    if not found:
        raise (yield from not_found(scope, type_name, task_id))
    return found[0]


def find(scope: Scope, task_id: str) -> Verb[list[Task]]:
    """Read the tasks of that id in all types."""
    types = yield from known_types(scope)
    found: list[Task] = []
    for name in types:
        with suppress(Conflict):  # a type with a broken key has no task to be found
            found += yield from read_tasks(scope, name, [encode_id(task_id)])
    return found


def read_tasks(scope: Scope, type_name: str, raw_ids: list[bytes]) -> Verb[list[Task]]:
    """Read the tasks that there are among some ids, at most READ_AT_ONCE."""
    (rows,) = yield [usercalls.read(scope.caller, scope.type(type_name), raw_ids)]
    if isinstance(rows, ScheduldError):
        raise rows
    tasks = (to_task(type_name, row) for row in rows)
    return [task for task in tasks if task]
