"""The verbs on dead tasks: read them, group them by their errors, schedule many again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld import payload as codec
from scheduld.client.verbs import (
    READ_AT_ONCE,
    Commands,
    known_types,
    must_be_known,
    read_tasks,
)
from scheduld.errors import InvalidInput
from scheduld.model import State, Task
from scheduld.names import printable
from scheduld.store import usercalls
from scheduld.store.answers import to_ms
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb

_PAGE = 200
"""How many errors are read in one call."""
_TRACEBACK = ',"traceback":'
"""What follows kind and message in a stored error; inside a text its quotes are escaped."""
_SHOWN = 200
_VARYING = re.compile(
    r"(\b(?i:answered|code|errno|error|signal|status)\W{1,2}[0-9]{1,3}\b)"  # says what happened
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"  # a UUID
    r"|0x[0-9a-fA-F]+"
    r"|\b(?=[a-zA-Z]*[0-9])[0-9a-fA-F]{8,}\b"  # a hash
    r"|\b(?=[a-z]*[2-7])[a-z2-7]{20}\b"  # a generated id
    r"|[0-9]+"
)


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead tasks of one type with the same error, apart from numbers and ids in it (`#`)."""

    type: str
    error: str
    count: int
    newest_ms: int
    example_id: str


def read_errors(scope: Scope, type_name: str, raw_ids: list[bytes]) -> Verb[list[str]]:
    """Read the errors of some tasks, each as `kind: message`."""
    call = usercalls.fields(scope.caller, scope.type(type_name), raw_ids, "error", stop=_TRACEBACK)
    return [summary(raw) for raw in (yield call)]


def summary(raw: bytes) -> str:
    """Say a stored error, maybe without its traceback and end, in one line."""
    try:
        error: Any = codec.parse(raw if raw.endswith(b"}") else raw + b"}")
    except InvalidInput:
        error = None
    if not isinstance(error, dict):
        return "unknown"
    words = [str(error[name]) for name in ("kind", "message") if error.get(name)]
    text = " ".join(": ".join(words).split()) or "unknown"
    return text if text.isprintable() else printable(text)


def without_numbers(text: str) -> str:
    """Put `#` for what differs between errors of one cause: numbers, hashes, generated ids.

    The code of an exit or an answer stays: it is the cause.
    """
    return _VARYING.sub(lambda match: match[1] or "#", text)


def matches(text: str, wanted: str | None) -> bool:
    """Whether an error is one that was asked for, by a part of it."""
    if wanted is None:
        return True
    wanted = wanted.casefold()
    # What `dead_groups` tells can be asked for as it is.
    return wanted in text.casefold() or wanted in without_numbers(text).casefold()


def dead(scope: Scope, type_name: str | None, error: str | None, limit: int) -> Verb[list[Task]]:
    """Read dead tasks, the newest first."""
    types = [type_name] if type_name else (yield from known_types(scope))
    found: dict[str, Task] = {}
    for name in types:
        wanted: list[bytes] = []
        pages = _Errors(scope, name)
        while len(wanted) < limit and (page := (yield from pages.next())):
            wanted += [raw_id for raw_id, _, text in page if matches(text, error)]
        for start in range(0, min(len(wanted), limit), READ_AT_ONCE):
            raw_ids = wanted[start : min(start + READ_AT_ONCE, limit)]
            tasks = yield from read_tasks(scope, name, raw_ids)
            found.update({task.ref: task for task in tasks if task.state is State.DEAD})
    if type_name and not found:
        yield from must_be_known(scope, type_name)
    newest = sorted(found.values(), key=lambda task: task.finished_ms or 0, reverse=True)
    return newest[:limit]


def dead_groups(scope: Scope, type_name: str | None, limit: int) -> Verb[list[DeadGroup]]:
    """Count the newest dead tasks of each type by their errors, the largest group first."""
    types = [type_name] if type_name else (yield from known_types(scope))
    groups: dict[tuple[str, str], DeadGroup] = {}
    for name in types:
        pages = _Errors(scope, name, limit)
        while page := (yield from pages.next()):
            for raw_id, died_ms, text in page:
                key = name, without_numbers(text)[:_SHOWN]
                known = groups.get(key)
                # The first of a group is its newest.
                newest, example = (
                    (known.newest_ms, known.example_id) if known else (died_ms, decode_id(raw_id))
                )
                count = known.count + 1 if known else 1
                groups[key] = DeadGroup(*key, count, newest, example)
    if type_name and not groups:
        yield from must_be_known(scope, type_name)
    return sorted(groups.values(), key=lambda group: (-group.count, group.type, group.error))


@dataclass(slots=True)
class _Errors:
    """Pages of (id, died ms, error) of the dead tasks of a type, the newest first."""

    scope: Scope
    type_name: str
    limit: int | None = None
    start: int = 0

    def next(self) -> Verb[list[tuple[bytes, int, str]]]:
        """Read the next page; empty at the end."""
        keys = self.scope.type(self.type_name)
        size = _PAGE if self.limit is None else min(_PAGE, self.limit - self.start)
        if size <= 0:
            return []
        page = ("ZREVRANGE", keys.dead, self.start, self.start + size - 1, "WITHSCORES")
        (flat,) = yield Commands((page,))
        self.start += size
        raw_ids = flat[::2]
        if not raw_ids:
            return []
        errors = yield from read_errors(self.scope, self.type_name, raw_ids)
        died = [to_ms(score) or 0 for score in flat[1::2]]
        return list(zip(raw_ids, died, errors, strict=True))
