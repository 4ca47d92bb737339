"""Overlap: what an earlier task of a schedule means for a tick, and for one that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduld.store.cronanswers import Ticked
from tests.support.crons import MINUTE, Crons, daily
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.model import Claim
    from scheduld.schedule import Overlap

FIRST = "daily@2026-09-21T14:14:20Z"
SECOND = "daily@2026-09-21T14:15:20Z"
THIRD = "daily@2026-09-21T14:16:20Z"


def started(store: Store, overlap: Overlap, **values: Any) -> tuple[Crons, Claim]:
    """Define a schedule, fire a tick and claim its task; a minute later."""
    crons = Crons(store)
    crons.define(daily(overlap=overlap, payload={"n": 1}, **values))
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED
    claim = store.take(FIRST)
    store.pass_ms(MINUTE)
    store.renew(claim)
    return crons, claim


def test_skip_records_and_goes_on(store: Store) -> None:
    """The watermark moves, the reason is kept; when the task has ended the next tick fires."""
    crons, claim = started(store, "skip")
    assert crons.tick() is Ticked.OVERLAP
    assert crons.record().mark_ms == store.time
    assert crons.record().last == (store.time, store.time, "skipped")
    store.finish(claim)
    assert crons.live() == []
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED
    assert crons.outcomes() == ["fired", "skipped overlap", "fired"]
    assert store.state(SECOND) == "none"


@pytest.mark.parametrize("kind", ["retry", "snooze", "release"])
def test_a_task_that_is_to_go_on_is_unfinished(store: Store, kind: str) -> None:
    """In retry wait, snoozed or released it still holds the tick up."""
    crons, claim = started(store, "skip")
    at = {"snooze": {"at_ms": store.time + 9 * MINUTE}}
    store.finish(claim, kind, **at.get(kind, {"delay_ms": 9 * MINUTE, "detail": "{}"}))
    assert store.state(FIRST) == "scheduled"
    assert crons.tick() is Ticked.OVERLAP
    store.pass_ms(10 * MINUTE)
    store.finish(store.take(FIRST))
    assert crons.tick() is Ticked.FIRED


def ends_done(store: Store, claim: Claim) -> None:
    """Plainly, as most do."""
    store.finish(claim)


def ends_in_a_claim(store: Store, claim: Claim) -> None:
    """As a verdict that a claim brings along; the same claim takes what waited."""
    assert [one.id for one in store.claim(verdicts=[verdict(claim)]).claims] == [SECOND]


def ends_with_a_result(store: Store, claim: Claim) -> None:
    """With a result."""
    store.finish(claim, detail="7")


def ends_dead(store: Store, claim: Claim) -> None:
    """After its last attempt."""
    store.finish(claim, "dead", detail="{}")


def ends_after_a_retry(store: Store, claim: Claim) -> None:
    """Not by a failed attempt, but by the one behind it."""
    store.finish(claim, "retry", detail="{}")
    assert store.state(SECOND) == "none"
    store.finish(store.take(FIRST), "dead", detail="{}")


def ends_interrupted(store: Store, claim: Claim) -> None:
    """As its worker was lost too often."""
    assert claim.interruptions == 0
    for _ in range(2):
        store.pass_ms(LEASE + 1)
        store.recover()
        assert store.state(SECOND) == "none"
        store.take(FIRST)
    store.pass_ms(LEASE + 1)
    store.recover()
    assert store.state(FIRST) == "dead"


def ends_cancelled_while_running(store: Store, claim: Claim) -> None:
    """By a cancel, once its run has ended."""
    store.cancel(FIRST)
    assert store.state(SECOND) == "none"
    store.finish(claim)


def ends_cancelled_and_lost(store: Store, claim: Claim) -> None:
    """By a cancel, with a worker that never answers."""
    store.cancel(FIRST)
    assert claim.fence
    store.pass_ms(LEASE + 1)
    store.recover()


def ends_cancelled_while_waiting(store: Store, claim: Claim) -> None:
    """By a cancel in retry wait."""
    store.finish(claim, "retry", delay_ms=MINUTE, detail="{}")
    store.cancel(FIRST)


def ends_purged(store: Store, claim: Claim) -> None:
    """By a purge in retry wait."""
    store.finish(claim, "retry", delay_ms=MINUTE, detail="{}")
    assert store.purge("scheduled", limit=1).removed == 1


def ends_expired(store: Store, claim: Claim) -> None:
    """As it could not start in time."""
    store.finish(claim, "retry", delay_ms=MINUTE, detail="{}")
    store.redis.hset(store.task_key(FIRST), "expires", store.time + 1)
    store.pass_ms(MINUTE)
    store.claim(1)
    assert store.state(FIRST) == "dead"


def ends_without_hash(store: Store, claim: Claim) -> None:
    """As somebody deleted its hash while it ran."""
    assert claim.fence
    store.redis.delete(store.task_key(FIRST))
    store.pass_ms(LEASE + 1)
    store.recover()
    assert store.state(FIRST) == "dead"


def ends_with_a_foreign_key(store: Store, claim: Claim) -> None:
    """As somebody put something else in the place of its hash."""
    assert claim.fence
    store.redis.set(store.task_key(FIRST), "foreign", px=60_000)
    store.pass_ms(LEASE + 1)
    store.recover()
    assert store.state(FIRST) == "dead"


def ends_by_the_janitor(store: Store, claim: Claim) -> None:
    """As a broken record: an entry without a hash."""
    store.finish(claim, "retry", delay_ms=MINUTE, detail="{}")
    store.redis.delete(store.task_key(FIRST))
    assert store.audit(FIRST, mend=True) == [2]


ENDS: list[Callable[[Store, Claim], None]] = [
    *(ends_done, ends_in_a_claim, ends_with_a_result, ends_dead, ends_after_a_retry),
    *(ends_interrupted, ends_cancelled_while_running, ends_cancelled_and_lost),
    *(ends_cancelled_while_waiting, ends_purged, ends_expired, ends_without_hash),
    *(ends_with_a_foreign_key, ends_by_the_janitor),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_a_queued_tick_comes_with_the_end_of_the_task(
    store: Store, end: Callable[[Store, Claim], None]
) -> None:
    """However the earlier task ends, the same step makes the task of the tick that waited."""
    crons, claim = started(store, "queue")
    queued_ms = store.time
    assert crons.tick() is Ticked.QUEUED
    assert (crons.record().queued_ms, crons.live()) == (queued_ms, [FIRST])
    assert store.state(SECOND) == "none"
    store.pass_ms(500)
    end(store, claim)
    assert store.state(SECOND) in ("scheduled", "running")
    assert store.fields(SECOND)["payload"] == b'{"n":1}'
    assert store.fields(SECOND)["tick"] == str(queued_ms).encode()
    record, last = crons.record(), crons.history()[-1]
    assert (record.queued_ms, record.runs, record.mark_ms) == (None, 2, queued_ms)
    assert (last.outcome, last.tick_ms, last.task_id) == ("fired", queued_ms, SECOND)
    assert last.late_ms == store.time - queued_ms >= 500
    assert crons.live() == [SECOND]


def test_further_ticks_coalesce(store: Store) -> None:
    """One waits, each later one is recorded, and the waiting one is the first."""
    crons, claim = started(store, "queue")
    for expected in (Ticked.QUEUED, Ticked.COALESCED, Ticked.COALESCED):
        assert crons.tick() is expected
        store.pass_ms(MINUTE)
    store.finish(claim)
    assert [one.id for one in store.claim().claims] == [SECOND]
    assert crons.outcomes() == ["fired", "queued", "coalesced", "coalesced", "fired"]
    assert [one.tick_ms for one in crons.history()][-1] == NOW + 2 * MINUTE


def test_a_waiting_tick_wakes_the_pollers(store: Store) -> None:
    """Its task is due at once, and pollers are told so."""
    crons, claim = started(store, "queue")
    crons.tick()
    with store.wakeups() as heard:
        store.finish(claim)
    assert heard == [f"job {NOW + 2 * MINUTE}"]


def test_a_waiting_tick_runs_with_the_newest_payload(store: Store) -> None:
    """An edit of the payload leaves the tick that waits alone; its task gets the new payload."""
    crons, claim = started(store, "queue")
    crons.tick()
    crons.define(daily(overlap="queue", payload={"n": 2}))
    assert crons.record().queued_ms == store.time
    store.finish(claim)
    assert store.take(SECOND).payload == b'{"n":2}'


def test_cancel_stops_the_running_one_and_comes_behind_it(store: Store) -> None:
    """The run is marked and told to stop; the tick comes with its end, and asks only once."""
    crons, claim = started(store, "cancel")
    with store.wakeups() as heard:
        assert crons.tick() is Ticked.QUEUED
    assert heard == [f"job cancel {FIRST}"]
    store.pass_ms(MINUTE)
    with store.wakeups() as heard:
        assert crons.tick() is Ticked.COALESCED
    assert heard == []
    store.finish(claim)
    assert (store.state(FIRST), store.state(SECOND)) == ("cancelled", "scheduled")


def test_cancel_takes_the_place_of_one_that_waits(store: Store) -> None:
    """A task in retry wait is cancelled at once, and the tick fires."""
    crons, claim = started(store, "cancel")
    store.finish(claim, "retry", delay_ms=9 * MINUTE, detail="{}")
    assert crons.tick() is Ticked.FIRED
    assert (store.state(FIRST), store.state(SECOND)) == ("cancelled", "scheduled")
    assert crons.live() == [SECOND]
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED
    assert (store.state(SECOND), store.state(THIRD)) == ("cancelled", "scheduled")


def test_cancel_takes_back_a_claim_made_early(store: Store) -> None:
    """Claimed, but not begun: it does not start any more."""
    crons = Crons(store)
    crons.define(daily(overlap="cancel"))
    store.pass_ms(MINUTE)
    crons.tick(due_ms=store.time + 40)
    claim = store.take(FIRST, early_ms=50)
    assert claim.early
    store.pass_ms(20)
    crons.tick()
    assert store.state(FIRST) == "cancelled"
    assert [code.name for code in store.start(claim)] == ["TAKEN_BACK"]


def test_allow_runs_side_by_side_up_to_a_number(store: Store) -> None:
    """Beyond max_unfinished ticks are recorded as backlog; an end makes room for one."""
    crons, claim = started(store, "allow", max_unfinished=2)
    assert crons.tick() is Ticked.FIRED
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.BACKLOG
    assert crons.record().unfinished == 2
    store.finish(claim)
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED
    assert crons.outcomes() == ["fired", "fired", "backlog", "fired"]


def test_what_has_ended_holds_up_nothing(store: Store) -> None:
    """A leftover in `live`, of a task that somebody removed by hand, is found and taken out."""
    crons, _ = started(store, "skip")
    store.redis.zrem(store.type.leased, FIRST)
    store.redis.delete(store.task_key(FIRST))
    store.redis.zadd(store.type.live("daily"), {"never": 1})
    assert crons.tick() is Ticked.FIRED
    assert crons.live() == [SECOND]


def test_a_waiting_tick_whose_task_vanished_comes_with_the_next(store: Store) -> None:
    """Nobody saw the end of the earlier task: the tick that waited fires, the new one waits."""
    crons, _ = started(store, "queue")
    crons.tick()
    store.redis.zrem(store.type.leased, FIRST)
    store.redis.delete(store.task_key(FIRST))
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.QUEUED
    assert (store.state(SECOND), crons.record().queued_ms) == ("scheduled", store.time)
    assert crons.outcomes() == ["fired", "queued", "fired", "queued"]


@pytest.mark.parametrize("how", ["add", "plain"])
def test_a_task_that_takes_the_id_keeps_the_place(store: Store, how: str) -> None:
    """Replaced while it runs, the successor is still the task of the tick, and holds ticks up."""
    crons, claim = started(store, "queue")
    crons.tick()
    if how == "add":
        store.add(FIRST, on_conflict="replace", payload=b'{"new":1}')
    else:
        store.plain(FIRST, store.time, b'{"new":1}')
    store.finish(claim)
    assert (store.state(SECOND), crons.live()) == ("none", [FIRST])
    assert store.fields(FIRST)["tick"] == str(NOW + MINUTE).encode()
    claim = store.take(FIRST)
    assert claim.payload == b'{"new":1}'
    store.finish(claim)
    assert crons.live() == [SECOND]


def test_a_scheduled_task_that_is_replaced_keeps_the_place(store: Store) -> None:
    """Also before it began."""
    crons, claim = started(store, "queue")
    store.finish(claim, "retry", delay_ms=MINUTE, detail="{}")
    crons.tick()
    store.add(FIRST, on_conflict="replace")
    assert (store.state(SECOND), crons.live()) == ("none", [FIRST])
    store.finish(store.take(FIRST))
    assert crons.live() == [SECOND]


def test_a_requeued_task_holds_ticks_up_again(store: Store) -> None:
    """It is the task of its tick as before, and unfinished."""
    crons, claim = started(store, "skip")
    store.finish(claim, "dead", detail="{}")
    store.requeue(FIRST)
    assert store.fields(FIRST)["schedule"] == b"daily"
    assert crons.tick() is Ticked.OVERLAP
    store.finish(store.take(FIRST))
    assert crons.live() == []


def test_two_unfinished_tasks_both_hold_a_tick_up(store: Store) -> None:
    """One of them requeued: the tick that waits comes with the end of the last."""
    crons, claim = started(store, "queue")
    store.finish(claim, "dead", detail="{}")
    crons.tick()
    other = store.take(SECOND)
    store.requeue(FIRST)
    store.pass_ms(MINUTE)
    store.renew(other)
    assert crons.tick() is Ticked.QUEUED
    store.finish(other)
    assert store.state(THIRD) == "none"
    store.finish(store.take(FIRST))
    assert store.state(THIRD) == "scheduled"


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel"])
def test_a_patient_tick_waits_for_room(store: Store, overlap: Overlap) -> None:
    """A missed one that is caught up with changes nothing until the earlier task has ended."""
    crons, claim = started(store, overlap)
    before = store.dump()
    assert crons.tick(is_patient=True) is Ticked.NO_ROOM
    assert store.dump() == before
    store.finish(claim)
    assert crons.tick(is_patient=True) is Ticked.FIRED


def test_a_long_backlog_is_decided_in_bounded_work(fast_store: Store) -> None:
    """Of thousands that may be unfinished only as many are looked at as a call can bear."""
    crons = Crons(fast_store)
    crons.define(daily(overlap="allow", max_unfinished=3000))
    gone = {f"gone{number}": 1 for number in range(3000)}
    fast_store.redis.zadd(fast_store.type.live("daily"), gone)
    for _ in range(3):
        fast_store.pass_ms(MINUTE)
        assert crons.tick() is Ticked.FIRED
        assert len(crons.live()) > 0
    fast_store.redis.zremrangebyscore(fast_store.type.live("daily"), 1, 1)


def test_cancel_with_one_that_waits_already(store: Store) -> None:
    """Changed from queue to cancel: what waited comes by the cancel, is counted, and is next."""
    crons, claim = started(store, "queue")
    crons.tick()
    store.finish(claim, "retry", delay_ms=9 * MINUTE, detail="{}")
    crons.define(daily(overlap="cancel", payload={"n": 1}))
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.QUEUED
    assert (store.state(FIRST), store.state(SECOND)) == ("cancelled", "scheduled")
    record = crons.record()
    assert (record.runs, record.queued_ms) == (2, store.time)
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.QUEUED
    assert (store.state(SECOND), store.state(THIRD)) == ("cancelled", "scheduled")
    assert crons.record().runs == 3
