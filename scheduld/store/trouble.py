"""What went wrong with a call, in our words: was it carried out, and is waiting of use?"""

from __future__ import annotations

from scheduld.errors import Conflict, OutcomeUnknown, ScheduldError, Unreachable
from scheduld.names import printable

# Answers that say "not now": the call was not carried out, and waiting helps.
_NOT_NOW = {
    "LOADING": "Redis is loading its data",
    "BUSY": "Redis is busy with a script",
    "READONLY": "this Redis is a read-only replica",
    "MASTERDOWN": "this Redis replica has lost its primary",
    "CLUSTERDOWN": "the Redis cluster is down",
    "TRYAGAIN": "the Redis cluster is moving these keys",
    "NOREPLICAS": "Redis has not enough replicas to write",
    "MISCONF": "Redis cannot save to disk and refuses writes",
    "OOM": "Redis is out of memory and refuses new data",
    "NOSCRIPT": "Redis has forgotten a script",
}
_NOT_ALLOWED = (
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "invalid password",
    "no password is set",
    "without any password",
)
_FULL = "ERR max number of clients reached"
# UnicodeError: a host name that no name server can be asked for.
LOST = (OSError, UnicodeError)
"""What a connection that fails raises."""


class ServerError(Exception):
    """An error that the server answered: a code, and what it means."""

    @property
    def code(self) -> str:
        """Its first word, such as `NOSCRIPT`."""
        return str(self).partition(" ")[0]


class TalkBroken(ConnectionError):
    """The other side does not speak the protocol of Redis."""


class Interrupted(Exception):
    """The connection failed in the middle of an exchange; `sent` tells whether after sending."""

    def __init__(self, cause: BaseException, *, sent: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.sent = sent


def drops_connection(reply: object) -> bool:
    """Whether a reply means that this connection leads to the wrong place now."""
    return isinstance(reply, ServerError) and reply.code in ("READONLY", "LOADING")


def is_end(reply: object) -> bool:
    """Whether a reply is the last of its connection: the server turns this client away."""
    return isinstance(reply, ServerError) and (
        str(reply) == _FULL or reply.code in ("NOAUTH", "WRONGPASS")
    )


def is_missing_script(reply: object) -> bool:
    """Whether a reply says that the server does not know the script."""
    return isinstance(reply, ServerError) and reply.code == "NOSCRIPT"


def from_reply(reply: ServerError, key: object = "") -> ScheduldError:
    """Explain an error that the server answered; `key` is one of those that it was asked about."""
    message = _one_line(reply)
    for word, meaning in _NOT_NOW.items():
        # An error inside a script has other words before its code.
        if word in message.split(" ", 3)[:3]:
            return Unreachable(meaning)
    if any(word in message for word in _NOT_ALLOWED):
        return Unreachable(
            "Redis refuses the credentials or their permissions",
            hint="check the user and password of redis_url",
        )
    if "WRONGTYPE" in message:
        return Conflict(
            f"{_named(key)} holds another kind of value; nothing was changed",
            hint="find the key with TYPE, and rename or remove it",
        )
    return ScheduldError(f"Redis refused the call: {message.removeprefix('ERR ')[:300]}")


def _named(key: object) -> str:
    """Name a key; of a script's keys only that is known, which type they belong to."""
    text = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
    name = text.partition("{")[2].partition("}")[0]
    if name:
        return f"a key of type {printable(name)}"
    return f"the key {printable(text)}" if text else "a key"


def from_interruption(stop: Interrupted, *, writes: bool) -> ScheduldError:
    """Explain a lost connection; only a write that was sent leaves its outcome open."""
    cause = stop.cause
    if isinstance(cause, ServerError) and str(cause) != _FULL:
        return from_reply(cause)
    if stop.sent and writes:
        return OutcomeUnknown("the connection to Redis was lost before the answer")
    why = _one_line(cause).removeprefix("ERR ") or type(cause).__name__
    return Unreachable(f"Redis cannot be reached: {why[:200]}")


def _one_line(exc: BaseException) -> str:
    return printable(" ".join(str(exc).split()))
