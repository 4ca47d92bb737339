"""The cancel of one occurrence, by both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduld import Conflict, NotFound
from scheduld.client import skipping
from scheduld.model import State
from tests.integration.test_client_operating import Asker, into
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from tests.support.store import Store

FIRST_MS = 4_102_444_800_000
DAY_MS = 86_400_000


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, fast_store: Store) -> Asker:
    """One client of each kind; every test that asks runs with both."""
    return Asker(request.param, fast_store)


def weekly(ask: Asker, **options: Any) -> None:
    """Add a task that comes every week from 2100 on."""
    ask("schedule", "job", id="x", at=f"@{FIRST_MS // 1000}", every="7d", **options)


def test_the_next_occurrence_is_left_out(ask: Asker) -> None:
    """One after the other, until there is none: then the series is cancelled."""
    weekly(ask, until=f"@{(FIRST_MS + 15 * DAY_MS) // 1000}")
    for number in (1, 2):
        task = ask("cancel", "job", "x", this_run=True)
        assert (task.state, task.due_ms) == (State.SCHEDULED, FIRST_MS + number * 7 * DAY_MS)
        assert (task.runs, task.missed) == (0, 0)
    assert ask("cancel", "job", "x", this_run=True).state == State.CANCELLED
    assert ask("cancel", "job", "x", this_run=True).state == State.CANCELLED


@pytest.mark.parametrize("has_anchor", [True, False])
def test_one_that_was_moved_is_left_out(ask: Asker, has_anchor: bool) -> None:
    """What follows it is the same as if it had not been moved; others store no anchor."""
    weekly(ask)
    if not has_anchor:
        ask.store.redis.hdel(ask.store.task_key("x"), "anchor")
    ask("edit", "job", "x", at=f"@{(FIRST_MS + 3 * DAY_MS) // 1000}")
    assert ask("cancel", "job", "x", this_run=True).due_ms == FIRST_MS + 7 * DAY_MS


def test_a_run_is_asked_to_stop(ask: Asker) -> None:
    """The answer says that it runs; the series goes on when it has stopped."""
    ask("schedule", "job", id="x", every="1h")
    claim = ask.store.take("x")
    assert ask("cancel", "job", "x", this_run=True).state == State.RUNNING
    ask.store.finish(claim, "release")
    assert ask("get", "job", "x").state == State.SCHEDULED
    assert ask.store.take("x").over == "cancelled"


@pytest.mark.parametrize("state", ["scheduled", "running", "done", "dead"])
def test_what_has_no_occurrences_is_refused(ask: Asker, state: str) -> None:
    """A one-off, and whatever has ended, is left as it is."""
    into(ask.store, state, "x")
    before = ask.store.dump()
    words = "is not periodic" if state in ("scheduled", "running") else "has ended"
    with pytest.raises(Conflict, match=words):
        ask("cancel", "job", "x", this_run=True)
    with pytest.raises(NotFound):
        ask("cancel", "job", "y", this_run=True)
    assert ask.store.dump() == before


def test_a_period_that_cannot_be_read_is_told(ask: Asker) -> None:
    """Nobody could say what would follow; the series can still be cancelled."""
    weekly(ask)
    ask.store.redis.hset(ask.store.task_key("x"), "every", "often")
    with pytest.raises(
        Conflict, match=r"job/x: nobody can tell what would follow: .*often"
    ) as told:
        ask("cancel", "job", "x", this_run=True)
    assert told.value.hint == "edit what is wrong, or cancel the whole series"
    assert ask("cancel", "job", "x").state == State.CANCELLED


def test_one_that_others_change_meanwhile_is_read_anew(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found for the task as it was is not stored for the task as it is."""
    weekly(ask)
    found, count = skipping._skip, 0

    def changed_then(*args: object) -> object:
        nonlocal count
        skip, count = found(*args), count + 1  # type: ignore[arg-type]
        if count == 1:
            ask.store.edit("x", at_ms=FIRST_MS + 20 * DAY_MS, period="grid=")
        return skip

    monkeypatch.setattr(skipping, "_skip", changed_then)
    assert ask("cancel", "job", "x", this_run=True).due_ms == FIRST_MS + 7 * DAY_MS
    assert count == 2
