"""What both clients do alike for the verbs that operate: checked arguments, the verb to drive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scheduld import payload as codec
from scheduld.client import changing, events, steering
from scheduld.client import dead as dying
from scheduld.client.adding import TaskSpec, check_type, due_of
from scheduld.client.export import Export
from scheduld.client.requests import Asked, Requests, check_state
from scheduld.client.reviving import Revival
from scheduld.clock import wall_ms
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput, WhenError
from scheduld.names import check_id, new_id, printable
from scheduld.store.usercalls import Edit

if TYPE_CHECKING:
    from datetime import timedelta, tzinfo

    from scheduld.client.dead import DeadGroup
    from scheduld.client.events import Event, Since
    from scheduld.client.replanning import Replan
    from scheduld.client.reviving import Requeued
    from scheduld.client.steering import Node, TypePause
    from scheduld.model import State, Task

T = TypeVar("T")
_MOST = 1_000_000
_TEXT_LIMIT = 500
_PURGED = ("done", "cancelled", "dead", "scheduled")


class Pages(Protocol[T]):
    """Something that is asked for page by page."""

    def next(self) -> Asked[list[T]] | None:
        """The request for the next page; None at the end."""


class Operations:
    """Turns the arguments of the public verbs into requests; raises before anything is sent."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._scope = requests.scope

    def edit(
        self,
        type: object,  # noqa: A002 - the public word
        id: object,  # noqa: A002 - the public word
        *,
        payload: object,
        patch: object,
        spec: TaskSpec,
        timezone: str | tzinfo | None,
        if_revision: object,
        allow_past: bool,
    ) -> Asked[Task]:
        """Check an edit; its token makes it safe to repeat."""
        name, task_id = check_type(type), check_id(id)
        settings = self._requests.settings
        if payload is not None and patch is not None:
            raise InvalidInput("payload and merge cannot be given both", hint="give one of them")
        if patch is not None and not isinstance(patch, Mapping):
            raise InvalidInput("merge must be a JSON object", hint='such as {"to": "a@b.c"}')
        is_due = spec.at is not None or spec.delay is not None
        replan = _replan(spec, timezone, settings.timezone)
        if payload is None and patch is None and not is_due and replan is None:
            raise InvalidInput(
                "there is nothing to edit",
                hint="give a payload, merge, at, delay, every, until or max_runs",
            )
        zone = settings.timezone if timezone is None else timezone
        at_ms, delay_ms = due_of(spec, zone, allow_past) if is_due else (None, 0)
        data = None if payload is None else codec.encode(payload, max_bytes=settings.max_payload)
        checked = None if patch is None else _object(patch)
        change = Edit(
            token=new_id(wall_ms()),
            payload=data,
            at_ms=at_ms,
            delay_ms=delay_ms if is_due and at_ms is None else None,
            if_revision=_whole("if_revision", if_revision, 0, 2**53),
        )
        wanted = changing.Change(change, checked, settings.max_payload, replan)
        return Asked(lambda: changing.edit(self._scope, name, task_id, wanted))

    def run_now(self, type: object, id: object) -> Asked[Task]:  # noqa: A002
        """Check a run_now; its repeat would meet the running task and seem refused."""
        name, task_id = check_type(type), check_id(id)
        return Asked(lambda: changing.run_now(self._scope, name, task_id), repeatable=False)

    def pause(self, type: object, reason: object) -> Asked[TypePause]:  # noqa: A002
        """Check a pause."""
        name, why = check_type(type), "" if reason is None else line("reason", reason)
        caller = who()
        return Asked(lambda: steering.pause(self._scope, name, why, caller))

    def resume(self, type: object) -> Asked[bool]:  # noqa: A002
        """Check a resume."""
        name, resume = check_type(type), steering.Resume()
        return Asked(lambda: resume.verb(self._scope, name))

    def paused(self, type: object) -> Asked[list[TypePause]]:  # noqa: A002
        """Check a paused."""
        name = _type(type)
        return Asked(lambda: steering.paused(self._scope, name))

    def nodes(self) -> Asked[list[Node]]:
        """Make the request for the daemons."""
        return Asked(lambda: steering.nodes(self._scope))

    def purge(
        self,
        type: object,  # noqa: A002
        state: object,
        older_than: timedelta | str | float | None,
        *,
        dry_run: object,
    ) -> Asked[int]:
        """Check a purge."""
        name, wanted = check_type(type), check_state(state)
        if wanted is None or wanted.value not in _PURGED:
            raise InvalidInput(
                "tasks that run are not purged" if wanted else "say the state of what to purge",
                hint=f"purge takes {', '.join(_PURGED[:-1])} or {_PURGED[-1]}",
            )
        older_ms = None if older_than is None else parse_duration_ms(older_than, what="older_than")
        purge = steering.Purge(wanted, older_ms)
        if dry_run:
            return Asked(lambda: purge.count(self._scope, name))
        return Asked(lambda: purge.verb(self._scope, name), progress=lambda: purge.removed)

    def dead(self, type: object, error: object, limit: object) -> Asked[list[Task]]:  # noqa: A002
        """Check a dead."""
        name, text = _type(type), None if error is None else line("error", error)
        most = _limit(limit)
        return Asked(lambda: dying.dead(self._scope, name, text, most))

    def dead_groups(self, type: object, limit: object) -> Asked[list[DeadGroup]]:  # noqa: A002
        """Check a dead_groups."""
        name, most = _type(type), _limit(limit)
        return Asked(lambda: dying.dead_groups(self._scope, name, most))

    def requeue_dead(
        self,
        type: object,  # noqa: A002
        *,
        error: object,
        limit: object,
        canary: object,
        canary_wait_s: object,
    ) -> Asked[Requeued]:
        """Check a requeue_dead."""
        name, text = check_type(type), None if error is None else line("error", error)
        most = None if limit is None else _limit(limit)
        wait_s = _seconds("canary_wait_s", canary_wait_s) if canary else None
        revival = Revival(name, text, most, wait_s)
        return Asked(
            lambda: revival.verb(self._scope),
            explain=revival.explain,
            progress=lambda: revival.steps,
        )

    def events(
        self,
        type: object,  # noqa: A002
        id: object,  # noqa: A002
        since: object,
        limit: object,
    ) -> Asked[list[Event]]:
        """Check an events."""
        name, task_id = _type(type), None if id is None else check_id(id)
        start, most = self._since(since), _limit(limit)
        return Asked(lambda: events.events(self._scope, name, task_id, start, most))

    def follow(self, type: object, id: object, since: object) -> Pages[Event]:  # noqa: A002
        """Check a follow."""
        task_id = None if id is None else check_id(id)
        return events.Following(self._scope, _type(type), task_id, self._since(since))

    def export(self, type: object, state: State | str | None) -> Pages[Task]:  # noqa: A002
        """Check an export."""
        return Export(self._scope, _type(type), check_state(state))

    def _since(self, since: object) -> Since | None:
        if since is None:
            return None
        if isinstance(since, str) and events.is_cursor(since):
            return events.Since(cursor=since)
        if not isinstance(since, str | datetime):
            return events.Since(ago_ms=parse_duration_ms(since, what="since"))  # type: ignore[arg-type]
        if isinstance(since, str):
            with suppress(WhenError):
                return events.Since(ago_ms=parse_duration_ms(since, what="since"))
        from scheduld.when import instant_ms  # large, and most callers need none of it

        zone = self._requests.settings.timezone
        return events.Since(at_ms=instant_ms(since, timezone=zone, allow_past=True))


def _replan(
    spec: TaskSpec, timezone: str | tzinfo | None, default_zone: str | None
) -> Replan | None:
    if spec.every is None and spec.until is None and spec.max_runs is None:
        return None
    from scheduld.client.replanning import Replan  # the calendar is large

    return Replan.checked(spec.every, spec.until, spec.max_runs, timezone, default_zone)


def _type(name: object) -> str | None:
    return None if name is None else check_type(name)


def _object(patch: Mapping[Any, Any]) -> dict[str, Any]:
    """Check a merge patch, and copy it as JSON has it."""
    _, copy = codec.snapshot(dict(patch), max_bytes=_MOST)
    return copy


def _limit(limit: object) -> int:
    most = _whole("limit", limit, 1, _MOST)
    if most is None:
        raise InvalidInput(f"limit is a number from 1 to {_MOST}")
    return most


def _whole(what: str, value: object, least: int, most: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{what} is a whole number from {least} to {most}")
    return value


def _seconds(what: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator]
        raise InvalidInput(f"{what} is a number of seconds above 0")
    return float(value)  # type: ignore[arg-type]


def line(what: str, value: object) -> str:
    """Return a text that is one short line; raises InvalidInput."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is a text, not {type(value).__name__}")
    if len(value) > _TEXT_LIMIT or printable(value) != value:
        raise InvalidInput(f"{what} is one line of up to {_TEXT_LIMIT} characters")
    return value


def who() -> str:
    """Say who calls, as user@host, as far as the system knows."""
    import getpass
    import platform

    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"  # a user id without a name, as containers have
    return printable(f"{user}@{platform.node() or 'unknown'}")[:200]
