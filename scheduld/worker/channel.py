"""The worker's end of the socket to the daemon."""

from __future__ import annotations

import fcntl
import os
import resource
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from scheduld.worker.frames import MOST_DOWN, Frames, framed

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_CUT_OFF = 113
"""Exit code of a worker whose handler took the socket away from it."""
_HIGH = 500


class Channel:
    """Messages from and to the daemon; sending is safe in threads.

    A handler may close descriptors that are not its own, and then open files that get their
    numbers. So the socket has a high number, and is looked at before anything is written to it.
    A copy of the process that a handler forks has none.
    """

    def __init__(self, fd: int) -> None:
        self._fd = _moved(fd)
        self._identity = _identity(self._fd)
        self._frames = Frames(MOST_DOWN)
        self._waiting: deque[dict[str, Any]] = deque()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None when the daemon has closed the socket."""
        while not self._waiting:
            self._check()
            data = os.read(self._fd, 65_536)
            if not data:
                return None
            self._waiting.extend(self._frames.feed(data))
        return self._waiting.popleft()

    def send(self, body: bytes) -> None:
        """Send one message; ends the process if the daemon can no longer be reached."""
        self.send_made(lambda: body)

    def send_made(self, make: Callable[[], bytes]) -> None:
        """Send what `make` returns when no other message is on its way."""
        with self._lock:
            self._write(make())

    def send_if_free(self, make: Callable[[], bytes], *, wait_s: float = 0.0) -> bool:
        """Send what `make` returns, unless another message is on its way for so long; tells it."""
        if not self._lock.acquire(timeout=wait_s):
            return False
        try:
            self._write(make())
        finally:
            self._lock.release()
        return True

    def _write(self, body: bytes) -> None:
        if self._fd < 0:
            return
        data = memoryview(framed(body))
        self._check()
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            _cut_off(str(error))

    def _check(self) -> None:
        try:
            is_ours = _identity(self._fd) == self._identity
        except OSError:
            is_ours = False
        if not is_ours:
            _cut_off("closed by the handler")

    def _forked(self) -> None:
        fd, self._fd = self._fd, -1
        # Another thread may have held it while this one forked.
        self._lock = threading.Lock()
        try:
            if _identity(fd) == self._identity:
                os.close(fd)
        except OSError:
            pass


def _moved(fd: int) -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(_HIGH, soft - 1))
    except OSError:
        return fd
    os.close(fd)
    return high


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _cut_off(why: str) -> None:
    try:
        os.write(2, f"the socket to the daemon was lost: {why}\n".encode())
    finally:
        os._exit(EXIT_CUT_OFF)
