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
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld.config.light import client_settings
from scheduld.errors import InvalidInput
from scheduld.store.synclink import SyncLink

if TYPE_CHECKING:
    from scheduld.client.aio_driving import AsyncDriving
    from scheduld.client.blocking_driving import Driving
    from scheduld.config.settings import ClientSettings


class _Parts(NamedTuple):
    """What a client is made of, as far as it depends on where it leads."""

    requests: Any
    link: Any = None
    membership: Any = None


_clients: weakref.WeakSet[Driving | AsyncDriving] = weakref.WeakSet()
_before: weakref.WeakKeyDictionary[Driving | AsyncDriving, _Parts] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_there: ClientSettings | None = None


def note(client: Driving | AsyncDriving) -> None:
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
            had = _before[client] = _parts(client)
            led = _led(had.requests.settings, there)
            _exchange(client, _Parts(_kind(had.requests)(led)))
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
            led = _parts(client)
            made_within = _Parts(_Ended(led.requests))
            _exchange(client, _before.pop(client) if client in _before else made_within)
            if isinstance(led.link, SyncLink):
                led.link.close()
            elif led.link is not None:
                led.link.abandon()


def _parts(client: Driving | AsyncDriving) -> _Parts:
    return _Parts(client._requests, client._link, client._membership)  # noqa: SLF001


def _exchange(client: Driving | AsyncDriving, parts: _Parts) -> None:
    client._requests, client._link, client._membership = parts  # noqa: SLF001
    client.__dict__.pop("_operations", None)  # made of the requests, at first use


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
