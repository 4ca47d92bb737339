"""Run a program in its own process group, and leave nothing of that group behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduld.handlers.guard import Expected, guard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OUTPUT_KEPT = 8 * 1024
"""Bytes of output kept: the last ones."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL when a run is cancelled."""
_DRAIN = 0.5
_DEATH = 5.0
_UNKNOWN = 255


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: `returncode` is minus the signal if one killed it.

    `output` is the end of what it wrote to stdout and stderr; `dropped` counts the bytes
    before that.
    """

    returncode: int
    output: str
    dropped: int


async def run_process(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, stdin: bytes
) -> Ended:
    """Run `argv` with `stdin` until it exits, then end what it left in the background.

    When cancelled: SIGTERM to the group, GRACE, SIGKILL to the group, and CancelledError goes
    on once the program is gone. Raises OSError if it cannot be started.
    """
    run = guard.expect()
    try:
        child = subprocess.Popen(  # noqa: ASYNC220, S603 - a fork, as asyncio's own; from the config
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**env, **run.environment},
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
    except BaseException:
        guard.forget(run)
        raise
    # asyncio would tell the process id only after some turns of the loop.
    guard.watch(run, child.pid)
    watch = _Watch(child, run)
    try:
        await watch.feed(stdin)
        await watch.exited.wait()
    except asyncio.CancelledError:
        watch.signal_group(signal.SIGTERM)
        await _wait(watch.exited, GRACE)
        raise
    finally:
        await watch.clear()
    return watch.ended()


class _Watch(asyncio.Protocol):
    """A process that runs. Its end and that of its output are separate:

    a background child may hold the pipe open long after the program is gone.
    """

    def __init__(self, child: subprocess.Popen[bytes], run: Expected) -> None:
        self.exited = asyncio.Event()
        self._child = child
        self._run = run
        self._drained = asyncio.Event()
        self._tail = bytearray()
        self._total = 0
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        _await_end(child, self.exited.set)

    def data_received(self, data: bytes) -> None:
        self._total += len(data)
        self._tail += data
        del self._tail[:-OUTPUT_KEPT]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._drained.set()

    async def feed(self, data: bytes) -> None:
        """Begin to read the output and to write the input, all of which may take its time."""
        loop = asyncio.get_running_loop()
        self._stdout, _ = await loop.connect_read_pipe(lambda: self, self._child.stdout)
        self._stdin, _ = await loop.connect_write_pipe(asyncio.Protocol, self._child.stdin)
        # The transport writes from its own buffer, and takes a program that does not read it
        # (EPIPE) as an end of the pipe, not as an error.
        self._stdin.write(data)
        self._stdin.write_eof()

    def signal_group(self, number: signal.Signals) -> None:
        # The leader's pid is the group's id. EPERM: a set-user-id child, not ours to end.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    async def clear(self) -> None:
        """End the whole group, take the rest of its output, close the pipes."""
        self.signal_group(signal.SIGKILL)
        try:
            await _wait(self.exited, _DEATH)
            # Who left the group (setsid) may still hold the pipe: it is not waited for.
            if self._stdout is not None:
                await _wait(self._drained, _DRAIN)
        finally:
            guard.forget(self._run)
            self._close()

    def _close(self) -> None:
        # What nobody reads any more would keep the pipe open; a closed pipe has no buffer, and
        # must not be closed twice.
        if self._stdin is not None and self._stdin.get_write_buffer_size():
            self._stdin.abort()
        if self._stdout is not None:
            self._stdout.close()
        # Not yet handed over, if the run was cancelled so soon.
        for file, transport in (
            (self._child.stdin, self._stdin),
            (self._child.stdout, self._stdout),
        ):
            if file is not None and transport is None:
                file.close()

    def ended(self) -> Ended:
        """Tell how it ended."""
        code = self._child.returncode
        tail = bytes(self._tail)
        dropped = self._total - len(tail)
        if dropped:
            # The cut may have split a character; what is left of it is not worth a "?".
            tail = tail.lstrip(bytes(range(0x80, 0xC0)))
        code = -signal.SIGKILL if code is None else code
        return Ended(code, tail.decode(errors="replace"), dropped)


def _await_end(child: subprocess.Popen[bytes], told: Callable[[], object]) -> None:
    """Have `told` called in the loop when the program has ended and its code is known."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # not Linux, or forbidden
        threading.Thread(target=_await_in_thread, args=(child, loop, told), daemon=True).start()
        return

    def has_ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        _take_code(child)
        told()

    loop.add_reader(descriptor, has_ended)


def _await_in_thread(
    child: subprocess.Popen[bytes],
    loop: asyncio.AbstractEventLoop,
    told: Callable[[], object],
) -> None:
    _take_code(child)
    with contextlib.suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(told)


def _take_code(child: subprocess.Popen[bytes]) -> None:
    try:
        _, status = os.waitpid(child.pid, 0)
    except ChildProcessError:
        # Somebody in this process waited for all children. Popen would call that a success.
        child.returncode = _UNKNOWN
    else:
        child.returncode = os.waitstatus_to_exitcode(status)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
