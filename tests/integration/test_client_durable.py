"""Durable adds: stored on disk or by a replica before they are answered, on real servers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import AsyncClient, Client, InvalidInput, OutcomeUnknown, Task, TaskExists, TaskSpec
from scheduld.store import durable
from tests.integration.test_client import fresh_namespace
from tests.support.servers import RunningServer, free_port, start_server, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LATER: dict[str, Any] = {"delay": "1h", "allow_unknown": True}


def add(kind: str, url: str, namespace: str, **options: Any) -> Any:
    """Add tasks by a client of one kind: `specs` many, else one; other options are the client's."""
    specs = options.pop("specs", None)
    spec = {**LATER, **options.pop("spec", {})}
    if kind == "blocking":
        with Client(url, namespace=namespace, **options) as client:
            if specs is not None:
                return client.schedule_many("t", specs, allow_unknown=True)
            return client.schedule("t", **spec)

    async def run() -> Any:
        async with AsyncClient(url, namespace=namespace, **options) as client:
            if specs is not None:
                return await client.schedule_many("t", specs, allow_unknown=True)
            return await client.schedule("t", **spec)

    return asyncio.run(run())


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    """One client of each kind."""
    return str(request.param)


def test_disk_is_confirmed(kind: str, valkey_server: RunningServer) -> None:
    """On a server with an append-only file an add is answered when it is on disk."""
    namespace = fresh_namespace()
    assert add(kind, valkey_server.url, namespace, durable="disk").created
    many = add(kind, valkey_server.url, namespace, durable="disk", specs=[{}] * 1100)
    assert all(isinstance(task, Task) for task in many)
    with valkey_server.client() as raw:
        assert raw.zcard(f"{namespace}:{{t}}:due") == 1101
        confirmed: Any = raw.hget(f"{namespace}:{{t}}:meta", "confirmed")
    assert int(confirmed) >= 4, "each of four calls"


def test_disk_is_refused_before_the_add(kind: str, redis7_server: RunningServer) -> None:
    """A server without WAITAOF is named as too old, and nothing is stored; other verbs work."""
    namespace = fresh_namespace()
    with pytest.raises(InvalidInput, match=r"needs Redis 7\.2 or newer, or Valkey") as caught:
        add(kind, redis7_server.url, namespace, durable="disk")
    assert caught.value.exit_code == 2
    with redis7_server.client() as raw:
        assert raw.keys(f"{namespace}:{{t}}:*") == []
    with Client(redis7_server.url, namespace=namespace, durable="disk") as client:
        assert client.list() == []


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    """A Valkey server that the test may change."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        yield server


def test_disk_without_an_append_only_file(kind: str, own_server: RunningServer) -> None:
    """A server that keeps no such file is refused before the add, with what to do; one that
    stops keeping it leaves the next add in doubt."""
    namespace = fresh_namespace()
    with Client(own_server.url, namespace=namespace, durable="disk", wait_s=0.1) as client:
        client.schedule("t", **LATER)
        with own_server.client() as raw:
            raw.config_set("appendonly", "no")
        with pytest.raises(OutcomeUnknown, match="not confirmed on disk in time"):
            client.schedule("t", delay="1h")
    with pytest.raises(InvalidInput, match="append-only file: set appendonly yes"):
        add(kind, own_server.url, namespace, durable="disk")
    with own_server.client() as raw:
        assert raw.zcard(f"{namespace}:{{t}}:due") == 2


@pytest.mark.parametrize("where", ["tape", 7, ""])
def test_other_words_are_refused(where: Any) -> None:
    """Only the three there are."""
    for make in (Client, AsyncClient):
        with pytest.raises(InvalidInput, match="durable is memory, disk or replica"):
            make("redis://localhost", durable=where)


class Pair:
    """A primary and a replica of it that is in line."""

    def __init__(self, primary: RunningServer, replica: RunningServer) -> None:
        self.primary, self.replica = primary, replica
        port = free_port()
        with primary.client() as raw:
            raw.config_set("repl-diskless-sync-delay", 0)
            raw.config_set("bind", "127.0.0.1")
            raw.config_set("port", port)
        with replica.client() as raw:
            raw.replicaof("127.0.0.1", port)
        wait_until(self._is_in_line, "the replica is in line")

    def _is_in_line(self) -> bool:
        with self.primary.client() as raw:
            told: Any = raw.info("replication")
        return bool(told.get("slave0", {}).get("state") == "online")


@pytest.fixture(params=["redis7", "valkey"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two servers, the second a replica of the first."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as one,
        tempfile.TemporaryDirectory(prefix="scheduld-") as two,
        start_server(request.param, Path(one)) as primary,
        start_server(request.param, Path(two)) as replica,
    ):
        yield Pair(primary, replica)
        # Asked to end, a primary waits for its replicas, and a replica for what it loads.
        replica.kill()
        primary.kill()


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients give a silent server half a second, not two."""
    file = tmp_path / "scheduld.toml"
    file.write_text('[scheduld]\nredis_timeout = "500ms"\n[types.t]\nhandler = "log"\n')
    monkeypatch.setenv("SCHEDULD_CONFIG", str(file))


def test_a_replica_confirms(kind: str, pair: Pair) -> None:
    """When the add is answered the replica has the task."""
    task = add(kind, pair.primary.url, "n", durable="replica")
    with pair.replica.client() as raw:
        assert raw.zscore("n:{t}:due", task.id)


@pytest.mark.usefixtures("short")
def test_a_silent_replica_leaves_a_doubt(kind: str, pair: Pair) -> None:
    """An add that no replica confirms ends unknown, with id and token; it is stored, and a repeat
    ends well once the replica is back: neither before, nor with a second task."""
    pair.replica.freeze()
    quick: dict[str, Any] = {"durable": "replica", "wait_s": 0.1}
    with pytest.raises(OutcomeUnknown, match="not confirmed by a replica in time") as caught:
        add(kind, pair.primary.url, "n", **quick)
    error = caught.value
    assert (error.exit_code, bool(error.token)) == (4, True)
    repeat = {"id": error.task_id, "token": error.token}
    with pytest.raises(OutcomeUnknown):
        add(kind, pair.primary.url, "n", spec=repeat, **quick)
    pair.replica.thaw()
    task = add(kind, pair.primary.url, "n", spec=repeat, durable="replica")
    assert (task.id, task.created) == (error.task_id, True)
    with pair.replica.client() as raw:
        assert raw.zcard("n:{t}:due") == 1


@pytest.mark.usefixtures("short")
def test_what_is_refused_needs_no_replica(kind: str, pair: Pair) -> None:
    """A task that is kept already is told as such, replica or not; so are those before a doubt."""
    add(kind, pair.primary.url, "n", durable="replica", spec={"id": "x"})
    pair.replica.freeze()
    quick: dict[str, Any] = {"durable": "replica", "wait_s": 0.1}
    with pytest.raises(TaskExists):
        add(kind, pair.primary.url, "n", spec={"id": "x"}, **quick)
    kept = add(kind, pair.primary.url, "n", spec={"id": "x", "on_conflict": "keep"}, **quick)
    assert kept.created is False
    with pytest.raises(OutcomeUnknown) as caught:
        add(kind, pair.primary.url, "n", specs=[TaskSpec(id="x"), TaskSpec(id="y")], **quick)
    assert caught.value.task_id == "y"
    pair.replica.thaw()


@pytest.mark.usefixtures("short")
def test_a_client_waits_for_the_replica(pair: Pair) -> None:
    """Within its patience a client asks again by itself."""
    pair.replica.freeze()
    with Client(pair.primary.url, namespace="n", durable="replica", wait_s=20) as client:
        thawed = False

        def thaw_later(real: Callable[..., Any]) -> Callable[..., Any]:
            def doubt(self: Any, *replies: Any) -> Any:
                nonlocal thawed
                found = real(self, *replies)
                if found is not None and not thawed:
                    thawed = True
                    pair.replica.thaw()
                return found

            return doubt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(durable.Confirm, "doubt", thaw_later(durable.Confirm.doubt))
            assert client.schedule("t", **LATER).created
    assert thawed


def test_a_forgotten_script_is_sent_again(own_server: RunningServer, kind: str) -> None:
    """A server that knows no script confirms all the same."""
    with own_server.client() as raw:
        raw.script_flush()
    assert add(kind, own_server.url, "n", durable="disk").created
