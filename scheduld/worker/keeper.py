"""Keeps one worker process, and outlives it: whatever the worker leaves behind, it ends.

A handler may hold Python's lock for ever, close every descriptor or overwrite memory; this
process runs none of its code. It is the parent of the worker, and on Linux adopts what the
worker's children leave. It ends with the worker, at the daemon's word, and when the daemon is
gone, even if it was killed: then the control socket ends.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

from scheduld.worker.frames import KILL, TERM

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CLEAR_S = 5.0
_LOOK_S = 0.002


def main(protocol: int, control: int) -> int:
    """Fork the worker, and keep it to its end; returns the worker's exit code.

    `control` hears TERM and KILL, and tells two lines: `pid NUMBER`, and at the end
    `exit CODE` or `signal NUMBER`. Returns in the worker only.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(control)
        _become_worker(keeper)
        from scheduld.worker.child import serve

        return serve(protocol)
    os.close(protocol)
    with suppress(OSError):  # both sides do it, whoever comes first
        os.setpgid(worker, worker)
    keeping = _Keeper(worker, socket.socket(fileno=control))
    keeping.run()
    # At once: the daemon takes the end of the socket, which this closes, for that of the process.
    os._exit(0)


def _become_worker(keeper: int) -> None:
    os.setpgid(0, 0)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        # A sandbox may forbid it: then orphans of the worker are nobody's.
        with suppress(Exception):
            import ctypes  # a fifth of what this process imports

            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class _Keeper:
    def __init__(self, worker: int, control: socket.socket) -> None:
        self._worker = worker
        self._control = control
        self._woken, waker = socket.socketpair()
        for end in (self._woken, waker):
            end.setblocking(False)
        self._waker = waker  # closed, it would not wake
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        """Keep the worker until it ends or is to end; then end its group and its orphans."""
        self._tell(f"pid {self._worker}\n")
        while not self._has_ended() and not self._is_told_to_kill():
            pass
        self._signal_group(signal.SIGKILL)
        os.kill(self._worker, signal.SIGKILL)  # it may have left its group; it is not buried yet
        status = os.waitpid(self._worker, 0)[1]
        self._clear()
        if os.WIFSIGNALED(status):
            self._tell(f"signal {os.WTERMSIG(status)}\n")
        else:
            self._tell(f"exit {os.WEXITSTATUS(status)}\n")

    def _is_told_to_kill(self) -> bool:
        ready, _, _ = select.select([self._control, self._woken], [], [])
        if self._woken in ready:
            with suppress(BlockingIOError):
                self._woken.recv(4096)
        if self._control not in ready:
            return False
        try:
            words = self._control.recv(64)
        except OSError:
            words = b""
        if TERM in words:
            self._signal_group(signal.SIGTERM)
        return not words or KILL in words

    def _has_ended(self) -> bool:
        """Bury adopted orphans; tell whether the worker has ended, which is left unburied.

        So its number, which is its group's, cannot belong to anybody else.
        """
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return False
            if found.si_pid == self._worker:
                return True
            os.waitpid(found.si_pid, 0)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._worker, number)

    def _clear(self) -> None:
        """End what has left the group (setsid): orphans become children of this process."""
        deadline = time.monotonic() + _CLEAR_S
        while time.monotonic() < deadline:
            for child in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(_LOOK_S)
            except ChildProcessError:
                return

    def _tell(self, line: str) -> None:
        with suppress(OSError):  # the daemon is gone
            self._control.sendall(line.encode())


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:
            return [int(number) for number in file.read().split()]
    except OSError:
        return []
