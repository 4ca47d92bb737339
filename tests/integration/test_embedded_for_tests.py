"""The servers that other tests use do what those tests rely on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from tests.support.servers import process_gone, start_server, wait_until
from tests.support.users import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RunningServer


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="scheduld-") as path:
        yield Path(path)


def version(server: RunningServer) -> str:
    """Name the program and its version."""
    with closing(server.client()) as client:
        told = client.info("server")
    return f"{told.get('server_name', 'redis')} {told.get('valkey_version', told['redis_version'])}"


def test_shared_servers(valkey_server: RunningServer, redis7_server: RunningServer) -> None:
    """The shared servers are what their names say, on private sockets of their own."""
    assert version(valkey_server).startswith("valkey ")
    assert version(redis7_server).startswith("redis ")
    assert valkey_server.url != redis7_server.url
    assert {server.url[:8] for server in (valkey_server, redis7_server)} == {"unix:///"}


def test_cluster_node(cluster_server: RunningServer) -> None:
    """The cluster node takes writes to every slot, and refuses a call that needs two."""
    with closing(cluster_server.client()) as client:
        assert all(client.set(f"k{number}", "v") for number in range(20))
        with pytest.raises(redis.ResponseError, match="same slot"):
            client.mset({"k1": "v", "k2": "v"})


def test_death_and_return(folder: Path) -> None:
    """A killed server is gone; after a restart its address and data are the same."""
    with start_server("valkey", folder) as server, closing(server.client()) as client:
        client.set("k", "v")
        url, pid = server.url, server.pid
        server.kill()
        assert process_gone(pid)
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.restart()
        assert server.url == url
        assert client.get("k") == "v"
        last = server.pid
    assert process_gone(last)


def test_freeze(folder: Path) -> None:
    """A frozen server takes connections and answers nothing until it is thawed."""
    with start_server("valkey", folder) as server:
        with closing(redis.Redis.from_url(server.url, socket_timeout=0.05)) as client:
            server.freeze()
            with pytest.raises(redis.TimeoutError):
                client.ping()
            server.thaw()
        with closing(server.client()) as patient:
            assert patient.ping()
        server.freeze()
    assert process_gone(server.pid)


def test_server_ends_with_its_test_run(folder: Path) -> None:
    """Even if the test process is killed, its server ends."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv (util-linux) is not on PATH")
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.support.servers import start_server\n"
        "print(start_server('valkey', Path(sys.argv[1])).pid, flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        assert not process_gone(pid)
        run.kill()
    wait_until(lambda: process_gone(pid), "the server's end")
