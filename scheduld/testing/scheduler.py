"""A scheduler whose time and work are in the hands of a test."""

from __future__ import annotations

import math
import os
import secrets
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from scheduld import clock
from scheduld.calendar.period import series_of
from scheduld.client import detour
from scheduld.client.blocking import Client
from scheduld.client.default import close_all
from scheduld.client.verbs import LIST_LIMIT
from scheduld.config.settings import ClientSettings
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput, ScheduldError
from scheduld.model import State, Task, instant, iso
from scheduld.names import check_name
from scheduld.store.calls import Caller
from scheduld.store.keys import Keys
from scheduld.store.synclink import SyncLink
from scheduld.testing import types
from scheduld.testing.asserting import Assertions
from scheduld.testing.driving import LIMIT, Driver
from scheduld.testing.server import Server, shared_server
from scheduld.testing.stage import staged
from scheduld.testing.ticking import Ticks
from scheduld.testing.worker import Worker
from scheduld.when import instant_ms, load_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta, tzinfo

    from scheduld.calendar.period import Series
    from scheduld.testing.worker import RunRecord


class Traveller(Protocol):
    """What moves the time that handlers read: freezegun's or time-machine's object."""

    def move_to(self, target: datetime, /) -> object:
        """Set the time."""


class Scheduler(Assertions):
    """A scheduler for one test: real scripts on a real server, an empty namespace, a clock by hand.

    While it is entered (`with`), every client of the process and `schedule_task` lead to it and
    take its time; no other server is touched. Nothing runs, and time stands, until the test says
    so. `now` is when it begins (WHEN text or datetime; default: the real now), `timezone` what a
    config's would be. One at a time in a process.
    """

    def __init__(
        self,
        *,
        now: str | datetime | None = None,
        timezone: str | None = None,
        server: Server | None = None,
    ) -> None:
        self._timezone = timezone
        self._begin_at = now
        self._server = server
        self._stack = ExitStack()
        self._pid = os.getpid()
        self._traveller: Traveller | None = None
        self._worker: Worker
        self._driver: Driver
        self._ticks: Ticks
        self._link: SyncLink
        self._settings: ClientSettings
        self.client: Client
        """A client of this scheduler."""

    # --- time

    @property
    def now(self) -> datetime:
        """The time of the test, aware, in UTC."""
        return instant(clock.wall_ms())

    @property
    def timezone(self) -> str | None:
        """Time zone of times without one, as a config's `timezone`; it can be set."""
        return self._timezone

    @timezone.setter
    def timezone(self, name: str | None) -> None:
        if name is not None:
            load_zone(name)
        self._timezone = name
        self._change(replace(self._settings, timezone=name))

    def move_to(self, when: str | datetime, *, timezone: str | tzinfo | None = None) -> None:
        """Set the time, without running anything.

        Forward only, as soon as there is a task or a schedule: raises InvalidInput. Until then
        anywhere.
        """
        zone = timezone or self.timezone
        self._move(instant_ms(when, timezone=zone, allow_past=True))

    def move_by(self, duration: timedelta | str | float) -> None:
        """Let time pass (timedelta, duration text or seconds), without running anything."""
        self._move(clock.wall_ms() + parse_duration_ms(duration))

    def follow(self, traveller: Traveller) -> None:
        """Take over the time that is frozen by freezegun or time-machine, and move it along.

        `traveller` is what these give to move time with: it has a `move_to(datetime)`.
        """
        self._traveller = None
        self._move(clock.host_ms())
        self._traveller = traveller

    # --- task types

    def load(
        self,
        path: str | Path | None = None,
        *,
        env: Mapping[str, str] | None = None,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        """Take the types, schedules, time zone and limits of a config file; None: found as usual.

        `env` is added to the environment for `${...}`. `handlers` are used in place of those of
        the file, by type. Servers and namespace of the file are not used. Raises ConfigError.
        """
        config, known = types.from_file(path, env, handlers or {})
        self._worker.handlers.update(known)
        self.announce(*known)
        self._ticks.define(config.schedules)
        self._timezone = config.timezone or self._timezone
        self._worker.max_payload = config.max_payload
        self._change(
            replace(
                self._settings,
                timezone=self._timezone,
                max_payload=config.max_payload,
                series=self._series(),
            )
        )

    def handle(
        self,
        type: str,  # noqa: A002 - the public word
        handler: str | Callable[..., Any],
        **settings: Any,
    ) -> None:
        """Have tasks of a type run by a handler: a callable, an import path or a built-in name.

        `settings` are those of `[types.NAME]` in a config: `retry={"attempts": 3}`,
        `options={...}`; `reschedule_if` may be a callable. Raises InvalidInput, naming all that
        is wrong.
        """
        self._worker.handlers[type] = types.one(type, handler, settings)
        self.announce(type)
        series = self._series()
        if series != self._settings.series:
            self._change(replace(self._settings, series=series))

    def announce(self, *types: str) -> None:
        """Make types known whose tasks are only scheduled: nothing runs them here."""
        if types:
            named = [check_name("type", name) for name in types]
            self._link.commands(("SADD", self._keys.types, *named), writes=True)

    # --- work

    def run_due(self, *, limit: int = LIMIT, raising: bool = False) -> list[RunRecord]:
        """Run what is due now, oldest first, until nothing is; returns the runs.

        What handlers schedule meanwhile runs too, if it is due. Whatever they raise is a failed
        attempt, as in a daemon; `raising` raises the first such error here, after it is stored.
        Raises TooManyRuns after `limit` runs.
        """
        return self._driver.drive(clock.wall_ms(), limit, raising)

    def run_until(
        self,
        when: str | datetime,
        *,
        timezone: str | tzinfo | None = None,
        limit: int = LIMIT,
        raising: bool = False,
    ) -> list[RunRecord]:
        """Let time pass until `when`, fire schedules and run each task at its time.

        As `run_due` else. Time that a `move_...` has let pass is an outage for schedules: what
        they missed is treated as their `catch_up` says.
        """
        until_ms = self._until_ms(when, timezone)
        return self._driver.drive(until_ms, limit, raising)

    def run_all(self, *, limit: int = LIMIT, raising: bool = False) -> list[RunRecord]:
        """Let time pass, and run each task at its time, until no task is scheduled any more.

        Schedules fire as long as there is one.
        """
        return self._driver.drive(math.inf, limit, raising)

    async def arun_due(self, *, limit: int = LIMIT, raising: bool = False) -> list[RunRecord]:
        """`run_due` for tests with an asyncio loop; `def` handlers run in a thread."""
        return await self._driver.adrive(clock.wall_ms(), limit, raising)

    async def arun_until(
        self,
        when: str | datetime,
        *,
        timezone: str | tzinfo | None = None,
        limit: int = LIMIT,
        raising: bool = False,
    ) -> list[RunRecord]:
        """`run_until` for tests with an asyncio loop."""
        until_ms = self._until_ms(when, timezone)
        return await self._driver.adrive(until_ms, limit, raising)

    async def arun_all(self, *, limit: int = LIMIT, raising: bool = False) -> list[RunRecord]:
        """`run_all` for tests with an asyncio loop."""
        return await self._driver.adrive(math.inf, limit, raising)

    # --- what there is

    @property
    def url(self) -> str:
        """URL of the server, for programs that add tasks with plain Redis commands."""
        return self._settings.redis_url

    @property
    def namespace(self) -> str:
        """What all keys of this scheduler begin with."""
        return self._settings.namespace

    @property
    def runs(self) -> list[RunRecord]:
        """All runs of this test, oldest first."""
        return list(self._worker.runs)

    def tasks(
        self,
        type: str | None = None,  # noqa: A002 - the public word
        state: State | str | None = None,
    ) -> list[Task]:
        """The tasks that are kept, of one type and state or of all."""
        found = self.client.list(state=state, limit=LIST_LIMIT)
        return [task for task in found if type in (None, task.type)]

    # --- inside

    def _series(self) -> dict[str, Series]:
        """The ladders of the types, as clients know them from a config."""
        found = {name: series_of(known.kind) for name, known in self._worker.handlers.items()}
        return {name: series for name, series in found.items() if series is not None}

    def _change(self, settings: ClientSettings) -> None:
        """Take other settings for clients: for that of the test and of `schedule_task` at once."""
        self._settings = settings
        detour.change(settings)
        close_all()
        self.client.close()
        self.client = Client()

    def _until_ms(self, when: str | datetime, timezone: str | tzinfo | None) -> int:
        until_ms = instant_ms(when, timezone=timezone or self.timezone, allow_past=True)
        if until_ms < clock.wall_ms():
            raise self._is_past(until_ms)
        return until_ms

    def _move(self, ms: int) -> None:
        if ms < clock.wall_ms() and (self._ticks.any() or self.client.list(limit=1)):
            raise self._is_past(ms)
        clock.move(ms)
        self._worker.look_anew()
        if self._traveller is not None:
            self._traveller.move_to(instant(ms))

    def _is_past(self, ms: int) -> InvalidInput:
        return InvalidInput(
            f"{iso(ms)} is before the test's now, {iso(clock.wall_ms())}: as soon as there is a"
            " task or a schedule, time only goes forward"
        )

    # --- its life

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._begin(stack, self._server or shared_server())
            self._stack = stack.pop_all()
        return self

    def _begin(self, stack: ExitStack, server: Server) -> None:
        self._keys = Keys("test-" + secrets.token_hex(6))
        self._settings = ClientSettings(
            redis_url=server.url,
            namespace=self._keys.namespace,
            timezone=self.timezone,
            state_dir=Path(os.devnull),
            type_names=frozenset(),
        )
        now_ms = clock.wall_ms()
        if self._begin_at is not None:
            now_ms = instant_ms(self._begin_at, timezone=self.timezone, allow_past=True)
        stack.enter_context(staged(self._settings, now_ms))
        self._link = stack.enter_context(closing(SyncLink(server.url)))
        self._link.greet(self._keys.format)
        stack.callback(self._wipe)
        self._worker = Worker(self._link, self._keys)
        self._ticks = Ticks(self._link, Caller(self._keys, "test"))
        driver = Driver(self._worker, self._ticks, self._move)
        self._driver = stack.enter_context(closing(driver))
        self.client = Client()
        stack.callback(lambda: self.client.close())

    def _wipe(self) -> None:
        # The server is the tests' alone, and this its only user now; not so in a forked child.
        if self._pid == os.getpid():
            with suppress(ScheduldError):
                self._link.commands(("FLUSHALL",), writes=True)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        # What ran can still be asked about; nothing can be run any more.
        del self._driver, self._link, self._ticks

    if not TYPE_CHECKING:
        # Hidden from type checkers, which would believe that any name exists.

        def __getattr__(self, name: str) -> Any:
            if name in ("client", "_driver", "_link", "_settings", "_ticks", "_worker"):
                raise InvalidInput("the scheduler is not at work: use it in a `with` block")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
