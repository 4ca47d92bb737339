"""What all drivers are given to do: payloads, and the instants of the lateness case."""

from __future__ import annotations

import random
from typing import Any

SEED = 20_261_130
FIRST_S = 2.0
"""The first instant of the lateness case is so far ahead."""
INSTANT_S = 3.0
"""All tasks of the instant case are due so far ahead."""


def payload(number: int) -> dict[str, Any]:
    """Make the payload with a number: about 36 bytes of JSON."""
    return {"to": f"user{number:05}@example.com", "n": number}


def instants(count: int, seconds: float, now_ms: float) -> list[int]:
    """Instants in whole ms, random over so many seconds from FIRST_S after now, in order."""
    chance = random.Random(SEED)  # noqa: S311
    first = now_ms + FIRST_S * 1000
    return sorted(round(first + chance.random() * seconds * 1000) for _ in range(count))


def lateness(starts_ms: list[float], dues_ms: list[int]) -> dict[str, Any]:
    """Make the answer of the late and instant cases from starts and due times of each task."""
    late = [start - due for start, due in zip(starts_ms, dues_ms, strict=True)]
    early = sum(1 for value in late if value < 0)
    return {"count": len(late), "lateness_ms": [round(value, 3) for value in late], "early": early}
