"""What is said to the server, apart from how bytes travel: one implementation for both links.

A conversation is a generator: it yields lists of commands and is sent the list of replies,
errors among them as values. `link` drives it over a blocking or an asyncio connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import hiredis

from scheduld.errors import ScheduldError, Unreachable, Unusable
from scheduld.store.answers import Code
from scheduld.store.calls import DEADLINE, Arg, Call
from scheduld.store.trouble import (
    Interrupted,
    ServerError,
    from_interruption,
    from_reply,
    is_missing_script,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduld import clock

T = TypeVar("T")
Command = tuple[Arg, ...]
Conversation = Generator[list[Command], list[Any], T]
Ahead = Generator[list[Command] | None, list[Any] | None, list[Any]]
"""Yields commands to send, or None to be sent the replies to the oldest unanswered ones."""
FORMAT = 1
"""Number of the stored data's format; a server with a newer one is refused."""
_AHEAD = 2
_OK = int(Code.OK)
# hiredis declares a tuple of one.
_pack: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]
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
    calls: Sequence[Call[Any]],
    server: clock.ServerClock,
    timeout_ms: float,
    replies: list[Any] | None = None,
) -> Conversation[list[Any]]:
    """Carry calls out together; results in order, with the errors of single calls among them.

    A call that the server did not know is sent again with its script; one that was refused as
    too late because the server's clock moved is sent again with a deadline on the new time.
    `replies`: what the calls were answered if they were sent already.
    """
    results: list[Any] = [None] * len(calls)
    todo = list(range(len(calls)))
    for last_try in (False, False, True):
        if replies is None:
            replies = yield [command(calls[index], server, timeout_ms) for index in todo]
        again: list[int] = []
        missing: list[int] = []
        for index, reply in zip(todo, replies, strict=True):
            if is_missing_script(reply):
                missing.append(index)
            results[index] = read(calls[index], reply, server)
            if is_missing_script(reply) or is_late(reply):
                again.append(index)
        replies = None
        if not again or last_try:
            break
        if missing:
            sources = {calls[index].script.source for index in missing}
            yield [("SCRIPT", "LOAD", source) for source in sources]
        todo = again
    return results


def pipeline(calls: Iterable[Call[Any]], server: clock.ServerClock, timeout_ms: float) -> Ahead:
    """Carry writing calls out in order, the next sent before the last is answered.

    So the server works while this side makes the next call and reads the last answer. Returns
    a result a call, and ends after the first errors: what was not sent has no result. A lost
    connection is the error of the first call without an answer; throw it in as Interrupted.
    """
    results: list[Any] = []
    source, sent = iter(calls), deque[Call[Any]]()
    try:
        while True:
            while len(sent) < _AHEAD and (call := next(source, None)) is not None:
                sent.append(call)
                yield [command(call, server, timeout_ms)]
            if not sent:
                return results
            replies = (yield None) or []
            if is_done(replies[0]):
                results.append(read(sent.popleft(), replies[0], server))
                continue
            results += yield from _again(list(sent), replies, server, timeout_ms)
            sent.clear()
            if any(isinstance(result, ScheduldError) for result in results):
                return results
    except Interrupted as stop:
        return [*results, from_interruption(stop, writes=True)]


def _again(
    calls: list[Call[Any]], replies: list[Any], server: clock.ServerClock, timeout_ms: float
) -> Ahead:
    """Hear all that is under way, then repeat what was not carried out, in order."""
    for _ in calls[1:]:
        replies = replies + ((yield None) or [])
    conversation = converse(calls, server, timeout_ms, replies)
    answers: list[Any] | None = None
    while True:
        try:
            commands = next(conversation) if answers is None else conversation.send(answers)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        yield commands
        answers = yield None


def pack(commands: Sequence[Command]) -> bytes:
    """Write commands as the server reads them."""
    if len(commands) == 1:
        return _pack(commands[0])
    return b"".join(map(_pack, commands))


def command(call: Call[Any], server: clock.ServerClock, timeout_ms: float) -> Command:
    """Make the command of a call, to be carried out within `timeout_ms` from now or not at all."""
    args = call.args
    if args[DEADLINE - 1] == "":
        valid_until = int(server.now_ms() + timeout_ms)
        args = (*args[:DEADLINE], valid_until, *args[DEADLINE + 1 :])
    # Else: a test's own now has nothing to do with the server's clock.
    return ("EVALSHA", call.script.sha, len(call.keys), *call.keys, *args)


def is_done(reply: Any) -> bool:
    """Whether the call was carried out: `read` gives what it means."""
    return type(reply) is list and reply[0] == _OK


def is_late(reply: Any) -> bool:
    """Whether the call was refused because it came after its deadline."""
    return isinstance(reply, list) and reply[0] == Code.LATE


def read(
    call: Call[Any], reply: Any, server: clock.ServerClock, sent_at: float | None = None
) -> Any:
    """Say what the reply to a call means, an error as a value; learns the server's time.

    `sent_at`: monotonic second before the call was sent, see ServerClock.
    """
    if isinstance(reply, ServerError):
        return from_reply(reply, call.keys[0])
    if call.args[DEADLINE - 1] == "":
        server.told(reply[1] / 1000, sent_at=sent_at)
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
        if isinstance(reply, ServerError):
            raise from_reply(reply, format_key)
    server.told(int(time[0]) * 1000 + int(time[1]) / 1000)
    known = server_info(info)
    _check_version(known)
    if found is None:
        (reply,) = yield [("SET", format_key, FORMAT, "NX")]
        if isinstance(reply, ServerError):
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


def any_writes(calls: Sequence[Call[Any]]) -> bool:
    """Whether a lost answer to these calls leaves something open."""
    return any(call.script.writes for call in calls)


def checked(replies: list[Any], commands: Sequence[Command]) -> list[Any]:
    """Raise the first error among the replies to plain commands."""
    for reply, command in zip(replies, commands, strict=True):
        if isinstance(reply, ServerError):
            raise from_reply(reply, command[1] if len(command) > 1 else "")
    return replies
