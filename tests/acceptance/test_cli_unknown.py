"""When the answer is lost: exit 4, and a command that can be repeated safely."""

from __future__ import annotations

import contextlib
import shlex
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from scheduld.store import scripts
from tests.support.cli import Cli, Ran, cli
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import RunningServer

__all__ = ["cli"]  # the fixture


class Swallower:
    """A unix socket in front of a server that loses the answer to what contains `marker`.

    The request is carried out; then the connection is closed, or if `hangs`, left silent.
    """

    def __init__(self, folder: Path, target: str, marker: bytes, *, hangs: bool = False) -> None:
        self.url = f"unix://{folder}/proxy.sock"
        self.lost = threading.Event()
        self._target, self._marker, self._hangs = target, marker, hangs
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/proxy.sock")
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._sockets.append(client)
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._target)
            # Each exchange of a client command is one request and one answer.
            while request := client.recv(1 << 20):
                server.sendall(request)
                answer = server.recv(1 << 20)
                if self._marker in request:
                    self.lost.set()
                    break
                client.sendall(answer)
            if not self._hangs:
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all of it."""
        for link in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def warm(cli: Cli) -> Cli:
    """Commands whose scripts the server knows, so that the first request is carried out."""
    cli("add", "--type", "hello", "--id", "warm", "--at", "@4000000000").ok()
    cli("cancel", "hello/warm").ok()
    cli("requeue", "hello/warm").ok()
    return cli


def _proxy(folder: Path, server: RunningServer, marker: bytes, *, hangs: bool = False) -> Swallower:
    return Swallower(folder, server.url.removeprefix("unix://"), marker, hangs=hangs)


@pytest.fixture
def swallow(tmp_path: Path, valkey_server: RunningServer) -> Iterator[Swallower]:
    """A way to the shared server on which the answer to MARKER is lost."""
    proxy = _proxy(tmp_path, valkey_server, b"MARKER")
    yield proxy
    proxy.close()


def _command(ran: Ran, cli: Cli, url: str) -> list[str]:
    """The words of the command that was printed, as a shell reads them, for another URL."""
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (4, "", 1)
    head, _, command = ran.err.rstrip("\n").partition("; to repeat it safely: ")
    assert head.startswith("scheduld: ")
    shell = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True
    )
    name, *words = shell.stdout.split("\0")[:-1]
    assert name == "scheduld"
    return [url if word.endswith("proxy.sock") else word for word in words]


ADDS = [
    ((), b""),
    (("--in", "1h", "--on-conflict", "keep"), b""),
    (("--at", "2100-01-01 09:00", "--timezone", "Asia/Kolkata", "--id", "mine"), b""),
    (("--at", "tomorrow 23:59", "--timezone", "UTC", "--on-conflict", "replace"), b""),
    (("--at", "+90m", "--allow-past"), b""),
    (("--now", "--allow-unknown", "quote='\"$x`", "line=a\nb\x1b\\", "é:=[1, 2]"), b""),
    (("--payload", '{"a": "it\'s"}'), b""),
    (("-", "b=2"), '{"a": "é\\n"}'.encode()),
    (("--priority", "-5", "--key", "k", "--expires", "tomorrow 23:59", "--timezone", "UTC"), b""),
    (("--unique", "m", "--unique", "n", "n=1", "--unique-for", "1h", "--in", "1h"), b""),
    (("--debounce", "1h", "--debounce-max", "2h", "--unique-key", "a 'b"), b""),
]


@pytest.mark.parametrize(("words", "stdin"), ADDS, ids=[str(number) for number in range(len(ADDS))])
def test_a_lost_answer_to_add_prints_the_command_to_repeat(
    warm: Cli,
    swallow: Swallower,
    valkey_server: RunningServer,
    words: tuple[str, ...],
    stdin: bytes,
) -> None:
    """Exit 4; the printed command means the same instant and payload, and stores nothing twice."""
    add = ("add", "--type", "hello", "m=MARKER", *words)
    ran = warm(*add, "--redis-url", swallow.url, "--wait", "0.1s", stdin=stdin)
    assert swallow.lost.is_set()
    repeat = _command(ran, warm, valkey_server.url)
    for option in ("--id", "--token", "--on-conflict"):
        assert option in repeat
    task_id = repeat[repeat.index("--id") + 1]
    stored = warm("show", f"hello/{task_id}", "--json").ok().json
    again = warm(*repeat, "--json").ok().json
    assert again["created"] is True
    same = ("id", "due_ms", "payload", "state")
    assert [again[key] for key in same] == [stored[key] for key in same]
    assert stored["payload"]["m"] == "MARKER"
    assert warm("stats", "--type", "hello", "--json").json["scheduled"] == 2


def test_a_repeat_of_what_was_not_stored_stores_it(warm: Cli, valkey_server: RunningServer) -> None:
    """If the first add came to nothing, the printed command adds the very same task."""
    proxy = _proxy(warm.folder, valkey_server, b"MARKER")
    at = ("--at", "2100-01-01T00:00Z")
    ran = warm("add", "--type", "hello", "n=MARKER", *at, "--redis-url", proxy.url, "--wait", "0s")
    proxy.close()
    repeat = _command(ran, warm, valkey_server.url)
    task_id = repeat[repeat.index("--id") + 1]
    with valkey_server.client() as client:
        client.delete(f"{warm.namespace}:{{hello}}:task:{task_id}")
        client.zrem(f"{warm.namespace}:{{hello}}:due", task_id)
    assert warm(*repeat).ok().out.startswith(f"hello/{task_id}\ndue 2100-01-01T00:00:00Z")


def test_the_error_object_has_the_command_as_hint(warm: Cli, swallow: Swallower) -> None:
    """With --json the error is an object of the usual three fields."""
    words = ("--redis-url", swallow.url, "--wait", "0s", "--json")
    ran = warm("add", "--type", "hello", "m=MARKER", *words)
    assert ran.code == 4
    assert ran.error["kind"] == "outcome_unknown"
    assert ran.error["hint"].startswith("to repeat it safely: scheduld add --type hello")


def test_a_large_payload_from_stdin_is_not_printed(warm: Cli, swallow: Swallower) -> None:
    """Then the command reads stdin again."""
    stdin = b'{"m": "MARKER", "x": "' + b"x" * 20_000 + b'"}'
    words = ("--redis-url", swallow.url, "--wait", "0s")
    ran = warm("add", "--type", "hello", "-", *words, stdin=stdin)
    assert _command(ran, warm, "url")[-1] == "-"
    assert len(ran.err) < 1000


def test_a_password_is_not_in_the_printed_command(
    warm: Cli, swallow: Swallower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL with a secret is left to the variable; without it the repeat is refused."""
    # A server without passwords takes any one for its default user.
    url = f"{swallow.url}?username=default&password=S3cret"
    ran = warm("add", "--type", "hello", "m=MARKER", "--redis-url", url, "--wait", "0s")
    assert "S3cret" not in ran.err
    assert "put the Redis URL into $SCHEDULD_REDIS_URL first" in ran.err
    assert '--redis-url "$SCHEDULD_REDIS_URL"' in ran.err
    assert warm(*_command(ran, warm, "")).code == 2
    monkeypatch.setenv("SCHEDULD_REDIS_URL", "redis://elsewhere")
    assert "redis://elsewhere" in _command(ran, warm, "")


def test_a_lost_answer_to_cancel_can_be_repeated(
    warm: Cli, tmp_path: Path, valkey_server: RunningServer
) -> None:
    """Cancel is repeatable: the command that is printed answers as the first one would have."""
    warm("add", "--type", "hello", "--id", "MARKER", "--in", "1h").ok()
    proxy = _proxy(tmp_path, valkey_server, b"MARKER")
    ran = warm("cancel", "hello/MARKER", "--redis-url", proxy.url, "--wait", "0s")
    proxy.close()
    repeat = _command(ran, warm, valkey_server.url)
    assert warm(*repeat).ok().out == "hello/MARKER cancelled\n"


def test_a_lost_answer_to_requeue_asks_to_look_first(
    warm: Cli, tmp_path: Path, valkey_server: RunningServer
) -> None:
    """A repeat could run the task once more, so the hint is to look."""
    warm("add", "--type", "hello", "--id", "MARKER", "--in", "1h").ok()
    warm("cancel", "hello/MARKER").ok()
    proxy = _proxy(tmp_path, valkey_server, b"MARKER")
    ran = warm("requeue", "hello/MARKER", "--redis-url", proxy.url, "--wait", "0s")
    proxy.close()
    assert (ran.code, len(ran.err.splitlines())) == (4, 1)
    assert f"look first: scheduld show --redis-url {proxy.url} hello/MARKER" in ran.err
    assert warm("show", "hello/MARKER", "--json").ok().json["state"] == "scheduled"


REPEATED = [
    ("edit", "hello/a", "n=2", "b:=[1]", "--at", "2100-01-01T00:00Z"),
    ("edit", "hello/a", "--payload", '{"n": "it\'s"}', "--in", "90m"),
    ("edit", "hello/a", "--unset", "m", "--unset", "x=y", "--now"),
    ("edit", "--timezone", "UTC", "--", "hello/a", "-x=1", 'y::="z"'),
    ("edit", "hello/a", "-", "--at", "2100-01-01 09:00", "--timezone", "Asia/Tokyo"),
    ("pause", "hello", "--reason", "it's full"),
    ("resume", "hello"),
]


def _sha(name: str) -> bytes:
    """What a call of a script has in it."""
    return scripts.load(name).sha.encode()


@pytest.mark.parametrize("words", REPEATED, ids=[str(number) for number in range(len(REPEATED))])
def test_what_does_no_harm_prints_the_command_to_repeat(
    warm: Cli, tmp_path: Path, valkey_server: RunningServer, words: tuple[str, ...]
) -> None:
    """The printed command means the same, leaves the same behind, and ends well."""
    warm("add", "--type", "hello", "--id", "a", "m=1", "--at", "@4000000000").ok()
    for once in (("edit", "hello/warm", "n=1"), ("pause", "other"), ("resume", "other")):
        warm(*once).ok()
    proxy = _proxy(tmp_path, valkey_server, _sha(words[0]))
    ran = warm("--redis-url", proxy.url, "--wait", "0s", *words, stdin=b'{"z": 1}')
    proxy.close()
    assert proxy.lost.is_set()
    left = _left(warm)
    warm(*_command(ran, warm, valkey_server.url)).ok()
    assert _left(warm) == left


def _left(cli: Cli) -> tuple[object, ...]:
    told = cli("show", "hello/a", "--json").json
    stats = cli("stats", "--type", "hello", "--json").json
    # What counts from now is later the second time.
    due_ms = told["due_ms"] if told["due_ms"] > 4_000_000_000_000 else None
    return told["payload"], due_ms, stats["paused"]


def test_a_large_payload_of_an_edit_is_not_printed(
    warm: Cli, tmp_path: Path, valkey_server: RunningServer
) -> None:
    """Then the command reads stdin again."""
    warm("add", "--type", "hello", "--id", "a", "--at", "@4000000000").ok()
    warm("edit", "hello/warm", "n=1").ok()
    proxy = _proxy(tmp_path, valkey_server, _sha("edit"))
    stdin = b'{"x": "' + b"x" * 20_000 + b'"}'
    ran = warm("edit", "hello/a", "-", "--redis-url", proxy.url, "--wait", "0s", stdin=stdin)
    proxy.close()
    assert _command(ran, warm, "url")[-2:] == ["hello/a", "-"]
    assert len(ran.err) < 1000


LOOKED_AT = [
    (("run-now", "hello/a"), "run_now", "show"),
    (("edit", "hello/a", "n=2", "--if-revision", "0"), "edit", "show"),
    (("purge", "--type", "hello", "--state", "cancelled", "--yes"), "purge", "list"),
    (("requeue", "--dead", "--type", "hello", "--error", "a b", "--yes"), "requeue", "dead"),
]


@pytest.mark.parametrize(("words", "script", "look"), LOOKED_AT, ids=[row[1] for row in LOOKED_AT])
def test_where_a_repeat_could_do_harm_the_hint_is_to_look(
    warm: Cli,
    tmp_path: Path,
    valkey_server: RunningServer,
    words: tuple[str, ...],
    script: str,
    look: str,
) -> None:
    """Exit 4, and a command that tells, and changes nothing."""
    for task_id in ("a", "b", "c"):
        warm("add", "--type", "hello", "--id", task_id, "--at", "@4000000000").ok()
    warm("cancel", "hello/b").ok()
    with valkey_server.client() as client:
        prefix = f"{warm.namespace}:{{hello}}:"
        client.zrem(f"{prefix}due", "c")
        client.hset(f"{prefix}task:c", "error", '{"kind": "A B"}')
        client.zadd(f"{prefix}dead", {"c": 1_700_000_000_000})
    for once in (
        ("edit", "hello/warm", "n=1"),
        ("run-now", "hello/warm"),
        ("purge", "--type", "other", "--state", "cancelled", "--yes"),
    ):
        warm(*once).ok()
    proxy = _proxy(tmp_path, valkey_server, _sha(script))
    ran = warm(*words, "--redis-url", proxy.url, "--wait", "0s")
    proxy.close()
    assert proxy.lost.is_set()
    assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1)
    hint = ran.err.rstrip().partition("(look first: ")[2].removesuffix(")")
    name, *rest = shlex.split(hint)
    assert (name, rest[0]) == ("scheduld", look)
    assert warm(*(valkey_server.url if word == proxy.url else word for word in rest)).code == 0


def test_a_lost_answer_to_a_read_is_unreachable(
    warm: Cli, tmp_path: Path, valkey_server: RunningServer
) -> None:
    """Reading changes nothing, so there is nothing unknown: exit 3."""
    warm("add", "--type", "hello", "--id", "MARKER", "--in", "1h").ok()
    proxy = _proxy(tmp_path, valkey_server, b"MARKER")
    ran = warm("show", "hello/MARKER", "--redis-url", proxy.url, "--wait", "0s")
    proxy.close()
    assert (ran.code, len(ran.err.splitlines())) == (3, 1)


def test_ctrl_c_in_mid_add_says_how_to_repeat(
    warm: Cli, tmp_path: Path, valkey_server: RunningServer
) -> None:
    """SIGINT while the answer is awaited is exit 4 with the command, and no traceback."""
    proxy = _proxy(tmp_path, valkey_server, b"MARKER", hangs=True)
    process = warm.start("add", "--type", "hello", "m=MARKER", "--redis-url", proxy.url)
    wait_until(proxy.lost.is_set, "the add was sent")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    proxy.close()
    repeat = _command(Ran(process.returncode, out, err), warm, valkey_server.url)
    assert err.startswith("scheduld: interrupted before Redis answered")
    assert shlex.join(repeat).startswith("add --type hello")
    warm(*repeat).ok()
    assert warm("stats", "--type", "hello", "--json").json["scheduled"] == 2


def test_ctrl_c_while_reading_is_quiet(
    warm: Cli, tmp_path: Path, valkey_server: RunningServer
) -> None:
    """SIGINT of a command that only reads is exit 130, and nothing is printed."""
    warm("add", "--type", "hello", "--id", "MARKER", "--in", "1h").ok()
    proxy = _proxy(tmp_path, valkey_server, b"MARKER", hangs=True)
    process = warm.start("show", "hello/MARKER", "--redis-url", proxy.url)
    wait_until(proxy.lost.is_set, "the read was sent")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "")
    proxy.close()
    assert process.returncode == 130
