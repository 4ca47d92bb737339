"""What both clients do alike: settings, checked arguments, and the verb to drive.

`Asked` is one request: how to make its verb (anew for each attempt) and whether repeating
it is safe. The clients differ only in how they wait.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from scheduld.client import changing, detour, verbs
from scheduld.client.adding import (
    Addition,
    TaskSpec,
    check_conflict,
    check_type,
    prepare,
    prepare_all,
)
from scheduld.client.listing import list_tasks
from scheduld.client.sending import Add, schedule
from scheduld.client.stats import TypeStats, stats
from scheduld.config.light import client_settings
from scheduld.errors import InvalidInput, NotFound, ScheduldError
from scheduld.model import State, Task
from scheduld.names import check_id, printable
from scheduld.store.calls import Caller
from scheduld.store.durable import Confirm
from scheduld.store.keys import Keys

if TYPE_CHECKING:
    from datetime import tzinfo

    from scheduld.client.adding import Pending
    from scheduld.config.settings import ClientSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """One request of a caller, checked; nothing was sent yet.

    `explain` completes the error that the request ends with. `progress`, of a long one, tells by
    a number that it has come further.
    """

    verb: Callable[[], verbs.Verb[T]]
    repeatable: bool = True
    explain: Callable[[ScheduldError], None] | None = None
    progress: Callable[[], int] | None = None


class Do(Protocol):
    """Carries requests out: a blocking client."""

    def __call__(self, asked: Asked[T], /) -> T:
        """Return what the request comes to."""


class AsyncDo(Protocol):
    """Carries requests out: a client for asyncio."""

    async def __call__(self, asked: Asked[T], /) -> T:
        """Return what the request comes to."""


class Requests:
    """Turns the arguments of the public verbs into requests; raises before anything is sent."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._series = settings.series
        self.keys = Keys(settings.namespace)
        caller = Caller(self.keys, "client-" + secrets.token_hex(4))
        self.scope = verbs.Scope(
            caller, settings.type_names or frozenset(), settings.schedule_names
        )
        if settings.durable != "memory":
            self.scope.confirm = Confirm(settings.durable)

    def schedule(
        self,
        type: object,  # noqa: A002 - the public word
        spec: TaskSpec,
        *,
        timezone: str | tzinfo | None,
        on_conflict: object,
        allow_unknown: bool,
        allow_past: bool,
    ) -> tuple[Add, Pending]:
        """Check an add of one task: how to add it, and the task."""
        how = Add(check_type(type), check_conflict(on_conflict), bool(allow_unknown))
        settings = self.settings
        task = prepare(
            spec,
            timezone=timezone,
            default_zone=settings.timezone,
            allow_past=allow_past,
            max_payload=settings.max_payload,
            on_conflict=how.on_conflict,
            series=self._series.get(how.type),
        )
        return how, task

    def schedule_many(
        self,
        type: object,  # noqa: A002 - the public word
        specs: Iterable[TaskSpec | Mapping[str, Any]],
        *,
        timezone: str | tzinfo | None = None,
        on_conflict: object = "error",
        allow_unknown: bool = False,
        allow_past: bool = False,
    ) -> Asked[list[Task | ScheduldError]]:
        """Check an add of many tasks of one type."""
        name, conflict = check_type(type), check_conflict(on_conflict)
        if not isinstance(specs, Iterable):
            raise InvalidInput(f"tasks are a list of TaskSpec or payloads, not {specs!r}"[:200])
        tasks = prepare_all(
            specs,
            timezone=timezone,
            default_zone=self.settings.timezone,
            allow_past=allow_past,
            max_payload=self.settings.max_payload,
            on_conflict=conflict,
            series=self._series.get(name),
        )
        return self.add(Add(name, conflict, allow_unknown), Addition(tasks))

    def add(self, how: Add, addition: Addition) -> Asked[list[Task | ScheduldError]]:
        """Make the request that adds checked tasks."""
        return Asked(lambda: schedule(self.scope, how, addition), explain=addition.explain)

    def get(self, type: object, id: object) -> Asked[Task]:  # noqa: A002
        """Check a get."""
        name, task_id = check_type(type), check_id(id)
        return Asked(lambda: verbs.get(self.scope, name, task_id))

    def find(self, id: object) -> Asked[list[Task]]:  # noqa: A002
        """Check a search for an id in all types."""
        task_id = check_id(id)
        return Asked(lambda: verbs.find(self.scope, task_id))

    def list_tasks(
        self,
        type: object = None,  # noqa: A002
        state: State | str | None = None,
        limit: object = 100,
    ) -> Asked[list[Task]]:
        """Check a list."""
        name = None if type is None else check_type(type)
        wanted, most = check_state(state), _limit(limit)
        return Asked(lambda: list_tasks(self.scope, name, wanted, most))

    def cancel(self, type: object, id: object, *, this_run: bool = False) -> Asked[Task]:  # noqa: A002
        """Check a cancel; a repeat of one of an occurrence would be of the one after it."""
        name, task_id = check_type(type), check_id(id)
        if this_run:
            from scheduld.client.skipping import cancel_run  # most cancels need no calendar

            return Asked(lambda: cancel_run(self.scope, name, task_id), repeatable=False)
        return Asked(lambda: changing.cancel(self.scope, name, task_id))

    def requeue(self, type: object, id: object) -> Asked[Task]:  # noqa: A002
        """Check a requeue; its repeat would meet the scheduled task and seem refused."""
        name, task_id = check_type(type), check_id(id)
        return Asked(lambda: changing.requeue(self.scope, name, task_id), repeatable=False)

    def stats(self, type: object = None) -> Asked[list[TypeStats]]:  # noqa: A002
        """Check a stats."""
        name = None if type is None else check_type(type)
        return Asked(lambda: stats(self.scope, name))

    def is_served(self, type: object) -> Asked[bool]:  # noqa: A002
        """Check an is_served."""
        name = check_type(type)
        return Asked(lambda: verbs.is_served(self.scope, name))


def one(results: list[Task | ScheduldError]) -> Task:
    """Return the task of an add of one; raises what refused it."""
    (result,) = results
    if isinstance(result, ScheduldError):
        raise result
    return result


def settings_for(
    url: str | None,
    *,
    config: str | None = None,
    namespace: str | None = None,
    timezone: str | None = None,
    durable: str | None = None,
) -> ClientSettings:
    """Find the settings of a client: the config file's, where not said otherwise.

    Raises ConfigError where there is neither a file nor a URL: nothing is guessed.
    """
    settings = detour.settings(config) or client_settings(config, redis_url=url)
    if durable not in (None, "memory", "disk", "replica"):
        raise InvalidInput(f"durable is memory, disk or replica, not {durable!r:.60}")
    if durable == "replica" and settings.redis_url == "embedded":
        raise InvalidInput("the embedded server has no replica", hint='durable="disk" is its most')
    if detour.is_on():
        namespace = durable = None
    changes = {"namespace": namespace, "timezone": timezone, "durable": durable}
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(settings, **given)  # type: ignore[arg-type]


def only(found: list[Task], task_id: str) -> Task:
    """Return the one task of an id; raises NotFound, or InvalidInput if several types have it."""
    if not found:
        raise NotFound(f"there is no task {printable(task_id)}")
    if len(found) > 1:
        refs = ", ".join(task.ref for task in found)
        raise InvalidInput(f"several types have that id: {refs}", hint="say TYPE/ID")
    return found[0]


def check_state(state: object) -> State | None:
    """Return a state, or None for none; raises InvalidInput naming the nearest."""
    if state is None:
        return None
    try:
        return State(str(state))
    except ValueError:
        words = [item.value for item in State]
        import difflib

        near = difflib.get_close_matches(str(state), words, 1)
        hint = f"did you mean {near[0]}?" if near else None
        message = f"{printable(str(state)[:40])!r} is no state: {', '.join(words)}"
        raise InvalidInput(message, hint=hint) from None


def _limit(limit: object) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= verbs.LIST_LIMIT:
        raise InvalidInput(f"limit is a number from 1 to {verbs.LIST_LIMIT}")
    return limit
