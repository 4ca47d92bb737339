"""The verbs that tell what happened: the events of the last while, and those that come."""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduld.client.requests import Asked
from scheduld.client.verbs import Commands, Sleep, known_types, must_be_known
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb

_PAGE = 500
_POLL_S = 0.25
_POLLS_PER_LOOK = 20
"""How often the list of types is read while following all of them: every five seconds."""
_SHOWN_IDS = 100
"""Of each kind a call's event names so many ids, and counts the others (include/events.lua)."""
_CURSOR = re.compile(r"[0-9]{5,19}-[0-9]{1,19}")  # "2026-11" is none
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
_WITH_ERRORS = frozenset(
    ("retry", "dead", "paused", "finished", "missed", "patch_dropped", "reschedule_failed")
)


@dataclass(frozen=True, slots=True)
class Event:
    """What one call did to tasks: `kind` says what (added, claimed, done, retry, dead, ...).

    `ids` are the first hundred, `more` how many others. `node` is who called: a daemon, or a
    client. `errors` are the reasons of failures, in the order of the call. `cursor` is where to
    go on: the events of one call have the same.
    """

    type: str
    at_ms: int
    kind: str
    ids: tuple[str, ...]
    more: int
    node: str
    errors: tuple[str, ...]
    cursor: str


def is_cursor(text: str) -> bool:
    """Whether a text is a cursor of an event."""
    return _CURSOR.fullmatch(text) is not None


def read_entry(type_name: str, entry: Any) -> list[Event]:
    """Read one entry of the stream: an event a kind. What others wrote there is left out."""
    cursor, flat = entry
    fields = dict(zip(flat[::2], flat[1::2], strict=True)) if flat else {}
    kinds = decode_id(fields.get(b"e", b"")).split()
    groups = decode_id(fields.get(b"ids", b"")).split("\n")
    if len(groups) != len(kinds):
        groups = [""] * len(kinds)  # an id with a line break in it: nobody knows whose it was
    errors = tuple(filter(None, decode_id(fields.get(b"error", b"")).split("\n")))
    found = []
    for kind, group in zip(kinds, groups, strict=True):
        ids, more = group.split(" ") if group else [], 0
        if len(ids) > _SHOWN_IDS and ids[-1].startswith("+") and ids[-1][1:].isdigit():
            more = int(ids.pop()[1:])
        found.append(
            Event(
                type=type_name,
                at_ms=int(cursor.split(b"-")[0]),
                kind=kind,
                ids=tuple(ids),
                more=more,
                node=decode_id(fields.get(b"node", b"")),
                errors=errors if kind in _WITH_ERRORS else (),
                cursor=cursor.decode(),
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Since:
    """From where on: behind a cursor, from an instant, or so long ago by the server's clock."""

    cursor: str | None = None
    at_ms: int | None = None
    ago_ms: int | None = None


def events(
    scope: Scope, type_name: str | None, task_id: str | None, since: Since | None, limit: int
) -> Verb[list[Event]]:
    """Read events in the order of time: the newest `limit`, or with `since` the first ones."""
    types = [type_name] if type_name else (yield from known_types(scope))
    start = "-" if since is None else (yield from _start(since))
    found: list[list[Event]] = []
    for name in types:
        read = _newest if since is None else _oldest
        found.append((yield from read(scope, name, task_id, start, limit)))
    if type_name and not found[0]:
        yield from must_be_known(scope, type_name)
    merged = list(heapq.merge(*found, key=_place))
    return merged[-limit:] if since is None else _whole(merged, limit)


def _start(since: Since) -> Verb[str]:
    if since.cursor is not None:
        return f"({since.cursor}"
    if since.at_ms is not None:
        return str(max(0, since.at_ms))
    (time,) = yield Commands((("TIME",),))
    return str(max(0, int(time[0]) * 1000 + int(time[1]) // 1000 - (since.ago_ms or 0)))


def _newest(
    scope: Scope, type_name: str, task_id: str | None, start: str, limit: int
) -> Verb[list[Event]]:
    found: list[Event] = []
    end = "+"
    while len(found) < limit:
        page = ("XREVRANGE", scope.type(type_name).events, end, start, "COUNT", _PAGE)
        (entries,) = yield Commands((page,))
        for entry in entries:
            found += reversed(_of(read_entry(type_name, entry), task_id))
        if len(entries) < _PAGE:
            break
        end = f"({entries[-1][0].decode()}"
    return found[:limit][::-1]


def _oldest(
    scope: Scope, type_name: str, task_id: str | None, start: str, limit: int
) -> Verb[list[Event]]:
    found: list[Event] = []
    while len(found) <= limit:
        page = ("XRANGE", scope.type(type_name).events, start, "+", "COUNT", _PAGE)
        (entries,) = yield Commands((page,))
        for entry in entries:
            found += _of(read_entry(type_name, entry), task_id)
        if len(entries) < _PAGE:
            break
        start = f"({entries[-1][0].decode()}"
    return found


def _of(found: list[Event], task_id: str | None) -> list[Event]:
    return [event for event in found if task_id is None or _is_about(event, task_id)]


def _is_about(event: Event, task_id: str) -> bool:
    """Whether it names a task, or an occurrence of it that is dead and has an id of its own."""
    return task_id in event.ids or any(
        name.startswith(f"{task_id}@") and _INSTANT.fullmatch(name, len(task_id) + 1) is not None
        for name in event.ids
    )


def _place(event: Event) -> tuple[int, int]:
    at, number = event.cursor.split("-")
    return int(at), int(number)


def _whole(found: list[Event], limit: int) -> list[Event]:
    """The first events, but all of one cursor or none: who goes on behind it misses nothing."""
    end = limit
    while 0 < end < len(found) and found[end - 1].cursor == found[end].cursor:
        end -= 1
    if end == 0:
        end = limit
        while end < len(found) and found[end - 1].cursor == found[end].cursor:
            end += 1
    return found[:end]


@dataclass(slots=True)
class Following:
    """Pages of events as they come, for as long as somebody asks."""

    scope: Scope
    type: str | None
    task_id: str | None
    since: Since | None
    _cursors: dict[str, str] = field(default_factory=dict)
    _polls: int = 0
    _is_begun: bool = False
    _is_quiet: bool = False

    def next(self) -> Asked[list[Event]]:
        """Ask for the next page."""
        return Asked(self._verb)

    def _verb(self) -> Verb[list[Event]]:
        if self._is_quiet:
            yield Sleep(_POLL_S)
        yield from self._look_for_types()
        found: list[Event] = []
        for page, newest, name in (yield from self._read()):
            for entry in page:
                found += _of(read_entry(name, entry), self.task_id)
            if page:
                self._cursors[name] = page[-1][0].decode()
            elif _is_set_back(newest, self._cursors[name]):
                # An older state of the server's data was brought back: go on from its end.
                self._cursors[name] = newest[0][0].decode()
        self._is_quiet = not found
        return sorted(found, key=_place)

    def _read(self) -> Verb[list[tuple[Any, Any, str]]]:
        names = list(self._cursors)
        wanted: list[tuple[str | int, ...]] = []
        for name in names:
            key = self.scope.type(name).events
            wanted.append(("XRANGE", key, f"({self._cursors[name]}", "+", "COUNT", _PAGE))
            wanted.append(("XREVRANGE", key, "+", "-", "COUNT", 1))
        replies = (yield Commands(tuple(wanted))) if wanted else []
        return list(zip(replies[::2], replies[1::2], names, strict=True))

    def _look_for_types(self) -> Verb[None]:
        """Begin with each type that is not followed yet: at its end the first time."""
        self._polls += 1
        if self._is_begun and (self.type or self._polls % _POLLS_PER_LOOK):
            return
        if self.type:
            yield from must_be_known(self.scope, self.type)
        types = [self.type] if self.type else (yield from known_types(self.scope))
        for name in types:
            if name not in self._cursors:
                self._cursors[name] = yield from self._begin(name)
        self._is_begun = True

    def _begin(self, name: str) -> Verb[str]:
        if self.since is not None and self.since.cursor is not None:
            return self.since.cursor
        if self.since is not None:
            at = yield from _start(self.since)
            return f"{max(0, int(at) - 1)}-18446744073709551615"
        if self._is_begun:
            return "0-0"  # a type that is new: all of it
        page = ("XREVRANGE", self.scope.type(name).events, "+", "-", "COUNT", 1)
        (newest,) = yield Commands((page,))
        return newest[0][0].decode() if newest else "0-0"


def _is_set_back(newest: Any, cursor: str) -> bool:
    if not newest:
        return False
    at, number = cursor.split("-")
    found_at, found_number = newest[0][0].split(b"-")
    return (int(found_at), int(found_number)) < (int(at), int(number))
