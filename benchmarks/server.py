"""A Redis server for one measurement: TCP on loopback, AOF on, a folder of its own."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from typing import Any, Self

import redis

_START_S = 10.0


class Server:
    """A fresh redis-server; `with Server() as server` starts and ends it."""

    def __init__(self, program: str = "redis-server") -> None:
        self._program = program
        self._folder = tempfile.TemporaryDirectory(
            prefix="bench-redis-", ignore_cleanup_errors=True
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._client = redis.Redis(port=self.port)

    def __enter__(self) -> Self:
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", self._folder.name]
        keep = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        self._process = subprocess.Popen(  # noqa: S603
            [self._program, *place, *keep, "--loglevel", "warning"], stdout=subprocess.DEVNULL
        )
        until = time.monotonic() + _START_S
        while True:
            try:
                self._client.ping()
            except redis.ConnectionError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def info(self, section: str) -> dict[str, Any]:
        """One section of INFO."""
        found: dict[str, Any] = self._client.info(section)  # type: ignore[assignment, unused-ignore]
        return found

    def version(self) -> str:
        """Name and version of the server."""
        info = self.info("server")
        return f"{info.get('server_name', 'redis')} {info['redis_version']}"

    def cpu_s(self) -> float:
        """CPU seconds of the server so far, its threads included."""
        info = self.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def used_bytes(self) -> int:
        """Memory of the data: what buffers of clients and of the AOF take is left out."""
        info = self.info("memory")
        buffers = info["mem_aof_buffer"] + info["mem_clients_normal"]
        return int(info["used_memory"]) - int(buffers)

    def commands(self) -> int:
        """Commands carried out so far, those inside scripts included."""
        return sum(int(row["calls"]) for row in self.info("commandstats").values())

    def script_calls(self) -> int:
        """Calls of scripts and functions so far."""
        stats = self.info("commandstats")
        names = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
        return sum(int(stats[name]["calls"]) for name in names if name in stats)

    def settle(self) -> None:
        """Wait until no rewrite of the AOF is at work, which would take a core."""
        while self.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.05)

    def flush(self) -> None:
        """Empty it, scripts excepted."""
        self._client.flushall()
        self.settle()


class Ear:
    """Hears every command of a server by MONITOR, from `start` to `stop`."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._socket.sendall(b"MONITOR\r\n")
        self._heard = b""

    def requests(self, seconds: float) -> int:
        """Listen so long; returns how many commands clients sent, those inside scripts left out."""
        until = time.monotonic() + seconds
        with self._socket:
            while (left := until - time.monotonic()) > 0:
                self._socket.settimeout(left)
                try:
                    self._heard += self._socket.recv(1 << 16)
                except TimeoutError:
                    break
        lines = self._heard.decode(errors="replace").splitlines()[1:]
        # Lines of commands inside scripts say `lua` where others say who called.
        return sum(1 for line in lines if " lua] " not in line)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
