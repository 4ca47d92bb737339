"""The verb that reads all tasks, however many, page by page."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from scheduld.client.requests import Asked
from scheduld.client.verbs import READ_AT_ONCE, Commands, known_types, must_be_known
from scheduld.model import State, Task
from scheduld.store import usercalls
from scheduld.store.records import to_task

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb
    from scheduld.store.answers import RawTask

_PAGE = 200
_PARTS: dict[State | None, tuple[str, ...]] = {
    # What was claimed early is leased, and still scheduled.
    State.SCHEDULED: ("due", "leased"),
    State.RUNNING: ("leased",),
    State.DONE: ("done",),
    State.CANCELLED: ("done",),
    State.DEAD: ("dead",),
    None: ("due", "leased", "done", "dead"),
}


@dataclass(slots=True)
class Export:
    """Pages of all tasks of one type or of each, or of those in one state.

    The place is a score and an id of an index, so that a task that stays where it is comes once,
    whatever others do meanwhile. One that moves may come twice or not at all.
    """

    scope: Scope
    type: str | None
    state: State | None
    _parts: deque[tuple[str, str]] = field(default_factory=deque)
    _is_begun: bool = False
    _place: tuple[bytes, bytes] | None = None
    _held: deque[bytes] | None = None
    _is_any_found: bool = False
    _is_over: bool = False

    def next(self) -> Asked[list[Task]] | None:
        """Ask for the next page; None at the end."""
        return None if self._is_over else Asked(self._verb)

    def _verb(self) -> Verb[list[Task]]:
        if not self._is_begun:
            types = [self.type] if self.type else (yield from known_types(self.scope))
            self._parts = deque((name, part) for name in types for part in _PARTS[self.state])
            self._is_begun = True
        if not self._parts:
            if self.type and not self._is_any_found:
                yield from must_be_known(self.scope, self.type)
            self._is_over = True
            return []
        name, part = self._parts[0]
        page = yield from (self._running(name) if part == "leased" else self._page(name, part))
        if page is None:
            self._parts.popleft()
            self._place = self._held = None
            return []
        self._is_any_found = True
        tasks = [to_task(name, raw) for raw in page if _home(raw) == part]
        return [task for task in tasks if task and self.state in (None, task.state)]

    def _page(self, name: str, part: str) -> Verb[list[RawTask] | None]:
        keys = self.scope.type(name)
        page = yield usercalls.walk(self.scope.caller, keys, part, self._place, limit=_PAGE)
        self._place = page[-1].place if page else None
        return [entry.raw for entry in page] or None

    def _running(self, name: str) -> Verb[list[RawTask] | None]:
        """Read those that run now: renewals move their places, and there are few."""
        keys = self.scope.type(name)
        if self._held is None:
            (raw_ids,) = yield Commands((("ZRANGE", keys.leased, 0, -1),))
            self._held = deque(raw_ids)
        page = list(islice(self._held, READ_AT_ONCE))
        if not page:
            return None
        rows: list[RawTask] = yield usercalls.read(self.scope.caller, keys, page)
        for _ in page:
            self._held.popleft()
        return rows


def _home(raw: RawTask) -> str:
    """Which index says the state of an id: one that is in two is read there, and once."""
    if raw.lease_end_ms is not None:
        return "leased"
    if raw.due_ms is not None:
        return "due"
    return "done" if raw.died_ms is None else "dead"
