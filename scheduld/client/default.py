"""`schedule_task`: one call for the commonest need."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any, Unpack

from scheduld.client.blocking import Client

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta, tzinfo

    from scheduld.client.options import AddOptions
    from scheduld.model import OnConflict, Task

_lock = threading.Lock()
_clients: dict[tuple[int, str | None, str | None], Client] = {}


def schedule_task(
    type: str,  # noqa: A002 - the public word
    payload: Mapping[str, Any] | None = None,
    *,
    at: str | datetime | None = None,
    delay: timedelta | str | float | None = None,
    timezone: str | tzinfo | None = None,
    id: str | None = None,  # noqa: A002 - the public word
    on_conflict: OnConflict = "error",
    token: str | None = None,
    allow_unknown: bool = False,
    allow_past: bool = False,
    **options: Unpack[AddOptions],
) -> Task:
    """Schedule one task with the server of the config file or `$SCHEDULD_REDIS_URL`.

    Everything else is as in `Client.schedule`. The client is made at the first call, shared by
    the threads of the process, and closed at its end.
    """
    return _client().schedule(
        type,
        payload,
        at=at,
        delay=delay,
        timezone=timezone,
        id=id,
        on_conflict=on_conflict,
        token=token,
        allow_unknown=allow_unknown,
        allow_past=allow_past,
        **options,
    )


def _client() -> Client:
    # By process, as a forked child must not use its parent's sockets; by environment, so
    # that a program that sets its variables late is not stuck with what it had before.
    env = os.environ
    key = (os.getpid(), env.get("SCHEDULD_CONFIG"), env.get("SCHEDULD_REDIS_URL"))
    with _lock:
        if key not in _clients:
            _clients[key] = Client()
        return _clients[key]


def close_all() -> None:
    """Close the clients of this process; the next call makes a new one."""
    with _lock:
        for key in [key for key in _clients if key[0] == os.getpid()]:
            _clients.pop(key).close()


def _forget_lock() -> None:
    global _lock
    _lock = threading.Lock()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget_lock)
