"""One worker process as the daemon sees it: started, spoken to, ended, buried."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from scheduld.engine.output import Output
from scheduld.worker.channel import EXIT_CUT_OFF
from scheduld.worker.frames import KILL, MOST_UP, TERM, BadFrame, Frames

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger("scheduld.run")
_START = Path(__file__).parents[1] / "worker" / "__main__.py"
_CUT_OFF = "lost its socket to the daemon, and was ended: a handler must not close it"
_CHUNK = 64 * 1024
_STATUS_S = 0.3
"""A worker that dies closes its socket a little before its keeper tells how it died."""
_CLOSE_S = 2.0
_DEATH_S = 10.0
"""A keeper that has not ended so long after it was told to is ended itself."""

_ours: set[socket.socket] = set()
"""The daemon's ends of all sockets to workers and keepers."""


def _let_go_in_fork() -> None:
    # A keeper takes the end of its socket for that of the daemon: no copy of the daemon, made by
    # a handler that forks or a pool of multiprocessing, may hold it.
    for end in list(_ours):
        end.close()
    _ours.clear()


os.register_at_fork(after_in_child=_let_go_in_fork)


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker process ended: by itself with `code`, or by `signal`; or nobody knows."""

    code: int | None = None
    signal: int | None = None
    why: str = ""
    """What the daemon ended it for, unless a run was to stop."""

    @property
    def words(self) -> str:
        """Say it in words, after 'the worker process ...'."""
        if self.why or self.code == EXIT_CUT_OFF:
            return self.why or _CUT_OFF
        if self.signal is not None:
            return f"was killed by {_signal_name(self.signal)}"
        if self.code is not None:
            return f"ended with exit code {self.code}"
        return "was lost with the process that keeps it"


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


class WorkerProcess:
    """A worker and its keeper (`scheduld.worker.keeper`), from start to burial.

    `on_message(message)` is called for each message; BadFrame raised there, or of what is no
    message, ends the worker. `on_end(death)` is called once, when nothing of the worker is
    left. Both from the loop. Raises OSError if no process can be started.
    """

    def __init__(
        self,
        name: str,
        *,
        on_message: Callable[[WorkerProcess, dict[str, Any]], None],
        on_end: Callable[[WorkerProcess, Death], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._on_end = on_end
        self._frames = Frames(MOST_UP)
        self._unsent = bytearray()
        self._status = b""
        self._why = ""
        self._timers: list[asyncio.TimerHandle] = []
        self.is_over = False
        self.is_unread = False
        """Whether it died before it had read all that was sent; Linux tells, others do not."""
        self._start(name)
        self._loop.add_reader(self._socket, self._readable)
        self._loop.add_reader(self._control, self._status_readable)

    def _start(self, name: str) -> None:
        self._socket, far = socket.socketpair()
        self._control, far_control = socket.socketpair()
        reading, writing = os.pipe()
        try:
            # By this thread, which lives as long as the loop.
            self._process = subprocess.Popen(  # noqa: S603 - our own file
                [sys.executable, "-P", _START, name, str(far.fileno()), str(far_control.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=[far.fileno(), far_control.fileno()],
                start_new_session=True,
            )
        except BaseException:
            for end in (self._socket, self._control):
                end.close()
            os.close(reading)
            raise
        finally:
            for end in (far, far_control):
                end.close()
            os.close(writing)
        for end in (self._socket, self._control):
            end.setblocking(False)
            _ours.add(end)
        self.output = Output(reading)

    @property
    def pid(self) -> int:
        """Process id of the worker, which leads its group; 0 before it is known."""
        first = self._status.partition(b"\n")[0]
        return int(first[4:]) if first.startswith(b"pid ") and b"\n" in self._status else 0

    def send(self, data: bytes) -> None:
        """Send a message, whole or by and by; raises OSError if the worker is gone."""
        sent = 0
        if not self._unsent:
            with suppress(BlockingIOError):
                sent = self._socket.send(data)
        if sent < len(data):
            if not self._unsent:
                self._loop.add_writer(self._socket, self._writable)
            self._unsent += data[sent:]

    def ask_to_stop(self, grace_s: float) -> None:
        """SIGTERM to the group, and `kill` after the grace."""
        self._order(TERM)
        self._timers.append(self._loop.call_later(grace_s, self.kill))

    def kill(self, why: str = "") -> None:
        """End the worker, its group and what has left that; `on_end` tells when it is done."""
        self._why = self._why or why
        self._order(KILL)
        self._timers.append(self._loop.call_later(_DEATH_S, self._kill_keeper))

    def retire(self, grace_s: float) -> None:
        """Let an idle worker end by itself, within the grace."""
        if not self.is_over:
            self._forget_socket()
            self._timers.append(self._loop.call_later(grace_s, self.kill))

    def wait(self, seconds: float) -> None:
        """Wait for its end, blocking, and bury it: by itself, then by force."""
        if not self._hears_end(seconds):
            self._order(KILL)
            if not self._hears_end(_CLOSE_S):
                self._kill_keeper()
        if not self.is_over:
            self._bury()

    def _hears_end(self, seconds: float) -> bool:
        if self.is_over:
            return True
        self._control.settimeout(seconds)
        try:
            while data := self._control.recv(_CHUNK):
                self._status += data
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _order(self, word: bytes) -> None:
        with suppress(OSError):  # it has ended already
            self._control.send(word)

    def _kill_keeper(self) -> None:
        if self.is_over:
            return
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()

    # --- what comes

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except ConnectionResetError:
            self.is_unread = True
            data = b""
        except OSError:
            data = b""
        if not data:
            self._cut_off()
            return
        self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._on_message(self, message)
        except BadFrame as error:
            self._forget_socket()
            self.kill(f"sent {error}, and was killed")
        except Exception as error:  # noqa: BLE001 - a run without an end would never end
            log.error("a worker's message could not be read", error=repr(error))
            self._forget_socket()
            self.kill("sent what could not be read, and was killed")

    def _cut_off(self) -> None:
        """The worker is dead, as its keeper will tell, or its handler has closed the socket."""
        self._forget_socket()
        self._timers.append(self._loop.call_later(_STATUS_S, self.kill, _CUT_OFF))

    def _writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.is_unread = True
            sent = len(self._unsent)  # the reader will hear of it
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _forget_socket(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._close(self._socket)

    def _close(self, end: socket.socket) -> None:
        _ours.discard(end)
        end.close()

    # --- the end

    def _status_readable(self) -> None:
        try:
            data = self._control.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._status += data
        if not data:
            self._bury()

    def _bury(self) -> None:
        """The keeper has ended, and with it the worker; its last messages may still be here."""
        self.is_over = True
        for timer in self._timers:
            timer.cancel()
        self._loop.remove_reader(self._control)
        self._close(self._control)
        self._read_rest()
        # It has closed its last descriptors, and ends within microseconds.
        self._process.wait()
        self._on_end(self, self._death())
        self.output.close()

    def _read_rest(self) -> None:
        try:
            while self._socket.fileno() >= 0 and (data := self._socket.recv(_CHUNK)):
                self._take(data)
        except ConnectionResetError:
            self.is_unread = True
        except OSError:
            pass
        self.is_unread = self.is_unread or bool(self._unsent)
        self._forget_socket()

    def _death(self) -> Death:
        last = self._status.split(b"\n")[1:2]
        kind, _, number = last[0].partition(b" ") if last else (b"", b"", b"")
        if self._why == _CUT_OFF and last and last[0] != b"signal %d" % signal.SIGKILL:
            self._why = ""  # it was dying already, and its keeper told it late
        if kind == b"exit":
            return Death(code=int(number), why=self._why)
        if kind == b"signal":
            return Death(signal=int(number), why=self._why)
        if self.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        return Death(why=self._why)
