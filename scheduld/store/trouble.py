"""What went wrong with a call, in our words: was it carried out, and is waiting of use?"""

from __future__ import annotations

from redis import exceptions as redis_errors

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
_NOT_ALLOWED = ("NOAUTH", "WRONGPASS", "NOPERM")
_DROPPING = (redis_errors.ReadOnlyError, redis_errors.BusyLoadingError)


class Interrupted(Exception):
    """The connection failed in the middle of an exchange; `sent` tells whether after sending."""

    def __init__(self, cause: BaseException, *, sent: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.sent = sent


def drops_connection(reply: object) -> bool:
    """Whether a reply means that this connection leads to the wrong place now."""
    return isinstance(reply, _DROPPING)


def is_missing_script(reply: object) -> bool:
    """Whether a reply says that the server does not know the script."""
    return isinstance(reply, redis_errors.NoScriptError)


def from_reply(reply: redis_errors.RedisError) -> ScheduldError:
    """Explain an error that the server answered."""
    message = _one_line(reply)
    for word, meaning in _NOT_NOW.items():
        if word in message.split(" ", 3)[:3] or message.startswith(meaning):
            return Unreachable(meaning, hint="it is tried again")
    if isinstance(reply, redis_errors.BusyLoadingError):
        return Unreachable(_NOT_NOW["LOADING"])
    if isinstance(reply, redis_errors.ReadOnlyError):
        return Unreachable(_NOT_NOW["READONLY"])
    if isinstance(reply, redis_errors.OutOfMemoryError):
        return Unreachable(_NOT_NOW["OOM"])
    if isinstance(reply, redis_errors.AuthenticationError | redis_errors.NoPermissionError) or any(
        word in message for word in _NOT_ALLOWED
    ):
        return Unreachable(
            "Redis refuses the credentials or their permissions",
            hint="check the user and password of redis_url",
        )
    if "WRONGTYPE" in message:
        return Conflict(
            "a key of this type holds another kind of value; nothing was changed",
            hint="find the key with TYPE, and rename or remove it",
        )
    return ScheduldError(f"Redis refused the call: {message[:300]}")


def from_interruption(stop: Interrupted, *, writes: bool) -> ScheduldError:
    """Explain a lost connection; only a write that was sent leaves its outcome open."""
    cause = stop.cause
    if isinstance(cause.__cause__, redis_errors.RedisError):
        # How redis-py's asyncio side tells what the server answered to a greeting.
        cause = cause.__cause__
    if isinstance(cause, redis_errors.AuthenticationError | redis_errors.ResponseError):
        return from_reply(cause)
    if isinstance(cause, redis_errors.BusyLoadingError):
        return from_reply(cause)
    if stop.sent and writes:
        return OutcomeUnknown("the connection to Redis was lost before the answer")
    why = _one_line(cause) or type(cause).__name__
    return Unreachable(f"Redis cannot be reached: {why[:200]}")


def _one_line(exc: BaseException) -> str:
    return printable(" ".join(str(exc).split()))
