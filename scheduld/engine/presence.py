"""Answers for the replica being known: its record, its types, the format of the namespace."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from scheduld.engine.loop import wait_for
from scheduld.errors import OutcomeUnknown, Unreachable
from scheduld.store.answers import server_ms
from scheduld.store.wire import FORMAT
from scheduld.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduld.store.keys import Keys
    from scheduld.store.link import AsyncLink
    from scheduld.store.wire import Command

EVERY_S = 20.0
_SOON_S = 2.0
_LIFE_S = 60


class Presence:
    """The loop that announces the replica; what it writes ends by itself if it dies."""

    name = "presence"

    def __init__(
        self,
        link: AsyncLink,
        keys: Keys,
        replica: str,
        types: Sequence[str],
        definitions: Mapping[str, str],
        on_lost: Callable[[], None] = lambda: None,
        ladders: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`definitions`: the digest of each schedule in this replica's config.

        `ladders`: the series of those types that have one, as clients are told of them.
        `on_lost` hears that the record was gone: others took this replica for dead.
        """
        self._link = link
        self._keys = keys
        self._replica = replica
        self._types = tuple(types)
        self._schedules = _schedules(definitions)
        self._on_lost = on_lost
        self._ladders = ladders
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._pause_s = 0.0
        self._is_withdrawn = False
        self._is_seen = not definitions
        self._is_told = False

    def is_over(self) -> bool:
        """Whether the replica is on its way out."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End the loop."""
        self._stop.set()
        self._wake.set()

    def withdraw(self) -> None:
        """Announce the schedules no more, as from now on none is fired: others need not wait."""
        self._is_seen = self._is_told = False
        self._is_withdrawn = True
        self._wake.set()

    async def run_once(self) -> None:
        """Announce the replica, then wait."""
        await wait_for(self._wake, self._pause_s)
        self._wake.clear()
        if not self._stop.is_set():
            # The pollers tell outages; a full server refuses this, and work goes on all the same.
            self._pause_s = _SOON_S
            with suppress(Unreachable, OutcomeUnknown):
                await self._announce()
                self._pause_s = EVERY_S

    async def announce_schedules(self) -> None:
        """Write the record, with the schedules from now on: it is noted when they were seen."""
        self._is_seen = not self._is_withdrawn
        await self._announce()

    async def _announce(self) -> None:
        """Write the record; what does not change in it only once, and when it was lost."""
        node = self._keys.node(self._replica)
        about: dict[str, str | int] = {
            "host": platform.node(),
            "pid": os.getpid(),
            "version": __version__,
            "types": " ".join(self._types),
        }
        tells_schedules = self._is_seen and not self._is_told
        if tells_schedules:
            about |= self._schedules
        elif self._is_told:
            # The short one of them, which shows whether they are still there: a failover may
            # have lost nothing else.
            about["set"] = self._schedules["set"]
        fields = [part for pair in about.items() for part in pair]
        # Asked, not estimated: this may be the first that is heard of the server, and by a wrong
        # clock the records of the others would be taken for dead ones.
        (time,) = await self._link.commands(("TIME",))
        now_ms = server_ms(time)
        gone = [("HDEL", node, *self._schedules)] if self._is_withdrawn else []
        (new_fields, *_) = await self._link.commands(
            ("HSET", node, *fields),
            *gone,
            ("EXPIRE", node, _LIFE_S),
            ("ZADD", self._keys.nodes, now_ms, self._replica),
            ("ZREMRANGEBYSCORE", self._keys.nodes, "-inf", now_ms - _LIFE_S * 1000),
        )
        if new_fields:
            # The first time, or a flushed or restored server has forgotten all this.
            await self._link.commands(
                ("SET", self._keys.format, FORMAT, "NX"),
                *register(self._keys, self._types, self._ladders),
            )
        if new_fields and self._is_told:
            # Written whole again, but not before it is noted anew when they were first seen.
            self._is_seen = self._is_told = False
            self._on_lost()
        elif tells_schedules:
            self._is_told = True

    async def leave(self) -> None:
        """Take the record away."""
        await self._link.commands(
            ("DEL", self._keys.node(self._replica)), ("ZREM", self._keys.nodes, self._replica)
        )


def register(keys: Keys, types: Sequence[str], ladders: Mapping[str, str]) -> list[Command]:
    """Write the types, and for clients that have no config when the tasks of each are due."""
    commands: list[Command] = [("SADD", keys.types, *types)]
    for name in types:
        meta, series = keys.type(name).meta, ladders.get(name)
        told = ("HDEL", meta, "series") if series is None else ("HSET", meta, "series", series)
        commands.append(told)
    return commands


def _schedules(definitions: Mapping[str, str]) -> dict[str, str | int]:
    """Write which definitions of schedules a replica has; `set` names them all together."""
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(definitions.items()))
    digest = hashlib.blake2b(lines.encode(), digest_size=8).hexdigest()
    return {"schedules": len(definitions), "set": digest, "definitions": lines}
