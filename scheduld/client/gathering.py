"""Adds that are made in one turn of the event loop go to the server as one call.

A hundred tasks of a program that each add something cost the server and this process little
more than one add. Nobody waits for it: a lone add is on its way in the same turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scheduld.client.adding import Addition
from scheduld.errors import OutcomeUnknown, ScheduldError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scheduld.client.adding import Pending
    from scheduld.client.sending import Add
    from scheduld.model import Task


class Joined:
    """Adds that are sent as one call, each with where its caller waits; `sending` carries it."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Pending, asyncio.Future[Task]]] = []
        self.sending: asyncio.Task[None] | None = None

    async def wait(self, answer: asyncio.Future[Task]) -> Task:
        """Wait for one answer. The last caller who goes away gives the call up."""
        try:
            return await answer
        except asyncio.CancelledError:
            if self.sending is not None and all(other.done() for _, other in self.pairs):
                self.sending.cancel()
            raise


class Gathering:
    """Brings the adds of one turn together. `send` carries an addition out, or raises."""

    def __init__(self, send: Callable[[Add, Addition], Awaitable[object]]) -> None:
        self._send = send
        self._open: dict[Add, Joined] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Send nothing any more: who still waits is cancelled."""
        for sending in self._sending:
            sending.cancel()
        if self._sending:
            await asyncio.wait(self._sending)

    async def add(self, how: Add, task: Pending) -> Task:
        """Add one task, with those that are added in the same way in this turn.

        Raises what refused it. Cancelling one caller leaves the others' adds alone.
        """
        joined = self._open.get(how)
        if joined is not None:
            return await self._join(joined, task)
        if _is_last_of_turn():
            return await self._alone(how, task)
        return await self._lead(how, task)

    async def _alone(self, how: Add, task: Pending) -> Task:
        addition = Addition([task])
        await self._send(how, addition)
        (result,) = addition.all_results()
        if isinstance(result, ScheduldError):
            raise result
        return result

    async def _join(self, joined: Joined, task: Pending) -> Task:
        answer: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        joined.pairs.append((task, answer))
        return await joined.wait(answer)

    async def _lead(self, how: Add, task: Pending) -> Task:
        joined = Joined()
        self._open[how] = joined
        try:
            await asyncio.sleep(0)
        except BaseException:
            # Cancelled in this very turn: nothing of it was sent, the others go on.
            self._close(how, joined)
            raise
        if not joined.pairs:
            del self._open[how]
            return await self._alone(how, task)
        answer: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        joined.pairs.insert(0, (task, answer))
        self._close(how, joined)
        return await joined.wait(answer)

    def _close(self, how: Add, joined: Joined) -> None:
        del self._open[how]
        if joined.pairs:
            # A task of its own: a caller who is cancelled must not take the others with him.
            joined.sending = asyncio.get_running_loop().create_task(self._carry(how, joined))
            self._sending.add(joined.sending)
            joined.sending.add_done_callback(self._sending.discard)

    async def _carry(self, how: Add, joined: Joined) -> None:
        waiting = [pair for pair in joined.pairs if not pair[1].done()]
        addition = Addition([task for task, _ in waiting])
        error: BaseException = asyncio.CancelledError()
        try:
            if waiting:
                await self._send(how, addition)
        except ScheduldError as refusal:
            error = refusal
        except BaseException as fault:
            error = fault
            raise
        finally:
            for (task, answer), result in zip(waiting, addition.results, strict=True):
                _settle(answer, _own(error, task) if result is None else result)


def _is_last_of_turn() -> bool:
    """Whether nobody else runs in this turn of the loop, who could add something too."""
    # asyncio's own loop tells by an attribute that has no public name. Not to know it costs a
    # lone add one turn: a tenth of its time.
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    return ready is not None and not ready


def _settle(answer: asyncio.Future[Task], result: Task | BaseException) -> None:
    if answer.done():
        return
    if isinstance(result, asyncio.CancelledError):
        answer.cancel()
    elif isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _own(error: BaseException, task: Pending) -> BaseException:
    """The error of a whole call as one caller's: an exception raised twice mixes its traces up."""
    if not isinstance(error, ScheduldError):
        return error
    own = type(error).__new__(type(error), *error.args)
    own.__dict__.update(error.__dict__)
    if isinstance(own, OutcomeUnknown):
        own.task_id, own.token = task.id, task.new.token
    return own
