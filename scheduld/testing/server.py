"""A server for tests: empty, private, and gone with the process that started it."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

from scheduld.errors import Unreachable
from scheduld.names import printable
from scheduld.store.launch import Answer, ping, server_binary
from scheduld.store.statedir import SOCKET_PATH_LIMIT

_POLL_S = 0.002
_LOOKS = 5_000
_PING_S = 5.0
_END_S = 10.0
_TAIL = 500
# All that the server needs of the caller's environment, which may hold secrets.
_ENVIRONMENT = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# The server and its folder are this shell's, and it lives as long as its stdin is open: that
# ends with the test process however this ends, by SIGKILL too, on every system alike.
_GUARD = """
folder=$1
shift
cd "$folder" || exit 1
"$@" >server.log 2>&1 </dev/null &
read -r _
kill -9 $! 2>/dev/null
wait
cd /
rm -rf -- "$folder"
"""
_OPTIONS = (
    *("--port", "0"),
    *("--unixsocket", "server.sock"),
    *("--unixsocketperm", "700"),
    *("--save", ""),
    *("--appendonly", "no"),
    *("--maxmemory-policy", "noeviction"),
    *("--hash-max-listpack-value", "1024"),
)


class Server:
    """A real Valkey (or Redis) server in a temporary folder, that keeps nothing.

    It is ready when this returns, and ends with `close`, at the end of a `with` block, or with
    the process. Raises Unusable if there is no server program, Unreachable if it does not start.
    """

    def __init__(self) -> None:
        program = str(server_binary())
        self._folder = Path(_short_folder())
        self._pid = os.getpid()
        self._guard = subprocess.Popen(  # noqa: S603 - a fixed script
            ["/bin/sh", "-c", _GUARD, "scheduld-test-server", self._folder, program, *_OPTIONS],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            start_new_session=True,  # Ctrl-C is for the tests
        )
        _running.add(self)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        self.url = "unix://" + quote(f"{self._folder}/server.sock")

    def is_alive(self) -> bool:
        """Whether it answers."""
        return ping(f"{self._folder}/server.sock", _PING_S) is Answer.READY

    def close(self) -> None:
        """End it, and remove its folder; twice does no harm."""
        if self not in _running or self._pid != os.getpid():
            return
        _running.discard(self)
        assert self._guard.stdin is not None  # noqa: S101 - a pipe, as asked for
        self._guard.stdin.close()
        self._guard.wait(_END_S)

    def _wait(self) -> None:
        # Looks are counted: under freezegun no deadline would ever pass.
        for _ in range(_LOOKS):
            if self.is_alive():
                return
            if self._guard.poll() is not None:
                break
            time.sleep(_POLL_S)
        raise Unreachable(f"the server for tests did not start: {self._last_words()}")

    def _last_words(self) -> str:
        try:
            text = (self._folder / "server.log").read_text(errors="replace")
        except OSError as error:
            text = f"{self._folder}: {error.strerror}"
        return printable(text[-_TAIL:].strip().replace("\n", "; ")) or "it said nothing"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _let_go(self) -> None:
        # A forked child must not keep the guard waiting after its parent has ended.
        if self._guard.stdin is not None:
            self._guard.stdin.close()


_running: set[Server] = set()
_shared: Server | None = None
_lock = threading.Lock()


def shared_server() -> Server:
    """Return the server of this process, started at the first call."""
    global _shared
    with _lock:
        if _shared is None or _shared not in _running:
            _shared = Server()
        return _shared


def _short_folder() -> str:
    folder = tempfile.mkdtemp(prefix="scheduld-test-")
    if len(os.fsencode(folder)) + len("/server.sock") <= SOCKET_PATH_LIMIT:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="scheduld-test-", dir="/tmp")


def _close_all() -> None:
    for server in list(_running):
        server.close()


def _forked() -> None:
    global _lock
    _lock = threading.Lock()
    while _running:
        _running.pop()._let_go()  # noqa: SLF001 - of this module


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)
