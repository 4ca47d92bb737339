"""Drains many tasks, a third of which raise and a tenth of which time out, and weighs a daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import redis

MOST_CONNECTIONS = 10
"""Documented most of one daemon: a pool of 8, the renewals, the wake-ups."""
_TYPES = tuple(f"kind{number}" for number in range(5))


def site(folder: Path, url: str) -> Site:
    """Make the folder of a daemon whose tasks have one attempt, and 100 ms of time."""
    common = {
        "handler": WORK + "sleep",
        "run_timeout": "100ms",
        "retry": {"attempts": 1},
        "empty_poll_timeout": "300ms",
    }
    return Site(folder, url, types=dict.fromkeys(_TYPES, common))


@dataclass(frozen=True)
class Weight:
    """What a daemon holds after so many tasks have ended."""

    ended: int
    descriptors: int
    connections: int
    rss_kb: int

    def __str__(self) -> str:
        return (
            f"{self.ended:7} tasks: {self.descriptors} descriptors, "
            f"{self.connections} connections, {self.rss_kb} KB"
        )


def run(
    place: Site, daemon: DaemonProcess, client: redis.Redis, count: int, local_bytes: int = 0
) -> Weight:
    """Add and drain `count` more tasks; those that raise have `local_bytes` of local variables."""
    before = _ended(place)
    for type_name in _TYPES:
        share = count // len(_TYPES)
        place.add(type_name, share // 3, s=0, fail=True, locals=local_bytes)
        place.add(type_name, share // 10, s=30)
        place.add(type_name, share - share // 3 - share // 10, s=0)
    wait_until(lambda: _ended(place) >= before + count, "all ended", 300)
    mine = [one for one in client.client_list() if int(one["fd"]) and one["cmd"] != "client|list"]
    return Weight(_ended(place), daemon.descriptors(), len(mine), daemon.rss_kb())


def _ended(place: Site) -> int:
    with place.client() as client:
        counters = [one.counters for one in client.stats()]
    return sum(one.get("done", 0) + one.get("dead", 0) for one in counters)
