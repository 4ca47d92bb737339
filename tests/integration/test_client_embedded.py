"""The clients with the embedded server: started, shared, started again, left."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from scheduld import AsyncClient, Client
from scheduld.store import launch

if TYPE_CHECKING:
    from pathlib import Path


def _config(folder: Path, state_dir: Path) -> str:
    config = folder / "scheduld.toml"
    config.write_text(
        f'[scheduld]\nredis_url = "embedded"\nstate_dir = "{state_dir}"\n'
        '[types.t]\nhandler = "log"\n'
    )
    return str(config)


async def test_data_outlives_the_clients(tmp_path: Path, state_dir: Path) -> None:
    """A task added by one client is there for the next, though the server ended in between."""
    config = _config(tmp_path, state_dir)
    with Client(config=config) as client:
        task = client.schedule("t", {"n": 1}, delay="1h")
    assert launch.ping(f"{state_dir}/server.sock", 1.0) is launch.Answer.NONE
    async with AsyncClient(config=config) as other:
        assert (await other.get("t", task.id)).payload == {"n": 1}


def _info(client: Client, section: str) -> dict[str, str]:
    (info,) = client._connected().commands(("INFO", section))
    return dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)


def _server_pid(client: Client) -> int:
    return int(_info(client, "server")["process_id"])


def _wait_until_written(client: Client) -> None:
    # appendfsync everysec: while a sync is under way the server answers before it writes.
    while _info(client, "persistence")["aof_buffer_length"] != "0":
        time.sleep(0.01)


def test_a_killed_server_is_started_again(tmp_path: Path, state_dir: Path) -> None:
    """A client whose embedded server was killed starts it again, and finds what it added."""
    with Client(config=_config(tmp_path, state_dir)) as client:
        task = client.schedule("t", {"n": 1}, delay="1h")
        _wait_until_written(client)
        os.kill(_server_pid(client), signal.SIGKILL)
        assert client.get("t", task.id).payload == {"n": 1}
