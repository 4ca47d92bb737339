"""Reads which definitions of schedules the live replicas have, as their records announce them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduld.store.keys import Keys
    from scheduld.store.link import AsyncLink

LIVE_MS = 60_000
"""A replica that has given no sign of life for so long is dead."""


class Announced:
    """What live replicas announce. The text of a set is read once: it is long, and stays."""

    def __init__(self, link: AsyncLink, keys: Keys) -> None:
        self._link = link
        self._keys = keys
        self._sets: dict[bytes, Mapping[str, str]] = {}

    async def live(self) -> list[Mapping[str, str]]:
        """Read the digests by name of schedule, a mapping for each different set of them."""
        since_ms = int(self._link.server.now_ms()) - LIVE_MS
        command = ("ZRANGEBYSCORE", self._keys.nodes, since_ms, "+inf")
        (raw_ids,) = await self._link.commands(command)
        nodes = [self._keys.node(raw.decode(errors="replace")) for raw in raw_ids]
        if not nodes:
            return []
        found = await self._link.commands(*(("HGET", node, "set") for node in nodes))
        wanted = {digest: node for digest, node in zip(found, nodes, strict=True) if digest}
        missing = {digest: node for digest, node in wanted.items() if digest not in self._sets}
        if missing:
            await self._read(missing)
        self._sets = {digest: self._sets[digest] for digest in wanted if digest in self._sets}
        return list(self._sets.values())

    async def _read(self, nodes: Mapping[bytes, str]) -> None:
        commands = [("HMGET", node, "set", "definitions") for node in nodes.values()]
        for digest, text in await self._link.commands(*commands):
            if digest and text is not None:
                self._sets[digest] = _definitions(text)


def digests_of(name: str, sets: Iterable[Mapping[str, str]]) -> set[str]:
    """Collect the digests that live replicas announce for one schedule."""
    return {definitions[name] for definitions in sets if name in definitions}


def _definitions(text: bytes) -> dict[str, str]:
    lines = [line.split(" ") for line in text.decode(errors="replace").splitlines()]
    return {words[0]: words[1] for words in lines if len(words) == 2}
