"""Schedules as an asyncio program sees them: `client.schedules`, twin of `blocking_schedules`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Mapping
    from datetime import date

    from scheduld.calendar.preview import NextTick
    from scheduld.client.requests import AsyncDo, Requests
    from scheduld.client.schedule_draft import ScheduleOptions
    from scheduld.client.schedule_records import (
        Backfill,
        Resumed,
        ScheduleInfo,
        SchedulePause,
        Skip,
        Tick,
        Triggered,
    )
    from scheduld.client.schedule_requests import ScheduleRequests
    from scheduld.schedule import OnScheduleConflict


class AsyncSchedules:
    """What can be done with schedules; every verb raises NotFound for one that is not there.

    Times are WHEN texts or datetimes, in the zone of the schedule where they have none; a date
    is a whole day there.
    """

    def __init__(self, do: AsyncDo, requests: Callable[[], Requests]) -> None:
        self._do = do
        self._requests = requests

    @property
    def _asked(self) -> ScheduleRequests:
        # Most programs only add tasks.
        from scheduld.client.schedule_requests import ScheduleRequests

        # Anew each time: the test kit leads clients elsewhere for a while.
        return ScheduleRequests(self._requests())

    async def add(
        self,
        name: str,
        type: str,  # noqa: A002 - the public word
        *,
        on_conflict: OnScheduleConflict = "error",
        allow_unknown: bool = False,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleInfo:
        """Add a schedule; when this returns it is kept, and fires from its next tick on.

        `cron` or `every` is needed. `on_conflict`, when the name is taken by one with other
        settings: "error" raises TaskExists, "keep" answers with that one and `created=False`,
        "replace" takes its place (with another rule or zone it begins anew). A name of a config
        file raises Conflict. `options`: see `ScheduleOptions`.
        """
        asked = self._asked.add(name, type, on_conflict, options, allow_unknown=allow_unknown)
        return await self._do(asked)

    async def remove(self, name: str) -> int:
        """Remove a schedule that was added at run time; its waiting tasks are cancelled.

        Returns how many. What runs goes on. Raises Conflict for one of a config file, as long as
        a daemon has it.
        """
        return await self._do(self._asked.remove(name))

    async def get(self, name: str) -> ScheduleInfo:
        """Read one schedule: its settings, what it did last and does next."""
        return await self._do(self._asked.get(name))

    async def list(self, type: str | None = None) -> list[ScheduleInfo]:  # noqa: A002
        """Read all schedules, or those of a type, by name."""
        return await self._do(self._asked.list_schedules(type))

    async def pause(self, name: str, *, reason: str | None = None) -> SchedulePause:
        """Let a schedule fire no more until `resume`; tasks that it has made go on.

        One that is paused already gets the new reason.
        """
        return await self._do(self._asked.pause(name, reason))

    async def resume(self, name: str, *, catch_up: bool = False) -> Resumed:
        """Let a schedule fire again, from its next tick on.

        `catch_up`: what it missed while it was paused is treated as its `catch_up` says.
        """
        return await self._do(self._asked.resume(name, catch_up=catch_up))

    async def trigger(self, name: str, payload: Mapping[str, Any] | None = None) -> Triggered:
        """Make a task of a schedule now, its `overlap` applied; its next tick stays.

        `payload` takes the place of the schedule's own.
        """
        return await self._do(self._asked.trigger(name, payload))

    async def skip(
        self,
        name: str,
        *,
        on: str | date | None = None,
        at: str | date | None = None,
        start: str | date | None = None,
        end: str | date | None = None,
    ) -> builtins.list[Skip]:
        """Leave out the ticks `on` a date, the one `at` a time, or those from `start` to `end`.

        Returns all that is left out now. Raises InvalidInput if there is no tick to come there.
        """
        return await self._do(self._asked.skip(name, on, at, start, end))

    async def unskip(
        self,
        name: str,
        *,
        on: str | date | None = None,
        at: str | date | None = None,
        start: str | date | None = None,
        end: str | date | None = None,
    ) -> builtins.list[Skip]:
        """Let ticks fire that were to be left out; returns what still is."""
        return await self._do(self._asked.unskip(name, on, at, start, end))

    async def skips(self, name: str) -> builtins.list[Skip]:
        """Read which ticks are left out."""
        return await self._do(self._asked.skips(name))

    async def backfill(
        self,
        name: str,
        start: str | date,
        end: str | date,
        *,
        rate: str = "10/s",
        dry_run: bool = True,
    ) -> Backfill:
        """Make tasks for the ticks from `start` to `end` that have none and never ran.

        At most 10,000, the oldest first, due at `rate`. `dry_run` only tells which. What ran is
        known from the tasks that are kept, and from the history as far as it goes back. Overlap
        does not apply.
        """
        asked = self._asked.backfill(name, start, end, rate, dry_run=dry_run)
        return await self._do(asked)

    async def history(
        self, name: str, *, limit: int = 100, before: str | None = None
    ) -> builtins.list[Tick]:
        """Read the newest `limit` records of what became of ticks, the oldest first.

        `before`: the cursor of a record; then those just before it. The history of a schedule
        that was removed can be read for a day.
        """
        return await self._do(self._asked.history(name, limit, before))

    async def next(
        self, name: str, count: int = 10, *, after: str | date | None = None
    ) -> builtins.list[NextTick]:
        """Tell the next ticks, with what changes of the clock do to them.

        `after`: only those later than this; default: than now.
        """
        return await self._do(self._asked.next(name, count, after))
