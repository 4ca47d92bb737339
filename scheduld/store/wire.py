"""What is said to the server, apart from how bytes travel: one implementation for both links.

A conversation is a generator: it yields lists of commands and is sent the list of replies,
errors among them as values. `link` drives it over a blocking or an asyncio connection.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from redis import exceptions as redis_errors

from scheduld.errors import ScheduldError, Unreachable, Unusable
from scheduld.store.answers import Code
from scheduld.store.calls import DEADLINE, Arg, Call
from scheduld.store.trouble import from_reply, is_missing_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld import clock

T = TypeVar("T")
Command = tuple[Arg, ...]
Conversation = Generator[list[Command], list[Any], T]
FORMAT = 1
"""Number of the stored data's format; a server with a newer one is refused."""
MIN_REDIS = (7, 0)
MIN_VALKEY = (7, 2)


class Stale(ScheduldError):
    """A claim with a lower number than one that the server has seen: its caller is behind."""

    kind = "stale"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Which server answers."""

    name: str
    version: tuple[int, ...]
    replica: bool


def converse(
    calls: Sequence[Call[Any]], server: clock.ServerClock, timeout_ms: float
) -> Conversation[list[Any]]:
    """Carry calls out together; results in order, with the errors of single calls among them.

    A call that the server did not know is sent again with its script; one that was refused as
    too late because the server's clock moved is sent again with a deadline on the new time.
    """
    results: list[Any] = [None] * len(calls)
    todo = list(range(len(calls)))
    for last_try in (False, False, True):
        deadline = int(server.now_ms() + timeout_ms)
        replies = yield [_command(calls[index], deadline) for index in todo]
        again: list[int] = []
        missing: list[int] = []
        for index, reply in zip(todo, replies, strict=True):
            if is_missing_script(reply):
                missing.append(index)
            results[index] = _read(calls[index], reply, server)
            if is_missing_script(reply) or _is_late(reply):
                again.append(index)
        if not again or last_try:
            break
        if missing:
            sources = {calls[index].script.source for index in missing}
            yield [("SCRIPT", "LOAD", source) for source in sources]
        todo = again
    return results


def _command(call: Call[Any], deadline_ms: int) -> Command:
    args = (*call.args[:DEADLINE], deadline_ms, *call.args[DEADLINE + 1 :])
    if call.args[DEADLINE - 1] != "":
        # A test's own now has nothing to do with the server's clock.
        args = call.args
    return ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *args)


def _is_late(reply: Any) -> bool:
    return isinstance(reply, list) and reply[0] == Code.LATE


def _read(call: Call[Any], reply: Any, server: clock.ServerClock) -> Any:
    if isinstance(reply, redis_errors.RedisError):
        return from_reply(reply)
    if call.args[DEADLINE - 1] == "":
        server.told(reply[1] / 1000)
    if reply[0] == Code.LATE:
        return Unreachable("the call reached Redis too late and was not carried out")
    if reply[0] == Code.STALE:
        return Stale("a newer claim of this replica was answered already")
    return call.parse(reply)


def greet(format_key: str, server: clock.ServerClock) -> Conversation[ServerInfo]:
    """Check that this server can be used, and mark a fresh namespace with the format.

    Raises Unusable for a server that is too old, or data of a newer format.
    """
    info, found, time = yield [("INFO", "server"), ("GET", format_key), ("TIME",)]
    for reply in (info, found, time):
        if isinstance(reply, redis_errors.RedisError):
            raise from_reply(reply)
    server.told(int(time[0]) * 1000 + int(time[1]) / 1000)
    known = server_info(info)
    _check_version(known)
    if found is None:
        (reply,) = yield [("SET", format_key, FORMAT, "NX")]
        if isinstance(reply, redis_errors.RedisError):
            raise from_reply(reply)
    elif not found.isdigit() or int(found) > FORMAT:
        raise Unusable(
            f"the data in this Redis has format {found.decode(errors='replace')[:20]}, "
            f"this scheduld knows up to {FORMAT}",
            hint="upgrade scheduld, or use another namespace",
        )
    return known


def server_info(info: bytes) -> ServerInfo:
    """Read INFO server."""
    lines = dict(
        line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line
    )
    name = "valkey" if "valkey_version" in lines else "redis"
    version = lines.get(f"{name}_version", "0")
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    return ServerInfo(name, numbers, lines.get("role") == "slave")


def _check_version(known: ServerInfo) -> None:
    needed = MIN_VALKEY if known.name == "valkey" else MIN_REDIS
    if known.version < needed:
        have = ".".join(map(str, known.version))
        raise Unusable(
            f"{known.name} {have} is too old",
            hint="scheduld needs Redis 7.0 or newer, or Valkey 7.2 or newer",
        )
