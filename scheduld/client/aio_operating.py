"""The asyncio client's verbs of operation; twin of `blocking_operating`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from scheduld.client.adding import TaskSpec
from scheduld.client.aio_driving import AsyncDriving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import date, datetime, timedelta, tzinfo

    from scheduld.client.aio_schedules import AsyncSchedules
    from scheduld.client.dead import DeadGroup
    from scheduld.client.events import Event
    from scheduld.client.operations import Operations, Pages
    from scheduld.client.reviving import Requeued
    from scheduld.client.steering import Node, TypePause
    from scheduld.model import State, Task

T = TypeVar("T")


class AsyncOperating(AsyncDriving):
    """The verbs that change what waits, steer whole types, and tell what happened."""

    @cached_property
    def _operations(self) -> Operations:
        from scheduld.client.operations import Operations  # most programs only add

        return Operations(self._requests)

    @cached_property
    def schedules(self) -> AsyncSchedules:
        """Schedules: added and removed, listed and steered."""
        from scheduld.client.aio_schedules import AsyncSchedules

        return AsyncSchedules(self._do, lambda: self._requests)

    async def edit(
        self,
        type: str,  # noqa: A002 - the public word
        id: str,  # noqa: A002 - the public word
        *,
        payload: Mapping[str, Any] | None = None,
        merge: Mapping[str, Any] | None = None,
        at: str | datetime | None = None,
        delay: timedelta | str | float | None = None,
        every: str | timedelta | float | None = None,
        until: str | date | None = None,
        max_runs: int | None = None,
        timezone: str | tzinfo | None = None,
        if_revision: int | None = None,
        allow_past: bool = False,
    ) -> Task:
        """Change a task that has not begun: also one that waits for a retry, or is snoozed.

        `payload` takes the place of the old one; `merge` is merged into it (RFC 7396: null
        deletes a key). `at` or `delay` move its due time. `every`, `until` ("never": no end) and
        `max_runs` change a periodic task, or make it one; another `every` counts from its next
        due. Of a periodic task that runs all this is for what follows. Each edit raises the task's
        `revision` by one. `if_revision`: only if that is its revision, else Conflict.
        Raises NotFound, or Conflict if it runs (and is not periodic) or has ended.
        """
        asked = self._operations.edit(
            type,
            id,
            payload=payload,
            patch=merge,
            spec=TaskSpec(at=at, delay=delay, every=every, until=until, max_runs=max_runs),
            timezone=timezone,
            if_revision=if_revision,
            allow_past=allow_past,
        )
        return await self._do(asked)

    async def run_now(self, type: str, id: str) -> Task:  # noqa: A002
        """Make a task that waits (for its time, a retry, the end of a snooze) due now.

        Its counters stay. Raises NotFound, or Conflict if it runs or has ended.
        """
        return await self._do(self._operations.run_now(type, id))

    async def pause(self, type: str, *, reason: str | None = None) -> TypePause:  # noqa: A002
        """Pause a type: nothing of it is started until `resume`; what runs goes on.

        Tasks are added, edited and cancelled as before. A type that is paused already gets the
        new reason.
        """
        return await self._do(self._operations.pause(type, reason))

    async def resume(self, type: str) -> bool:  # noqa: A002
        """End the pause of a type; whether it was paused."""
        return await self._do(self._operations.resume(type))

    async def paused(self, type: str | None = None) -> list[TypePause]:  # noqa: A002
        """Read which types are paused."""
        return await self._do(self._operations.paused(type))

    async def dead(
        self,
        type: str | None = None,  # noqa: A002
        *,
        error: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """Read dead tasks of one type or of each, the newest first.

        `error`: only those with this text in their `kind: message`, in any case; a text of
        `dead_groups` fits its group.
        """
        return await self._do(self._operations.dead(type, error, limit))

    async def dead_groups(
        self,
        type: str | None = None,  # noqa: A002
        *,
        limit: int = 10_000,
    ) -> list[DeadGroup]:
        """Count the newest `limit` dead tasks of each type by their errors, the most first.

        Errors that differ in numbers and ids only are one group.
        """
        return await self._do(self._operations.dead_groups(type, limit))

    async def requeue_dead(
        self,
        type: str,  # noqa: A002
        *,
        error: str | None = None,
        limit: int | None = None,
        canary: bool = False,
        canary_wait_s: float = 60.0,
    ) -> Requeued:
        """Schedule the dead tasks of a type again, the oldest first; `error` as of `dead`.

        What dies meanwhile stays dead. `canary`: one goes first, and the others only when it is
        done; if it ends in another way, or not within `canary_wait_s`, Conflict says why.
        """
        asked = self._operations.requeue_dead(
            type, error=error, limit=limit, canary=canary, canary_wait_s=canary_wait_s
        )
        return await self._do(asked)

    async def purge(
        self,
        type: str,  # noqa: A002
        *,
        state: State | str,
        older_than: timedelta | str | float | None = None,
        dry_run: bool = False,
    ) -> int:
        """Remove the tasks of a type that are done, cancelled, dead or scheduled; how many.

        `older_than`: only what ended, or was due, at least so long ago. `dry_run` only counts.
        Nothing that runs, or was claimed, is touched.
        """
        return await self._do(self._operations.purge(type, state, older_than, dry_run=dry_run))

    async def events(
        self,
        type: str | None = None,  # noqa: A002
        *,
        id: str | None = None,  # noqa: A002
        since: str | datetime | timedelta | float | None = None,
        limit: int = 1000,
    ) -> list[Event]:
        """Read what happened to tasks, the oldest first: the newest `limit` events.

        The last 10,000 calls of each type are kept, or a few more. `id`: only the events that
        name this task. `since`: a time, how long ago, or the cursor of an event to go on behind;
        then these are the first events, all of the last cursor or none.
        """
        return await self._do(self._operations.events(type, id, since, limit))

    def follow(
        self,
        type: str | None = None,  # noqa: A002
        *,
        id: str | None = None,  # noqa: A002
        since: str | datetime | timedelta | float | None = None,
    ) -> AsyncIterator[Event]:
        """Give events as they come, from the first step of the iteration on, or from `since`.

        It asks four times a second, and raises Unreachable when the server was away for `wait_s`.
        """
        return self._each(self._operations.follow(type, id, since))

    async def nodes(self) -> list[Node]:
        """Read which daemons run: those that gave a sign of life within a minute."""
        return await self._do(self._operations.nodes())

    def export(
        self,
        type: str | None = None,  # noqa: A002
        *,
        state: State | str | None = None,
    ) -> AsyncIterator[Task]:
        """Give all tasks of one type or of each, however many, page by page.

        One that stays where it is comes once. One that moves meanwhile may come twice or not.
        """
        return self._each(self._operations.export(type, state))

    async def _each(self, pages: Pages[T]) -> AsyncIterator[T]:
        while (asked := pages.next()) is not None:
            for item in await self._do(asked):
                yield item
