"""Other processes that use an embedded server, to be killed or asked to leave."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Self

import redis

ROOT = Path(__file__).parents[2]

_JOIN = """
import os, sys
from pathlib import Path
from scheduld.errors import ScheduldError
from scheduld.store import launch
from scheduld.store.embedded import EmbeddedServer
{before}
try:
    user = EmbeddedServer.join(Path(sys.argv[1]))
except ScheduldError as error:
    print("refused", error, "|", error.hint, flush=True)
    sys.exit(error.exit_code)
print("joined", user.socket_path, flush=True)
{after}
"""
UNTIL_TOLD = "sys.stdin.readline(); sys.exit(not user.leave())"


class User:
    """A Python process that joins the server of `folder`; as another user if `uid` is given."""

    def __init__(
        self,
        folder: Path,
        *,
        before: str = "",
        after: str = UNTIL_TOLD,
        uid: int | None = None,
        env: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        if uid is not None:
            # Only after the imports: the interpreter itself may be root's own.
            before = f"os.setgroups([]); os.setgid({uid}); os.setuid({uid})\n{before}"
        code = _JOIN.format(before=before, after=after)
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-W", "error", "-c", code, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
        )

    def line(self) -> str:
        """Wait for the next line that the process prints: "joined PATH" or "refused WHY"."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def joined(self) -> str:
        """Wait until it has joined; returns its path of the socket."""
        word, _, path = self.line().partition(" ")
        assert word == "joined", f"{word} {path}"
        return path

    def tell(self) -> None:
        """Write it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def leave(self) -> int:
        """Tell it to leave and end; returns its exit code."""
        self._process.communicate("leave\n", timeout=20)
        return self._process.returncode

    def wait(self) -> int:
        """Wait for its own end; returns its exit code."""
        return self._process.wait(20)

    def kill(self) -> None:
        """End it by SIGKILL, and wait for that."""
        self._process.kill()
        self._process.communicate(timeout=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def ask(path: str, *words: str) -> object:
    """Run one command on the server at the socket `path`."""
    with closing(redis.Redis(unix_socket_path=path, decode_responses=True)) as client:
        answer: object = client.execute_command(*words)  # type: ignore[no-untyped-call]
        return answer


def server_pid(path: str) -> int:
    """Ask the server at the socket `path` for its process id."""
    told = ask(path, "INFO", "server")
    assert isinstance(told, dict)
    return int(told["process_id"])
