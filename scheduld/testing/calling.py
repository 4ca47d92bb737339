"""How a test calls handlers: a `def` where it stands, an `async def` in an event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

from scheduld.policies.endings import Ending, Raised, Returned, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scheduld.handlers.contract import Handler


class HandlerLoop(asyncio.SelectorEventLoop):
    """The loop in which a test without one runs `async def` handlers.

    Its own time is the real one whatever freezes time: `asyncio.sleep` would never end.
    """

    def time(self, _now: Callable[[], float] = time.monotonic) -> float:
        """Seconds of the loop's clock."""
        return _now()

    def run(self, call: Coroutine[Any, Any, Ending]) -> Ending:
        """Run one call to its end."""
        return self.run_until_complete(call)

    def end(self) -> None:
        """Cancel what handlers have left behind, and close."""
        left = asyncio.all_tasks(self)
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.wait(left, timeout=1.0))
        self.run_until_complete(self.shutdown_asyncgens())
        self.run_until_complete(self.shutdown_default_executor())
        self.close()


def call(handler: Handler, arguments: tuple[Any, ...]) -> Ending:
    """Call a `def` handler in this thread; no time limit can end it."""
    try:
        value = handler.call(*arguments)
        if inspect.iscoroutine(value):
            value.close()
            raise TypeError("the handler returned a coroutine: declare it with async def")
    except BaseException as error:  # noqa: BLE001 - a run ends in many ways
        return Raised(error)
    return Returned(value)


async def call_in_loop(handler: Handler, arguments: tuple[Any, ...], limit_ms: int) -> Ending:
    """Call an `async def` handler; it is cancelled after `limit_ms` of real time."""

    async def ending() -> Ending:
        try:
            return Returned(await handler.call(*arguments))
        except BaseException as error:  # noqa: BLE001 - a run ends in many ways
            return Raised(error)

    task = asyncio.ensure_future(ending())
    try:
        await asyncio.wait({task}, timeout=limit_ms / 1000)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task})
    except BaseException:
        task.cancel()
        await asyncio.wait({task})
        raise
    return TimedOut(limit_ms)


async def call_beside_loop(handler: Handler, arguments: tuple[Any, ...], limit_ms: int) -> Ending:
    """Call any handler from a running loop: a `def` in a thread, as the daemon does."""
    if handler.is_async:
        return await call_in_loop(handler, arguments, limit_ms)
    return await asyncio.to_thread(call, handler, arguments)


def passes(error: BaseException) -> bool:
    """Whether an error of a run is meant for the test itself: Ctrl-C, `pytest.fail`, a skip.

    All else is an end of the run, as it is for the daemon.
    """
    return not isinstance(error, Exception | SystemExit | GeneratorExit | asyncio.CancelledError)
