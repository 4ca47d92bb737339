"""Every Redis key that scheduld uses, spelled here and nowhere else.

The type stands in braces, the cluster hash tag: all keys of one type share a slot.
Names hold neither braces nor colons, so no id or name can change the tag or collide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from scheduld.names import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable


def encode_id(task_id: str) -> bytes:
    """Encode an id as Redis stores it; `decode_id` gives the same id back, even if broken."""
    return task_id.encode("utf-8", "surrogateescape")


def decode_id(raw: bytes) -> str:
    """Decode a stored id; bytes that are not UTF-8 become lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class TypeKeys:
    """The keys of one task type; each is spelled once and then kept, as every call needs them."""

    namespace: str
    type: str

    @cached_property
    def root(self) -> str:
        """What all keys of the type begin with."""
        return f"{self.namespace}:{{{self.type}}}:"

    @cached_property
    def due(self) -> str:
        """Zset: id -> due ms."""
        return self.root + "due"

    @cached_property
    def leased(self) -> str:
        """Zset: id -> lease end ms."""
        return self.root + "leased"

    @cached_property
    def done(self) -> str:
        """Zset: id -> finished ms."""
        return self.root + "done"

    @cached_property
    def dead(self) -> str:
        """Zset: id -> died ms."""
        return self.root + "dead"

    @cached_property
    def meta(self) -> str:
        """Hash: last fence, longest lease, counters."""
        return self.root + "meta"

    @cached_property
    def events(self) -> str:
        """Stream: one entry per script call that changed something."""
        return self.root + "events"

    @cached_property
    def task_prefix(self) -> str:
        """What the hash of every task of the type begins with."""
        return self.root + "task:"

    def task(self, raw_id: bytes) -> bytes:
        """Hash of one task."""
        return self._task_prefix_bytes + raw_id

    def tasks(self, raw_ids: Iterable[bytes]) -> list[bytes]:
        """Hashes of tasks."""
        prefix = self._task_prefix_bytes
        return [prefix + raw_id for raw_id in raw_ids]

    @cached_property
    def _task_prefix_bytes(self) -> bytes:
        return self.task_prefix.encode()

    def claim(self, replica: str) -> str:
        """String with TTL: the last claim of a replica."""
        return self.root + "claim:" + replica

    def times(self, window: int) -> str:
        """Hash with TTL: how late runs began and how long they took in ten minutes."""
        return f"{self.root}times:{window}"

    @cached_property
    def priorities(self) -> str:
        """Zset: id of a task with a priority that was not due yet -> its due ms. A hint."""
        return self.root + "prio"

    @cached_property
    def lazy(self) -> str:
        """Zset: id of a due task of low priority -> its score in `due`. A hint."""
        return self.root + "lazy"

    @cached_property
    def starts(self) -> str:
        """Zset with TTL: the newest starts of the type -> ms."""
        return self.root + "starts"

    def of_key(self, what: str, key: str) -> str:
        """Name a helper of one key: `holders`, `starts`, `parked`, `paced`; zsets."""
        return f"{self.root}{what}:{key}"

    def unique(self, digest: str) -> str:
        """String, maybe with TTL: the id of the one task of a digest."""
        return self.root + "unique:" + digest

    def joined(self, token: str) -> str:
        """String with TTL: the id that an add of this token went to, where that is another's."""
        return self.root + "joined:" + token

    def cron(self, name: str) -> str:
        """Hash of one schedule: watermark, definition, queued tick, pause, skips, counters."""
        return self.root + "cron:" + name

    def live(self, name: str) -> str:
        """Zset: id of an unfinished task of the schedule -> its tick ms. A hint."""
        return self.root + "live:" + name

    def ticks(self, name: str) -> str:
        """Stream: the history of a schedule."""
        return self.root + "ticks:" + name

    def indexes(self) -> tuple[str, str, str, str]:
        """The four zsets, in the order that scripts take them."""
        return (self.due, self.leased, self.done, self.dead)

    def common(self) -> tuple[str, ...]:
        """The keys that every script of a type takes first (lua/include/type.lua)."""
        return self._common

    @cached_property
    def _common(self) -> tuple[str, ...]:
        return (*self.indexes(), self.meta, self.events)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one namespace."""

    namespace: str

    def __post_init__(self) -> None:
        check_name("namespace", self.namespace)

    @property
    def types(self) -> str:
        """Set: every type seen."""
        return self.namespace + ":types"

    @property
    def crons(self) -> str:
        """Hash: schedule -> `TYPE ORIGIN DIGEST`."""
        return self.namespace + ":crons"

    @property
    def defs(self) -> str:
        """Hash: `NAME DIGEST` of a definition in some config -> ms when it was first seen."""
        return self.namespace + ":defs"

    @property
    def nodes(self) -> str:
        """Zset: replica -> last sign of life, ms."""
        return self.namespace + ":nodes"

    @property
    def format(self) -> str:
        """String: format number of the stored data."""
        return self.namespace + ":format"

    @property
    def wake(self) -> str:
        """Channel: `TYPE MS`, the type has an earlier due time now; `TYPE cancel ID`; `TYPE cron
        NAME`, a schedule has changed."""
        return self.namespace + ":wake"

    @property
    def any_task_pattern(self) -> str:
        """Glob pattern of the task hashes of all types; names hold no glob characters."""
        return self.namespace + ":{*}:task:*"

    def node(self, replica: str) -> str:
        """Hash with TTL: what one live replica is."""
        return f"{self.namespace}:node:{replica}"

    def type(self, name: str) -> TypeKeys:
        """The keys of one type; raises InvalidInput for what is no type name."""
        return _type_keys(self.namespace, name)


@lru_cache(maxsize=1024)
def _type_keys(namespace: str, name: str) -> TypeKeys:
    return TypeKeys(namespace, check_name("type", name))
