"""What `ns:crons` tells of each schedule, in one slot for all types: where it is to be found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from scheduld.names import is_name
from scheduld.store.answers import text

if TYPE_CHECKING:
    from scheduld.schedule import Origin, Schedule


class Known(NamedTuple):
    """The type of a schedule, where it comes from, and the digest of its definition."""

    type: str
    origin: Origin
    digest: str

    @classmethod
    def read(cls, raw: bytes | None) -> Known | None:
        """Read an entry; None for none, and for what is no such entry."""
        words = text(raw or b"").split(" ")
        if len(words) != 3 or words[1] not in ("config", "runtime") or not is_name(words[0]):
            return None
        return cls(words[0], cast("Origin", words[1]), words[2])

    def __str__(self) -> str:
        return " ".join(self)


def known_as(schedule: Schedule, origin: Origin) -> Known:
    """Tell what stands in `ns:crons` while this definition is the accepted one."""
    return Known(schedule.type, origin, schedule.digest)
