"""Redis goes away and comes back under a daemon: it stays calm, and goes on by itself."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from scheduld import Client
from scheduld.errors import ScheduldError, Unreachable
from tests.chaos import outages
from tests.support.daemons import WORK, DaemonProcess, Site, let_pass
from tests.support.servers import start_server, wait_until
from tests.support.work import END, START, starts

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.support.servers import RunningServer

pytestmark = pytest.mark.proof


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """Start a server that the test may take away."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as running,
    ):
        yield running


def small_site(tmp_path: Path, url: str, **core: object) -> Site:
    """Make a site with one type that looks every 300 ms."""
    types = {"work": {"handler": WORK + "sleep", "empty_poll_timeout": "300ms"}}
    return Site(tmp_path, url, core=core, types=types)


def test_stopped_frozen_killed_and_restarted(tmp_path: Path, server: RunningServer) -> None:
    """Twenty types are at work again in time; meanwhile next to no CPU, memory or log lines."""
    place = outages.site(tmp_path, server.url)
    faults: list[tuple[outages.Fault, float]] = [
        ("stop", 2.0),
        ("freeze", 3.0),
        ("restart", 0.0),
        ("kill", 1.0),
    ]
    with DaemonProcess(place).started() as daemon:
        for fault, seconds in faults:
            # A second or two hold the first burst of twenty types; scripts/chaos is strict.
            found = outages.go_through(fault, seconds, server, daemon, place, most_cpu=0.25)
            assert not found.violations, f"{found}: {found.violations}"
        assert daemon.term() == 0


def test_lost_connections_do_not_reach_a_run(tmp_path: Path, server: RunningServer) -> None:
    """All connections cut twice in the middle of a run: one start, one end, verdict stored."""
    place = small_site(tmp_path, server.url, lease="3s")
    with DaemonProcess(place).started() as daemon, closing(server.client()) as client:
        place.add("work", s=1.5)
        place.wait_for(START)
        for _ in range(2):
            client.execute_command("CLIENT KILL TYPE normal SKIPME yes")  # type: ignore[no-untyped-call]
            client.execute_command("CLIENT KILL TYPE pubsub")  # type: ignore[no-untyped-call]
            place.add("work", s=0)
        place.wait_for(END, 3)
        wait_until(lambda: place.counts("work") == (0, 0, 3, 0), "verdicts stored")
        assert daemon.process.poll() is None
    assert [len(runs) for runs in starts(place.ledger()).values()] == [1, 1, 1]


def test_an_outage_longer_than_the_lease_costs_no_run(
    tmp_path: Path, server: RunningServer
) -> None:
    """A run that ends while Redis is away is stored when it is back, and not run again."""
    place = small_site(tmp_path, server.url, lease="1s")
    with DaemonProcess(place).started():
        (task_id,) = place.add("work", s=1)
        place.wait_for(START)
        server.stop()
        place.wait_for(END)
        let_pass(1.5)
        server.restart()
        wait_until(lambda: place.counts("work") == (0, 0, 1, 0), "the verdict stored")
        task = place.show(f"work/{task_id}")
    assert (task["state"], task["interruptions"], task["attempt"]) == ("done", 0, 1)
    assert len(starts(place.ledger())[task_id]) == 1


def test_redis_moves_to_another_address(tmp_path: Path, server: RunningServer) -> None:
    """Each connection looks the address up again: a name that leads elsewhere is followed."""
    link = tmp_path / "redis.sock"
    link.symlink_to(server.url.removeprefix("unix://"))
    place = small_site(tmp_path, f"unix://{link}")
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        DaemonProcess(place).started(),
        start_server("valkey", Path(folder)) as other,
    ):
        link.unlink()
        link.symlink_to(other.url.removeprefix("unix://"))
        server.stop()
        moved = time.monotonic()
        place.add("work", s=0)
        place.wait_for(END)
        assert time.monotonic() - moved < 5


def test_a_password_that_changed(tmp_path: Path, server: RunningServer) -> None:
    """It is told in one plain line without the secret; the daemon waits, and works again."""
    place = small_site(tmp_path, server.url.replace("unix://", "unix://:olds3cret@"))
    with closing(server.client()) as client:
        client.config_set("requirepass", "olds3cret")
        with DaemonProcess(place).started() as daemon:
            client.execute_command("AUTH", "olds3cret")  # type: ignore[no-untyped-call]
            client.config_set("requirepass", "news3cret")
            client.execute_command("CLIENT KILL TYPE normal SKIPME yes")  # type: ignore[no-untyped-call]
            client.execute_command("CLIENT KILL TYPE pubsub")  # type: ignore[no-untyped-call]
            wait_until(lambda: "credentials" in daemon.log_path.read_text(), "a line about it")
            assert daemon.process.poll() is None
            client.config_set("requirepass", "olds3cret")
            place.add("work", s=0)
            place.wait_for(END)
            assert "s3cret" not in daemon.log_path.read_text()
            assert daemon.term() == 0


def test_redis_loads_its_data(tmp_path: Path, server: RunningServer) -> None:
    """LOADING is waited out by daemon and command; a command that may not wait says so."""
    place = small_site(tmp_path, server.url)
    with closing(server.client()) as client, client.pipeline(transaction=False) as pipe:
        for number in range(3_000):
            pipe.set(f"junk{number}", "x" * 200)
        pipe.execute()
        client.bgrewriteaof()
        wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "an AOF")
    server.stop()
    slow = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]
    server._command += slow
    ran: list[subprocess.CompletedProcess[str]] = []
    refused: list[pytest.ExceptionInfo[Unreachable]] = []

    def ask() -> None:
        with closing(server.client()) as client:
            wait_until(lambda: is_loading(client), "the server loads")
        impatient = Client(server.url, namespace=place.namespace, wait_s=0.1)
        with impatient, pytest.raises(Unreachable, match="loading") as caught:
            impatient.schedule("work")
        refused.append(caught)
        ran.append(place.run("add", "--type", "work", "s:=0"))

    with DaemonProcess(place) as daemon:
        commands = threading.Thread(target=ask)
        commands.start()
        server.restart()
        commands.join()
        assert len(refused) == 1
        assert [(one.returncode, one.stderr) for one in ran] == [(0, "")]
        place.wait_for(END)
        assert daemon.term() == 0


def is_loading(client: redis.Redis) -> bool:
    """Whether a server answers that it loads."""
    try:
        client.ping()
    except redis.BusyLoadingError:
        return True
    except redis.ConnectionError:
        pass
    return False


def test_what_was_answered_is_kept_through_kills_of_redis(
    tmp_path: Path, server: RunningServer
) -> None:
    """Adds of four threads while Redis is killed three times: every id answered is run."""
    place = small_site(tmp_path, server.url)
    kept: list[str] = []
    open_ended: list[ScheduldError] = []
    over = threading.Event()

    def add() -> None:
        with place.client() as client:
            while not over.is_set():
                try:
                    kept.append(client.schedule("work", {"s": 0}, allow_unknown=True).id)
                except ScheduldError as error:
                    open_ended.append(error)

    with DaemonProcess(place).started() as daemon:
        adders = [threading.Thread(target=add) for _ in range(4)]
        for adder in adders:
            adder.start()
        for _ in range(3):
            wait_for_adds(kept, 30)
            server.kill()
            server.restart()
        wait_for_adds(kept, 10)
        over.set()
        for adder in adders:
            adder.join()
        wait_until(lambda: {line.id for line in place.ledger()} >= set(kept), "all of them ran")
        wait_until(lambda: place.counts("work")[:2] == (0, 0), "nothing is left")
        assert not open_ended, "ten seconds are enough for a restart"
        assert daemon.term() == 0
    assert len(kept) == len(set(kept))


def wait_for_adds(kept: list[str], more: int) -> None:
    """Wait until so many more were kept."""
    before = len(kept)
    wait_until(lambda: len(kept) > before + more, "adds that work")
