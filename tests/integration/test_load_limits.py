"""Limits of a type and of a key, at the scripts: counted over all replicas, bounded, fair."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import Rate
from scheduld.store import calls
from scheduld.store.answers import Settled, Started
from scheduld.store.calls import NewTask
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from scheduld.model import Claim


def limit(store: Store, **limits: Any) -> None:
    """Give the type limits."""
    store.kind = replace(store.kind, **limits)


def add_many(store: Store, count: int, name: str = "t", load: str = "", at: int = NOW) -> None:
    """Add tasks NAME0000 and on, in the order of their names."""
    tasks = [
        NewTask(b"%s%05d" % (name.encode(), i), b"{}", "", at, load=load) for i in range(count)
    ]
    for start in range(0, count, 500):
        store.add_all(tasks[start : start + 500], "error")


def names(claims: list[Claim]) -> list[str]:
    """Ids of claims."""
    return [claim.id for claim in claims]


# Runs at once.


def test_no_more_run_than_the_limit(store: Store) -> None:
    """All replicas together hold as many tasks as the limit says, and wait to be told of an end."""
    limit(store, max_running=3)
    add_many(store, 9)
    first = store.claim(2, node="r1")
    second = store.claim(9, node="r2")
    assert (first.count, second.count) == (2, 1)
    assert first.next_due_ms == NOW
    assert second.next_due_ms is None, "what is due cannot start before a run ends"
    third = store.claim(9, node="r1", verdicts=[verdict(first.claims[0])])
    assert third.count == 1, "with the verdict of one comes the place for another"


@pytest.mark.parametrize("end", ["finish", "recover", "cancel early", "start given back"])
def test_an_end_wakes_who_waits_for_it(store: Store, end: str) -> None:
    """Whatever ends a run publishes that there is room again; once, and only if somebody waits."""
    limit(store, max_running=1)
    early = "early" in end or "start" in end
    store.add("x", NOW + 40 if early else NOW)
    claim = store.take("x", early_ms=50)
    store.add("y", NOW)
    assert store.claim(node="r2").count == 0
    with store.wakeups() as heard:
        if end == "finish":
            store.finish(claim)
        elif end == "recover":
            store.pass_ms(LEASE + 1)
            store.recover()
        elif end == "cancel early":
            store.cancel("x")
        else:
            assert store.start(claim) == [Started.NOT_YET]
    assert heard[-1] == f"job {NOW}"
    (again,) = store.claim().claims
    with store.wakeups() as heard:
        store.finish(again)
    left = [task_id for task_id in ("x", "y") if store.state(task_id) == "scheduled"]
    assert heard == [f"job {store.due(task_id)}" for task_id in left]


def test_a_claim_that_fills_the_place_itself_wakes_nobody(store: Store) -> None:
    """A verdict and the next task in one call leave no room for others to look for."""
    limit(store, max_running=1)
    add_many(store, 3)
    (claim,) = store.claim(1).claims
    with store.wakeups() as heard:
        assert store.claim(1, verdicts=[verdict(claim)]).count == 1
    assert heard == []


def test_early_claims_count(store: Store) -> None:
    """A place is taken from the claim on, so that no two tasks start in it."""
    limit(store, max_running=1)
    store.add("x", NOW + 30)
    store.add("y", NOW + 30)
    assert store.claim(early_ms=50).count == 1
    store.pass_ms(30)
    assert store.claim().count == 0


# Starts in a period.

PERIOD = 60_000
"""ms; the window's TTL runs by the server's own clock, and must outlast the test."""


def most_in_a_period(starts: list[int], period: int) -> int:
    """The most starts in any period."""
    return max(sum(at <= start < at + period for start in starts) for at in starts)


@pytest.mark.parametrize("early_ms", [0, 50])
def test_no_period_has_more_starts_than_the_rate(fast_store: Store, early_ms: int) -> None:
    """Two replicas that claim whenever they may: the window slides, and is filled to the full."""
    store = fast_store
    limit(store, rate_limit=Rate(5, PERIOD))
    add_many(store, 30)
    for i in range(10):
        store.add(f"later{i}", NOW + 18_000 + 2_221 * i)
    starts: list[int] = []
    turn = 0
    while len(starts) < 40:
        turn += 1
        answer = store.claim(3, node=f"r{turn % 2}", early_ms=early_ms)
        starts += [max(claim.start_ms, store.time) for claim in answer.claims]
        store.finish_all(*[verdict(claim) for claim in answer.claims])
        if answer.count == 0:
            assert answer.next_due_ms is not None
            assert answer.next_due_ms > store.time - early_ms
            store.pass_ms(411)
    assert most_in_a_period(starts, PERIOD) == 5
    assert max(starts) - NOW < 8 * PERIOD, "no start is given away"


def test_the_next_look_is_when_a_start_is_free(store: Store) -> None:
    """A claim that the rate stops says when there is a start again; retries count like others."""
    limit(store, rate_limit=Rate(2, 1_000))
    add_many(store, 2)
    claims = store.claim().claims
    store.finish(claims[0], "retry", delay_ms=10, detail="{}")
    store.pass_ms(400)
    answer = store.claim()
    assert (answer.count, answer.next_due_ms) == (0, NOW + 1_000)
    store.pass_ms(599)
    assert store.claim().count == 0
    store.pass_ms(1)
    assert names(store.claim().claims) == [claims[0].id]


def test_a_due_time_after_the_window_is_the_next_look(store: Store) -> None:
    """With the starts used up and nothing due, the next due time counts if it is later."""
    limit(store, rate_limit=Rate(1, 1_000))
    store.add("x")
    store.add("y", NOW + 5_000)
    assert store.claim().next_due_ms == NOW + 5_000


def test_a_clock_that_was_set_back_blocks_no_starts(store: Store) -> None:
    """Starts that lie in the future are those of a clock that was wrong."""
    limit(store, rate_limit=Rate(1, 60_000))
    store.pass_ms(3_600_000)
    store.add("x")
    store.take("x")
    store.now = NOW
    store.add("y")
    store.take("y")


def test_a_foreign_window_limits_nothing(store: Store) -> None:
    """Another kind of value in its place must not stop the type."""
    limit(store, rate_limit=Rate(1, 1_000), max_running_per_key=1, rate_limit_per_key=Rate(1, 9))
    for key in (store.type.starts, *(store.type.of_key(w, "k") for w in ("holders", "starts"))):
        store.redis.set(key, "foreign", px=60_000)
    store.add("x", load="key=k")
    store.finish(store.take("x"))


# Keys.


def test_a_key_has_its_own_places(store: Store) -> None:
    """Of one key so many run at once; other keys, and tasks without one, are not kept waiting."""
    limit(store, max_running_per_key=2)
    add_many(store, 4, "a", "key=a")
    add_many(store, 2, "b", "key=b")
    add_many(store, 1, "c")
    claims = store.claim(100).claims
    assert names(claims) == ["a00000", "a00001", "b00000", "b00001", "c00000"]
    assert store.claim(100, node="r2").count == 0


@pytest.mark.parametrize("end", ["done", "retry", "dead", "snooze", "release", "lost", "cancelled"])
def test_the_next_of_a_key_follows_at_once(store: Store, end: str) -> None:
    """However a run of a key ends, the longest waiting task of the key is due again, and told."""
    limit(store, max_running_per_key=1)
    add_many(store, 3, "a", "key=a")
    (claim,) = store.claim(1).claims
    assert store.claim(9).count == 0
    assert store.due("a00001") == store.time + 60_000
    with store.wakeups() as heard:
        if end == "lost":
            store.pass_ms(LEASE + 1)
            assert store.recover() == 1
        elif end == "cancelled":
            store.cancel(claim.id)
            assert store.finish(claim) is Settled.STORED
        else:
            store.finish(claim, end, delay_ms=99_000, at_ms=NOW + 99_000, detail="{}")
    assert heard[-1] == f"job {NOW}"
    ids = names(store.claim(9).claims)
    assert ids == (["a00000"] if end == "lost" else ["a00001"])


def test_waiting_tasks_are_shown_as_due(store: Store) -> None:
    """A task that waits for its key is due since it was due."""
    limit(store, max_running_per_key=1)
    add_many(store, 2, "a", "key=a")
    store.claim(9)
    task = store.read("a00001")
    assert task.due_ms == NOW + 60_000
    assert task.fields["moved"] == b"%d %d" % (NOW, NOW + 60_000)
    assert task.fields["due"] == b"%d" % NOW


def test_a_waiting_task_can_be_cancelled_and_the_next_follows(store: Store) -> None:
    """Who is cancelled while it waits does not hold up who waits behind it."""
    limit(store, max_running_per_key=1)
    add_many(store, 3, "a", "key=a")
    (claim,) = store.claim(9).claims
    store.cancel("a00001")
    store.finish(claim)
    assert names(store.claim(9).claims) == ["a00002"]


def test_a_lost_hint_costs_a_minute_and_no_task(store: Store) -> None:
    """Without its helpers a waiting task looks again by itself."""
    limit(store, max_running_per_key=1)
    add_many(store, 3, "a", "key=a")
    (claim,) = store.claim(9).claims
    store.redis.delete(store.type.of_key("parked", "a"), store.type.of_key("holders", "a"))
    store.finish(claim)
    assert store.claim(9).count == 0
    store.pass_ms(60_010)
    assert names(store.claim(9).claims) == ["a00001"]


def test_a_raised_limit_takes_effect(store: Store) -> None:
    """More places than before are used as soon as one of the key is looked at."""
    limit(store, max_running_per_key=1)
    add_many(store, 6, "a", "key=a")
    (claim,) = store.claim(9).claims
    assert store.claim(9).count == 0
    limit(store, max_running_per_key=4)
    store.finish(claim)
    assert store.order(9) == ["a00001", "a00002", "a00003", "a00004"]


def test_priority_decides_within_a_key(store: Store) -> None:
    """The most urgent of those that wait for a key follows first."""
    limit(store, max_running_per_key=1)
    add_many(store, 2, "a", "key=a")
    (claim,) = store.claim(9).claims
    store.add("urgent", load="key=a\npriority=9")
    assert store.claim(9).count == 0
    store.finish(claim)
    assert names(store.claim(9).claims) == ["urgent"]


def test_no_period_of_a_key_has_more_starts_than_its_rate(fast_store: Store) -> None:
    """Each key has a sliding window of its own; its tasks keep their order."""
    store = fast_store
    limit(store, rate_limit_per_key=Rate(2, PERIOD))
    add_many(store, 12, "a", "key=a")
    add_many(store, 3, "b", "key=b")
    starts: dict[str, list[int]] = {"a": [], "b": []}
    order: list[str] = []
    looks = 0
    while len(order) < 15:
        answer = store.claim(4, node=f"r{looks % 2}")
        looks += 1
        for claim in answer.claims:
            starts[claim.id[0]].append(max(claim.start_ms, store.time))
            order.append(claim.id)
        store.finish_all(*[verdict(claim) for claim in answer.claims])
        if answer.count == 0:
            assert answer.next_due_ms is not None
            # A little late, as real replicas are.
            store.now = max(store.time, answer.next_due_ms) + 3
    assert all(most_in_a_period(times, PERIOD) == 2 for times in starts.values())
    assert [name for name in order if name[0] == "a"] == [f"a{i:05d}" for i in range(12)]
    assert max(starts["a"]) - NOW < 5 * PERIOD + 100, "no start is given away"
    assert looks < 40


def test_a_key_without_starts_does_not_keep_places(store: Store) -> None:
    """With both limits a task that waits for a start of its key holds no place of it."""
    limit(store, max_running_per_key=1, rate_limit_per_key=Rate(1, 1_000))
    add_many(store, 2, "a", "key=a")
    (claim,) = store.claim(9).claims
    store.finish(claim)
    answer = store.claim(9)
    assert (answer.count, answer.next_due_ms) == (0, NOW + 1_000)
    store.pass_ms(1_000)
    assert names(store.claim(9).claims) == ["a00001"]


def test_a_full_key_in_front_does_not_keep_others_waiting(fast_store: Store) -> None:
    """20,000 tasks of one full key, then one of another: found within few, bounded claims."""
    store = fast_store
    limit(store, max_running_per_key=1)
    add_many(store, 20_000, "a", "key=a", at=NOW - 1)
    store.add("other", load="key=b")
    claims, looks = Counter[str](), 0
    most = 0
    while "other" not in claims:
        looks += 1
        store.redis.config_resetstat()
        answer = store.claim(1, node="r1")
        stats: Any = store.redis.info("commandstats")
        most = max(most, sum(stat["calls"] for stat in stats.values()))
        claims.update(names(answer.claims))
        assert looks <= 1 + 20_000 // 200 + 2
    assert most < 5 * 200, "commands of a claim"
    # They look again one after the other, not all in one instant.
    near, far = (store.redis.zcount(store.type.due, NOW, NOW + ms) for ms in (61_000, 110_000))
    assert near < 1_000
    assert far == 19_999
    store.wipe()


def test_a_rate_of_a_key_spreads_its_backlog(fast_store: Store) -> None:
    """10,000 tasks of one key at 10/m: each gets its own instant, and is not looked at before."""
    store = fast_store
    limit(store, rate_limit_per_key=Rate(10, PERIOD))
    add_many(store, 10_000, "a", "key=a")
    while store.claim(100).next_due_ms == NOW:
        pass
    assert store.redis.zcount(store.type.due, NOW, NOW + 2 * PERIOD) == 20
    assert store.redis.zcount(store.type.due, NOW, NOW + 999 * PERIOD) == 9_990
    store.wipe()


def test_limits_on_the_wire(store: Store) -> None:
    """The limits of a type go to the script in one argument, that is empty if there are none."""
    request = calls.ClaimRequest(1, 1, (), 0)

    def sent() -> object:
        call = calls.claim(store.caller(), store.type, store.kind, request, lease_ms=LEASE)
        return dict(zip(call.script.args, call.args, strict=False))["limit"]

    assert sent() == ""
    limit(store, max_running=7, rate_limit_per_key=Rate(5, 60_000))
    assert sent() == "7 - - - 5 60000"
