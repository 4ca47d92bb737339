"""Starts the real daemon, `scheduld run`, for the benchmark, and watches it by its board."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks.peers.scheduld.bench_handlers import (
    COUNT,
    CPU,
    FIRST,
    LAST,
    MOST_REPLICAS,
    SLOTS,
    STARTS,
    open_board,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HANDLERS = "benchmarks.peers.scheduld.bench_handlers:"
TYPE = "bench"
_LOOK_S = 0.005


class Failed(Exception):
    """A daemon ended by itself, or did not do its work in time."""


class Daemons:
    """Replicas of scheduld on one config; `with` ends them by SIGTERM, as users do."""

    def __init__(
        self,
        redis_url: str,
        types: Mapping[str, str],
        *,
        replicas: int = 1,
        starts: int = 0,
        top: str = "",
    ) -> None:
        self._config = Path("scheduld.toml")
        lines = ["[scheduld]", f'redis_url = "{redis_url}"', top]
        lines += [f"[types.{name}]\n{settings}" for name, settings in types.items()]
        self._config.write_text("\n".join(lines) + "\n")
        board = Path("board").absolute()
        board.write_bytes(bytes(8 * (STARTS + starts)))
        self._board = open_board(str(board))
        self._env = {**os.environ, "BENCH_BOARD": str(board)}
        self._starts = starts
        self._replicas = replicas
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for number in range(self._replicas):
            log = self._stack.enter_context(Path(f"daemon{number}.log").open("wb"))
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "scheduld", "run", "--config", str(self._config)],
                env={**self._env, "BENCH_REPLICA": str(number)},
                stderr=log,
            )
            self._processes.append(process)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stack.close()

    @property
    def runs(self) -> int:
        """Runs so far, in all replicas."""
        return int(sum(self._slots(COUNT)))

    @property
    def starts_ms(self) -> list[float]:
        """When each task started, by the number in its payload; 0 if it did not."""
        return list(self._board[STARTS : STARTS + self._starts])

    def wait_until_working(self, timeout_s: float = 20.0) -> None:
        """Wait until each replica has said that it started."""
        for number in range(self._replicas):
            log = Path(f"daemon{number}.log")
            self._wait(lambda log=log: b"started" in log.read_bytes(), timeout_s)  # type: ignore[misc]

    def wait_for_runs(self, count: int, timeout_s: float) -> None:
        """Wait for the end of the `count`-th run; raises Failed."""
        self._wait(lambda: self.runs >= count, timeout_s)

    def wait_for_unstamped(self, count: int, timeout_s: float) -> None:
        """Wait for the end of the `count`-th run of a handler that notes no start."""
        self._wait(
            lambda: self.runs - sum(start > 0 for start in self.starts_ms) >= count, timeout_s
        )

    def span_s(self) -> float:
        """From the first start of a run to the last end."""
        return max(self._slots(LAST)) - min(first for first in self._slots(FIRST) if first)

    def busy_cpu_s(self) -> float:
        """CPU of all replicas since the first run of each."""
        began = sum(cpu for cpu in self._slots(CPU) if cpu)
        used = sum(
            _cpu_s(process.pid)
            for process, first in zip(self._processes, self._slots(FIRST), strict=False)
            if first
        )
        return used - began

    def cpu_s(self) -> float:
        """CPU of all replicas since they were started."""
        return sum(_cpu_s(process.pid) for process in self._processes)

    def rss_kb(self) -> int:
        """Memory of the first replica that is in RAM."""
        status = Path(f"/proc/{self._processes[0].pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1])

    def _slots(self, which: int) -> list[float]:
        return [self._board[SLOTS * number + which] for number in range(MOST_REPLICAS)]

    def _wait(self, what: Callable[[], bool], timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while not what():
            dead = [process for process in self._processes if process.poll() is not None]
            if dead or time.monotonic() > until:
                logs = b"".join(path.read_bytes()[-2000:] for path in Path().glob("daemon*.log"))
                why = "a daemon ended" if dead else f"{self.runs} runs in {timeout_s} s"
                raise Failed(f"{why}: {logs.decode(errors='replace')}")
            time.sleep(_LOOK_S)


def _cpu_s(pid: int) -> float:
    # Linux: the CPU clock of another process, in ns; /proc has it in 10 ms only.
    return time.clock_gettime(~pid << 3 | 2)
