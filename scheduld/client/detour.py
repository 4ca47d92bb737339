"""Leads all clients of this process to one server for a while: that of the test kit.

Programs make clients where no test sees it: in a module, in a cache, behind `schedule_task`.
During a detour none of them reaches the server of its own, whenever it was made and whatever
it was told; afterwards each is as it was.
"""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scheduld.config.light import client_settings
from scheduld.errors import InvalidInput
from scheduld.store.synclink import SyncLink

if TYPE_CHECKING:
    from scheduld.client.aio import AsyncClient
    from scheduld.client.blocking import Client
    from scheduld.config.settings import ClientSettings

_clients: weakref.WeakSet[Client | AsyncClient] = weakref.WeakSet()
_lock = threading.Lock()
_there: ClientSettings | None = None
_before: weakref.WeakKeyDictionary[Client | AsyncClient, tuple[Any, Any, Any]]
_before = weakref.WeakKeyDictionary()


def note(client: Client | AsyncClient) -> None:
    """Remember a new client for as long as it lives."""
    with _lock:
        _clients.add(client)


def is_on() -> bool:
    """Whether clients are led elsewhere now."""
    return _there is not None


def settings(config: str | None) -> ClientSettings | None:
    """Settings of a client made during a detour, None if there is none.

    Of a file that the program names itself, all but the way to the server counts.
    """
    if _there is None or config is None:
        return _there
    return _led(client_settings(config, redis_url=_there.redis_url), _there)


def begin(there: ClientSettings) -> None:
    """Lead all clients to `there`, those that will be made too."""
    global _there
    with _lock:
        for client in _clients:
            requests = client._requests  # noqa: SLF001 - what a client is made of
            _before[client] = (requests, client._link, client._membership)  # noqa: SLF001
            led = _led(requests.settings, there)
            client._requests = _kind(requests)(led)  # noqa: SLF001
            client._link = client._membership = None  # noqa: SLF001
        _there = there


def change(there: ClientSettings) -> None:
    """Take other settings for the clients that are made from now on."""
    global _there
    _there = there


def end() -> None:
    """Give each client back what it had; one that was made during the detour is of no use."""
    global _there
    with _lock:
        _there = None
        for client in _clients:
            link = client._link  # noqa: SLF001
            requests = client._requests  # noqa: SLF001
            had = _before.pop(client, (_Ended(requests), None, None))
            client._requests, client._link, client._membership = had  # noqa: SLF001
            if isinstance(link, SyncLink):
                link.close()
            elif link is not None:
                link.abandon()


def _led(own: ClientSettings, there: ClientSettings) -> ClientSettings:
    return replace(
        own,
        redis_url=there.redis_url,
        redis_timeout_ms=there.redis_timeout_ms,
        namespace=there.namespace,
        durable=there.durable,
    )


def _kind(requests: Any) -> Any:
    return requests.kind if isinstance(requests, _Ended) else type(requests)


def _forget_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


class _Ended:
    """The requests of a client that a test has left behind: it reaches nothing until the next."""

    def __init__(self, requests: Any) -> None:
        self.settings: ClientSettings = requests.settings
        self.kind = _kind(requests)

    def __getattr__(self, _: str) -> Any:
        raise InvalidInput("this client was made during a test that has ended: make it anew")
