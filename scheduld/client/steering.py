"""The verbs on whole types, and on who serves them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld.client.verbs import LIVE_MS, Commands, known_types, must_be_known
from scheduld.errors import Conflict, OutcomeUnknown
from scheduld.model import State
from scheduld.store import usercalls
from scheduld.store.answers import server_ms, to_ms

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb
    from scheduld.store.keys import TypeKeys

_PAGE = 100


@dataclass(frozen=True, slots=True)
class TypePause:
    """A paused type: nothing of it is started. `who` is user@host, `since_ms` when it began."""

    type: str
    reason: str
    who: str
    since_ms: int


def pause(scope: Scope, type_name: str, reason: str, who: str) -> Verb[TypePause]:
    """Pause a type, or give its pause another reason; raises InvalidInput for an unknown type."""
    yield from must_be_known(scope, type_name)
    call = usercalls.pause(scope.caller, scope.type(type_name), reason=reason, who=who)
    since_ms = yield call
    return TypePause(type_name, reason, who, since_ms)


@dataclass(slots=True)
class Resume:
    """One resume. `is_sent`: an earlier attempt may have ended the pause."""

    is_sent: bool = False

    def verb(self, scope: Scope, type_name: str) -> Verb[bool]:
        """End the pause of a type; whether it was paused."""
        yield from must_be_known(scope, type_name)
        try:
            was_paused = yield usercalls.resume(scope.caller, scope.type(type_name))
        except OutcomeUnknown:
            self.is_sent = True
            raise
        return was_paused or self.is_sent


def paused(scope: Scope, type_name: str | None) -> Verb[list[TypePause]]:
    """Read which types are paused."""
    types = [type_name] if type_name else (yield from known_types(scope))
    found = []
    for name in types:
        # Of all types, one with a foreign key in the place of its own hides no other.
        with suppress(*(() if type_name else (Conflict,))):
            wanted = ("HMGET", scope.type(name).meta, "paused", "pause_reason", "pause_who")
            ((since, reason, who),) = yield Commands((wanted,))
            if since is not None:
                found.append(TypePause(name, _text(reason), _text(who), to_ms(since) or 0))
    if type_name and not found:
        yield from must_be_known(scope, type_name)
    return found


@dataclass(slots=True)
class Purge:
    """One purge of a type. `removed` outlives attempts: after a lost answer it goes on.

    `older_ms`: only what ended, or was due, at least so long ago.
    """

    state: State
    older_ms: int | None
    removed: int = 0

    def verb(self, scope: Scope, type_name: str) -> Verb[int]:
        """Remove the tasks, a page a call; how many there were."""
        keys = scope.type(type_name)
        total, before_ms = yield from self._extent(keys)
        if not total:
            yield from must_be_known(scope, type_name)
        looked = kept = 0
        # What comes in meanwhile is left alone, so that it ends.
        while looked < total:
            step = yield usercalls.purge(
                scope.caller,
                keys,
                state=self.state.value,
                before_ms=before_ms,
                offset=kept,
                limit=min(_PAGE, total - looked),
            )
            self.removed += step.removed
            looked += step.looked
            kept += step.looked - step.removed
            if not step.looked:
                break
        return self.removed

    def count(self, scope: Scope, type_name: str) -> Verb[int]:
        """Count what `verb` would remove."""
        keys = scope.type(type_name)
        total, before_ms = yield from self._extent(keys)
        if not total:
            yield from must_be_known(scope, type_name)
        index, bound = _index(keys, self.state), "+inf" if before_ms is None else before_ms
        (most,) = yield Commands((("ZCOUNT", index, "-inf", bound),))
        if self.state in (State.DEAD, State.SCHEDULED):
            return int(most)
        count = 0
        for start in range(0, most, _PAGE):
            page = ("ZRANGE", index, start, min(start + _PAGE, most) - 1)
            (raw_ids,) = yield Commands((page,))
            if raw_ids:
                outcomes = yield usercalls.fields(scope.caller, keys, raw_ids, "outcome")
                is_cancelled = [outcome == b"cancelled" for outcome in outcomes]
                count += is_cancelled.count(self.state is State.CANCELLED)
        return count

    def _extent(self, keys: TypeKeys) -> Verb[tuple[int, int | None]]:
        time, total = yield Commands((("TIME",), ("ZCARD", _index(keys, self.state))))
        now_ms = server_ms(time)
        return total, None if self.older_ms is None else now_ms - self.older_ms


def _index(keys: TypeKeys, state: State) -> str:
    indexes = {State.SCHEDULED: keys.due, State.DEAD: keys.dead}
    return indexes.get(state, keys.done)


@dataclass(frozen=True, slots=True)
class Node:
    """A running daemon: the types it serves, and its last sign of life in ms.

    `schedules`: how many its config has.
    """

    id: str
    host: str
    pid: int | None
    version: str
    types: tuple[str, ...]
    seen_ms: int
    schedules: int = 0


_NODE = ("host", "pid", "version", "types", "schedules")


def nodes(scope: Scope) -> Verb[list[Node]]:
    """Read the daemons that gave a sign of life within a minute, by host and process."""
    keys = scope.caller.keys
    (time,) = yield Commands((("TIME",),))
    since = int(time[0]) * 1000 - LIVE_MS
    (flat,) = yield Commands((("ZRANGEBYSCORE", keys.nodes, since, "+inf", "WITHSCORES"),))
    seen = list(zip(flat[::2], flat[1::2], strict=True))
    if not seen:
        return []
    hashes = yield Commands(tuple(("HMGET", keys.node(_text(raw)), *_NODE) for raw, _ in seen))
    pairs = zip(seen, hashes, strict=True)
    found = [_node(_text(raw), score, fields) for (raw, score), fields in pairs if any(fields)]
    return sorted(found, key=lambda node: (node.host, node.pid or 0, node.id))


def _node(node_id: str, score: bytes, fields: list[Any]) -> Node:
    host, pid, version, types, schedules = map(_text, fields)
    return Node(
        id=node_id,
        host=host,
        pid=int(pid) if pid.isdigit() else None,
        version=version,
        types=tuple(sorted(types.split())),
        seen_ms=to_ms(score) or 0,
        schedules=int(schedules) if schedules.isdigit() else 0,
    )


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
