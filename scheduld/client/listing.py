"""The verb that lists tasks: bounded work at a time, whatever the number and the size of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.client.verbs import READ_AT_ONCE, Commands, known_types, must_be_known, read_tasks
from scheduld.errors import ScheduldError
from scheduld.model import State, Task
from scheduld.store import usercalls
from scheduld.store.calls import MAX_IDS
from scheduld.store.records import to_task

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb

_PAGE = 200
"""Tasks that a call reads; with long errors 500 kept the server above 20 ms."""
_LOOKED_AT = MAX_IDS
_CALLS_AT_ONCE = 10
_PARTS: dict[State | None, tuple[str, ...]] = {
    # What was claimed early is leased, and still scheduled.
    State.SCHEDULED: ("leased", "due"),
    State.RUNNING: ("leased",),
    State.DEAD: ("dead",),
    None: ("due", "leased", "done", "dead"),
}


def list_tasks(
    scope: Scope, type_name: str | None, state: State | None, limit: int
) -> Verb[list[Task]]:
    """Read up to `limit` tasks of each type and index: by due time, or by when they ended."""
    types = [type_name] if type_name else (yield from known_types(scope))
    found: dict[str, Task] = {}
    for name in types:
        if state in (State.DONE, State.CANCELLED):
            tasks = yield from _ended(scope, name, state, limit)
            found.update({task.ref: task for task in tasks})
            continue
        for part in _PARTS[state]:
            tasks = yield from _walk(scope, name, part, state, limit)
            found.update({task.ref: task for task in tasks})
    if type_name and not found:
        yield from must_be_known(scope, type_name)
    return list(found.values())


def _walk(
    scope: Scope, type_name: str, part: str, state: State | None, limit: int
) -> Verb[list[Task]]:
    """Read an index page by page until `limit` tasks of the state are found, or it ends."""
    found: list[Task] = []
    place: tuple[bytes, bytes] | None = None
    keys = scope.type(type_name)
    while len(found) < limit:
        # Of a filter nobody knows how much it leaves of a page.
        most = min(limit - len(found), _PAGE) if state is None else _PAGE
        page = yield usercalls.walk(scope.caller, keys, part, place, limit=most)
        if not page:
            break
        place = page[-1].place
        tasks = (to_task(type_name, entry.raw) for entry in page)
        found += [task for task in tasks if task and state in (None, task.state)]
    return found[:limit]


def _ended(scope: Scope, type_name: str, state: State, limit: int) -> Verb[list[Task]]:
    """Read done or cancelled tasks, which share an index: one field tells which are wanted.

    A type may keep hundreds of thousands of the one kind and none of the other.
    """
    keys = scope.type(type_name)
    found: list[Task] = []
    start = 0
    while len(found) < limit:
        stop = start + _LOOKED_AT * _CALLS_AT_ONCE
        (raw_ids,) = yield Commands((("ZRANGE", keys.done, start, stop - 1),))
        if not raw_ids:
            break
        pages = [raw_ids[at : at + _LOOKED_AT] for at in range(0, len(raw_ids), _LOOKED_AT)]
        outcomes = yield [usercalls.fields(scope.caller, keys, page, "outcome") for page in pages]
        wanted: list[bytes] = []
        for page, values in zip(pages, outcomes, strict=True):
            if isinstance(values, ScheduldError):
                raise values
            is_wanted = [(value == b"cancelled") == (state is State.CANCELLED) for value in values]
            wanted += [raw_id for raw_id, wants in zip(page, is_wanted, strict=True) if wants]
        for at in range(0, len(wanted), READ_AT_ONCE):
            if len(found) >= limit:
                break
            tasks = yield from read_tasks(scope, type_name, wanted[at : at + READ_AT_ONCE])
            # A done id that was added again is scheduled, and in both indexes for a moment.
            found += [task for task in tasks if task.state is state]
        start = stop
    return found[:limit]
