"""Blocking connections are opened as the URL says, with redis-py and without."""

from __future__ import annotations

import secrets
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from scheduld.errors import InvalidInput, ScheduldError, Unreachable
from scheduld.store.synclink import SyncLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RunningServer

PASSWORD = "p/a s%@:é"
QUOTED = "p%2Fa%20s%25%40%3A%C3%A9"


@pytest.fixture
def user(valkey_server: RunningServer) -> Iterator[str]:
    """Name of a user of the server who has PASSWORD."""
    name = f"u{secrets.token_hex(4)}"
    with valkey_server.client() as client:
        client.execute_command("ACL", "SETUSER", name, "on", f">{PASSWORD}", "~*", "+@all")
        yield name
        client.execute_command("ACL", "DELUSER", name)


def _asked(url: str, *command: str) -> object:
    link = SyncLink(url, timeout_s=2.0)
    try:
        return link.commands(command)[0]
    finally:
        link.close()


def _with_user(url: str, login: str) -> str:
    return url.replace("unix://", f"unix://{login}@")


@pytest.mark.parametrize("more", ["", "?db=0", "?client_name=me"])
def test_name_and_password_of_the_url(valkey_server: RunningServer, user: str, more: str) -> None:
    """They are unquoted; `client_name` makes redis-py open the connection."""
    url = _with_user(valkey_server.url, f"{user}:{QUOTED}") + more
    assert _asked(url, "ACL", "WHOAMI") == user.encode()


@pytest.mark.parametrize("more", ["", "&client_name=me"])
def test_name_and_password_as_parameters(
    valkey_server: RunningServer, user: str, more: str
) -> None:
    """They may stand behind the question mark too."""
    url = f"{valkey_server.url}?username={user}&password={QUOTED}{more}"
    assert _asked(url, "ACL", "WHOAMI") == user.encode()


@pytest.mark.parametrize("login", ["{user}:wrong", "nobody:wrong", "{user}"])
@pytest.mark.parametrize("more", ["", "?client_name=me"])
def test_wrong_passwords_are_told_as_such(
    valkey_server: RunningServer, user: str, login: str, more: str
) -> None:
    """Whoever opened the connection."""
    url = _with_user(valkey_server.url, login.format(user=user)) + more
    with pytest.raises(Unreachable, match="refuses the credentials"):
        _asked(url, "PING")


@pytest.mark.parametrize("more", ["", "&client_name=me"])
def test_the_database_of_the_url(valkey_server: RunningServer, more: str) -> None:
    """Each connection selects it."""
    info = _asked(f"{valkey_server.url}?db=7{more}", "CLIENT", "INFO")
    assert isinstance(info, bytes)
    assert b" db=7 " in info


@pytest.mark.parametrize("more", ["", "&client_name=me"])
def test_a_database_that_is_not_there(valkey_server: RunningServer, more: str) -> None:
    """The server's refusal is passed on."""
    with pytest.raises(ScheduldError, match="out of range"):
        _asked(f"{valkey_server.url}?db=9999{more}", "PING")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1", "redis://h:port", "redis://h/x", "unix:///s?x"]
)
def test_what_is_no_redis_url(url: str) -> None:
    """It is refused before anything connects."""
    if url.endswith("?x"):
        url += "=1&max_connections=many"
    with pytest.raises(InvalidInput, match="redis_url cannot be used"):
        SyncLink(url)


@pytest.mark.parametrize(
    ("scheme", "answer"),
    [
        ("redis://:secret@", b""),
        ("redis://:secret@", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ("rediss://", b"-ERR no TLS here\r\n"),
    ],
)
def test_a_server_that_does_not_greet(scheme: str, answer: bytes) -> None:
    """Hung up, another protocol, no TLS: Redis cannot be reached, and nothing leaks."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Unreachable) as caught:
            _asked(f"{scheme}127.0.0.1:{server.getsockname()[1]}/0", "PING")
        thread.join()
    assert "secret" not in str(caught.value)


def test_nobody_listens() -> None:
    """A closed port, and a host name that no name server can be asked for: the place is named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for place in (f"127.0.0.1:{port}", f"{'x' * 70}.example:1"):
        with pytest.raises(Unreachable, match=f"cannot be reached: {place}: ") as caught:
            _asked(f"redis://:secret@{place}/0", "PING")
        assert "secret" not in str(caught.value)
