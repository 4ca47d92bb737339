"""What redis-py is used for: connections are opened by it, and its errors said in our classes."""

from __future__ import annotations

from typing import Any

import redis
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from scheduld.store.trouble import LOST, ServerError

RedisPyError = redis_errors.RedisError
_ANSWERS = (
    redis_errors.AuthenticationError,
    redis_errors.BusyLoadingError,
    redis_errors.ResponseError,
)


def options(timeout_s: float) -> dict[str, Any]:
    """How redis-py opens a connection; `timeout_s` for each step."""
    return {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        # RESP3 over TCP makes redis-py skip its check for a closed idle connection.
        "protocol": 2,
    }


def blocking_connection(url: str, timeout_s: float) -> Any:
    """Make a connection that is not open yet; raises ValueError or TypeError for a bad URL."""
    pool = redis.ConnectionPool.from_url(url, retry=Retry(NoBackoff(), 0), **options(timeout_s))
    return pool.connection_class(**pool.connection_kwargs)


def plain_error(exc: BaseException) -> BaseException:
    """Say an error of redis-py in our classes: what the server answered, or a lost connection."""
    # Its asyncio side wraps what the server answered to a greeting.
    answer = exc.__cause__ if isinstance(exc.__cause__, RedisPyError) else exc
    if isinstance(answer, _ANSWERS):
        return ServerError(f"{answer.status_code or 'ERR'} {answer}")
    return exc if isinstance(exc, LOST) else ConnectionError(str(exc))
