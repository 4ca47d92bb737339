"""The handler `command` with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.handlers.command import CommandFailed, make
from scheduld.handlers.contract import Run
from scheduld.handlers.options import BadOptions
from scheduld.outcomes import Dead

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = Run(type="report", id="r-1", attempt=2, fence=7, due=datetime(2026, 12, 24, 8, tzinfo=UTC))


async def run_sh(script: str, payload: dict[str, Any] | None = None, **options: Any) -> Any:
    """Run a shell script through the handler."""
    handler = make({"argv": ["sh", "-c", script], **options})
    return await handler.call(payload or {}, RUN)


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until `true()`; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_the_payload_is_on_stdin() -> None:
    """The program reads the payload as JSON, as it was."""
    payload = {"a": [], "n": 12345678901234567, "s": "ñ", "o": {"x": None}}
    result = await run_sh("cat", payload)
    assert result["exit_code"] == 0
    assert json.loads(result["output"]) == payload


async def test_scalars_are_in_the_environment() -> None:
    """Top-level scalars are SCHEDULD_PAYLOAD_ variables; arrays and objects are not."""
    payload = {"user-name": "Ana\nB", "on": True, "n": 1.5, "none": None, "list": [1], "é": "x"}
    result = await run_sh("env -0 | sort -z | tr '\\0' '|'", payload)
    found = dict(
        item.split("=", 1) for item in result["output"].split("|") if item.startswith("SCHEDULD_")
    )
    assert found == {
        "SCHEDULD_TYPE": "report",
        "SCHEDULD_ID": "r-1",
        "SCHEDULD_ATTEMPT": "2",
        "SCHEDULD_FENCE": "7",
        "SCHEDULD_DUE": "2026-12-24T08:00:00.000Z",
        "SCHEDULD_PAYLOAD_USER_NAME": "Ana\nB",
        "SCHEDULD_PAYLOAD_ON": "true",
        "SCHEDULD_PAYLOAD_N": "1.5",
        "SCHEDULD_PAYLOAD_NONE": "",
        "SCHEDULD_PAYLOAD__": "x",
    }


async def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's variables are not handed on, but for a few; `env` is added."""
    monkeypatch.setenv("SCHEDULD_REDIS_URL", "redis://:secret@host")
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("HOME", "/somewhere")
    result = await run_sh("env", env={"GREETING": "hello"})
    lines = result["output"].splitlines()
    assert "secret" not in result["output"]
    assert "HOME=/somewhere" in lines
    assert "GREETING=hello" in lines


async def test_the_payload_is_never_read_by_a_shell(tmp_path: Path) -> None:
    """Payload text that is shell code stays text."""
    trap = tmp_path / "trap"
    payload = {"x": f"$(touch {trap}); `touch {trap}`"}
    result = await make({"argv": ["printenv", "SCHEDULD_PAYLOAD_X"]}).call(payload, RUN)
    assert result["output"].strip() == payload["x"]
    assert not trap.exists()


async def test_a_long_scalar_is_on_stdin_only() -> None:
    """A text too long for the environment does not keep the program from starting."""
    payload = {"big": "x" * 200_000, "small": "y"}
    result = await run_sh(
        'echo "$SCHEDULD_PAYLOAD_SMALL${SCHEDULD_PAYLOAD_BIG-none}"; wc -c', payload
    )
    assert result["output"].split() == ["ynone", str(len('{"big":"","small":"y"}') + 200_000)]


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"a": "x\0y"}, "NUL"),
        ({"a-b": 1, "A_B": 2}, "'a-b' and 'A_B'"),
        ({"a": "\ud800"}, "surrogate"),
    ],
)
async def test_a_payload_that_cannot_be_handed_over_is_dead(
    payload: dict[str, Any], told: str
) -> None:
    """What no environment or stdin can hold is dead with the reason."""
    with pytest.raises(Dead, match=told):
        await run_sh("true", payload)


async def test_another_exit_code_is_a_failed_attempt() -> None:
    """The error has the exit code and the end of stdout and stderr, on one line."""
    with pytest.raises(CommandFailed) as caught:
        await run_sh("echo one; echo two >&2; exit 3")
    assert str(caught.value) == "exit code 3: one\\ntwo"


async def test_a_signal_is_named() -> None:
    """A program that a signal killed is a failed attempt that names the signal."""
    with pytest.raises(CommandFailed, match="killed by SIGSEGV, no output"):
        await run_sh("kill -SEGV $$")


async def test_the_end_of_a_long_output_is_kept() -> None:
    """Of much output the last 8 KB are the result; what was dropped is counted."""
    script = 'i=0; while [ $i -lt 20000 ]; do echo "línea $i"; i=$((i+1)); done'
    result = await run_sh(script)
    kept = result["output"]
    assert kept.endswith("línea 19999\n")
    assert 8_000 < len(kept.encode()) <= 8 * 1024
    total = sum(len(f"línea {n}\n".encode()) for n in range(20_000))
    assert abs(result["output_dropped_bytes"] + len(kept.encode()) - total) < 4


async def test_output_that_is_no_text_is_kept_as_text() -> None:
    """Bytes that are not UTF-8 become replacement characters, which JSON can hold."""
    result = await run_sh(r"printf 'a\377b'")
    assert result["output"] == "a\ufffdb"


async def test_a_program_may_leave_its_stdin_unread() -> None:
    """A program that closes stdin, or ends before a big payload is read, succeeds."""
    payload = {"big": ["x" * 1_000] * 300}
    assert (await run_sh("exec <&-; echo ok", payload))["output"] == "ok\n"
    assert (await run_sh("true", payload))["exit_code"] == 0


async def test_background_children_end_with_the_program(tmp_path: Path) -> None:
    """A child that holds the output open is not waited for, and is killed."""
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    result = await run_sh(f"sleep 60 & echo $! > {pid_file}; echo done")
    assert result["output"] == "done\n"
    assert time.monotonic() - began < 30
    pid = int(pid_file.read_text())
    await until(lambda: not alive(pid))


async def test_a_child_that_left_the_group_is_not_waited_for(tmp_path: Path) -> None:
    """Not even a child in a session of its own, that holds the output, keeps the run."""
    pid_file = tmp_path / "pid"
    child = (
        f"import os, time; os.setsid(); open('{pid_file}', 'w').write(str(os.getpid())); "
        "time.sleep(60)"
    )
    began = time.monotonic()
    script = (
        f'{sys.executable} -c "{child}" & while [ ! -s {pid_file} ]; do sleep 0.01; done; echo done'
    )
    try:
        result = await run_sh(script)
        assert result["output"] == "done\n"
        assert time.monotonic() - began < 30
    finally:
        os.kill(int(pid_file.read_text()), 9)


async def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    """A cancelled run ends the program and its children before the cancellation goes on."""
    pid_file = tmp_path / "pids"
    running = asyncio.create_task(run_sh(f"sleep 60 & echo $! $$ > {pid_file}; wait"))
    await until(lambda: pid_file.exists() and len(pid_file.read_text().split()) == 2)
    child, leader = (int(pid) for pid in pid_file.read_text().split())
    assert alive(child)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(leader)
    await until(lambda: not alive(child))


async def test_a_cancelled_program_may_clean_up(tmp_path: Path) -> None:
    """SIGTERM comes first: a program that handles it ends its own way."""
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    # Not a shell: some lose a signal that comes while they start a child.
    program = (
        "import pathlib, signal, sys, threading\n"
        "stop = threading.Event()\n"
        "signal.signal(signal.SIGTERM, lambda *_: stop.set())\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "while not stop.wait(0.01): pass\n"
        "pathlib.Path(sys.argv[2]).write_text('bye')\n"
    )
    handler = make({"argv": [sys.executable, "-c", program, str(ready), str(cleaned)]})
    running = asyncio.create_task(handler.call({}, RUN))
    await until(ready.exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned.read_text() == "bye"


async def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """After the grace comes SIGKILL."""
    pid_file = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    running = asyncio.create_task(run_sh(script))
    await until(lambda: pid_file.exists() and bool(pid_file.read_text().strip()))
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(int(pid_file.read_text()))
    assert 1 < time.monotonic() - began < 20


async def test_a_second_cancellation_kills_at_once(tmp_path: Path) -> None:
    """Whoever cancels again does not wait for the grace, and leaves nothing behind."""
    pid_file = tmp_path / "pid"
    # It reads first: stdin comes when the start is complete, and a cancel is a signal.
    script = f"trap '' TERM; cat >/dev/null; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    running = asyncio.create_task(run_sh(script))
    await until(lambda: pid_file.exists() and bool(pid_file.read_text().strip()))
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=0.3)
    assert not done
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=10)
    assert running.cancelled()
    await until(lambda: not alive(int(pid_file.read_text())))


async def test_cwd(tmp_path: Path) -> None:
    """The program starts in `cwd`."""
    result = await run_sh("pwd", cwd=str(tmp_path))
    assert result["output"].strip() == str(tmp_path)


async def test_a_program_that_is_gone_is_a_failed_attempt(tmp_path: Path) -> None:
    """A program removed after the start of the daemon is an error that names it."""
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho hi\n")
    program.chmod(0o755)
    handler = make({"argv": [str(program)]})
    assert (await handler.call({}, RUN))["output"] == "hi\n"
    program.unlink()
    with pytest.raises(CommandFailed, match=f"cannot start {program}"):
        await handler.call({}, RUN)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "argv is missing"),
        ({"argv": "echo hi"}, "list of texts"),
        ({"argv": []}, "list of texts"),
        ({"argv": ["sh", 1]}, "list of texts"),
        ({"argv": ["no-such-program-here"]}, "not found in PATH"),
        ({"argv": ["/no/such/program"]}, "not an executable file"),
        ({"argv": ["./tool"]}, "absolute path"),
        ({"argv": ["sh"], "shell": True}, "options.shell is unknown"),
        ({"argv": ["sh"], "cdw": "/"}, "did you mean 'cwd'"),
        ({"argv": ["sh"], "cwd": "/no/such/folder"}, "options.cwd"),
        ({"argv": ["sh"], "env": ["A=1"]}, "a table of texts"),
        ({"argv": ["sh"], "env": {"A": 1}}, "options.env.A"),
        ({"argv": ["sh"], "env": {"A=B": "1"}}, "no name of a variable"),
        ({"argv": ["sh"], "env": {"SCHEDULD_ID": "1"}}, "is taken"),
    ],
)
def test_faulty_options_are_refused(options: dict[str, Any], told: str) -> None:
    """Each faulty option is refused at start, and named."""
    with pytest.raises(BadOptions, match=told):
        make(options)
