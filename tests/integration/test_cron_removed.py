"""A schedule that is removed, by hand or since no config has it any more, leaves nothing behind."""

from __future__ import annotations

import json

import pytest

from scheduld.model import Keep
from scheduld.store.cronanswers import Defined, Steered, Ticked
from tests.support.crons import MINUTE, Crons, daily
from tests.support.store import LEASE, NOW, Store
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

FIRST = "daily@2026-09-21T14:14:20Z"
SECOND = "daily@2026-09-21T14:15:20Z"
STATES = ["scheduled", "early", "running", "retry", "snooze", "done", "dead"]


def with_task(store: Store, state: str) -> Crons:
    """A schedule whose one task is in a state."""
    crons = Crons(store)
    crons.define(daily(overlap="queue"))
    store.pass_ms(MINUTE)
    crons.tick(due_ms=store.time + (40 if state == "early" else 0))
    if state == "scheduled":
        return crons
    claim = store.take(FIRST, early_ms=50)
    if state == "snooze":
        store.finish(claim, state, at_ms=store.time + MINUTE)
    elif state == "retry":
        store.finish(claim, state, delay_ms=MINUTE, detail="{}")
    elif state in ("done", "dead"):
        store.finish(claim, state, detail="{}" if state == "dead" else "")
    return crons


@pytest.mark.parametrize("state", STATES)
def test_removal_in_each_state_of_its_task(store: Store, state: str) -> None:
    """What waits is cancelled with a reason, what runs goes on, what has ended stays."""
    crons = with_task(store, state)
    with store.wakeups() as heard:
        told = crons.remove()
    waits = state in ("scheduled", "early", "retry", "snooze")
    assert told == (Steered.DONE, int(waits), None)
    assert heard[-1:] == ["job cron daily"]
    assert store.state(FIRST) == ("cancelled" if waits else state)
    if waits:
        assert json.loads(store.error(FIRST))["kind"] == "schedule_removed"
    assert crons.read() is None
    assert crons.outcomes()[-1] == "removed no longer needed"
    assert 0 < store.redis.pttl(store.type.ticks("daily")) <= 86_400_000
    assert store.claim().claims == []


def test_what_waits_in_the_hash_is_dropped(store: Store) -> None:
    """The end of the running task makes no tick of a removed schedule come."""
    crons = with_task(store, "running")
    claim_fence = int(store.fields(FIRST)["fence"])
    store.pass_ms(10)
    assert crons.tick() is Ticked.QUEUED
    crons.remove()
    assert crons.live() == [FIRST]
    store.pass_ms(LEASE + 1)
    for _ in range(3):
        store.recover()
        store.claim()
        store.pass_ms(LEASE + 1)
    assert claim_fence
    assert (store.state(FIRST), store.state(SECOND)) == ("dead", "none")
    assert store.redis.exists(store.type.live("daily")) == 0


def test_a_run_of_a_removed_schedule_ends_as_any(store: Store) -> None:
    """Its failures are tried again by its own retries, and its end leaves no key."""
    crons = with_task(store, "running")
    fence = int(store.fields(FIRST)["fence"])
    crons.remove()
    store.pass_ms(LEASE + 1)
    store.recover()
    claim = store.take(FIRST)
    assert claim.fence > fence
    store.finish(claim)
    assert store.redis.exists(store.type.live("daily")) == 0


def test_removal_of_none(store: Store) -> None:
    """There was none, or it is gone already; a broken one is removed."""
    crons = with_task(store, "done")
    assert [crons.remove().code, crons.remove().code] == [Steered.DONE, Steered.GONE]
    store.redis.set(store.type.cron("daily"), "foreign")
    store.redis.set(store.type.live("daily"), "foreign")
    assert crons.remove() == (Steered.DONE, 0, None)
    assert store.redis.exists(store.type.cron("daily")) == 0


def test_one_that_comes_back_begins_anew(store: Store) -> None:
    """No pause, run count or tick of its earlier life; its history goes on."""
    crons = with_task(store, "done")
    crons.pause()
    crons.remove()
    store.pass_ms(MINUTE)
    assert crons.define(daily()).code is Defined.NEW
    record = crons.record()
    assert (record.mark_ms, record.runs, record.paused_ms) == (store.time, 0, None)
    assert store.redis.pttl(store.type.ticks("daily")) == -1
    assert crons.outcomes() == ["fired", "removed no longer needed"]
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED


def test_a_task_of_the_life_before_holds_ticks_up(store: Store) -> None:
    """Removed and added again while it runs: it is not run beside itself."""
    crons = with_task(store, "running")
    crons.remove()
    crons.define(daily())
    assert store.redis.pttl(store.type.live("daily")) == -1
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.OVERLAP


def test_removed_and_added_a_hundred_times(store: Store) -> None:
    """Each life fires its own ticks, and after the retention no key of the name remains."""
    crons = Crons(store)
    for number in range(100):
        crons.define(daily())
        store.pass_ms(10)
        assert crons.tick() is Ticked.FIRED, number
        if number % 3 == 0:
            store.finish(store.claim().claims[0])
        crons.remove()
    assert store.redis.zcard(store.type.due) == store.redis.zcard(store.type.leased) == 0
    store.pass_ms(MINUTE)
    assert store.prune(Keep(0, 0), limit=500) == 100
    left = [key for key in store.all_keys() if b"daily" in key]
    assert left == [store.type.ticks("daily").encode()]
    assert store.redis.pttl(left[0]) > 0


def test_removal_of_many_tasks_goes_in_steps(fast_store: Store) -> None:
    """A bounded number a call, behind those that run; in between no tick can come."""
    store = fast_store
    crons = Crons(store)
    crons.define(daily(overlap="allow", max_unfinished=5000))
    for batch in range(6):
        times = [NOW + 1 + batch * 200 + number for number in range(200)]
        marks = [NOW + batch * 200, *times]
        store.now = times[-1]
        crons.fire(
            *(crons.a_tick(at, mark_ms=mark) for at, mark in zip(times, marks, strict=False))
        )
    running = {claim.id for claim in store.claim(30).claims}
    tick = crons.a_tick(store.time + 1)
    steps = [crons.remove()]
    while (start := steps[-1].start) is not None:
        store.pass_ms(1)
        assert crons.fire(tick)[0].code is Ticked.GONE
        steps.append(crons.remove(start=start))
    assert (sum(step.cancelled for step in steps), len(steps)) == (1170, 3)
    assert set(crons.live()) == running
    assert store.redis.zcard(store.type.due) == 0


def test_a_step_does_not_touch_the_next_life(store: Store) -> None:
    """Defined again between two steps of a removal, it keeps its tasks."""
    crons = with_task(store, "scheduled")
    assert crons.remove(start=0) == (Steered.DONE, 0, None)
    assert store.state(FIRST) == "scheduled"


# --- schedules of a config that nobody has any more


def test_what_nobody_announces_is_removed_after_a_while(store: Store) -> None:
    """The first look notes since when, one ten minutes later removes."""
    crons = with_task(store, "retry")
    since = store.time
    assert crons.orphan() == (Steered.DONE, False, since, None)
    for _ in range(2):
        store.pass_ms(5 * MINUTE - 1)
        assert crons.orphan() == (Steered.DONE, False, since, None)
    assert crons.record().orphan_ms == since
    store.pass_ms(2)
    with store.wakeups() as heard:
        assert crons.orphan() == (Steered.DONE, True, since, None)
    assert heard == ["job cron daily"]
    assert (crons.read(), store.state(FIRST)) == (None, "cancelled")
    assert crons.outcomes()[-1] == "removed no replica announces it"
    assert crons.orphan().code is Steered.GONE


def test_an_announcement_forgets_it(store: Store) -> None:
    """The same definition again, or another: the time begins anew."""
    crons = with_task(store, "done")
    crons.orphan()
    store.pass_ms(599_999)
    crons.define(daily(overlap="queue"))
    assert crons.record().orphan_ms is None
    store.pass_ms(1)
    assert crons.orphan() == (Steered.DONE, False, store.time, None)
    crons.define(daily(payload={"n": 2}))
    assert crons.record().orphan_ms is None


def test_a_time_without_witnesses_does_not_count(store: Store) -> None:
    """All daemons were down for a night: who comes back first must not remove what others have."""
    crons = with_task(store, "scheduled")
    crons.orphan()
    store.pass_ms(12 * 60 * MINUTE)
    assert crons.orphan() == (Steered.DONE, False, store.time, None)
    assert store.state(FIRST) == "scheduled"


def test_one_that_fires_is_no_orphan(store: Store) -> None:
    """A replica that fires it has it, even if it could not say so for a while."""
    crons = with_task(store, "done")
    crons.orphan()
    store.pass_ms(MINUTE)
    crons.tick()
    assert crons.record().orphan_ms is None


def test_a_backward_step_waits_anew(store: Store) -> None:
    """A clock set back by years does not keep an orphan for years."""
    crons = with_task(store, "done")
    crons.orphan()
    store.pass_ms(-MINUTE)
    assert crons.orphan().since_ms == store.time
    assert crons.record().orphan_ms == store.time


def test_one_of_the_run_time_is_no_orphan(store: Store) -> None:
    """No config announces it, and it stays."""
    crons = Crons(store)
    crons.define(daily(), origin="runtime")
    before = store.dump()
    assert crons.orphan(after_ms=0).code is Steered.OTHER_ORIGIN
    assert store.dump() == before
