"""Clients that add tasks through a connection with faults, and remember what they were told."""

from __future__ import annotations

import asyncio
import random
import threading
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from scheduld import AsyncClient, Client
from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.model import Task

ATTEMPTS = 3
"""Of the tasks' types: a payload whose `fails` is no less asks for a dead task."""
_PATIENCE_S = 0.3
_PAUSE_S = 0.01


@dataclass
class Add:
    """One add: what is asked, and under which id and token it is repeated."""

    type: str
    payload: dict[str, float]
    delay: float | None
    id: str | None
    token: str | None = None
    is_unknown: bool = False

    @property
    def ends_done(self) -> bool:
        """Whether the task is to end as done (else: as dead)."""
        return self.payload["fails"] < ATTEMPTS


@dataclass
class Told:
    """What clients were told."""

    accepted: dict[str, Add] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Ids of callers whose add was said not to have been carried out."""
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)


class Load:
    """One blocking and one asyncio client, each in a thread, that add one task after the other.

    `is_ahead`: whether there is so much to do that they should wait.
    """

    def __init__(
        self,
        url: str,
        namespace: str,
        types: tuple[str, ...],
        *,
        seed: int,
        is_ahead: Callable[[], bool],
    ) -> None:
        self.told = Told()
        self._url, self._namespace, self._types = url, namespace, types
        self._is_ahead = is_ahead
        self._over = threading.Event()
        self._numbers = count()
        self._threads = [
            threading.Thread(target=self._blocking, args=(random.Random(seed + 1),)),
            threading.Thread(
                target=lambda: asyncio.run(self._asyncio(random.Random(seed + 2))),
            ),
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, more: int) -> None:
        """Wait until so many more adds were accepted."""
        before = len(self.told.accepted)
        wait_until(lambda: len(self.told.accepted) >= before + more, "adds that work", 30)

    def stop(self) -> None:
        """End; what is unknown then is repeated until it is known."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)
            if thread.is_alive():
                self.told.wrong.append("an adding client hangs")

    def _blocking(self, chance: random.Random) -> None:
        with Client(self._url, namespace=self._namespace, wait_s=_PATIENCE_S) as client:
            add: Add | None = None
            while add := self._next(add, chance):
                self._wait()
                try:
                    task = client.schedule(
                        add.type,
                        add.payload,
                        delay=add.delay,
                        id=add.id,
                        token=add.token,
                        allow_unknown=True,
                    )
                except ScheduldError as error:
                    add = self._failed(add, error)
                else:
                    add = self._stored(add, task)

    async def _asyncio(self, chance: random.Random) -> None:
        async with AsyncClient(self._url, namespace=self._namespace, wait_s=_PATIENCE_S) as client:
            add: Add | None = None
            while add := self._next(add, chance):
                await asyncio.to_thread(self._wait)
                try:
                    task = await client.schedule(
                        add.type,
                        add.payload,
                        delay=add.delay,
                        id=add.id,
                        token=add.token,
                        allow_unknown=True,
                    )
                except ScheduldError as error:
                    add = self._failed(add, error)
                else:
                    add = self._stored(add, task)

    def _wait(self) -> None:
        while self._is_ahead() and not self._over.wait(_PAUSE_S):
            pass

    def _next(self, add: Add | None, chance: random.Random) -> Add | None:
        """Choose the next add: an open one again, or a new one until it is over."""
        if add is not None or self._over.is_set():
            return add
        seconds = chance.choice((0, 0, 0, 0.02, 0.1, 0.1, 0.5, 1.5))
        fails = chance.choice((0, 0, 0, 0, 0, 1, 2, ATTEMPTS)) if seconds < 0.5 else 0
        payload = {"s": seconds, "fails": fails}
        own_id = f"own-{next(self._numbers)}" if chance.random() < 0.5 else None
        return Add(
            chance.choice(self._types), payload, chance.choice((None, None, 0.1, 0.6)), own_id
        )

    def _stored(self, add: Add, task: Task) -> Add | None:
        """Take an answer; nothing is open then."""
        if task.created is not True:
            self.told.wrong.append(f"{task.ref}: a repeated add answered {task.created}")
        if task.id in self.told.accepted:
            self.told.wrong.append(f"{task.ref}: two adds have one id")
        self.told.accepted[task.id] = add
        return None

    def _failed(self, add: Add, error: ScheduldError) -> Add | None:
        """Judge an error; answers the add if it must be repeated."""
        if isinstance(error, OutcomeUnknown):
            if not (error.task_id and error.token):
                self.told.wrong.append("an unknown outcome that names no id and token")
                return None
            self.told.unknown += 1
            add.id, add.token, add.is_unknown = error.task_id, error.token, True
            return add
        if not isinstance(error, Unreachable):
            self.told.wrong.append(f"add of {add.id}: {type(error).__name__}: {error}")
            return None
        if add.is_unknown:
            return add  # this attempt changed nothing: it is as open as before
        if add.id:
            self.told.refused.add(add.id)
        return None
