"""How many runs begin in a turn of the loop, by how long the last turn took."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from scheduld.engine import turns
from scheduld.engine.turns import FEW, FIRST, TURN_S, Turns, share
from scheduld.model import Claim
from scheduld.store.calls import MAX_CLAIMED
from tests.support.replicas import until

if TYPE_CHECKING:
    from collections.abc import Sequence


def claims(count: int) -> list[Claim]:
    """Make claims with the numbers from 0 as ids."""
    return [Claim("t", str(n), str(n).encode(), b"{}", 1, 0, 0) for n in range(count)]


@pytest.mark.parametrize(
    ("most", "count", "seconds", "expected"),
    [
        (MAX_CLAIMED, 100, 0.100, 3),  # 1 ms each
        (MAX_CLAIMED, 100, 10.0, 1),  # never none
        (3, 3, 0.0029, 6),  # they fit: try more
        (3, 1, 0.0001, 6),  # far too few to take long: try more
        (50, 10, 0.0025, 50),  # nearly full of few: no reason for more
        (1, 1, 0.050, 1),
        (150, 150, 0.0001, MAX_CLAIMED),
    ],
)
def test_share(most: int, count: int, seconds: float, expected: int) -> None:
    """As many as would have fitted, at least one; twice as many where there was room."""
    assert share(most, count, seconds) == expected


class Watched:
    """Starts whose first steps take so long each, by a clock that nothing else moves."""

    def __init__(self, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.begun: list[str] = []
        self.turns: list[int] = []
        monkeypatch.setattr(turns, "monotonic", lambda: self.now)
        self.turns_begun = Turns(self._start)

    def _start(self, some: Sequence[Claim]) -> None:
        self.turns.append(len(some))
        for claim in some:
            asyncio.get_running_loop().call_soon(self._first_step, claim)

    def _first_step(self, claim: Claim) -> None:
        self.now += self.seconds
        self.begun.append(claim.id)


async def _all_begun(watched: Watched, count: int) -> None:
    await until(lambda: len(watched.begun) >= count, "all have begun")


async def test_runs_that_block_begin_a_few_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that block for longer than a turn each begin one by one after the first, in order."""
    watched = Watched(TURN_S * 1.5, monkeypatch)
    watched.turns_begun.begin(claims(100))
    assert watched.turns == [FIRST]
    await _all_begun(watched, 100)
    assert watched.begun == [str(n) for n in range(100)]
    assert set(watched.turns[1:]) == {1}


async def test_claims_wait_behind_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is claimed while others wait for their turn begins behind them, not beside them."""
    watched = Watched(TURN_S * 1.5, monkeypatch)
    watched.turns_begun.begin(claims(20))
    watched.turns_begun.begin(claims(3))
    await _all_begun(watched, 23)
    assert watched.begun == [str(n) for n in (*range(20), *range(3))]


async def test_runs_that_do_not_block_begin_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few turns that took no time all of a claim begin in one, small ones untimed."""
    watched = Watched(0, monkeypatch)
    for _ in range(20):
        before = len(watched.begun)
        watched.turns_begun.begin(claims(FEW))
        await _all_begun(watched, before + FEW)
        if watched.turns_begun._most == MAX_CLAIMED:
            break
    watched.turns.clear()
    watched.turns_begun.begin(claims(MAX_CLAIMED))
    assert watched.turns == [MAX_CLAIMED]
