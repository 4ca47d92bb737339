"""Wall clocks that a test sets: for servers and daemons as processes, by a preloaded library."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from datetime import datetime


@cache
def library() -> Path:
    """Compile the library that shifts the wall clock; without a C compiler the test is skipped."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler for the library that moves clocks")
    source = Path(__file__).with_name("skewclock.c")
    folder = Path(tempfile.gettempdir()) / f"skewclock-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    built = folder / f"{source.stat().st_mtime_ns}.so"
    if not built.exists():
        # Another process may compile it too: each into a file of its own, moved into place.
        part = folder / f"{os.getpid()}.part"
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(part), str(source), "-ldl"]
        subprocess.run(command, check=True)
        part.rename(built)
    return built


class MovedClock:
    """A wall clock that any number of processes share; it goes on from where it is put."""

    def __init__(self, folder: Path) -> None:
        """Go on with the clock of the folder if there is one, else begin with the real time."""
        self._path = folder / "clock"
        self._since, self._wall, self._rate = time.monotonic(), time.time(), 1.0
        if self._path.exists():
            self._since, self._wall, self._rate = map(float, self._path.read_text().split())
        else:
            self._write()

    @property
    def environment(self) -> dict[str, str]:
        """What a process is to be started with."""
        return {"LD_PRELOAD": str(library()), "SKEW_FILE": str(self._path)}

    def now(self) -> float:
        """Second since the epoch that the clock shows."""
        return self._wall + (time.monotonic() - self._since) * self._rate

    def put(self, to: datetime | float | None = None, *, rate: float = 1.0) -> None:
        """Put the clock to an instant, None: leave it there, and let it run at this rate."""
        if to is None:
            self._wall = self.now()
        else:
            self._wall = to if isinstance(to, (int, float)) else to.timestamp()
        self._since = time.monotonic()
        self._rate = rate
        self._write()

    def _write(self) -> None:
        part = self._path.with_suffix(".part")
        part.write_text(f"{self._since!r} {self._wall!r} {self._rate!r}\n")
        part.replace(self._path)


def skewed(seconds: float) -> dict[str, str]:
    """Environment of a process whose wall clock is off by so many seconds."""
    return {"LD_PRELOAD": str(library()), "SKEW": repr(seconds)}
