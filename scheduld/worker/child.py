"""Runs a type's handler, one call at a time, for a daemon at the other end of a socket.

First message of the daemon: the handler's name, its options, the limits of a run. Then calls,
each answered by one end; what the handler says on the way comes in between. SIGTERM asks the
run to stop, as a cancellation does inline.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scheduld.errors import InvalidInput
from scheduld.handlers.contract import Handler, Run
from scheduld.model import TaskType, instant
from scheduld.policies.endings import Ending, Failed, Raised, error_dict, error_of, returned
from scheduld.policies.reschedule import plain
from scheduld.worker import ends, limits, records
from scheduld.worker.channel import Channel
from scheduld.worker.notes import SentNotes
from scheduld.worker.options import restored

if TYPE_CHECKING:
    import asyncio

GROWTH = 256 * 1024 * 1024
"""A worker that has so many bytes more than after its first run is replaced by a new one; so is
one that has less than half of the room left that `max_memory` gave it then."""


def serve(fd: int) -> int:
    """Serve the daemon at the other end of a socket until it closes it; returns the exit code."""
    channel = Channel(fd)
    hello = channel.receive()
    if hello is None:
        return 0
    limits.no_core_dumps()
    sys.path[:] = hello["path"]
    # Each line is seen at once: what crashes does not flush.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    records.configure(channel, hello["level"])
    # The registry of the daemon has checked all this; the module may have changed since.
    from scheduld.registry import resolve, resolve_predicate

    kind = TaskType(
        name=hello["type"],
        handler=hello["handler"],
        isolation="process",
        reschedule_if=hello["predicate"],
        anchor=hello["anchor"],
        options=restored(hello["options"]),
    )
    try:
        handler, predicate = resolve(kind), resolve_predicate(kind)
    except InvalidInput as error:
        channel.send(json.dumps({"unusable": error.message}).encode())
        return 1
    records.configure_structlog()
    channel.send(b'{"ready":1}')
    _Server(channel, kind.name, handler, predicate, hello["limits"]).serve()
    return 0


class _Server:
    def __init__(
        self,
        channel: Channel,
        type_name: str,
        handler: Handler,
        predicate: Handler | None,
        run_limits: limits.Limits,
    ) -> None:
        self._channel = channel
        self._type = type_name
        self._handler = handler
        self._predicate = predicate
        self._limits = run_limits
        self._notes = SentNotes(channel)
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_asked_to_stop = False
        self._most = 0
        self._least_room = 0
        self._limits_before = limits.current()
        self._is_spent = False

    def serve(self) -> None:
        """Answer calls until the daemon closes the socket."""
        while True:
            # Idle it ends at once, whoever asks: no run is to hear of that.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self._is_asked_to_stop or (message := self._channel.receive()) is None:
                return
            signal.signal(signal.SIGTERM, self._on_term)
            answer = self._answer(message)
            self._flush()
            self._notes.run = None
            self._notes.flush()
            is_spent = self._is_used_up()
            self._channel.send(ends.message(message["number"], answer, is_spent=is_spent))

    def _answer(self, message: dict[str, Any]) -> bytes:
        """Carry a call out; nothing of it stays: not the result, nor what an error leads to."""
        if message["call"] == "handler":
            return ends.write(self._handle(self._handler, message))
        if message["call"] == "predicate" and self._predicate is not None:
            return ends.write(plain(self._handle(self._predicate, message)))
        return ends.write(Failed(error_of("protocol", f"unknown call {message['call']}")))

    def _handle(self, handler: Handler, message: dict[str, Any]) -> Ending:
        arguments: tuple[Any, ...] = (message["payload"],)
        if handler.takes_run:
            run = self._notes.run = self._made_run(message["run"])
            arguments = (*arguments, run)
            if self._is_asked_to_stop:
                run.cancel()
        ending: Ending
        try:
            with limits.limited(self._limits):
                ending = self._call(handler, arguments)
        except BaseException as error:  # noqa: BLE001 - SystemExit ends a run, not the worker
            ending = Raised(error)
        if isinstance(ending, Raised) and isinstance(ending.error, MemoryError):
            # What could not be allocated may be missing anywhere.
            self._is_spent = True
            ending = self._out_of_memory(ending.error)
        self._leave_if_forked(ending)
        return ending

    def _out_of_memory(self, error: MemoryError) -> Ending:
        described = error_dict(error)
        if not described["message"] and (limit := self._limits["max_memory"]) is not None:
            described["message"] = f"the run needed more than {limit >> 20} MB (max_memory)"
        return Failed(described)

    def _made_run(self, told: dict[str, Any]) -> Run:
        return Run(
            type=self._type,
            id=told["id"],
            attempt=told["attempt"],
            fence=told["fence"],
            due=instant(told["due_ms"]),
            tick=None if told["tick_ms"] is None else instant(told["tick_ms"]),
            schedule=told["schedule"],
            options=self._handler.options,
            _notes=self._notes,
        )

    def _call(self, handler: Handler, arguments: tuple[Any, ...]) -> Ending:
        if handler.is_async:
            return returned(self._await(handler, arguments))
        return returned(handler.call(*arguments))

    def _await(self, handler: Handler, arguments: tuple[Any, ...]) -> Any:
        import asyncio  # a third of the start, and only async handlers need it

        if self._loop is None:
            # One for all runs, so that connections outlive a run, as they do inline.
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(handler.call(*arguments))
        if self._is_asked_to_stop:
            self._task.cancel()
        try:
            return self._loop.run_until_complete(self._task)
        finally:
            if not self._task.done():
                # SystemExit in another task came out of the loop: it is not to be used again.
                self._is_spent = True
            self._task = None

    def _on_term(self, *_: object) -> None:
        # The daemon ends the worker soon after. If somebody else has sent it, such as the
        # handler to its own group, no later run must find itself cancelled.
        self._is_asked_to_stop = True
        if self._notes.run is not None:
            self._notes.run.cancel()
        if self._task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _leave_if_forked(self, ending: Ending) -> None:
        """End a copy of this process, made by the handler, that has come back from it."""
        if os.getpid() != self._pid:
            self._flush()
            is_exit = isinstance(ending, Raised) and isinstance(ending.error, SystemExit)
            code = ending.error.code if is_exit else 0  # type: ignore[union-attr]
            os._exit(code if isinstance(code, int) else 1)

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed, or replaced by anything
                stream.flush()

    def _is_used_up(self) -> bool:
        """Whether the next run is better off in a new worker."""
        if not self._most:
            self._most = limits.resident() + GROWTH
            self._least_room = limits.room(self._limits) // 2
        return (
            self._is_spent
            or self._is_asked_to_stop
            or self._limits_before != limits.current()
            or limits.room(self._limits) < self._least_room
            or (limits.peak() > self._most and limits.resident() > self._most)
        )
