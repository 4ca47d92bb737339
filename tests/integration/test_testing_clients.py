"""While a test's scheduler is at work every client of the process leads to it; then none does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock, Mock

import pytest

from scheduld import (
    AsyncClient,
    Client,
    ConfigError,
    InvalidInput,
    Retry,
    Unreachable,
    WhenError,
    schedule_task,
)
from scheduld.client import default
from scheduld.testing import Scheduler, Server
from tests.support.kit import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = "redis://127.0.0.1:1"
CONFIG = """
[scheduld]
redis_url = "redis://127.0.0.1:1"
namespace = "production"
timezone = "Asia/Tokyo"
max_payload = "1KB"
durable = "disk"
[types.job]
handler = "log"
retry = { attempts = 2, delay = "7s" }
[types.mail]
handler = "email"
[types.mail.options]
smtp_url = "smtp://${MAIL_HOST}:25"
from = "a@example.com"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for the tests here, which begin and end schedulers themselves."""
    with Server() as server:
        yield server


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A config whose server does not exist."""
    path = tmp_path / "scheduld.toml"
    path.write_text(CONFIG)
    return str(path)


def test_clients_made_before(server: Server, file: str) -> None:
    """They lead to the test, with their own zone and types; afterwards to where they led."""
    with Client(config=file, wait_s=0) as client:
        with Scheduler(server=server, now="2030-01-01T00:00Z") as scheduld:
            task = client.schedule("job", {"n": 1}, at="2030-01-01 12:00")
            scheduld.assert_scheduled("job", {"n": 1}, at="2030-01-01 03:00Z")
            assert client.get("job", task.id).state == "scheduled"
            client.pause("job")
            assert client.run_now("job", task.id).due == scheduld.now
        for verb in (client.get, client.run_now):
            with pytest.raises(Unreachable):
                verb("job", task.id)


def test_clients_made_within(server: Server, file: str) -> None:
    """Whatever server, namespace or file they name; of the file the rest counts."""
    with Scheduler(server=server, now="2030-01-01T00:00Z") as scheduld:
        scheduld.announce("job")
        for client in (Client(NOBODY), Client(namespace="other"), Client("embedded")):
            with client:
                client.schedule("job")
        with Client(config=file) as client:
            client.schedule("job", at="2030-01-02 09:00")
            with pytest.raises(InvalidInput, match="at most 1024"):
                client.schedule("job", {"long": "x" * 1024})
        scheduld.assert_scheduled("job", at="2030-01-02T00:00Z", times=1)
        assert len(scheduld.tasks("job")) == 4


def test_a_client_left_by_a_test(server: Server) -> None:
    """It reaches nothing between tests, and in the next one leads to that."""
    with Scheduler(server=server) as scheduld:
        scheduld.announce("job")
        client = Client()
        client.schedule("job")
    with pytest.raises(InvalidInput, match="made during a test that has ended"):
        client.schedule("job")
    with Scheduler(server=server) as scheduld:
        assert client.list() == []
        scheduld.announce("job")
        client.schedule("job", id="mine")
        scheduld.assert_scheduled("job", id="mine")
    client.close()


def test_schedule_task_before_and_after(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its own client is put aside, and none of a test's is left to it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHEDULD_REDIS_URL", NOBODY)
    with Scheduler(server=server) as scheduld:
        assert os.environ["SCHEDULD_REDIS_URL"] == server.url
        scheduld.announce("job")
        schedule_task("job")
        assert len(scheduld.tasks()) == 1
    assert os.environ["SCHEDULD_REDIS_URL"] == NOBODY
    assert not default._clients
    monkeypatch.delenv("SCHEDULD_REDIS_URL")
    with Scheduler(server=server):
        pass
    assert "SCHEDULD_REDIS_URL" not in os.environ
    with pytest.raises(ConfigError):
        schedule_task("job")


def test_threads(server: Server) -> None:
    """Threads of the program under test are led there too, at the same time."""
    with Scheduler(server=server, now="2030-01-01T00:00Z") as scheduld:
        scheduld.announce("job")
        threads = [threading.Thread(target=schedule_task, args=("job",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        scheduld.assert_scheduled("job", at="2030-01-01T00:00Z", times=8)


async def test_async_clients(server: Server) -> None:
    """Those made before, within, and left open are all led, and put back."""
    before = AsyncClient(NOBODY, wait_s=0)
    with Scheduler(server=server, now="2030-01-01T00:00Z") as scheduld:
        scheduld.announce("job")
        async with AsyncClient() as client:
            await asyncio.gather(*(client.schedule("job", {"n": n}) for n in range(5)))
        await before.schedule("job", {"n": 5})
        runs = scheduld.tasks("job")
        assert [task.payload["n"] for task in runs] == list(range(6))
    with pytest.raises(Unreachable):
        await before.list("job")
    await before.aclose()


def test_an_async_client_over_several_loops(server: Server) -> None:
    """One that a test has left open in a loop that is closed does not trouble the next."""
    client = AsyncClient(NOBODY, wait_s=0)
    for n in range(3):
        with Scheduler(server=server) as scheduld:
            scheduld.announce("job")
            asyncio.run(_add_and_close(client, n))
            scheduld.assert_scheduled("job", {"n": n}, times=1)


async def _add_and_close(client: AsyncClient, n: int) -> None:
    await client.schedule("job", {"n": n})
    await client.aclose()


def test_one_at_a_time(server: Server) -> None:
    """A second scheduler is refused, and the first goes on; one after the other is fine."""
    with Scheduler(server=server) as first:
        with pytest.raises(InvalidInput, match="at work in this process already"):
            Scheduler(server=server).__enter__()
        first.announce("job")
        schedule_task("job")
        first.assert_scheduled("job")
    with Scheduler(server=server) as second:
        second.assert_nothing_scheduled()
        assert not second.tasks()
        assert not second.runs


def test_a_begin_that_fails_leaves_nothing(server: Server) -> None:
    """After a wrong argument the process is as it was, and the next scheduler begins."""
    with pytest.raises(WhenError):
        Scheduler(server=server, now="yesterday").__enter__()
    with pytest.raises(WhenError, match="unknown time zone"):
        Scheduler(server=server, now="2030-01-01 00:00", timezone="Mars/Base").__enter__()
    with Server() as gone:
        pass
    with pytest.raises(Unreachable):
        Scheduler(server=gone).__enter__()
    with Scheduler(server=server):
        pass


def test_load(server: Server, file: str) -> None:
    """A config gives types, policies, zone and limits; its server is never asked."""
    sent: list[object] = []
    with Scheduler(server=server, now="2030-01-01T00:00Z") as scheduld:
        scheduld.load(file, env={"MAIL_HOST": "localhost"}, handlers={"mail": sent.append})
        schedule_task("job", at="2030-01-01 12:00")
        schedule_task("mail", {"to": "a@b.c"})
        with pytest.raises(InvalidInput, match="at most 1024"):
            schedule_task("job", {"long": "x" * 1024})
        scheduld.assert_scheduled("job", at="2030-01-01T03:00Z")
        scheduld.run_all()
        assert sent == [{"to": "a@b.c"}]
        scheduld.assert_ran("job", outcome="done", times=1)
        scheduld.load(file, env={"MAIL_HOST": "x"}, handlers={"job": lambda _: Retry()})
        schedule_task("job")
        assert [run.outcome for run in scheduld.run_all()] == ["retry", "dead"]
        scheduld.assert_nothing_scheduled()


def test_a_config_that_is_wrong(server: Server, file: str, tmp_path: Path) -> None:
    """All problems at once, with their places; a stand-in for no type names the nearest."""
    with Scheduler(server=server) as scheduld:
        with pytest.raises(ConfigError, match="MAIL_HOST"):
            scheduld.load(file)
        with pytest.raises(InvalidInput, match=r"no task type 'mial'.*mail"):
            scheduld.load(file, env={"MAIL_HOST": "x"}, handlers={"mial": print})
        wrong = tmp_path / "wrong.toml"
        wrong.write_text('[types.job]\nhandler = "no.such:thing"\nretries = 3\n')
        with pytest.raises(ConfigError) as caught:
            scheduld.load(wrong)
        assert len(caught.value.problems) == 2
        with pytest.raises(ConfigError, match="nowhere"):
            scheduld.load(tmp_path / "nowhere.toml")


def test_programs_of_a_test_do_not_find_the_users_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that a test starts is led to the test's server by its environment."""
    monkeypatch.setenv("SCHEDULD_REDIS_URL", NOBODY)
    with Scheduler(server=server) as scheduld:
        env = environment(SCHEDULD_REDIS_URL=os.environ["SCHEDULD_REDIS_URL"])
        argv = [sys.executable, "-m", "scheduld", "stats", "--json"]
        ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30)
        assert ran.returncode == 0, ran.stderr
        assert scheduld.tasks() == []


def test_before_and_after_its_time(server: Server) -> None:
    """A scheduler works in its `with` block alone; afterwards it tells what ran, and can begin."""
    scheduld = Scheduler(server=server)
    for use in (scheduld.run_due, scheduld.tasks, scheduld.assert_nothing_ran):
        with pytest.raises(InvalidInput, match="use it in a `with` block"):
            use()
    with scheduld:
        scheduld.handle("job", lambda _: None)
        schedule_task("job")
        scheduld.run_due()
    scheduld.assert_ran("job", times=1)
    with pytest.raises(InvalidInput, match="use it in a `with` block"):
        scheduld.announce("job")
    with scheduld:
        scheduld.assert_nothing_ran()
        scheduld.assert_nothing_scheduled()


def test_mocks_are_handlers(server: Server) -> None:
    """What tests have at hand can be one: mocks, partials, objects, bound methods."""
    mock, amock = Mock(return_value=5), AsyncMock(return_value=6)
    with Scheduler(server=server) as scheduld:
        scheduld.handle("job", mock)
        scheduld.handle("ajob", amock)
        scheduld.handle("partial", partial(lambda extra, payload: [extra, payload], 1))
        scheduld.handle("bound", {}.setdefault, options={})
        for name in ("job", "ajob", "partial", "bound"):
            schedule_task(name, {"n": 1}, id=name)
        runs = {run.type: run for run in scheduld.run_due()}
        assert [run.outcome for run in runs.values()] == ["done", "retry", "done", "done"], runs
        assert {name: run.result for name, run in runs.items() if name != "bound"} == {
            "job": 5,
            "ajob": 6,
            "partial": [1, {"n": 1}],
        }
        assert isinstance(runs["bound"].error, TypeError)
    mock.assert_called_once_with({"n": 1})
    amock.assert_awaited_once_with({"n": 1})


def test_a_forked_child(server: Server) -> None:
    """It adds to the test of its parent, and its end does not wipe that."""
    with Scheduler(server=server) as scheduld:
        scheduld.announce("job")
        schedule_task("job", id="parent")
        pid = os.fork()
        if not pid:
            schedule_task("job", id="child")
            scheduld.__exit__()
            os._exit(0)
        os.waitpid(pid, 0)
        assert {task.id for task in scheduld.tasks()} == {"parent", "child"}
