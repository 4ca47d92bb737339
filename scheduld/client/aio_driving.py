"""How the asyncio client carries verbs out; twin of `blocking_driving`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from scheduld.client import detour
from scheduld.client.patience import Patience
from scheduld.client.requests import Asked, Requests, settings_for
from scheduld.client.verbs import Ahead, Commands, Confirmed, Sleep, Verb
from scheduld.errors import ScheduldError
from scheduld.store.calls import Call
from scheduld.store.connect import join
from scheduld.store.link import AsyncLink

if TYPE_CHECKING:
    from scheduld.model import Durable
    from scheduld.store.embedded import Membership

T = TypeVar("T")


class AsyncDriving:
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
        self._link: AsyncLink | None = None
        self._membership: Membership | None = None
        self._url = ""
        self._opening = asyncio.Lock()
        detour.note(self)

    async def aclose(self) -> None:
        """Close the connections; the embedded server ends if nobody else uses it."""
        link, self._link = self._link, None
        membership, self._membership = self._membership, None
        if link is not None:
            await link.aclose()
        if membership is not None:
            await asyncio.to_thread(membership.leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _do(self, asked: Asked[T]) -> T:
        patience = Patience(self._wait_s, asked.repeatable)
        while True:
            try:
                link = self._link or await self._connected()
                return await self._drive(link, asked.verb())
            except ScheduldError as error:
                if asked.progress is not None:
                    patience.note(asked.progress())
                pause = patience.pause_s(error, asked.explain)
            await asyncio.sleep(pause)
            if self._membership is not None:
                # The embedded server may have been killed; it is ours to start again.
                with suppress(ScheduldError):
                    await asyncio.to_thread(self._membership.ensure, wait_s=self._wait_s)

    async def _drive(self, link: AsyncLink, verb: Verb[T]) -> T:
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
                    results = await link.run(step)
                elif isinstance(step, Ahead):
                    results = await link.run_ahead(step.calls)
                elif isinstance(step, Sleep):
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, Confirmed):
                    results = await link.run_confirmed(step.calls, step.confirm)
                elif isinstance(step, Commands):
                    results = await link.commands(*step.commands, writes=step.writes)
                else:
                    results = await link.run_all(step)
            except ScheduldError as exc:
                error = exc

    async def _connected(self) -> AsyncLink:
        async with self._opening:
            if self._link is None:
                settings = self._requests.settings
                if self._membership is None:
                    self._url, self._membership = await asyncio.to_thread(
                        join, settings, wait_s=self._wait_s
                    )
                link = AsyncLink(self._url, timeout_s=settings.redis_timeout_ms / 1000)
                try:
                    await link.greet(self._requests.keys.format)
                except BaseException:
                    await link.aclose()
                    raise
                self._link = link
            return self._link
