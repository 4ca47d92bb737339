"""Which of several configs' definitions of a schedule is the one that runs. Pure.

While a deploy rolls, replicas with differing configs are alive side by side. The definition that
was first seen last is the newest one: its replicas fire, the others stand back until those are
gone. Which one is accepted is kept in the store, so that an old config cannot fire.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from scheduld.store.cronindex import Known as Known
from scheduld.store.cronindex import known_as as known_as

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduld.schedule import Schedule


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
