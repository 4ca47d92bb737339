"""How long after its instant the task of a tick is due: the same wherever it is asked."""

from __future__ import annotations

import hashlib


def jitter_ms(name: str, tick_ms: int, most_ms: int, next_ms: int | None) -> int:
    """Spread ticks over 0 to `most_ms`, by the schedule's name and the instant.

    It stays before `next_ms`, the next instant of the schedule, if there is one.
    """
    if next_ms is not None:
        most_ms = min(most_ms, next_ms - tick_ms - 1)
    if most_ms <= 0:
        return 0
    digest = hashlib.blake2b(f"{name}@{tick_ms}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % (most_ms + 1)
