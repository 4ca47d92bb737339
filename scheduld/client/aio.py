"""The client for asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from scheduld.client.adding import TaskSpec
from scheduld.client.gathering import Gathering
from scheduld.client.patience import Patience
from scheduld.client.requests import Asked, Requests, only, settings_for
from scheduld.client.verbs import Ahead, Commands, Verb
from scheduld.errors import ScheduldError
from scheduld.store.calls import Call
from scheduld.store.connect import join
from scheduld.store.link import AsyncLink

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta, tzinfo

    from scheduld.client.adding import Addition
    from scheduld.client.sending import Add
    from scheduld.client.verbs import TypeStats
    from scheduld.model import OnConflict, State, Task
    from scheduld.store.embedded import Membership

T = TypeVar("T")


class AsyncClient:
    """scheduld for asyncio programs.

    `url`: redis://, rediss://, unix:// or "embedded"; None: the config file's (found as the
    command line finds it, or at `config`). `namespace` and `timezone` override the file's.
    `wait_s`: how long a verb waits while Redis is away, before it raises Unreachable, or
    OutcomeUnknown if the call was sent and its answer lost.

    Every verb raises InvalidInput for arguments that cannot be right, before anything is sent.
    One client serves any number of tasks of one event loop; close it with `aclose` or `async with`.
    What they `schedule` in one turn of the loop is sent as one call.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        timezone: str | None = None,
        config: str | None = None,
        wait_s: float = 10.0,
    ) -> None:
        settings = settings_for(url, config=config, namespace=namespace, timezone=timezone)
        self._requests = Requests(settings)
        self._wait_s = wait_s
        self._link: AsyncLink | None = None
        self._membership: Membership | None = None
        self._url = ""
        self._opening = asyncio.Lock()
        self._gathering = Gathering(self._add)

    async def schedule(
        self,
        type: str,  # noqa: A002 - the public word
        payload: Mapping[str, Any] | None = None,
        *,
        at: str | datetime | None = None,
        delay: timedelta | str | float | None = None,
        timezone: str | tzinfo | None = None,
        id: str | None = None,  # noqa: A002 - the public word
        on_conflict: OnConflict = "error",
        token: str | None = None,
        allow_unknown: bool = False,
        allow_past: bool = False,
    ) -> Task:
        """Schedule one task; when this returns it is kept.

        `at`: WHEN text or datetime (naive ones and texts without offset are read in `timezone`).
        `delay`: timedelta, duration text or seconds, added to the server's now. Neither: now.
        `on_conflict`, when the id is kept in any state: "error" raises TaskExists, "keep"
        answers with `created=False`, "replace" takes the id (a running task is followed).
        """
        spec = TaskSpec(payload=payload, at=at, delay=delay, id=id, token=token)
        how, task = self._requests.schedule(
            type,
            spec,
            timezone=timezone,
            on_conflict=on_conflict,
            allow_unknown=allow_unknown,
            allow_past=allow_past,
        )
        return await self._gathering.add(how, task)

    async def schedule_many(
        self,
        type: str,  # noqa: A002 - the public word
        tasks: Iterable[TaskSpec | Mapping[str, Any]],
        *,
        timezone: str | tzinfo | None = None,
        on_conflict: OnConflict = "error",
        allow_unknown: bool = False,
        allow_past: bool = False,
    ) -> list[Task | ScheduldError]:
        """Schedule many tasks of one type (a TaskSpec, or just a payload, each).

        All are checked before the first is sent. A result a task, in order: the task, or the
        error (TaskExists) that refused this one alone.
        """
        asked = self._requests.schedule_many(
            type,
            tasks,
            timezone=timezone,
            on_conflict=on_conflict,
            allow_unknown=allow_unknown,
            allow_past=allow_past,
        )
        return await self._do(asked)

    async def get(self, type: str, id: str) -> Task:  # noqa: A002
        """Read one task; raises NotFound."""
        return await self._do(self._requests.get(type, id))

    async def find(self, id: str) -> Task:  # noqa: A002
        """Read the task with this id, whatever its type; raises NotFound, or InvalidInput if
        several types have it."""
        return only(await self._do(self._requests.find(id)), id)

    async def list(
        self,
        type: str | None = None,  # noqa: A002
        *,
        state: State | str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """Read up to `limit` tasks of one type or of each, the earliest first."""
        return await self._do(self._requests.list_tasks(type, state, limit))

    async def cancel(self, type: str, id: str) -> Task:  # noqa: A002
        """Cancel a task; a running one is asked to stop and answered as running.

        Raises NotFound, or Conflict if it has ended.
        """
        return await self._do(self._requests.cancel(type, id))

    async def requeue(self, type: str, id: str) -> Task:  # noqa: A002
        """Schedule a done, cancelled or dead task again, due now, its counters at zero.

        Raises NotFound, or Conflict if it has not ended.
        """
        return await self._do(self._requests.requeue(type, id))

    async def stats(self, type: str | None = None) -> builtins.list[TypeStats]:  # noqa: A002
        """Count the tasks of one type or of each."""
        return await self._do(self._requests.stats(type))

    async def is_served(self, type: str) -> bool:  # noqa: A002
        """Whether a live replica works on this type; without one its tasks wait."""
        return await self._do(self._requests.is_served(type))

    async def aclose(self) -> None:
        """Close the connections; the embedded server ends if nobody else uses it."""
        await self._gathering.aclose()
        link, self._link = self._link, None
        membership, self._membership = self._membership, None
        if link is not None:
            await link.aclose()
        if membership is not None:
            await asyncio.to_thread(membership.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _add(self, how: Add, addition: Addition) -> object:
        return await self._do(self._requests.add(how, addition))

    async def _do(self, asked: Asked[T]) -> T:
        patience = Patience(self._wait_s, asked.repeatable)
        while True:
            try:
                link = self._link or await self._connected()
                return await self._drive(link, asked.verb())
            except ScheduldError as error:
                pause = patience.pause_s(error, asked.explain)
            await asyncio.sleep(pause)
            if self._membership is not None:
                # The embedded server may have been killed; it is ours to start again.
                with suppress(ScheduldError):
                    await asyncio.to_thread(self._membership.ensure, wait_s=self._wait_s)

    async def _drive(self, link: AsyncLink, verb: Verb[T]) -> T:
        results: Any = None
        error: ScheduldError | None = None
        while True:
            try:
                step = verb.throw(error) if error else verb.send(results)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            error = None
            try:
                if isinstance(step, Call):
                    results = await link.run(step)
                elif isinstance(step, Ahead):
                    results = await link.run_ahead(step.calls)
                elif isinstance(step, Commands):
                    results = await link.commands(*step.commands)
                else:
                    results = await link.run_all(step)
            except ScheduldError as exc:
                error = exc

    async def _connected(self) -> AsyncLink:
        async with self._opening:
            if self._link is None:
                settings = self._requests.settings
                if self._membership is None:
                    self._url, self._membership = await asyncio.to_thread(
                        join, settings, wait_s=self._wait_s
                    )
                link = AsyncLink(self._url, timeout_s=settings.redis_timeout_ms / 1000)
                try:
                    await link.greet(self._requests.keys.format)
                except BaseException:
                    await link.aclose()
                    raise
                self._link = link
            return self._link
