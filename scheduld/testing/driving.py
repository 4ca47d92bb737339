"""Goes from task to task, and from instant to instant, and has handlers called."""

from __future__ import annotations

import asyncio
import itertools
import math
from contextlib import suppress
from typing import TYPE_CHECKING

from scheduld.clock import wall_ms
from scheduld.errors import InvalidInput
from scheduld.names import printable
from scheduld.outcomes import Outcome
from scheduld.policies.endings import Raised
from scheduld.testing.calling import HandlerLoop, call, call_beside_loop, call_in_loop, passes
from scheduld.testing.worker import Job, RunRecord, TooManyRuns, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from scheduld.policies.endings import Ending
    from scheduld.testing.ticking import Ticks

    Drain = Generator[Job, Ending, list[RunRecord]]

LIMIT = 1_000
"""Most tasks that one call runs unless it says otherwise."""


class Driver:
    """Has the worker's jobs done; `move` sets the time, in ms."""

    def __init__(self, worker: Worker, ticks: Ticks, move: Callable[[int], None]) -> None:
        self._worker = worker
        self._ticks = ticks
        self._move = move
        self._loop: HandlerLoop | None = None
        self._is_running = False

    def close(self) -> None:
        """End the loop of `async def` handlers."""
        if self._loop is not None:
            self._loop.end()
            self._loop = None

    def _drain(self, until_ms: float, limit: int, raising: bool) -> Drain:
        """Yield each job to be called, at its time, and be sent how that ended."""
        if self._is_running:
            raise InvalidInput("a handler cannot run what is due: it is being run")
        _check_limit(limit)
        first = len(self._worker.runs)
        self._is_running = True
        self._worker.look_anew()
        try:
            yield from self._jobs(until_ms, limit, raising)
        finally:
            self._is_running = False
        if until_ms < math.inf and until_ms > wall_ms():
            self._move(int(until_ms))
        return self._worker.runs[first:]

    def _jobs(self, until_ms: float, limit: int, raising: bool) -> Generator[Job, Ending, None]:
        for count in itertools.count():
            job = self._next_job(until_ms)
            if job is None:
                return
            if count >= limit:
                self._worker.give_back(job)
                raise TooManyRuns(
                    f"{limit} tasks ran, and {job.claim.type}/{printable(job.claim.id)} is due too:"
                    " does a task schedule itself again and again? else give a higher limit"
                )
            said: Ending | None = None
            try:
                ending = yield job
                question = self._worker.question(job, ending)
                if question is not None:
                    said = yield question
            except BaseException:
                self._worker.give_back(job)
                raise
            for error in (self._worker.settle(job, ending, said).error, _error(said)):
                if error is not None and (
                    passes(error) or (raising and not isinstance(error, Outcome))
                ):
                    raise error

    def _next_job(self, until_ms: float) -> Job | None:
        """Claim the next task, letting time pass up to `until_ms` until there is one."""
        while True:
            tick_ms = self._ticks.fire(wall_ms())
            job = self._worker.claim(wall_ms())
            if job is not None:
                return job
            due_ms = self._worker.next_due_ms(wall_ms())
            if due_ms is None and until_ms == math.inf:
                return None  # a schedule would go on for ever
            next_ms = min((ms for ms in (due_ms, tick_ms) if ms is not None), default=None)
            if next_ms is None or next_ms > until_ms:
                return None
            self._move(next_ms)

    def drive(self, until_ms: float, limit: int, raising: bool) -> list[RunRecord]:
        """Run what is due up to `until_ms`; raises InvalidInput where a loop runs."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise InvalidInput(
                "this would block the running event loop: await arun_due, arun_until or arun_all"
            )
        drain = self._drain(until_ms, limit, raising)
        ending: Ending | None = None
        error: BaseException | None = None
        while True:
            try:
                job = drain.throw(error) if error else drain.send(ending)  # type: ignore[arg-type]
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            ending = error = None
            try:
                ending = self._call(job)
            except BaseException as exc:  # noqa: BLE001 - the drain raises it again
                error = exc

    def _call(self, job: Job) -> Ending:
        if not job.handler.is_async:
            return call(job.handler, job.arguments)
        self._loop = self._loop or HandlerLoop()
        return self._loop.run(call_in_loop(job.handler, job.arguments, job.limit_ms))

    async def adrive(self, until_ms: float, limit: int, raising: bool) -> list[RunRecord]:
        """The same for a running loop."""
        drain = self._drain(until_ms, limit, raising)
        ending: Ending | None = None
        error: BaseException | None = None
        while True:
            try:
                job = drain.throw(error) if error else drain.send(ending)  # type: ignore[arg-type]
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            ending = error = None
            try:
                ending = await call_beside_loop(job.handler, job.arguments, job.limit_ms)
            except BaseException as exc:  # noqa: BLE001 - the drain raises it again
                error = exc


def _error(ending: Ending | None) -> BaseException | None:
    return ending.error if isinstance(ending, Raised) else None


def _check_limit(limit: object) -> None:
    if not isinstance(limit, int) or limit < 1:
        raise InvalidInput(f"limit is a number of runs from 1, not {limit!r}")
