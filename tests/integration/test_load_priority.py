"""Priorities and expiry, at the scripts: who comes first, who waits, and who comes too late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scheduld.store.answers import Added, Settled, Started
from scheduld.store.calls import NewTask
from scheduld.store.records import to_task
from tests.support.store import LEASE, NOW, Store
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from scheduld.model import Task

MINUTE = 60_000


def shown(store: Store, task_id: str) -> Task:
    """A task as people read it."""
    task = to_task("job", store.read(task_id))
    assert task is not None
    return task


def test_the_higher_comes_first_and_a_tie_is_by_due(store: Store) -> None:
    """Of tasks that are due together the priority decides, then the due time."""
    for task_id, priority, ago in (
        ("low", -5, 0),
        ("plain", 0, 0),
        ("high", 5, 0),
        ("older", 0, 10),
        ("highest", 100, 0),
    ):
        load = f"priority={priority}" if priority else ""
        assert store.add(task_id, NOW - ago, load=load).due_ms == NOW - ago
    assert store.order() == ["highest", "high", "older", "plain", "low"]


def test_a_point_is_worth_a_minute_of_waiting(store: Store) -> None:
    """Who has waited longer than the difference in points, in minutes, goes first."""
    store.add("high", NOW, load="priority=10")
    store.add("waited-9", NOW - 9 * MINUTE)
    store.add("waited-11", NOW - 11 * MINUTE)
    store.add("low-waited-20", NOW - 20 * MINUTE, load="priority=-8")
    assert store.order() == ["low-waited-20", "waited-11", "high", "waited-9"]


@pytest.mark.parametrize("priority", [1, 100, -1, -100])
def test_no_priority_starts_a_task_before_its_due(store: Store, priority: int) -> None:
    """Before its due time a task is not taken, at its due time it is."""
    store.add("x", NOW + 1_000, load=f"priority={priority}")
    store.pass_ms(999)
    answer = store.claim()
    assert answer.count == 0
    assert answer.next_due_ms == NOW + 1_000
    store.pass_ms(1)
    claim = store.take("x")
    assert claim.due_ms == NOW + 1_000
    assert claim.start_ms == NOW + 1_000, "what lateness counts from"


def test_a_low_one_runs_at_once_when_there_is_room(store: Store) -> None:
    """Low priority is no delay: with slots to spare it is taken with the others, behind them."""
    store.add("low", load="priority=-100")
    store.add("plain")
    store.pass_ms(1)
    assert [claim.id for claim in store.claim(2).claims] == ["plain", "low"]


def test_what_low_ones_wait_for_is_told(store: Store) -> None:
    """While low ones are left a claim says to look again at once: they are due."""
    for task_id in ("low-1", "low-2"):
        store.add(task_id, load="priority=-100")
    answer = store.claim(1)
    assert answer.count == 1
    assert answer.next_due_ms == store.time
    assert store.claim(1).next_due_ms is None


def test_a_low_one_does_not_starve(store: Store) -> None:
    """After as many minutes as it has points against it a task comes before new ones."""
    store.add("low", load="priority=-3")
    for minute in range(3):
        store.add(f"new-{minute}")
        assert store.order(most=1) == [f"new-{minute}"]
        store.pass_ms(MINUTE)
    store.pass_ms(1)
    store.add("new-3")
    assert store.order() == ["low", "new-3"]


def test_due_and_place_are_told_apart(store: Store) -> None:
    """A task that its priority moved is shown as due when it is due."""
    for priority in (7, -7):
        task_id = f"p{priority}"
        store.add(task_id, load=f"priority={priority}")
        task = shown(store, task_id)
        assert (task.due_ms, task.priority) == (NOW, priority)
        assert store.due(task_id) == NOW - priority * MINUTE


def test_a_retry_keeps_its_priority(store: Store) -> None:
    """After a failure, a release and a loss a task is as urgent as before."""
    store.add("x", load="priority=50")
    store.finish(store.take("x"), "retry", delay_ms=1_000)
    store.pass_ms(1_000)
    store.add("plain", store.time - 5)
    store.finish(store.take("x", want=1), "release")
    store.finish(store.take("x", want=1), "snooze", at_ms=store.time + 10)
    store.pass_ms(10)
    store.lose("x", want=1)
    assert store.order() == ["x", "plain"]
    assert store.number("x", "failed") == store.number("x", "interruptions") == 1


def test_a_late_verdict_of_a_moved_task_counts(store: Store) -> None:
    """A verdict after its lease was lost is stored, though the priority has moved the task."""
    store.add("x", load="priority=5")
    claim = store.lose("x")
    assert store.due("x") == NOW - 5 * MINUTE
    assert store.finish(claim) is Settled.STORED
    assert store.state("x") == "done"
    assert store.indexes("x") == ["done"]


def test_an_early_claim_comes_back_with_its_priority(store: Store) -> None:
    """Given back before its start, a task is due as before, and no earlier."""
    store.add("x", NOW + 40, load="priority=5")
    claim = store.take("x", early_ms=50)
    assert store.start(claim) == [Started.NOT_YET]
    assert store.due("x") == NOW + 40
    store.pass_ms(40)
    store.add("plain", NOW)
    assert store.order() == ["x", "plain"]


def test_a_plain_add_of_another_time_is_obeyed(store: Store) -> None:
    """A ZADD of a prioritised id by another program: its time counts, and nothing is lost."""
    store.add("x", NOW + 1_000, load="priority=5")
    store.plain("x", NOW + 5_000)
    store.pass_ms(1_000)
    assert store.claim().count == 0
    store.pass_ms(4_000)
    store.add("plain", NOW)
    assert store.order() == ["x", "plain"]


def test_requeue_keeps_priority_and_drops_expiry(store: Store) -> None:
    """A task that was dead comes back as urgent as it was, and may start whenever."""
    store.add("x", load=f"priority=5\nexpires={NOW + 10}")
    store.finish(store.take("x"), "dead", detail="{}")
    store.pass_ms(20)
    store.requeue("x")
    task = shown(store, "x")
    assert (task.priority, task.expires_ms) == (5, None)
    assert store.order() == ["x"]


def test_a_foreign_value_at_the_helpers_stops_nothing(store: Store) -> None:
    """Another kind of value in the place of a helper key: order is lost, tasks are not."""
    for key in (store.type.priorities, store.type.lazy):
        store.redis.set(key, "foreign", px=60_000)
    for priority in (3, -3):
        store.add(f"now{priority}", load=f"priority={priority}")
        store.add(f"later{priority}", NOW + 500, load=f"priority={priority}")
    store.pass_ms(500)
    assert sorted(store.order()) == ["later-3", "later3", "now3"]
    store.redis.delete(store.type.lazy)
    store.pass_ms(3 * MINUTE)
    assert store.order() == ["now-3"]


def test_many_that_come_due_together_cost_a_claim_little(fast_store: Store) -> None:
    """20,000 prioritised tasks of one instant: each claim moves a bounded number of them."""
    store = fast_store
    for start in range(0, 20_000, 500):
        store.add_all(
            [
                NewTask(b"%d" % (start + i), b"{}", "", NOW + 1_000, load="priority=5")
                for i in range(500)
            ],
            "error",
        )
    store.add("plain", NOW + 999)
    store.pass_ms(1_000)
    store.redis.config_resetstat()
    assert store.claim(10).count == 10
    calls = store.redis.info("commandstats")["cmdstat_zadd"]["calls"]
    assert calls < 250, "200 moved, and what the claim itself does"
    assert "plain" not in store.order(100, most=1_000)
    store.wipe()


@pytest.mark.parametrize("state", ["scheduled", "retry", "early"])
def test_what_cannot_start_in_time_is_dead(store: Store, state: str) -> None:
    """A claim, or the start of an early one, after the expiry: dead with a reason, no attempt."""
    at = NOW + 40 if state == "early" else NOW
    store.add("x", at, load=f"expires={NOW + 45}")
    failed = 0
    if state == "retry":
        store.finish(store.take("x"), "retry", delay_ms=100, detail="{}")
        failed = 1
    early = store.take("x", early_ms=50) if state == "early" else None
    store.pass_ms(100)
    if early:
        assert store.start(early) == [Started.TAKEN_BACK]
    else:
        assert store.claim().count == 0
    assert store.state("x") == "dead"
    assert '"expired"' in store.error("x")
    assert store.number("x", "failed") == failed
    assert "expired: " in store.last_event()["error"]


def test_a_start_at_the_last_ms_is_in_time(store: Store) -> None:
    """`expires` is inclusive."""
    store.add("x", load="expires_after=100")
    assert shown(store, "x").expires_ms == NOW + 100
    store.pass_ms(100)
    store.take("x")


def test_expired_ones_do_not_take_slots(store: Store) -> None:
    """Those that expired in front of the line are put away in the same claim."""
    tasks = [NewTask(b"e%d" % i, b"{}", "", NOW - 50, load="expires_after=10") for i in range(120)]
    store.add_all(tasks, "error")
    store.add("good")
    assert [claim.id for claim in store.claim(1).claims] == ["good"]
    assert store.redis.zcard(store.type.dead) == 120


def test_a_new_life_does_not_inherit(store: Store) -> None:
    """A plain add of an ended id begins without the priority, key and expiry of the old life."""
    store.add("x", load="priority=5\nkey=k\nexpires_after=10")
    store.finish(store.take("x"))
    store.pass_ms(LEASE)
    store.plain("x", store.time)
    store.take("x")
    assert not {"priority", "key", "expires"} & store.fields("x").keys()


def test_a_successor_brings_its_own(store: Store) -> None:
    """What replaces a running task has the priority that its add said, and no other."""
    store.add("x", load="priority=5")
    claim = store.take("x")
    added = store.add("x", load="priority=-9\nexpires_after=500", on_conflict="replace")
    assert added.code is Added.SUCCESSOR
    store.finish(claim)
    task = shown(store, "x")
    assert (task.priority, task.expires_ms, task.due_ms) == (-9, NOW + 500, NOW)
    store.take("x")


@pytest.mark.parametrize("how", ["resume", "end of a run"])
def test_who_stands_behind_is_told_when_it_may_start(store: Store, how: str) -> None:
    """What kept a task of low priority waiting is over: replicas look now, not at its place."""
    claim = None
    if how == "resume":
        store.pause()
    else:
        store.kind = replace(store.kind, max_running=1)
        store.add("x")
        claim = store.take("x")
    store.add("low", load="priority=-50")
    assert store.claim(node="r2").next_due_ms is None
    with store.wakeups() as heard:
        if claim is None:
            store.resume()
        else:
            store.finish(claim)
    assert heard == [f"job {NOW}"]


def test_purge_goes_by_the_due_time(store: Store) -> None:
    """A high priority does not make a task look old."""
    store.add("high", NOW, load="priority=100")
    store.add("old", NOW - 7_200_000)
    assert store.purge("scheduled", before_ms=NOW - 3_600_000).removed == 1
    assert store.state("high") == "scheduled"


def test_run_now_moves_no_task_back(store: Store) -> None:
    """One of low priority that waits since long starts before what comes due after the call."""
    store.add("low", NOW - 40 * MINUTE, load="priority=-50")
    assert store.claim(0).count == 0
    store.run_now("low")
    store.add("plain", NOW + 1)
    store.pass_ms(1)
    claims = store.claim(1).claims
    assert [(claim.id, claim.start_ms) for claim in claims] == [("low", NOW - 40 * MINUTE)]
    assert store.order() == ["plain"]
