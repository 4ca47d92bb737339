"""Times of runs as Redis keeps them: counts by bucket, in one hash per type and ten minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld.policies.histogram import MOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduld.store.keys import TypeKeys
    from scheduld.store.wire import Command

LATE = "late"
"""Kind of time: from when a run was due to its start."""
RAN = "ran"
"""Kind of time: from the start of a run to its end."""
_WINDOW_MS = 600_000
_WINDOWS = 6
"""As many as an hour has, the one that is being filled among them."""
_LIFE_S = 7_200


def flush_commands(
    keys: TypeKeys, now_ms: int, counts: Mapping[str, Mapping[int, int]]
) -> list[Command]:
    """Add counts (by kind and bucket) to the window of `now_ms`: all of them or none."""
    key = keys.times(now_ms // _WINDOW_MS)
    added: list[Command] = [
        ("HINCRBY", key, f"{kind}:{number}", count)
        for kind, by_number in counts.items()
        for number, count in by_number.items()
    ]
    return [("MULTI",), *added, ("EXPIRE", key, _LIFE_S), ("EXEC",)]


def read_commands(keys: TypeKeys, now_ms: int) -> list[Command]:
    """Read the windows of the last 50 to 60 minutes, one reply each."""
    newest = now_ms // _WINDOW_MS
    return [("HGETALL", keys.times(window)) for window in range(newest - _WINDOWS + 1, newest + 1)]


def merged(replies: Iterable[list[Any]]) -> dict[str, dict[int, int]]:
    """Add the replies to `read_commands` up, by kind and bucket; foreign fields are skipped."""
    total: dict[str, dict[int, int]] = {LATE: {}, RAN: {}}
    for flat in replies:
        for field, value in zip(flat[::2], flat[1::2], strict=True):
            kind, _, number = field.partition(b":")
            counts = total.get(kind.decode(errors="replace"))
            if counts is None or not (_is_number(number) and _is_number(value)):
                continue
            if int(number) <= MOST:
                counts[int(number)] = counts.get(int(number), 0) + int(value)
    return total


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) < 19
