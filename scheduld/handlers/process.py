"""Run a program in its own process group, and leave nothing of that group behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduld.handlers.guard import guard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OUTPUT_KEPT = 8 * 1024
"""Bytes of output kept: the last ones."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL when a run is cancelled."""
_DRAIN = 0.5
_DEATH = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: `returncode` is minus the signal if one killed it.

    `output` is the end of what it wrote to stdout and stderr; `dropped` counts the bytes
    before that.
    """

    returncode: int
    output: str
    dropped: int


class _Watch(asyncio.SubprocessProtocol):
    """What is known of the process. The end of the process and of its output are separate:

    a background child may hold the pipe open long after the program is gone.
    """

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self.tail = bytearray()
        self.total = 0
        self.transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101 - for the checker
        self.transport = transport
        guard.watch(transport.get_pid())

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - one pipe
        self.total += len(data)
        self.tail += data
        del self.tail[:-OUTPUT_KEPT]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()

    def signal_group(self, number: signal.Signals) -> None:
        if self.transport is not None:
            # The leader's pid is the group's id. EPERM: a set-user-id child, not ours to end.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.transport.get_pid(), number)

    def ended(self, returncode: int) -> Ended:
        tail = bytes(self.tail)
        dropped = self.total - len(tail)
        if dropped:
            # The cut may have split a character; what is left of it is not worth a "?".
            tail = tail.lstrip(bytes(range(0x80, 0xC0)))
        return Ended(returncode, tail.decode(errors="replace"), dropped)


async def run_process(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, stdin: bytes
) -> Ended:
    """Run `argv` with `stdin` until it exits, then end what it left in the background.

    When cancelled: SIGTERM to the group, GRACE, SIGKILL to the group, and CancelledError goes
    on once the program is gone. Raises OSError if it cannot be started.
    """
    watch = _Watch()
    guard.prepare()
    try:
        transport = await _spawn(watch, argv, env, cwd)
        _feed(transport, stdin)
        await watch.exited.wait()
    except asyncio.CancelledError:
        watch.signal_group(signal.SIGTERM)
        await _wait(watch.exited, GRACE)
        raise
    finally:
        await _clear(watch)
    returncode = transport.get_returncode()
    return watch.ended(-signal.SIGKILL if returncode is None else returncode)


async def _spawn(
    watch: _Watch, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> asyncio.SubprocessTransport:
    """Start the program, whole: asyncio can hang on a start that is cancelled half way."""
    spawning = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: watch,
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    )
    try:
        transport, _ = await asyncio.shield(spawning)
    except asyncio.CancelledError:
        await asyncio.wait({spawning})
        if not spawning.cancelled():
            spawning.exception()  # one that nobody asks for is complained about
        raise
    return transport


def _feed(transport: asyncio.SubprocessTransport, data: bytes) -> None:
    # The transport writes from its own buffer, and takes a program that does not read it
    # (EPIPE) as an end of the pipe, not as an error.
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)  # noqa: S101 - for the checker
    pipe.write(data)
    pipe.write_eof()


async def _clear(watch: _Watch) -> None:
    """End the whole group, take the rest of its output, close the pipes."""
    watch.signal_group(signal.SIGKILL)
    if watch.transport is None:
        return
    try:
        await _wait(watch.exited, _DEATH)
        # Who left the group (setsid) may still hold the pipe: it is not waited for.
        await _wait(watch.drained, _DRAIN)
    finally:
        guard.forget(watch.transport.get_pid())
        pipe = watch.transport.get_pipe_transport(0)
        # What nobody reads any more would keep the pipe open; a closed pipe has no buffer, and
        # must not be closed twice.
        if isinstance(pipe, asyncio.WriteTransport) and pipe.get_write_buffer_size():
            pipe.abort()
        watch.transport.close()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
