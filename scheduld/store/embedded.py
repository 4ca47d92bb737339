"""The embedded server: started by whoever comes first, ended by whoever leaves last.

Its users never talk to each other; the flocks in the state_dir (see `statedir`) say all
there is to know. A server whose users were all killed lives on, and the next user simply
finds it there. A server that was killed leaves its lock free, and the next user, or
`Membership.ensure` of a present one, starts it again on the same data.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from scheduld.clock import monotonic
from scheduld.errors import Unreachable
from scheduld.names import printable
from scheduld.store import launch
from scheduld.store.launch import Answer
from scheduld.store.statedir import (
    POLL_S,
    StateDir,
    client_socket_path,
    close_file,
    open_state_dir,
    remove_alias,
    take,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOG = logging.getLogger(__name__)
_PING_S = 1.0
_LEAST_PING_S = 0.05
_DATA_LOCK = "data/data.lock"


class EmbeddedServer:
    """The server of one state_dir; all but `join` is called with the start lock held."""

    def __init__(self, state: StateDir, appendfsync: str) -> None:
        self.state = state
        self.appendfsync = appendfsync

    @classmethod
    def join(
        cls, state_dir: Path, *, appendfsync: str = "everysec", wait_s: float = 10.0
    ) -> Membership:
        """Become a user of the server of `state_dir`, starting it if it does not run.

        `appendfsync` counts for a server that is started here. Raises Unusable when
        the folder may not be used, Unreachable if no server is ready within `wait_s` seconds;
        one that is still loading then lives on, so that a later call finds it further.
        """
        deadline = monotonic() + wait_s
        with _one_line(state_dir):
            server = cls(open_state_dir(state_dir), appendfsync)
            with server.state.start_lock(deadline):
                return server.enter(deadline)

    def enter(self, deadline: float) -> Membership:
        """Register as a user, then wait for the server until `deadline` (monotonic seconds)."""
        users = self.state.open_file("users.lock")
        try:
            # Taken exclusively only under the start lock, so this never has to wait.
            if not take(users, fcntl.LOCK_SH, deadline):
                raise self._too_slow(Answer.NONE)
            return Membership(self, users, self.bring_up(deadline))
        except BaseException:
            close_file(users)
            raise

    def bring_up(self, deadline: float) -> str:
        """Wait for the server, starting it if none lives; returns the path of its socket.

        Raises Unreachable if it does not start, or is not ready by `deadline`.
        """
        self.state.make_data()
        path = client_socket_path(self.state)
        if self.state.stopping.exists():
            # Whoever was ending this server was interrupted; it is nobody's, so end it.
            launch.ask_to_end(path, _PING_S)
        start: _Start | None = None
        try:
            while (answer := self._look(path, deadline)) is not Answer.READY:
                start = self._start_if_dead(start)
                if monotonic() >= deadline:
                    raise self._too_slow(answer)
                time.sleep(POLL_S)
        finally:
            if start is not None:
                start.hang_up()
        return path

    def _look(self, path: str, deadline: float) -> Answer:
        # At least some ms, so that a deadline of now still finds a server that answers.
        left = max(deadline - monotonic(), _LEAST_PING_S)
        answer = launch.ping(path, min(left, _PING_S))
        return Answer.NONE if self.state.stopping.exists() else answer

    def _start_if_dead(self, start: _Start | None) -> _Start | None:
        with self.state.opened(_DATA_LOCK) as lock:
            if not take(lock, fcntl.LOCK_EX, deadline=0):
                return start
            if start is not None:
                raise start.failure()
            self.state.stopping.unlink(missing_ok=True)
            # The server inherits the locked descriptor, so the lock is its own for as long
            # as it lives, whatever happens to this process; here it is closed, not released.
            return _Start(self.state, self.appendfsync, lock)

    def _too_slow(self, answer: Answer) -> Unreachable:
        state = "is still loading its data" if answer is Answer.LOADING else "does not answer"
        return Unreachable(
            f"the embedded server in {self.state} {state}", hint=f"try again; {_see(self.state)}"
        )

    def end_if_unused(self, path: str, deadline: float) -> bool:
        """End the server if it has no users; False if it has not ended by `deadline`."""
        with self.state.opened("users.lock") as users:
            if not take(users, fcntl.LOCK_EX, deadline=0):
                return True
            return self._end(path, deadline)

    def _end(self, path: str, deadline: float) -> bool:
        with self.state.opened(_DATA_LOCK) as lock:
            if not take(lock, fcntl.LOCK_EX, deadline=0):
                with self.state.opened(self.state.stopping.name):
                    launch.ask_to_end(path, _PING_S)
                if not take(lock, fcntl.LOCK_EX, deadline):
                    return False
            self.state.stopping.unlink(missing_ok=True)
            remove_alias(self.state)
        launch.reap()
        return True


class _Start:
    """A server process that was just started, until it is ready or has failed."""

    def __init__(self, state: StateDir, appendfsync: str, lock: int) -> None:
        self._state = state
        self._offset = launch.trim_log(state)
        command = [str(launch.server_binary()), *launch.server_options(appendfsync)]
        self._process = launch.spawn(command, state=state, pass_fds=[lock])

    def failure(self) -> Unreachable:
        """Say why the server has ended."""
        words = launch.last_words(self._state, self._offset, self._process)
        return Unreachable(
            f"the embedded server in {self._state} did not start: {words}",
            hint=f"nothing was deleted; {_see(self._state)}",
        )

    def hang_up(self) -> None:
        """Close the pipe to the process; from then on it writes to its log only."""
        if self._process.stdout:
            self._process.stdout.close()
        launch.reap()


class Membership:
    """One user's hold on the embedded server; a context manager that leaves at its end.

    A process that ends without leaving does so at its exit; one that is killed is missed
    at once, and the server then waits for its next user. It is no user's in a forked
    child, which joins on its own if it needs the server.
    """

    def __init__(self, server: EmbeddedServer, users: int, socket_path: str) -> None:
        self.socket_path = socket_path
        self._server = server
        self._users: int | None = users
        self._pid = os.getpid()
        atexit.register(self.leave)

    @property
    def _current(self) -> bool:
        return self._users is not None and os.getpid() == self._pid

    def ensure(self, *, wait_s: float = 10.0) -> None:
        """Start the server again if it has died; to be called when it cannot be reached.

        Raises Unreachable if it is not ready within `wait_s` seconds, or was left before.
        """
        if not self._current:
            raise Unreachable("this process is no user of the embedded server any more")
        deadline = monotonic() + wait_s
        with _one_line(self._server.state.path), self._server.state.start_lock(deadline):
            self.socket_path = self._server.bring_up(deadline)

    def leave(self, *, wait_s: float = 10.0) -> bool:
        """Stop being a user, and end the server if this was the last one; twice does no harm.

        Waits up to `wait_s` seconds for the server's end. Returns False, and logs a warning,
        if it has not ended by then or this cannot be known; it is never killed.
        """
        atexit.unregister(self.leave)
        users, current, self._users = self._users, self._current, None
        if users is None or not current:
            return True
        deadline = monotonic() + wait_s
        close_file(users)
        try:
            with _one_line(self._server.state.path), self._server.state.start_lock(deadline):
                if self._server.end_if_unused(self.socket_path, deadline):
                    return True
            _LOG.warning(
                "the embedded server in %s was told to end, and has not after %g s",
                self._server.state,
                wait_s,
            )
        except Unreachable as error:
            _LOG.warning("%s", error)
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def _see(state: StateDir) -> str:
    return f"see {printable(str(state.log))}"


@contextmanager
def _one_line(place: Path) -> Iterator[None]:
    """Turn what the system refuses (a full or read-only disk, say) into Unreachable."""
    try:
        yield
    except OSError as error:
        where = printable(str(error.filename or place))
        raise Unreachable(
            f"the embedded server cannot use {where}: {error.strerror}",
            hint="state_dir must be a writable folder on a local disk, owned by the caller",
        ) from None
