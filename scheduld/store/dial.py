"""Opens blocking connections: by itself where the URL is a plain one, by redis-py for TLS.

redis-py takes longer to import than all the rest of a client command takes to run.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis

from scheduld.errors import InvalidInput
from scheduld.store.trouble import LOST, Interrupted, ServerError, TalkBroken

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult

    Opened = tuple[socket.socket, Callable[[], None]]

_MORE = object()
_PLAIN = {"db", "username", "password"}


def check(url: str) -> None:
    """Raise InvalidInput for a URL that leads nowhere; connects to nothing."""
    try:
        if _plain(url) is None:
            from scheduld.store import redispy

            redispy.blocking_connection(url, 1.0)
    except (ValueError, TypeError):
        raise InvalidInput("redis_url cannot be used", hint="see docs/configuration.md") from None


def dial(url: str, timeout_s: float) -> Opened:
    """Open a connection, ready for commands; returns its socket, and what closes it.

    `url` passed `check`. `timeout_s` bounds each step. Raises Interrupted.
    """
    plain = _plain(url)
    if plain is None:
        return _by_redis_py(url, timeout_s)
    try:
        return _plainly(*plain, timeout_s)
    except ServerError as exc:
        raise Interrupted(exc, sent=False) from None
    except LOST as exc:
        why = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
        raise Interrupted(ConnectionError(f"{_place(plain[0])}: {why}"), sent=False) from None


def _place(parts: SplitResult) -> str:
    """Name the server of a URL, without what may be a secret."""
    return parts.path if parts.scheme == "unix" else parts.netloc.rpartition("@")[2] or "localhost"


def _plain(url: str) -> tuple[SplitResult, dict[str, str]] | None:
    """Take a URL apart, with its parameters, if nothing but a socket is needed for it."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if parts.scheme not in ("redis", "unix") or not query.keys() <= _PLAIN:
        return None
    _database(parts, query)
    _ = parts.port  # raises ValueError if it is none
    return parts, query


def _database(parts: SplitResult, query: dict[str, str]) -> int:
    path = parts.path.strip("/") if parts.scheme == "redis" else ""
    return int(query.get("db") or path or 0)


def _plainly(parts: SplitResult, query: dict[str, str], timeout_s: float) -> Opened:
    user = unquote(parts.username or "") or query.get("username", "")
    password = unquote(parts.password or "") or query.get("password", "")
    database = _database(parts, query)
    greeting: list[tuple[str, ...]] = []
    if user or password:
        greeting.append(("AUTH", user, password) if user else ("AUTH", password))
    if database:
        greeting.append(("SELECT", str(database)))
    connection = _connected(parts, timeout_s)
    try:
        if greeting:
            _greet(connection, greeting)
    except BaseException:
        connection.close()
        raise
    owner = os.getpid()
    return connection, lambda: _close(connection, owner)


def _connected(parts: SplitResult, timeout_s: float) -> socket.socket:
    if parts.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout_s)
            connection.connect(unquote(parts.path))
        except BaseException:
            connection.close()
            raise
        return connection
    host = unquote(parts.hostname or "localhost")
    connection = socket.create_connection((host, parts.port or 6379), timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


def _greet(connection: socket.socket, commands: list[tuple[str, ...]]) -> None:
    """Say who calls and to which database; raises ServerError for the first refusal."""
    reader = hiredis.Reader(protocolError=TalkBroken, replyError=ServerError, notEnoughData=_MORE)
    connection.sendall(b"".join(map(hiredis.pack_command, commands)))  # type: ignore[arg-type]
    for _ in commands:
        while (reply := reader.gets()) is _MORE:
            data = connection.recv(4096)
            if not data:
                raise ConnectionError("Connection closed by server.")
            reader.feed(data)
        if isinstance(reply, ServerError):
            raise reply


def _close(connection: socket.socket, owner: int) -> None:
    if os.getpid() == owner:  # or a forked child would cut its parent's call
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
    connection.close()


def _by_redis_py(url: str, timeout_s: float) -> Opened:
    from scheduld.store import redispy

    connection = redispy.blocking_connection(url, timeout_s)
    try:
        connection.connect()
    except (*LOST, redispy.RedisPyError) as exc:
        raise Interrupted(redispy.plain_error(exc), sent=False) from None
    # It offers no other way to its socket.
    return connection._sock, connection.disconnect  # noqa: SLF001
