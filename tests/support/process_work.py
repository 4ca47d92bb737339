"""Handlers for worker processes: they do what handlers must never do, as the payload says.

Worker processes import this as `tests.support.process_work`, so it imports nothing heavy.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduld import Dead, Retry, Snooze

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld import Run

Payload = dict[str, Any]
_kept: list[bytearray] = []


def echo(payload: Payload) -> Any:
    """Return the payload's value."""
    return payload.get("value")


def whoami(payload: Payload, run: Run) -> dict[str, Any]:
    """Tell what the run knows."""
    return {
        "pid": os.getpid(),
        "id": run.id,
        "attempt": run.attempt,
        "due": run.due.isoformat(),
        "options": {name: repr(value) for name, value in run.options.items()},
    }


def counts(payload: Payload, run: Run) -> int:
    """Count the characters of all options."""
    return sum(len(value) for value in run.options.values())


async def coroutine(payload: Payload, run: Run) -> dict[str, Any]:
    """Tell in which loop it runs; sleep before that."""
    await asyncio.sleep(payload.get("s", 0))
    return {"loop": id(asyncio.get_running_loop()), "pid": os.getpid()}


def hidden(payload: Payload) -> Any:
    """Return a coroutine, as a forgotten await does."""
    return asyncio.sleep(0)


def ends(payload: Payload, run: Run) -> Any:
    """End in the way that `how` names."""
    return _ENDS[payload["how"]]()


def _raises(error: BaseException) -> Callable[[], Any]:
    def end() -> Any:
        raise error

    return end


class Unreadable(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


_loop: list[Any] = []
_loop.append(_loop)
_ENDS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "big": lambda: "x" * 65_535,
    "set": lambda: {1, 2},
    "nan": lambda: float("nan"),
    "surrogate": lambda: "\ud800",
    "itself": lambda: _loop,
    "deep": lambda: _nested(5_000),
    "text": lambda: "é\n€\U0001f600",
    "number": lambda: 12345678901234567,
    "value_error": _raises(ValueError("wrong \x1b[31m \ud800")),
    "unreadable": _raises(Unreadable()),
    "long": _raises(ValueError("y" * 100_000)),
    "exit": _raises(SystemExit(3)),
    "interrupt": _raises(KeyboardInterrupt()),
    "retry_returned": lambda: Retry(after=timedelta(hours=1), reason="later"),
    "retry_raised": _raises(Retry(after="1h")),
    "retry_policy": _raises(Retry(reason="again")),
    "retry_wrong": _raises(Retry(after=object())),  # type: ignore[arg-type]
    "snooze_at": lambda: Snooze(until=datetime(2100, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)),
    "snooze_text": _raises(Snooze(until="1h")),
    "snooze_naive": _raises(Snooze(until=datetime(2100, 1, 2))),  # noqa: DTZ001 - what is refused
    "snooze_nan": _raises(Snooze(until=float("nan"))),
    "dead": _raises(Dead("no more")),
}


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def dies(payload: Payload, run: Run) -> Any:
    """Die in the way that `how` names, after saying so; not at attempts above `until`."""
    if run.attempt > payload.get("until", 100):
        return "lived"
    sys.stdout.write(f"dying by {payload['how']}\n")
    _DEATHS[payload["how"]]()
    return "lived"


def _close_all() -> None:
    os.closerange(3, 2_000)


def _write_garbage() -> None:
    for fd in range(3, 1_000):
        try:
            os.write(fd, b"this is no message of scheduld")
        except OSError:
            continue
    time.sleep(100)


def _kill_keeper() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(100)


def _exit_before_a_stopped_keeper() -> None:
    keeper = os.getppid()
    subprocess.Popen(["sh", "-c", f"sleep 0.8; kill -CONT {keeper}"], start_new_session=True)
    os.kill(keeper, signal.SIGSTOP)
    os._exit(7)


_DEATHS: dict[str, Callable[[], Any]] = {
    "os._exit": lambda: os._exit(7),
    "exit 0": lambda: os._exit(0),
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "closing all": _close_all,
    "garbage": _write_garbage,
    "keeper": _kill_keeper,
    "slow keeper": _exit_before_a_stopped_keeper,
}


def forges(payload: Payload, run: Run) -> str:
    """Write a message of the payload's own to the socket of the worker."""
    if "message" not in payload:
        return "honest"
    body = payload["message"].encode()
    frame = struct.pack(">I", len(body)) + body
    for fd in range(3, 1_000):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                for _ in range(payload.get("times", 1)):
                    os.write(fd, frame)
        except OSError:
            continue
    time.sleep(0.2)
    return "forged"


def hangs(payload: Payload, run: Run) -> Any:
    """Never return, in the way that `how` names; tell the pid first."""
    Path(payload["pid_file"]).write_text(str(os.getpid()))
    _HANGS[payload["how"]]()


def _spin() -> None:
    while True:
        pass


def _ignore() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(100)


def _print() -> None:
    line = "z" * 1_000 + "\n"
    while True:
        sys.stdout.write(line)


_HANGS: dict[str, Callable[[], Any]] = {
    "sleep": lambda: time.sleep(100),
    "spin": _spin,
    "lock": lambda: ctypes.PyDLL(None).sleep(100),
    "ignore": _ignore,
    "print": _print,
    "child": lambda: subprocess.run(["sleep", "100"], check=True),
}


def waits(payload: Payload, run: Run) -> str:
    """Wait until asked to stop, or for `s` seconds."""
    run.log("waiting")
    until = time.monotonic() + payload.get("s", 60)
    while time.monotonic() < until:
        if run.cancelled:
            run.log("asked to stop")
            return "stopped"
        time.sleep(0.01)
    return "waited"


async def waits_async(payload: Payload, run: Run) -> None:
    """Wait; tell of the cancellation."""
    run.log("waiting")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        run.log("cancelled")
        raise


def forks(payload: Payload, run: Run) -> int:
    """Fork, and return in both processes; by `exit` leave the copy by sys.exit."""
    if os.fork() == 0 and payload.get("exit"):
        sys.exit(5)
    return os.getpid()


def leaves(payload: Payload, run: Run) -> str:
    """Leave a child in the background that tells its pid, and return, or wait `s` seconds."""
    if os.fork() == 0:
        if payload.get("session"):
            os.setsid()
        Path(payload["pid_file"]).write_text(str(os.getpid()))
        time.sleep(100)
        os._exit(0)
    while not Path(payload["pid_file"]).exists() or not Path(payload["pid_file"]).read_text():
        time.sleep(0.005)
    time.sleep(payload.get("s", 0))
    return "left"


def threads(payload: Payload) -> int:
    """Start threads that never end."""
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(1_000,)).start()
    return os.getpid()


def breaks_the_rules(payload: Payload) -> int:
    """Change what belongs to the whole process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)
    sys.stdout.close()
    os.closerange(1, 3)
    return os.getpid()


def bombs(payload: Payload) -> None:
    """Fork and fork; at most a few dozen, for the sake of the machine."""
    for _ in range(5):
        os.fork()
    with Path(payload["pid_file"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(100)


def takes(payload: Payload) -> int:
    """Use memory, processor time or files, as much as the payload says."""
    if "bytes" in payload:
        return len(bytearray(payload["bytes"]))
    if "files" in payload:
        with ExitStack() as stack:
            for _ in range(payload["files"]):
                stack.enter_context(Path("/dev/null").open())
        return payload["files"]  # type: ignore[no-any-return]
    until = time.process_time() + payload.get("cpu_s", 0)
    while time.process_time() < until:
        pass
    return os.getpid()


def lowers(payload: Payload) -> dict[str, int]:
    """Lower a limit of this process for ever; tell what it was, and the pid."""
    before, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
    return {"pid": os.getpid(), "files": before}


def ends_its_children(payload: Payload, run: Run) -> dict[str, Any]:
    """Send SIGTERM to all of its group, itself included, if told to; as if to end children."""
    if payload.get("signal"):
        os.killpg(os.getpgrp(), signal.SIGTERM)
        while not run.cancelled:
            time.sleep(0.001)
    return {"pid": os.getpid(), "cancelled": run.cancelled}


def grows(payload: Payload) -> int:
    """Keep memory for ever."""
    _kept.append(bytearray(payload["bytes"]))
    return os.getpid()


def tells(payload: Payload, run: Run) -> int:
    """Tell progress and log lines, `count` of each."""
    for number in range(payload["count"]):
        run.progress({"at": number})
        run.log(f"line {number}")
    if payload.get("fail"):
        raise ValueError("after the last line")
    if payload.get("die"):
        os._exit(1)
    time.sleep(payload.get("s", 0))
    return payload["count"]  # type: ignore[no-any-return]


def tells_wrong(payload: Payload, run: Run) -> list[str]:
    """Tell what cannot be stored; return the errors."""
    errors = []
    for value in (object(), "x" * 5_000, float("nan")):
        try:
            run.progress(value)
        except (TypeError, ValueError) as error:
            errors.append(f"{type(error).__name__}: {error}")
    try:
        run.log(7)  # type: ignore[arg-type]
    except TypeError as error:
        errors.append(f"TypeError: {error}")
    return errors


def logs(payload: Payload) -> None:
    """Log, print, and fail if told to."""
    logger = logging.getLogger("shop")
    logger.info("sold %s", "a\nb")
    logger.log(25, "own level")
    logger.debug("not at this level")
    sys.stderr.write("to stderr\n")
    if payload.get("fail"):
        raise ValueError("sold out")


def writes(payload: Payload) -> None:
    """Write `bytes` bytes to stdout, then fail."""
    left = payload["bytes"]
    while left > 0:
        left -= os.write(1, b"\xe2\x82\xac" * min(left // 3 + 1, 20_000))
    raise ValueError("written")
