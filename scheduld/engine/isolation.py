"""Where handler calls happen: in the event loop, or in threads; `processes` is the third place.

No exception of a handler gets out of here, not even SystemExit: it is told as an ending.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from scheduld.handlers.contract import Run
from scheduld.model import instant
from scheduld.names import printable
from scheduld.policies.endings import Ending, GivenBack, Raised, Returned, returned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduld.handlers.contract import Handler, Notes
    from scheduld.model import Claim


class Stop(StrEnum):
    """Why a run was asked to stop."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lease lost"
    STOPPING = "stopping"


class Execution:
    """One handler call, from its beginning until it is over, however late that is.

    `deadline` is the monotonic second at which it has taken too long. `arguments` is what the
    handler is called with, `run` among them if it takes one. `stopped` is the first reason to
    stop it, `has_begun` whether the handler was called, `is_given_up` that its end is of no
    interest any more. `output` is the end of what it wrote, if that was heard. `is_asked`: it
    is no run, but the reschedule predicate's, after one.
    """

    __slots__ = (
        "arguments",
        "claim",
        "deadline",
        "has_begun",
        "is_asked",
        "is_given_up",
        "output",
        "run",
        "stopped",
        "task",
    )

    def __init__(
        self,
        claim: Claim,
        arguments: tuple[Any, ...],
        run: Run | None,
        deadline: float,
        *,
        is_asked: bool = False,
    ) -> None:
        self.claim = claim
        self.arguments = arguments
        self.run = run
        self.deadline = deadline
        self.stopped: Stop | None = None
        self.has_begun = False
        self.is_asked = is_asked
        self.is_given_up = False
        self.output = ""
        self.task: asyncio.Task[None] | None = None


class Isolation(Protocol):
    """A way to call handlers: each `begin` leads to one `ended(execution, ending)` in the loop."""

    def begin(self, execution: Execution) -> None:
        """Begin a call; it never ends within this one."""

    def interrupt(self, execution: Execution) -> None:
        """Make a call end, as far as that can be done; `execution.stopped` is set."""

    def close(self) -> None:
        """Let go of what waits for calls."""


class Inline:
    """Calls in the event loop: one asyncio task each."""

    def __init__(self, handler: Handler, ended: Callable[[Execution, Ending], None]) -> None:
        self._call = handler.call
        self._is_async = handler.is_async
        self._ended = ended

    def begin(self, execution: Execution) -> None:
        """Begin in the loop's next turn."""
        execution.task = asyncio.get_running_loop().create_task(self._run(execution))

    def interrupt(self, execution: Execution) -> None:
        """Cancel the coroutine; it may ignore that."""
        task = execution.task
        if task is None:
            return
        if execution.has_begun:
            task.cancel()
        else:
            # It sees at its first line that it was stopped, unless somebody else cancels it, or
            # has done so, before that.
            task.add_done_callback(partial(self._never_ran, execution))

    def close(self) -> None:
        """Nothing waits."""

    def _never_ran(self, execution: Execution, _: asyncio.Task[None]) -> None:
        if not execution.has_begun:
            self._over(execution, GivenBack())

    async def _run(self, execution: Execution) -> None:
        if execution.stopped is not None:
            self._over(execution, GivenBack())
            execution.has_begun = True
            return
        execution.has_begun = True
        self._over(execution, await self._ending(execution))

    async def _ending(self, execution: Execution) -> Ending:
        try:
            if self._is_async:
                return Returned(await self._call(*execution.arguments))
            return returned(self._call(*execution.arguments))
        except BaseException as error:  # noqa: BLE001 - SystemExit must not end the daemon
            return Raised(error)

    def _over(self, execution: Execution, ending: Ending) -> None:
        # The execution leads to the task, its exception to frames, these to the execution:
        # a cycle would keep their locals.
        execution.task = None
        self._ended(execution, ending)


class Threads:
    """Calls in threads of a pool; none can be ended, its handler looks at `run.cancelled`."""

    def __init__(
        self, handler: Handler, ended: Callable[[Execution, Ending], None], count: int, name: str
    ) -> None:
        self._call = handler.call
        self._ended = ended
        self._pool = ThreadPoolExecutor(count, name)
        self._loop = asyncio.get_running_loop()
        self._over: deque[tuple[Execution, Ending]] = deque()
        self._is_told = False

    def begin(self, execution: Execution) -> None:
        """Begin as soon as a thread is free; raises RuntimeError if none can be made."""
        self._pool.submit(self._run, execution)

    def interrupt(self, execution: Execution) -> None:
        """Nothing more to do: one that waits for a thread will not run."""

    def close(self) -> None:
        """Let idle threads go; those that still run a handler end with the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, execution: Execution) -> None:
        self._over.append((execution, self._ending(execution)))
        # Waking the loop costs a system call: once for all that have ended since it looked.
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._collect)

    def _ending(self, execution: Execution) -> Ending:
        if execution.stopped is not None:
            return GivenBack()
        execution.has_begun = True
        try:
            return returned(self._call(*execution.arguments))
        except BaseException as error:  # noqa: BLE001 - SystemExit must not end the daemon
            return Raised(error)

    def _collect(self) -> None:
        # Before the first look, or what ends between the last look and this line is not told.
        self._is_told = False
        while self._over:
            execution, ending = self._over.popleft()
            self._ended(execution, ending)


def run_of(claim: Claim, options: Mapping[str, Any], notes: Notes | None) -> Run:
    """Make what the handler of a claimed task may know about its run."""
    tick_ms = claim.tick_ms
    return Run(
        type=claim.type,
        id=claim.id,
        attempt=claim.attempt,
        fence=claim.fence,
        due=instant(claim.due_ms),
        tick=None if tick_ms is None else instant(tick_ms),
        schedule=claim.schedule,
        options=options,
        _notes=notes,
    )


def task_ref(claim: Claim) -> str:
    """Name the task of a claim, for the log."""
    return f"{claim.type}/{printable(claim.id)}"
