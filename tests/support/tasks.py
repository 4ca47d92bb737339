"""Handlers for tests: they note what was run, and behave as the test or the payload says."""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduld.engine.duty import Duty
from scheduld.handlers.contract import Handler
from scheduld.model import RetryPolicy, TaskType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from scheduld.handlers.contract import Run

Payload = dict[str, Any]
HOUR_MS = 3_600_000
"""An empty-poll timeout within which a test is over: what happens, happens by a wake-up."""
ONE_ATTEMPT = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class Noted:
    """One start of a handler; `at` is monotonic."""

    id: str
    attempt: int
    fence: int
    at: float
    early_ms: float
    """How long before its due it began, by this host's clock, which is the server's."""
    payload: Payload


@dataclass
class Journal:
    """What handlers did, in order; `most` is how many ran at once at the worst moment."""

    starts: list[Noted] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    most: int = 0
    running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ids(self) -> list[str]:
        """Ids in the order of their starts."""
        return [start.id for start in self.starts]

    def has_started(self, count: int) -> bool:
        """Whether there were so many starts."""
        return len(self.starts) == count

    @contextmanager
    def run(self, payload: Payload, run: Run) -> Iterator[None]:
        """Note the start and the end of one run, however it ends."""
        early_ms = (run.due.timestamp() - time.time()) * 1000
        now = Noted(
            run.id, run.attempt, run.fence, time.monotonic(), early_ms, copy.deepcopy(payload)
        )
        with self._lock:
            self.starts.append(now)
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            yield
        finally:
            with self._lock:
                self.running -= 1
                self.ends.append(run.id)

    def inline(
        self, body: Callable[[Payload, Run], Awaitable[Any]] | None = None
    ) -> Callable[[Payload, Run], Awaitable[Any]]:
        """Make an `async def` handler that notes its runs around `body`."""

        async def call(payload: Payload, run: Run) -> Any:
            with self.run(payload, run):
                return await body(payload, run) if body else None

        return call

    def threaded(
        self, body: Callable[[Payload, Run], Any] | None = None
    ) -> Callable[[Payload, Run], Any]:
        """Make a `def` handler that notes its runs around `body`."""

        def call(payload: Payload, run: Run) -> Any:
            with self.run(payload, run):
                return body(payload, run) if body else None

        return call


def duty(
    name: str,
    call: Callable[..., Any],
    predicate: Callable[..., Any] | None = None,
    **policies: Any,
) -> Duty:
    """Make a type of a replica from a handler; `policies` are fields of TaskType."""
    kind = TaskType(name=name, handler="tests:handler", **policies)
    return Duty(kind, _handler(call), None if predicate is None else _handler(predicate))


def _handler(call: Callable[..., Any]) -> Handler:
    takes_run = len(inspect.signature(call).parameters) > 1
    return Handler(call, is_async=inspect.iscoroutinefunction(call), takes_run=takes_run)


async def nap(payload: Payload, run: Run) -> None:
    """Run for `s` seconds, letting the event loop go on."""
    await asyncio.sleep(payload["s"])


async def hang(payload: Payload, run: Run) -> None:
    """Run until cancelled."""
    await asyncio.Event().wait()


def block(payload: Payload, run: Run) -> None:
    """Run for `s` seconds, blocking the thread it is in."""
    time.sleep(payload["s"])


async def block_loop(payload: Payload, run: Run) -> None:
    """Block the event loop for `s` seconds."""
    time.sleep(payload["s"])  # noqa: ASYNC251 - what badly written handlers do


class Gate:
    """Holds runs until it is opened; inline ones even against one cancellation if `stubborn`."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self._inline = asyncio.Event()
        self._thread = threading.Event()
        self._stubborn = stubborn
        self.stops = 0

    def open(self) -> None:
        """Let all runs go on, those to come too."""
        self._inline.set()
        self._thread.set()

    async def inline(self, payload: Payload, run: Run) -> str:
        """Wait in the event loop."""
        while not self._inline.is_set():
            try:
                await self._inline.wait()
            except asyncio.CancelledError:
                self.stops += 1
                # Only once, so that a test which fails can still end.
                if self.stops > 1 or not self._stubborn:
                    raise
        return "through the gate"

    def threaded(self, payload: Payload, run: Run) -> str:
        """Wait in a thread, whatever `run.cancelled` says."""
        if not self._thread.wait(30):
            raise TimeoutError("the test never opened the gate")
        return "through the gate"
