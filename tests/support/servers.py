"""Real servers for tests, each in a folder of its own, never the user's own server.

They are started by the launcher of the embedded server, listen on private sockets (the
cluster node: on loopback), and end with the test process even if that is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Literal, Self

import pytest
import redis

from scheduld.store.launch import (
    Answer,
    ServerProcess,
    ping,
    server_binary,
    server_options,
    spawn,
)
from scheduld.store.statedir import StateDir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Kind = Literal["valkey", "redis7", "cluster"]
READY_S = 20.0
"""Longest wait for a server, in seconds; it is there for broken machines, not for slow ones."""


def wait_until(true: Callable[[], object], what: str, within_s: float = READY_S) -> None:
    """Poll every few ms until `true()` holds; fail the test, naming `what`, if it never does."""
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:g} s: {what}")
        time.sleep(0.003)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def redis_program() -> str:
    """Return redis-server from PATH; without one the test is skipped, or fails where CI is set."""
    program = shutil.which("redis-server")
    if program:
        return program
    reason = "redis-server (7.0 or newer) is not on PATH"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class RunningServer:
    """A server of one kind in one folder; its data survives `kill`, `stop` and `restart`."""

    def __init__(self, kind: Kind, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._env = [f"{name}={value}" for name, value in (env or {}).items()]
        self._state = StateDir(folder.resolve(), os.geteuid(), os.getegid())
        self._state.make_data()
        if kind == "cluster":
            self._port = free_port()
            self.url = f"redis://127.0.0.1:{self._port}"
            self._command = [redis_program(), *_cluster_options(self._port)]
        else:
            self._port = 0
            self.url = f"unix://{self._state.socket}"
            program = str(server_binary()) if kind == "valkey" else redis_program()
            self._command = [program, *server_options("everysec")]
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._state.log

    def client(self) -> redis.Redis:
        """Return a new plain client, to be closed by the caller."""
        return redis.Redis.from_url(self.url, decode_responses=True)

    def kill(self) -> None:
        """End it at once by SIGKILL, and wait for that."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it gracefully by SIGTERM, and wait for that; a frozen one is thawed first."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop it in its tracks: connections are taken, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop it if it runs, and start it again with the same address and data."""
        self.stop()
        self._process = self._start()

    def _end(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
        self._process.wait(READY_S)

    def _start(self) -> ServerProcess:
        # A server must not outlive a test run that was killed. This follows the thread
        # that starts it, so start servers from the main thread.
        guard = [setpriv, "--pdeathsig", "KILL"] if (setpriv := shutil.which("setpriv")) else []
        env = ["env", *self._env] if self._env else []
        process = spawn([*guard, *env, *self._command], state=self._state)
        if process.stdout:
            process.stdout.close()
        self._process = process
        try:
            wait_until(self._ready, f"{self.kind} server ready")
        except BaseException:
            self.kill()
            raise
        return process

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            pytest.fail(f"the {self.kind} server ended: {self.log.read_text()[-2000:]}")
        if self.kind != "cluster":
            return ping(str(self._state.socket), READY_S) is Answer.READY
        try:
            return self._cluster_ready()
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError):
            return False

    def _cluster_ready(self) -> bool:
        # A new node owns no slot, and its state turns to ok only 2 s after its start.
        with self.client() as client:
            told = client.execute_command("CLUSTER INFO")
            assert isinstance(told, dict)
            if told["cluster_slots_assigned"] == "0":
                client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        return bool(told["cluster_state"] == "ok")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_server(kind: Kind, folder: Path, env: Mapping[str, str] | None = None) -> RunningServer:
    """Start a server in `folder`, which must exist and have a short path; ready at return.

    `env` is added to its environment, such as a clock of its own (tests.support.clocks).
    """
    return RunningServer(kind, folder, env)


def _cluster_options(port: int) -> list[str]:
    return [
        *("--port", str(port)),
        *("--bind", "127.0.0.1"),
        *("--cluster-enabled", "yes"),
        # The default, port + 10000, would not exist for a high port.
        *("--cluster-port", str(free_port())),
        *("--logfile", "../server.log"),
        *("--save", ""),
        *("--appendonly", "yes"),
    ]


def process_gone(pid: int) -> bool:
    """Tell whether no process has this id; a zombie counts as gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return told.stdout.strip()[:1] in (b"", b"Z")
