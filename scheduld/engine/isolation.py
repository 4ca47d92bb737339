"""Runs one handler call, inline or in a thread, and can ask it to stop.

No exception of a handler gets out of here, not even SystemExit: it is returned.
"""

from __future__ import annotations

import asyncio
import inspect
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from scheduld.outcomes import Outcome
from scheduld.policies.endings import Ending, GivenBack, Raised, Returned, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from scheduld.handlers.contract import Handler, Run

_SETTLE_S = 1.0
"""How long a run that was asked to stop may take before it is called overdue."""


class Stop(StrEnum):
    """Why a run was asked to stop."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lease lost"
    STOPPING = "stopping"


class Execution:
    """One handler call under way.

    `executor` None runs it in the event loop. `on_overdue` is called once if the call goes on
    after it was asked to stop: a thread, or a coroutine that ignores its cancellation. Its slot
    and its lease stay taken until it returns, so that no second attempt runs beside it.
    """

    def __init__(
        self,
        handler: Handler,
        payload: dict[str, Any],
        run: Run,
        *,
        timeout_ms: int,
        executor: Executor | None,
        on_overdue: Callable[[Stop], None],
    ) -> None:
        self._handler = handler
        self._arguments = (payload, run) if handler.takes_run else (payload,)
        self._run = run
        self._timeout_ms = timeout_ms
        self._executor = executor
        self._on_overdue = on_overdue
        self._call: asyncio.Future[Ending] | None = None
        self.stopped: Stop | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether the call has begun and not returned, even if nobody waits for it any more."""
        return self._call is not None and not self._call.done()

    def stop(self, why: Stop) -> None:
        """Ask the call to stop; the first reason is the one that counts."""
        if self.stopped is not None:
            return
        self.stopped = why
        self._run.cancel()
        if self._call is not None:
            if self._executor is None:
                self._call.cancel()
            loop = asyncio.get_running_loop()
            loop.call_later(_SETTLE_S, self._check_overdue)

    async def result(self) -> Ending:
        """Run the call to its end, however long that takes."""
        if self.stopped is not None:
            return GivenBack()
        call = self._call = self._begin()
        await asyncio.wait({call}, timeout=self._timeout_ms / 1000)
        if not call.done():
            self.stop(Stop.TIMEOUT)
            await asyncio.wait({call})
        # An exception leads to its frames, these to here: a cycle would keep their locals.
        self._call = None
        return self._ending(call)

    def _begin(self) -> asyncio.Future[Ending]:
        if self._executor is None:
            return asyncio.ensure_future(self._inline())
        return asyncio.get_running_loop().run_in_executor(self._executor, self._in_thread)

    async def _inline(self) -> Ending:
        try:
            if self._handler.is_async:
                return Returned(await self._handler.call(*self._arguments))
            return _returned(self._handler.call(*self._arguments))
        except BaseException as error:  # noqa: BLE001 - SystemExit must not end the daemon
            return Raised(error)

    def _in_thread(self) -> Ending:
        try:
            return _returned(self._handler.call(*self._arguments))
        except BaseException as error:  # noqa: BLE001 - SystemExit must not end the daemon
            return Raised(error)

    def _ending(self, call: asyncio.Future[Ending]) -> Ending:
        if self.stopped is Stop.TIMEOUT:
            return TimedOut(self._timeout_ms)
        if call.cancelled():
            return GivenBack()
        ending = call.result()
        if self.stopped is not None and isinstance(ending, Raised):
            # Whatever it raises then is how it stopped, not a failure; an outcome is its choice.
            return ending if isinstance(ending.error, Outcome) else GivenBack()
        return ending

    def _check_overdue(self) -> None:
        if self.is_under_way and self.stopped is not None:
            self._on_overdue(self.stopped)


def _returned(value: Any) -> Returned:
    """Take what a `def` handler returned; one that hides an `async def` has not run at all."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the handler returned a coroutine: declare it with async def")
    return Returned(value)
