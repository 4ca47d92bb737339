"""Reschedule predicates for tests: they answer as the payload says.

Worker processes import this, so it imports nothing heavy.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from scheduld import Again, Snooze

if TYPE_CHECKING:
    from scheduld import Run

Payload = dict[str, Any]


class Sly(dict[str, Any]):
    """A patch that cannot be looked at."""

    def __bool__(self) -> bool:
        """Fail, as an array of numbers does."""
        raise SystemExit("not to be asked")

    def __len__(self) -> int:
        """Fail too."""
        raise SystemExit("not to be asked")


class SlyInside(Sly):
    """One whose values cannot be read."""

    def __bool__(self) -> bool:
        """There is something in it."""
        return True

    def items(self) -> Any:
        """Fail."""
        raise OSError("not to be read")


def count(payload: Payload) -> Payload:
    """Go on, with a counter that is one higher."""
    return {"count": payload.get("count", 0) + 1}


def says(payload: Payload, run: Run) -> Any:
    """Answer in the way that the payload names."""
    how = payload["how"]
    payload["touched"] = run.attempt  # a copy: nobody sees this
    if how == "hang":
        time.sleep(20)
    if how == "exit":
        os._exit(3)
    if how == "raise":
        raise KeyError("season")
    if how == "leave":
        raise SystemExit(2)
    answers: dict[str, Any] = {
        "true": True,
        "false": False,
        "none": None,
        "empty": {},
        "patch": {"n": 2, "gone": None},
        "again": Again(at=3_600, payload={"n": 2}),
        "again_bad": Again(at="soon"),
        "again_rubbish": Again(payload=[1]),  # type: ignore[arg-type]
        "text": "yes",
        "one": 1,
        "list": [],
        "outcome": Snooze(5),
        "set": {"n": {1}},
        "nan": {"n": float("nan")},
        "huge": {"n": "x" * 300_000},
        "sly": Sly(n=1),
        "sly_again": Again(payload=Sly(n=1)),
        "sly_inside": SlyInside(n=1),
    }
    return answers[how]


async def says_async(payload: Payload, run: Run) -> Any:
    """The same for an event loop."""
    if payload["how"] == "hang":
        await asyncio.sleep(20)
    return says(payload, run)
