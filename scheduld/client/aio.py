"""The client for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from scheduld.client.adding import TaskSpec, check_options
from scheduld.client.aio_operating import AsyncOperating
from scheduld.client.gathering import Gathering
from scheduld.client.requests import only

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta, tzinfo

    from scheduld.client.adding import Addition
    from scheduld.client.options import AddOptions
    from scheduld.client.sending import Add
    from scheduld.client.stats import TypeStats
    from scheduld.errors import ScheduldError
    from scheduld.model import Durable, OnConflict, State, Task


class AsyncClient(AsyncOperating):
    """scheduld for asyncio programs.

    `url`: redis://, rediss://, unix:// or "embedded"; None: the config file's (found as the
    command line finds it, or at `config`). `namespace` and `timezone` override the file's.
    `wait_s`: how long a verb waits while Redis is away, before it raises Unreachable, or
    OutcomeUnknown if the call was sent and its answer lost. `durable`: where a task is stored
    when its add is answered: "memory" of the server, "disk", or a "replica" besides; if that
    is not confirmed in time, the add raises OutcomeUnknown.

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
        durable: Durable | None = None,
    ) -> None:
        super().__init__(
            url,
            namespace=namespace,
            timezone=timezone,
            config=config,
            wait_s=wait_s,
            durable=durable,
        )
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
        **options: Unpack[AddOptions],
    ) -> Task:
        """Schedule one task; when this returns it is kept.

        `at`: WHEN text or datetime (naive ones and texts without offset are read in `timezone`).
        `delay`: timedelta, duration text or seconds, added to the server's now. Neither: now.
        `on_conflict`, when the id is kept in any state: "error" raises TaskExists, "keep"
        answers with `created=False`, "replace" takes the id (a running task is followed),
        "rerun" is "keep" for a scheduled one, and else "replace". `options`: `every`, `until`,
        `max_runs` make it come again (`PeriodOptions`); the rest is about load (`LoadOptions`).
        """
        if options:
            check_options(options)
            spec = TaskSpec(payload=payload, at=at, delay=delay, id=id, token=token, **options)
        else:
            spec = TaskSpec.plain(payload, at, delay, id, token)
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
        """Read tasks of one type or of each, the earliest first.

        Up to `limit` of each type and state; done and cancelled ones count as one state.
        """
        return await self._do(self._requests.list_tasks(type, state, limit))

    async def cancel(self, type: str, id: str, *, this_run: bool = False) -> Task:  # noqa: A002
        """Cancel a task; a running one is asked to stop and answered as running.

        Of a periodic task that ends the series; with `this_run` only its run, or if it waits its
        next occurrence. Raises NotFound, or Conflict if it has ended.
        """
        return await self._do(self._requests.cancel(type, id, this_run=this_run))

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
        await super().aclose()

    async def _add(self, how: Add, addition: Addition) -> object:
        return await self._do(self._requests.add(how, addition))
