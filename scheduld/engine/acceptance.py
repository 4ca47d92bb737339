"""Which of several configs' definitions of a schedule is the one that runs. Pure.

While a deploy rolls, replicas with differing configs are alive side by side. The definition that
was first seen last is the newest one: its replicas fire, the others stand back until those are
gone. Which one is accepted is kept in the store, so that an old config cannot fire.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduld.schedule import Origin, Schedule


class Stand(Enum):
    """What a replica does with a schedule of its config."""

    FIRES = "fires"
    """Its definition is the accepted one."""
    TAKES_OVER = "takes over"
    """Its definition is to become the accepted one."""
    YIELDS = "yields"
    """A live replica has a newer definition."""
    TAKEN = "taken"
    """A schedule that was added at run time has the name."""


class Known(NamedTuple):
    """What `ns:crons` tells of a schedule: its type, where it comes from, what is accepted."""

    type: str
    origin: Origin
    digest: str

    @classmethod
    def read(cls, text: bytes | None) -> Known | None:
        """Read an entry of `ns:crons`; None for none, and for what is no such entry."""
        words = (text or b"").decode(errors="replace").split(" ")
        if len(words) != 3 or words[1] not in ("config", "runtime"):
            return None
        return cls(words[0], cast("Origin", words[1]), words[2])

    def __str__(self) -> str:
        return " ".join(self)


def known_as(schedule: Schedule, origin: Origin) -> Known:
    """Tell what stands in `ns:crons` while this definition is the accepted one."""
    return Known(schedule.type, origin, schedule.digest)


def stand(
    own: Schedule,
    known: Known | None,
    live: Collection[str],
    first_seen_ms: Mapping[str, int],
) -> Stand:
    """Decide about one schedule of this replica's config.

    `live`: the digests that live replicas announce for its name. `first_seen_ms`: by digest;
    every replica notes its own there before it announces it.
    """
    if known is not None and known.origin == "runtime":
        return Stand.TAKEN
    if known == known_as(own, "config"):
        return Stand.FIRES

    def age(digest: str) -> tuple[int, str]:
        return first_seen_ms.get(digest, 0), digest

    newest = max({*live, own.digest}, key=age)
    return Stand.TAKES_OVER if newest == own.digest else Stand.YIELDS
