"""What the drivers of the Python peers share: arguments, clocks, the one answer.

It runs in each peer's own interpreter, so it imports nothing but the standard
library. A driver declares itself with `Peer`, gives a function per action, and
calls `run`. Standard output belongs to the answer alone: whatever a library
prints goes to standard error.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import mmap
import os
import random
import select
import signal
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Answer = dict[str, Any]

GIVE_UP_SECONDS = 850.0
"""How long a driver waits for its last run, in seconds: less than the harness waits."""

SETTLE_SECONDS = 0.3
"""After the last run: room for the last acknowledgements, and for a double run to show."""

WARM_UP = 50
"""Tasks added before the clock of `add` starts, so that imports and scripts are loaded."""

_TICKS = os.sysconf("SC_CLK_TCK")
_RUNS, _FIRST, _FIRST_CPU, _LAST, _LAST_CPU = range(5)


class Unsupported(Exception):
    """This peer has no such thing; the text says why."""


@dataclass(frozen=True, slots=True)
class Options:
    """One run of a driver. `delay` and `seconds` are in seconds."""

    action: str
    redis: str
    variant: str
    count: int
    delay: float
    mode: str
    seconds: float
    types: int
    knobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """What `info` says. `variants` names each variant's settings in words."""

    name: str
    packages: tuple[str, ...]
    delivery: str
    variants: Mapping[str, str]
    knobs: Mapping[str, Mapping[str, Any]]
    actions: Mapping[str, Callable[[Options], Answer | None]]

    def describe(self) -> Answer:
        """The answer to `info`."""
        versions = {name: importlib.metadata.version(name) for name in self.packages}
        return {
            "name": self.name,
            "version": versions[self.packages[0]],
            "versions": versions,
            "delivery": self.delivery,
            "variants": dict(self.variants),
            "actions": sorted(self.actions),
        }


def payload(n: int) -> dict[str, Any]:
    """The payload of task `n`, the same for every peer."""
    return {"to": f"user{n:05d}@example.com", "n": n}


def chunks(count: int, size: int) -> Iterator[range]:
    """Split `range(count)` into ranges of at most `size`."""
    for start in range(0, count, size):
        yield range(start, min(start + size, count))


# --- the answer ------------------------------------------------------------------------

_answers: int = -1


def say(text: str) -> None:
    """Write a line to the real standard output."""
    os.write(_answers, text.encode() + b"\n")


def _claim_stdout() -> None:
    global _answers
    sys.stdout.flush()
    _answers = os.dup(1)
    os.dup2(2, 1)


# --- clocks ----------------------------------------------------------------------------


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:  # the thread has ended
            continue
    return found


def cpu_seconds(pid: int | None = None) -> float:
    """CPU time, in seconds, of a process, its dead children and its living ones."""
    pid = os.getpid() if pid is None else pid
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = _children(pid)
    except OSError:  # it has ended: its parent has the time
        return 0.0
    own = sum(int(ticks) for ticks in fields[11:15]) / _TICKS
    return own + sum(cpu_seconds(child) for child in children)


class Tally:
    """Counts runs across threads and forked children, and times first to last.

    The counter lies in memory shared with forked children, since some peers run
    each task in a child. A tick costs under a microsecond.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._cells = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")
        self._lock = threading.Lock()
        self._root = os.getpid()
        self._done, self._finish = os.pipe()

    def begin(self) -> None:
        """Start the clock now, for a peer that fetches every task before the first run."""
        self._cells[_FIRST] = time.monotonic()
        self._cells[_FIRST_CPU] = cpu_seconds(self._root)

    def tick(self) -> None:
        """One run of the no-op handler, whose start and end are the same instant."""
        with self._lock:
            self._cells[_RUNS] += 1
            runs = self._cells[_RUNS]
        if runs == 1 and not self._cells[_FIRST]:
            self.begin()
        if runs == self.total:
            self._cells[_LAST] = time.monotonic()
            self._cells[_LAST_CPU] = cpu_seconds(self._root)
            os.write(self._finish, b".")

    def wait(self) -> Answer:
        """Block until the last run; raise TimeoutError after `GIVE_UP_SECONDS`."""
        ready, _, _ = select.select([self._done], [], [], GIVE_UP_SECONDS)
        if not ready:
            raise TimeoutError(f"{self._cells[_RUNS]:.0f} of {self.total} runs")
        time.sleep(SETTLE_SECONDS)
        return {
            "count": self.total,
            "seconds": self._cells[_LAST] - self._cells[_FIRST],
            "cpu_seconds": round(self._cells[_LAST_CPU] - self._cells[_FIRST_CPU], 3),
            "started": int(self._cells[_RUNS]),
        }


class Lateness:
    """Collects how late each run started, in milliseconds, through a pipe."""

    def __init__(self, total: int, extra: Answer | None = None) -> None:
        self.total = total
        self.extra = extra or {}
        self._read, self._write = os.pipe()

    def started(self, due_ms: float) -> None:
        """One run has started whose task was due at `due_ms`, epoch milliseconds."""
        os.write(self._write, struct.pack("<d", time.time() * 1000 - due_ms))

    def wait(self) -> Answer:
        """Block until the last run; raise TimeoutError after `GIVE_UP_SECONDS`."""
        late: list[float] = []
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while len(late) < self.total:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._read], [], [], left)[0]:
                raise TimeoutError(f"{len(late)} of {self.total} runs")
            late += [value for (value,) in struct.iter_unpack("<d", os.read(self._read, 4096))]
        return {
            "count": self.total,
            "lateness_ms": [round(value, 3) for value in late],
            "early": sum(value < 0 for value in late),
            **self.extra,
        }


def end_with(result: Tally | Lateness) -> None:
    """From a thread of its own, answer with `result` when it is there, and end."""

    def work() -> None:
        try:
            answer = result.wait()
        except TimeoutError as error:
            sys.stderr.write(f"gave up: {error}\n")
            leave(1)
        say(json.dumps(answer))
        leave(0)

    threading.Thread(target=work, daemon=True, name="answer").start()


def leave(code: int) -> None:
    """End this process and its children at once."""
    for child in _children(os.getpid()):
        os.kill(child, signal.SIGKILL)
    os._exit(code)


# --- the cases -------------------------------------------------------------------------


def dues(options: Options, *, adds_per_second: float) -> list[float]:
    """When the tasks of `late` or `instant` are due, in epoch seconds, ascending.

    `adds_per_second` is how fast this peer adds at the least: the one instant lies
    far enough ahead for all to be in, so that adding is not counted as lateness.
    """
    now = time.time()
    if options.action == "instant":
        return [now + max(3.0, 1.0 + options.count / adds_per_second)] * options.count
    dice = random.Random(20)  # noqa: S311
    return sorted(now + 2 + dice.random() * options.seconds for _ in range(options.count))


class Stopwatch:
    """Times a block: wall and CPU seconds."""

    def __enter__(self) -> Stopwatch:
        """Start."""
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.seconds = time.perf_counter() - self._wall
        self.cpu_seconds = time.process_time() - self._cpu

    def answer(self, count: int) -> Answer:
        """The answer to `add`."""
        return {"count": count, **{k: round(v, 4) for k, v in self._times().items()}}

    def _times(self) -> dict[str, float]:
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}


def add_each(options: Options, one: Callable[[int], object]) -> Answer:
    """Time `one(n)` for each task, after a warm-up."""
    for n in range(WARM_UP):
        one(n)
    with Stopwatch() as watch:
        for n in range(options.count):
            one(n)
    return watch.answer(options.count)


def add_chunks(options: Options, size: int, many: Callable[[range], object]) -> Answer:
    """Time `many(range)` for chunks of `size` tasks, after a warm-up."""
    many(range(WARM_UP))
    with Stopwatch() as watch:
        for chunk in chunks(options.count, size):
            many(chunk)
    return watch.answer(options.count)


def watch_idle(options: Options) -> None:
    """From a thread: settle, say READY, watch for `seconds`, answer and end."""

    def work() -> None:
        time.sleep(3)
        say("READY")
        cpu, begun = cpu_seconds(), time.monotonic()
        time.sleep(options.seconds)
        answer = {"seconds": time.monotonic() - begun, "cpu_seconds": cpu_seconds() - cpu}
        say(json.dumps({name: round(value, 3) for name, value in answer.items()}))
        leave(0)

    threading.Thread(target=work, daemon=True, name="idle").start()


# --- the command line ------------------------------------------------------------------


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _options(peer: Peer) -> Options:
    parser = argparse.ArgumentParser(prog=peer.name)
    parser.add_argument("action", choices=["info", *peer.actions])
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/0")
    parser.add_argument("--variant", default="default", choices=list(peer.variants))
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--mode", default="one", choices=["one", "gathered", "bulk"])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--types", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], help="one knob by hand: NAME=VALUE")
    flags = vars(parser.parse_args())
    pairs = (pair.partition("=") for pair in flags.pop("set"))
    knobs = {**peer.knobs[flags["variant"]], **{name: _literal(text) for name, _, text in pairs}}
    return Options(**flags, knobs=knobs)


def run(peer: Peer) -> None:
    """Carry out the action of the command line, and answer."""
    _claim_stdout()
    options = _options(peer)
    if options.action == "info":
        say(json.dumps(peer.describe()))
        return
    try:
        answer = peer.actions[options.action](options)
    except Unsupported as reason:
        answer = {"unsupported": str(reason)}
    if answer is not None:  # else a thread answers when the last run is done
        say(json.dumps(answer))
