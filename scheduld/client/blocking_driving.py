"""How the blocking client carries verbs out; twin of `aio_driving`."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from scheduld.client import detour
from scheduld.client.patience import Patience
from scheduld.client.requests import Asked, Requests, settings_for
from scheduld.client.verbs import Ahead, Commands, Confirmed, Sleep, Verb
from scheduld.errors import ScheduldError
from scheduld.store.calls import Call
from scheduld.store.connect import join
from scheduld.store.synclink import SyncLink

if TYPE_CHECKING:
    from scheduld.model import Durable
    from scheduld.store.embedded import Membership

T = TypeVar("T")


class Driving:
    """Settings, connections, and how verbs are carried out over them."""

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        timezone: str | None = None,
        config: str | None = None,
        wait_s: float = 10.0,
        durable: Durable | None = None,
    ) -> None:
        settings = settings_for(
            url, config=config, namespace=namespace, timezone=timezone, durable=durable
        )
        self._requests = Requests(settings)
        self._wait_s = wait_s
        self._link: SyncLink | None = None
        self._membership: Membership | None = None
        self._url = ""
        self._opening = threading.Lock()
        self._pid = os.getpid()
        detour.note(self)

    def close(self) -> None:
        """Close the connections; the embedded server ends if nobody else uses it."""
        link, self._link = self._link, None
        membership, self._membership = self._membership, None
        if link is not None:
            link.close()
        if membership is not None:
            membership.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, asked: Asked[T]) -> T:
        patience = Patience(self._wait_s, asked.repeatable)
        if self._pid != os.getpid():
            self._forked()
        while True:
            try:
                return self._drive(self._link or self._connected(), asked.verb())
            except ScheduldError as error:
                if asked.progress is not None:
                    patience.note(asked.progress())
                pause = patience.pause_s(error, asked.explain)
            time.sleep(pause)
            if self._membership is not None:
                # The embedded server may have been killed; it is ours to start again.
                with suppress(ScheduldError):
                    self._membership.ensure(wait_s=self._wait_s)

    def _forked(self) -> None:
        # Connections and embedded server are the parent's; its lock may have been held.
        self._pid, self._opening = os.getpid(), threading.Lock()
        self._link = self._membership = None

    def _drive(self, link: SyncLink, verb: Verb[T]) -> T:
        results: Any = None
        error: ScheduldError | None = None
        while True:
            try:
                step = verb.throw(error) if error else verb.send(results)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            error = None
            try:
                if isinstance(step, Call):
                    results = link.run(step)
                elif isinstance(step, Ahead):
                    results = link.run_ahead(step.calls)
                elif isinstance(step, Sleep):
                    time.sleep(step.seconds)
                elif isinstance(step, Confirmed):
                    results = link.run_confirmed(step.calls, step.confirm)
                elif isinstance(step, Commands):
                    results = link.commands(*step.commands, writes=step.writes)
                else:
                    results = link.run_all(step)
            except ScheduldError as exc:
                error = exc

    def _connected(self) -> SyncLink:
        with self._opening:
            if self._link is None:
                settings = self._requests.settings
                if self._membership is None:
                    self._url, self._membership = join(settings, wait_s=self._wait_s)
                link = SyncLink(self._url, timeout_s=settings.redis_timeout_ms / 1000)
                try:
                    link.greet(self._requests.keys.format)
                except BaseException:
                    link.close()
                    raise
                self._link = link
            return self._link
