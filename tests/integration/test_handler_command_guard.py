"""Commands end with the process that runs them, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduld.handlers import guard as guarding
from scheduld.handlers.command import CommandFailed, make
from scheduld.handlers.contract import Run
from tests.support.daemons import ROOT, DaemonProcess, Site
from tests.support.servers import READY_S, wait_until

if TYPE_CHECKING:
    from tests.support.servers import RunningServer

RUN = Run(type="report", id="r-1", attempt=1, fence=7, due=datetime(2026, 12, 24, 8, tzinfo=UTC))


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def read_pids(file: Path, count: int = 2) -> list[int]:
    """The process ids that a script wrote, once it has."""
    wait_until(lambda: file.exists() and len(file.read_text().split()) == count, "pids")
    return [int(pid) for pid in file.read_text().split()]


def guard_of(pid: int) -> int:
    """Process id of the guard of a process, once there is one."""
    wait_until(lambda: _guards(pid), "a guard")
    (found,) = _guards(pid)
    return found


def _guards(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    names = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return [child for child, name in names.items() if b"scheduld-guard" in name]


def test_a_killed_daemon_leaves_no_command(tmp_path: Path, valkey_server: RunningServer) -> None:
    """After SIGKILL of the daemon the script and its children are gone in seconds, TERM first."""
    pids, told = tmp_path / "pids", tmp_path / "told"
    # Its child does the work, and gets as long as in a stop to end it.
    # Nobody reads its output any more: what it says would end it before it has cleaned up.
    child = f'trap "" PIPE; trap "echo bye > {told}; exit" TERM; echo $$ $PPID > {pids}; '
    child += "while :; do sleep 0.05; done"
    argv = ["/bin/sh", "-c", f"/bin/sh -c '{child}' & wait"]
    types = {"work": {"handler": "command", "options": {"argv": argv}}}
    site = Site(tmp_path, valkey_server.url, namespace=f"g{os.getpid()}", types=types)
    with DaemonProcess(site).started() as daemon:
        site.add("work")
        both = read_pids(pids)
        guard = guard_of(daemon.pid)
        assert all(alive(pid) for pid in (*both, guard))
        daemon.kill()
        wait_until(lambda: not any(map(alive, both)), "the command gone")
        assert told.read_text() == "bye\n"
        wait_until(lambda: not alive(guard), "the guard gone")


def test_a_daemon_that_stops_leaves_no_guard(tmp_path: Path, valkey_server: RunningServer) -> None:
    """A guard is there from the first command to the end of the daemon, and costs nothing else."""
    options = {"argv": ["/bin/true"]}
    types = {"work": {"handler": "command", "options": options}}
    site = Site(tmp_path, valkey_server.url, namespace=f"h{os.getpid()}", types=types)
    with DaemonProcess(site).started() as daemon:
        site.add("work", 5)
        wait_until(lambda: site.counts("work") == (0, 0, 5, 0), "all done")
        guard = guard_of(daemon.pid)
        os.kill(guard, signal.SIGTERM)  # as a service manager does that signals everybody
        assert daemon.term() == 0
        wait_until(lambda: not alive(guard), "the guard gone")


async def test_a_guard_that_was_killed_is_replaced(tmp_path: Path) -> None:
    """The next command has a new guard, which knows the older ones as well."""
    pids = tmp_path / "pids"
    handler = make({"argv": ["/bin/sh", "-c", f"echo $$ $$ > {pids}; exec sleep 60"]})
    running = asyncio.create_task(handler.call({}, RUN))
    await asyncio.to_thread(read_pids, pids)
    first = guard_of(os.getpid())
    os.kill(first, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: not alive(first), "the guard gone")
    await make({"argv": ["/bin/true"]}).call({}, RUN)
    assert guard_of(os.getpid()) != first
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("count", [1, 40])
def test_only_what_runs_is_ended(tmp_path: Path, count: int) -> None:
    """Of many commands those that have ended are forgotten, and all others are ended."""
    code = (
        "import asyncio, os, sys, pathlib\n"
        "from tests.integration.test_handler_command_guard import RUN, make\n"
        "async def main(folder, count):\n"
        "    def script(n): return f'echo $$ $$ > {folder}/{n}; exec sleep 60'\n"
        "    runs = [make({'argv': ['/bin/sh', '-c', script(n)]}) for n in range(count)]\n"
        "    tasks = [asyncio.create_task(run.call({}, RUN)) for run in runs]\n"
        "    for _ in range(3 * count):\n"
        "        await make({'argv': ['/bin/true']}).call({}, RUN)\n"
        "    print('ready', flush=True)\n"
        "    await asyncio.wait(tasks)\n"
        "asyncio.run(main(sys.argv[1], int(sys.argv[2])))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        pids = [read_pids(tmp_path / str(number))[0] for number in range(count)]
        guard = guard_of(process.pid)
        process.kill()
        wait_until(lambda: not any(map(alive, pids)), "all commands gone")
        wait_until(lambda: not alive(guard), "the guard gone")
    finally:
        process.kill()
        process.communicate(timeout=READY_S)


async def test_without_a_shell_commands_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no shell there is no guard, and one warning."""
    monkeypatch.setattr(guarding, "_SHELL", "/no/such/shell")
    monkeypatch.setattr("scheduld.handlers.process.guard", guarding.Guard())
    for _ in range(2):
        assert (await make({"argv": ["/bin/true"]}).call({}, RUN))["exit_code"] == 0


async def test_without_pidfds_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other systems than Linux, and containers that forbid it."""
    monkeypatch.delattr(os, "pidfd_open")
    results = [make({"argv": ["/bin/sh", "-c", f"echo {n}"]}).call({}, RUN) for n in range(5)]
    told = await asyncio.gather(*results)
    assert [each["output"] for each in told] == [f"{n}\n" for n in range(5)]


async def test_a_code_that_somebody_else_took_is_no_success(tmp_path: Path) -> None:
    """A handler that waits for all children of the process takes our code along."""
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.01; done"
    running = asyncio.create_task(make({"argv": ["/bin/sh", "-c", script]}).call({}, RUN))
    await asyncio.to_thread(wait_until, lambda: _commands(os.getpid()), "the command")
    (pid,) = _commands(os.getpid())
    go.touch()
    os.waitpid(pid, 0)  # noqa: ASYNC222 - in the loop: nobody can be quicker
    with pytest.raises(CommandFailed, match="exit code 255"):
        await running


async def test_descriptors_are_given_back() -> None:
    """Many commands, cancelled ones among them, leave no descriptor open."""
    before = len(os.listdir("/proc/self/fd"))
    handler = make({"argv": ["/bin/sleep", "0.01"]})
    for _ in range(20):
        runs = [asyncio.create_task(handler.call({}, RUN)) for _ in range(3)]
        await asyncio.sleep(0)
        runs[0].cancel()
        await asyncio.wait(runs)
        assert runs[0].cancelled()
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # that of the guard, one of the loop


def _commands(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    told = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return [child for child, name in told.items() if b"while [ ! -e" in name]


def test_a_command_whose_group_was_not_told_yet_is_ended(tmp_path: Path) -> None:
    """A process that is killed while it starts a program leaves that neither, nor others alive."""
    code = (
        "import os, subprocess, sys\n"
        "from scheduld.handlers.guard import guard\n"
        "argv = ['/bin/sh', '-c', f'sleep 60 & echo $! $$ > {sys.argv[1]}; wait']\n"
        "def start(run):\n"
        "    env = {**os.environ, **run.environment}\n"
        "    return subprocess.Popen(argv, env=env, start_new_session=True)\n"
        "ended = guard.expect()\n"
        "argv[2] = argv[2].replace('started', 'ended')\n"
        "guard.watch(ended, start(ended).pid)\n"
        "guard.forget(ended)\n"
        "argv[2] = argv[2].replace('ended', 'started')\n"
        "start(guard.expect())\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "started")]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        started, ended = read_pids(tmp_path / "started"), read_pids(tmp_path / "ended")
        process.kill()
        wait_until(lambda: not any(map(alive, started)), "the command gone")
        # It was forgotten, so it is nobody's business any more.
        assert all(map(alive, ended))
        os.killpg(ended[1], signal.SIGKILL)
