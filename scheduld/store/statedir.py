"""The folder that the embedded server and its users share: who may use it, and its locks.

`start.lock` is held around every start and stop, `users.lock` shared by each user for
as long as it is one, `data/data.lock` by the server process itself for as long as it
lives. All are flocks: the kernel drops them with their holder, so no file has to be
cleaned up after a crash, and the files themselves are never removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import stat
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduld.clock import monotonic
from scheduld.errors import Unreachable, Unusable
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

SOCKET_PATH_LIMIT = 100
"""Longest socket path that is used as it is, in bytes; the systems' own limits start at 104."""

POLL_S = 0.004
"""Pause between two looks at a lock or a socket, in seconds: a server starts in about 40 ms."""

_OTHER_WAYS = "use another state_dir, or a server of your own with --redis-url"


@dataclass(frozen=True, slots=True)
class StateDir:
    """A checked `state_dir`: its real path, and the user and group that own it."""

    path: Path
    uid: int
    gid: int

    @property
    def data(self) -> Path:
        """Folder of the append-only files."""
        return self.path / "data"

    @property
    def socket(self) -> Path:
        """Where the server listens."""
        return self.path / "server.sock"

    @property
    def log(self) -> Path:
        """What the server writes about itself."""
        return self.path / "server.log"

    @property
    def stopping(self) -> Path:
        """Exists from just before a server is told to end until it has ended."""
        return self.path / "stopping"

    @property
    def foreign(self) -> bool:
        """Whether root works here in the place of another user, the owner."""
        return self.uid != os.geteuid()

    def make_data(self) -> None:
        """Create the data folder, private to the owner, if it is not there yet."""
        try:
            self.data.mkdir(mode=0o700)
        except FileExistsError:
            return
        if self.foreign:
            fd = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchown(fd, self.uid, self.gid)
            finally:
                os.close(fd)

    @contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """Open a file of the folder as `open_file` does, for the length of a block."""
        fd = self.open_file(name)
        try:
            yield fd
        finally:
            close_file(fd)

    def open_file(self, name: str) -> int:
        """Open a file of the folder for a lock, created private to the owner; returns the fd.

        It stays open until `close_file`, but not in forked children. Only a file that was
        just created is given to the owner, and no link is followed: root must not be led
        to change a file elsewhere.
        """
        path = self.path / name
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            fd = os.open(path, flags)
        else:
            if self.foreign:
                os.fchown(fd, self.uid, self.gid)
        _open_files.add(fd)
        return fd

    @contextmanager
    def start_lock(self, deadline: float) -> Iterator[None]:
        """Keep all others from starting and stopping the server; `deadline` is monotonic seconds.

        Raises Unreachable if another process does not let go of it in time.
        """
        with self.opened("start.lock") as fd:
            if not take(fd, fcntl.LOCK_EX, deadline):
                raise Unreachable(
                    f"another process is starting or stopping the embedded server in {self}",
                    hint=f"try again; {printable(str(self.log))} tells what the server does",
                )
            yield

    def __str__(self) -> str:
        return printable(str(self.path))


_open_files: set[int] = set()


def close_file(fd: int) -> None:
    """Close a file of `StateDir.open_file`, and with it let go of its lock."""
    _open_files.discard(fd)
    os.close(fd)


def _close_in_child() -> None:
    # A flock lasts until the last copy of its descriptor is closed. A worker process that
    # was forked meanwhile must not keep locks that its parent, or a server, has let go of.
    while _open_files:
        os.close(_open_files.pop())


os.register_at_fork(after_in_child=_close_in_child)


def take(fd: int, operation: int, deadline: float) -> bool:
    """Try to get a flock until the monotonic second `deadline`, at least once."""
    while True:
        try:
            fcntl.flock(fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        else:
            return True


def open_state_dir(path: Path) -> StateDir:
    """Create `path` (mode 700) if it is missing, and check that the caller may use it.

    Raises Unusable if it cannot be created, belongs to another user (root may use
    anyone's), or can be written by others.
    """
    # Not Path.resolve, which before Python 3.13 fails on a loop of links in its own way.
    place = Path(os.path.realpath(path))
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.stat()
    except FileExistsError:
        raise Unusable(f"state_dir {_shown(place)} is not a folder") from None
    except OSError as error:
        raise Unusable(
            f"state_dir {_shown(place)} cannot be used: {error.strerror}", hint=_OTHER_WAYS
        ) from None
    _check_owner(place, found)
    return StateDir(place, found.st_uid, found.st_gid)


def _check_owner(place: Path, found: os.stat_result) -> None:
    if os.geteuid() not in (0, found.st_uid):
        owner = _user_name(found.st_uid)
        raise Unusable(
            f"state_dir {_shown(place)} belongs to {owner}, not to {_user_name(os.geteuid())}",
            hint=f"run this as {owner} or root, {_OTHER_WAYS}",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unusable(
            f"state_dir {_shown(place)} can be written by other users",
            hint=f"chmod go-w {_shown(place)}, or use another state_dir",
        )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _shown(path: Path) -> str:
    return printable(str(path))


def client_socket_path(state: StateDir) -> str:
    """Path by which this process reaches the socket, never longer than `SOCKET_PATH_LIMIT`.

    Where the real path is longer, a link to the folder is kept in a runtime dir. Each
    user has a link of its own, so it does not matter that users see different runtime
    dirs and TMPDIRs: all the links lead to the one socket.
    """
    if _fits(state.socket):
        return str(state.socket)
    link = _alias(state)
    _make_link(link, state.path)
    return str(link / state.socket.name)


def remove_alias(state: StateDir) -> None:
    """Remove this user's link to the folder, if it has one; call it under the start lock."""
    if _fits(state.socket):
        return
    link = _alias(state)
    if _is_own_link(link):
        link.unlink(missing_ok=True)


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_LIMIT


def _alias(state: StateDir) -> Path:
    digest = hashlib.sha256(os.fsencode(state.path)).hexdigest()[:16]
    name = f"scheduld-{os.geteuid()}-{digest}"
    for folder in _runtime_dirs():
        if _fits(folder / name / state.socket.name) and os.access(folder, os.W_OK | os.X_OK):
            return folder / name
    raise Unusable(
        f"the path of state_dir {state} is too long for a socket, and no runtime dir is usable",
        hint="use a shorter state_dir, or set XDG_RUNTIME_DIR to a private folder",
    )


def _runtime_dirs() -> list[Path]:
    """Candidates, best first: what is private and not swept by age comes before /tmp."""
    uid = os.geteuid()
    named = Path(os.environ.get("XDG_RUNTIME_DIR", "/nonexistent"))
    own = [named] if named.is_dir() and named.stat().st_uid == uid else []
    system = Path("/run") if uid == 0 else Path(f"/run/user/{uid}")
    # Always /tmp itself too: TMPDIR may be as long as the state_dir.
    return [*own, system, Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108


def _make_link(link: Path, target: Path) -> None:
    try:
        link.symlink_to(target)
    except FileExistsError:
        # In a shared folder anybody can be there first; only a link of our own is trusted.
        if not _is_own_link(link) or link.readlink() != target:
            raise Unusable(
                f"{_shown(link)} is in the way of the embedded server's socket",
                hint="remove it, or use a state_dir with a shorter path",
            ) from None


def _is_own_link(link: Path) -> bool:
    try:
        found = link.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISLNK(found.st_mode) and found.st_uid == os.geteuid()
