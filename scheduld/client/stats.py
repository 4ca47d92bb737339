"""How the types are doing: counts by state, how old what waits is, how late and long runs are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduld.client.verbs import Commands, known_types, must_be_known
from scheduld.errors import Conflict
from scheduld.policies.histogram import Spread, spread
from scheduld.store import times
from scheduld.store.answers import server_ms, to_ms

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb
    from scheduld.store.keys import TypeKeys
    from scheduld.store.wire import Command

_LOOKED_AT = 1_000
"""So many claims are looked at for those that were claimed early and have not begun."""
_DUE_LOOKED_AT = 200
"""So many of what is due are looked at for the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeStats:
    """How a type is doing at `now_ms`. Times are ms, instants ms since the epoch.

    `scheduled` tasks are `depth` ones that are due and wait for a free slot, and later ones.
    `oldest_due_age_ms` tells for how long the oldest of `depth` has waited. `lateness` (from due
    to start) and `run_time` are those of the last 50 to 60 minutes in all replicas, None if
    there were none. `counters` count events since the type was first used: added, claimed,
    done, retry, dead ... `error` tells a key that holds something else; its count is 0.
    """

    type: str
    scheduled: int = 0
    depth: int = 0
    running: int = 0
    done: int = 0
    dead: int = 0
    oldest_due_age_ms: int | None = None
    next_due_ms: int | None = None
    now_ms: int = 0
    lateness: Spread | None = None
    run_time: Spread | None = None
    counters: dict[str, int] = field(default_factory=dict)
    paused: bool = False
    error: str | None = None


def stats(scope: Scope, type_name: str | None = None) -> Verb[list[TypeStats]]:
    """Count the tasks of one or all types; raises InvalidInput for one that nobody knows."""
    types = [type_name] if type_name else (yield from known_types(scope))
    (time,) = yield Commands((("TIME",),))
    now_ms = server_ms(time)
    found: list[TypeStats] = []
    for name in types:
        found += [(yield from _of_type(scope.type(name), now_ms))]
    if type_name and found[0] == TypeStats(type=type_name, now_ms=now_ms):
        yield from must_be_known(scope, type_name)
    return found


def _of_type(keys: TypeKeys, now_ms: int) -> Verb[TypeStats]:
    due, leased, done, dead = keys.indexes()
    commands: dict[str, Command] = {
        "due": ("ZCARD", due),
        "leased": ("ZCARD", leased),
        "done": ("ZCARD", done),
        "dead": ("ZCARD", dead),
        "depth": ("ZCOUNT", due, "-inf", now_ms),
        "first": ("ZRANGE", due, 0, 0, "WITHSCORES"),
        # What foreign writers scheduled at 0 or before means now, and tells no age.
        "oldest": ("ZRANGEBYSCORE", due, "(0", now_ms, "WITHSCORES", "LIMIT", 0, _DUE_LOOKED_AT),
        "claims": ("ZRANGE", leased, 0, _LOOKED_AT - 1),
        "meta": ("HGETALL", keys.meta),
    }
    windows = times.read_commands(keys, now_ms)
    replies, error = yield from _replies((*commands.values(), *windows))
    told = dict(zip(commands, replies, strict=False))
    measured = times.merged(reply or [] for reply in replies[len(commands) :])
    early = yield from _early(keys, told["claims"] or [])
    depth = told["depth"] or 0
    running = max((told["leased"] or 0) - early, 0)
    oldest_ms = yield from _oldest(keys, told["oldest"] or [])
    first = told["first"]
    first_ms = to_ms(first[1]) if first else None
    if first_ms and oldest_ms and first_ms > 0:
        first_ms = oldest_ms  # by their dues, and not by their places
    return TypeStats(
        type=keys.type,
        scheduled=(told["due"] or 0) + early,
        depth=depth,
        running=running,
        done=told["done"] or 0,
        dead=told["dead"] or 0,
        oldest_due_age_ms=now_ms - (oldest_ms or now_ms) if depth else None,
        next_due_ms=first_ms,
        now_ms=now_ms,
        lateness=spread(measured[times.LATE]),
        run_time=spread(measured[times.RAN]),
        counters=_counters(told["meta"] or []),
        paused=b"paused" in (told["meta"] or [])[::2],
        error=error,
    )


def _replies(commands: tuple[Command, ...]) -> Verb[tuple[list[Any], str | None]]:
    """Ask all at once; where a key holds something else one by one, its replies being None."""
    try:
        return (yield Commands(commands)), None
    except Conflict:
        pass
    replies: list[Any] = []
    broken: list[str] = []
    for command in commands:
        try:
            replies += yield Commands((command,))
        except Conflict:
            replies.append(None)
            broken.append(str(command[1]))
    names = ", ".join(dict.fromkeys(broken))
    return replies, f"{names}: holds another kind of value" if broken else None


def _oldest(keys: TypeKeys, scored: list[bytes]) -> Verb[int | None]:
    """Find the earliest due among the first in the order of their scores, which priorities move.

    Of many it may be an older one of low priority that is not seen, as it stands far behind.
    """
    raw_ids, scores = scored[::2], [to_ms(score) or 0 for score in scored[1::2]]
    if not raw_ids:
        return None
    asked: list[Command] = [("HGET", key, "moved") for key in keys.tasks(raw_ids)]
    replies, _ = yield from _replies(tuple(asked))
    return min(map(_origin, scores, replies))


def _origin(score: int, moved: bytes | None) -> int:
    """Where a score was before it was moved, as the scripts read it."""
    start, _, end = (moved or b"").partition(b" ")
    return int(start) if start.isdigit() and end.isdigit() and int(end) == score else score


def _early(keys: TypeKeys, raw_ids: list[bytes]) -> Verb[int]:
    """Count the claims that wait for their due: these are scheduled still."""
    if not raw_ids:
        return 0
    asked: list[Command] = [("HEXISTS", key, "early") for key in keys.tasks(raw_ids)]
    replies, _ = yield from _replies(tuple(asked))
    return sum(reply or 0 for reply in replies)


def _counters(meta: list[bytes]) -> dict[str, int]:
    pairs = zip(meta[::2], meta[1::2], strict=True)
    return {
        key[2:].decode(errors="replace"): int(value)
        for key, value in pairs
        if key.startswith(b"n:") and value.isdigit() and len(value) < 19
    }
