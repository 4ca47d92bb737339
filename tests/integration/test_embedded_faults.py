"""The embedded server on bad ground: damaged data, foreign folders, no program."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import stat
from pathlib import Path

import pytest

from scheduld.errors import Unreachable, Unusable
from scheduld.store import launch
from scheduld.store.embedded import EmbeddedServer
from tests.support.servers import process_gone, wait_until
from tests.support.users import User, ask, server_pid


def _open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


as_root = pytest.mark.skipif(
    os.geteuid() != 0 or not _open_to_all(launch.server_binary().resolve()),
    reason="only root can play another user, who must be able to run the server",
)
NOBODY = 65534


def refusal(folder: Path, wait_s: float = 10.0) -> str:
    """Join, and return the message and the hint with which that is refused."""
    with pytest.raises((Unreachable, Unusable)) as caught:
        EmbeddedServer.join(folder, wait_s=wait_s)
    assert "\n" not in caught.value.message
    return f"{caught.value.message} | {caught.value.hint}"


def append_file(state_dir: Path) -> Path:
    """Store k1 to k9, end the server, and return the file that the writes are in."""
    with EmbeddedServer.join(state_dir) as user:
        for number in range(1, 10):
            ask(user.socket_path, "SET", f"k{number}", "value")
    (found,) = (state_dir / "data").glob("appendonlydir/*.incr.aof")
    return found


def test_torn_tail(state_dir: Path) -> None:
    """A file that ends in the middle of a write costs that write and nothing else."""
    file = append_file(state_dir)
    os.truncate(file, file.stat().st_size - 3)
    with EmbeddedServer.join(state_dir) as user:
        assert ask(user.socket_path, "EXISTS", *(f"k{n}" for n in range(1, 9))) == 8
        assert ask(user.socket_path, "EXISTS", "k9") == 0


def test_damaged_data_is_reported_and_kept(state_dir: Path) -> None:
    """Data that the server cannot read is refused with its own words, and left as it is."""
    file = append_file(state_dir)
    damaged = file.read_bytes().replace(b"k5", b"k5\r\n+", 1)
    file.write_bytes(damaged)
    told = refusal(state_dir)
    assert "did not start: Bad file format reading the append only file" in told
    assert f"nothing was deleted; see {state_dir.resolve()}/server.log" in told
    assert file.read_bytes() == damaged
    assert "did not start: Bad file format" in refusal(state_dir), "a second try says the same"


def test_slow_load_goes_on_between_tries(state_dir: Path) -> None:
    """A join that runs out of time says `loading` and leaves the server to load on."""
    file = append_file(state_dir)
    with file.open("ab") as more:
        more.write(b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" * 700_000)
    told: list[str] = []
    pids: set[int] = set()

    def joined() -> bool:
        try:
            user = EmbeddedServer.join(state_dir, wait_s=0.02)
        except Unreachable as error:
            told.append(error.message)
            return False
        with user:
            pids.add(server_pid(user.socket_path))
            assert ask(user.socket_path, "GET", "n") == "700000"
        return True

    wait_until(joined, "a join")
    starts = (state_dir / "server.log").read_text().count("Valkey is starting")
    assert starts == 2, "one to write the data, one to load it"
    assert any("is still loading its data" in line for line in told)


def test_frozen_server_is_unreachable(state_dir: Path) -> None:
    """A join does not wait for a frozen server longer than it was told to."""
    with EmbeddedServer.join(state_dir) as user:
        pid = server_pid(user.socket_path)
        os.kill(pid, signal.SIGSTOP)
        told = refusal(state_dir, wait_s=0.1)
        os.kill(pid, signal.SIGCONT)
        assert "does not answer | try again; see " in told
        assert server_pid(user.socket_path) == pid


def test_start_lock_of_a_stuck_process(state_dir: Path) -> None:
    """While another process holds the start lock, a join says so after its wait."""
    before = (
        "from scheduld.store.statedir import open_state_dir\n"
        "with open_state_dir(Path(sys.argv[1])).start_lock(0):\n"
        "    print('locked', flush=True); sys.stdin.readline()"
    )
    with User(state_dir, before=before) as stuck:
        assert stuck.line() == "locked"
        assert "another process is starting or stopping" in refusal(state_dir, wait_s=0.05)


def test_stale_leftovers(state_dir: Path) -> None:
    """Leftovers of a dead server that now lead to another process do that process no harm."""
    append_file(state_dir)
    (state_dir / "stopping").touch()
    (state_dir / "server.pid").write_text(str(os.getpid()))
    (state_dir / "server.sock").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(state_dir / "server.sock"))
    with EmbeddedServer.join(state_dir) as user:
        assert ask(user.socket_path, "GET", "k9") == "value"


@pytest.mark.parametrize("name", ["state with spaces 'and' \"quotes\"", "ünï-" + "long" * 40])
def test_odd_and_long_paths(
    state_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Any path will do; users with different runtime dirs reach one server by short paths."""
    runtime = state_dir.parent / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    folder = state_dir.parent / name
    with User(folder, env={"XDG_RUNTIME_DIR": "", "TMPDIR": str(tmp_path)}) as other:
        with EmbeddedServer.join(folder) as user:
            assert len(os.fsencode(user.socket_path)) <= 100
            assert server_pid(user.socket_path) == server_pid(other.joined())
        assert other.leave() == 0
    with EmbeddedServer.join(folder):
        pass
    assert list(runtime.iterdir()) == [], "the last to leave takes its short path away"


def test_short_path_in_the_hands_of_another(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the way of the short path is not used, and the message names it."""
    folder = state_dir.parent / ("long" * 40)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(state_dir.parent))
    with EmbeddedServer.join(folder) as user:
        link = Path(user.socket_path).parent
    link.symlink_to("/elsewhere")
    assert f"{link} is in the way" in refusal(folder)


def test_folder_that_others_can_write(state_dir: Path) -> None:
    """A state_dir that other users can change is refused, with the command that helps."""
    state_dir.mkdir()
    state_dir.chmod(0o777)
    assert f"can be written by other users | chmod go-w {state_dir}" in refusal(state_dir)


def test_loop_of_links(state_dir: Path) -> None:
    """A state_dir that is a link to itself is refused in one line."""
    state_dir.symlink_to(state_dir)
    assert f"state_dir {state_dir} " in refusal(state_dir)


@pytest.mark.parametrize("place", ["state", "state/below"])
def test_state_dir_is_a_file(state_dir: Path, place: str) -> None:
    """A state_dir that is a file, or below one, is refused in one line."""
    state_dir.write_text("")
    told = refusal(state_dir.parent / place)
    assert told.startswith(f"state_dir {state_dir.parent}/{place} ")
    assert "is not a folder" in told or "Not a directory | use another state_dir" in told


@pytest.mark.parametrize("there", [True, False])
def test_links_are_not_followed(state_dir: Path, tmp_path: Path, there: bool) -> None:
    """A lock file that is a link to elsewhere is refused, and nothing is made there."""
    state_dir.mkdir(mode=0o700)
    if there:
        (tmp_path / "target").touch()
    (state_dir / "users.lock").symlink_to(tmp_path / "target")
    assert f"cannot use {state_dir}/users.lock: " in refusal(state_dir)
    assert (tmp_path / "target").exists() == there


@as_root
def test_other_user_is_refused(state_dir: Path) -> None:
    """Another user gets exit code 3, the owner's name, and what to do."""
    state_dir.parent.chmod(0o755)
    with EmbeddedServer.join(state_dir), User(state_dir, uid=NOBODY) as other:
        told = other.line()
        assert other.wait() == 3
    assert f"state_dir {state_dir} belongs to {getpass.getuser()}, not to " in told
    assert "run this as root or root, use another state_dir, or a server of your own" in told


@as_root
def test_root_works_for_the_owner(state_dir: Path) -> None:
    """A server that root starts in the folder of another user is that user's, and all files too."""
    state_dir.parent.chmod(0o755)
    state_dir.mkdir(mode=0o700)
    os.chown(state_dir, NOBODY, NOBODY)
    with EmbeddedServer.join(state_dir) as user:
        pid = server_pid(user.socket_path)
        assert Path(f"/proc/{pid}").stat().st_uid == NOBODY
        with User(state_dir, uid=NOBODY) as owner:
            assert server_pid(owner.joined()) == pid
            assert user.leave()
            assert owner.leave() == 0
    assert process_gone(pid)
    owners = {path.lstat().st_uid for path in state_dir.rglob("*")}
    assert owners == {NOBODY}


@as_root
def test_last_user_in_another_pid_namespace(state_dir: Path) -> None:
    """A user who cannot see the server's process (in a container, say) still ends it."""
    if not shutil.which("unshare"):
        pytest.skip("unshare (util-linux) is not on PATH")
    user = EmbeddedServer.join(state_dir)
    pid = server_pid(user.socket_path)
    with User(state_dir, prefix=("unshare", "--pid", "--fork", "--kill-child")) as other:
        other.joined()
        assert user.leave()
        assert not process_gone(pid)
        assert other.leave() == 0
    assert process_gone(pid)


@as_root
def test_unwritable_data_folder(state_dir: Path) -> None:
    """A folder that its owner cannot write is named in the refusal."""
    state_dir.parent.chmod(0o755)
    (state_dir / "data").mkdir(parents=True, mode=0o500)
    for path in (state_dir, state_dir / "data"):
        os.chown(path, NOBODY, NOBODY)
    with User(state_dir, uid=NOBODY) as user:
        assert f"cannot use {state_dir}/data/data.lock: Permission denied" in user.line()
        assert user.wait() == 3


@as_root
def test_server_that_cannot_write(state_dir: Path) -> None:
    """A server that ends because it cannot write says so through the refusal."""
    state_dir.parent.chmod(0o755)
    (state_dir / "data" / "appendonlydir").mkdir(parents=True)
    for path in (state_dir, state_dir / "data"):
        os.chown(path, NOBODY, NOBODY)
    with User(state_dir, uid=NOBODY) as user:
        told = user.line()
        assert user.wait() == 3
    assert "did not start: " in told
    assert "Permission denied" in told


def test_no_program(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any server program the refusal says what to install."""
    monkeypatch.setattr(launch, "wheel_binary", lambda: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    told = refusal(state_dir)
    assert told.startswith("there is no server program for the embedded server | install")


def test_program_that_is_too_old(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server on PATH that is too old is named and not used."""
    monkeypatch.setattr(launch, "wheel_binary", lambda: None)
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho Redis server v=6.2.14 sha=00000000:0\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"{old} is too old | install" in refusal(state_dir)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#!/bin/sh\necho bad option >&2\nexit 1\n", "did not start: bad option"),
        ("#!/bin/sh\nexit 1\n", "did not start: it ended without a word"),
        ("#!/nonexistent\n", "cannot be run: No such file or directory"),
    ],
)
def test_broken_program(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, told: str
) -> None:
    """A program that does not run as a server is reported with what it said."""
    broken = tmp_path / "server"
    broken.write_text(text)
    broken.chmod(0o755)
    monkeypatch.setattr(launch, "server_binary", lambda: broken)
    assert told in refusal(state_dir)


def test_environment_is_not_handed_on(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server, which may serve others later, does not get the secrets of its starter."""
    # The server writes its title over its environment, so this looks just before that.
    program = tmp_path / "server"
    program.write_text(f'#!/bin/sh\nenv > {tmp_path}/env\nexec {launch.server_binary()} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(launch, "server_binary", lambda: program)
    monkeypatch.setenv("SMTP_PASSWORD", "s3cret")
    monkeypatch.setenv("TZ", "Europe/Madrid")
    with EmbeddedServer.join(state_dir):
        told = (tmp_path / "env").read_text()
    assert "s3cret" not in told
    assert "TZ=Europe/Madrid" in told


def test_log_is_bounded(state_dir: Path) -> None:
    """A log of over 1 MB is set aside at the next start, in the place of the one before it."""
    append_file(state_dir)
    log = state_dir / "server.log"
    log.write_bytes(b"x" * 1_000_001)
    with EmbeddedServer.join(state_dir):
        assert log.stat().st_size < 100_000
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        assert (state_dir / "server.log.old").stat().st_size == 1_000_001
