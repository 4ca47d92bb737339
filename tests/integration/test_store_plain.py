"""Tasks that other programs add with two plain Redis commands."""

from __future__ import annotations

import pytest

from scheduld.store.answers import Added, Settled, Started
from tests.support.store import LEASE, NOW, Store
from tests.support.store import any_store as any_store


def test_hset_and_zadd_make_a_task(store: Store) -> None:
    """Two plain commands are a task: it runs at its time with the payload as it was written."""
    store.plain("x", NOW + 10, b'{"to": "a@b.c"}')
    assert store.state("x") == "scheduled"
    assert store.claim().claims == []
    store.pass_ms(10)
    claim = store.take("x")
    assert (claim.payload, claim.due_ms, claim.attempt) == (b'{"to": "a@b.c"}', NOW + 10, 1)
    assert store.finish(claim) is Settled.STORED
    assert store.state("x") == "done"


def test_a_hash_without_payload_runs(store: Store) -> None:
    """No payload field means an empty payload, which is no reason not to run."""
    store.redis.hset(store.task_key("x"), "note", "mine")
    store.plain("x", NOW, payload=None)
    assert store.take("x").payload is None


@pytest.mark.parametrize("score", [0, -1, -1e15, "-inf"])
def test_a_score_up_to_zero_means_now(store: Store, score: float | str) -> None:
    """Such a task runs at once; what it is told as its due time is now."""
    store.plain("x", score)
    claim = store.take("x")
    assert (claim.due_ms, claim.start_ms) == (NOW, NOW)


def test_a_fraction_of_a_millisecond_is_never_early(store: Store) -> None:
    """A score between two ms is due at the later one."""
    store.plain("x", NOW + 0.5)
    assert store.claim().claims == []
    claim = store.take("x", early_ms=50)
    assert (claim.due_ms, claim.start_ms) == (NOW + 1, NOW + 1)


@pytest.mark.parametrize("score", [1e9 - 1, 1e11])
def test_other_past_scores_run(store: Store, score: float) -> None:
    """Only 1e9 to 1e11 is refused; other times long ago are due."""
    store.plain("x", score)
    assert store.take("x").due_ms == score


def test_a_hash_may_come_after_its_index(store: Store) -> None:
    """ZADD before HSET: the task waits for its hash up to 2 s, and keeps its due time."""
    store.plain("x", NOW, payload=None)
    store.add("good")
    assert [claim.id for claim in store.claim().claims] == ["good"]
    assert store.state("x") == "scheduled"
    store.pass_ms(1_900)
    assert store.claim().claims == []
    store.plain("x", NOW + 1_950)
    store.pass_ms(90)
    claim = store.take("x")
    assert (claim.payload, claim.due_ms) == (b'{"p":1}', NOW)
    assert "seen" not in store.fields("x")


@pytest.mark.parametrize("state", ["done", "cancelled", "dead"])
def test_an_ended_id_begins_a_new_life(store: Store, state: str) -> None:
    """A plain add of an ended id starts over: counters at zero, nothing of the old record left."""
    store.add("x", token="T")
    if state == "cancelled":
        store.cancel("x")
    else:
        store.finish(store.take("x"), "retry", detail="{}")
        store.lose("x")
        store.finish(store.take("x"), state, detail='{"kind":"x"}')
    store.plain("x", store.time, b'{"n":2}')
    store.twice.add("x")
    assert store.state("x") == "scheduled"
    claim = store.take("x")
    assert (claim.payload, claim.failed, claim.interruptions) == (b'{"n":2}', 0, 0)
    assert store.indexes("x") == ["leased"]
    assert set(store.fields("x")) == {"payload", "fence", "owner", "due"}


def test_an_ended_id_can_be_scheduled_again_and_cancelled(store: Store) -> None:
    """Cancelling a new life before it begins leaves one record, and replacing it too."""
    for state in ("done", "dead"):
        store.into(state, state)
        store.plain(state, store.time + 60_000)
        assert store.cancel(state).code == 1
        assert store.indexes(state) == ["done"]
        store.plain(state, store.time + 60_000)
        assert store.add(state, on_conflict="replace").code is Added.CREATED
        assert store.indexes(state) == ["due"]


def test_a_running_id_waits_where_a_claim_meets_it(store: Store) -> None:
    """A plain add of a running id never runs beside it: it comes when the run has ended."""
    store.add("x")
    claim = store.take("x")
    store.plain("x", NOW + 5, b'{"n":2}')
    store.pass_ms(5)
    assert store.claim(node="r2").claims == []
    assert store.indexes("x") == ["leased"]
    assert store.last_event()["e"] == "replaced"
    assert store.finish(claim, "retry", delay_ms=99) is Settled.STORED
    assert (store.due("x"), store.fields("x")) == (NOW + 5, {"payload": b'{"n":2}'})
    assert store.take("x").due_ms == NOW + 5


@pytest.mark.parametrize("kind", ["done", "retry", "dead", "snooze", "release"])
def test_a_running_id_waits_where_its_end_meets_it(store: Store, kind: str) -> None:
    """The same where the run ends before a claim looks: the new task stays, at its own time."""
    store.add("x")
    claim = store.take("x")
    store.plain("x", NOW + 500, b'{"n":2}')
    store.twice.add("x")
    assert store.finish(claim, kind, delay_ms=99, reason="r") is Settled.STORED
    assert (store.due("x"), store.fields("x")) == (NOW + 500, {"payload": b'{"n":2}'})
    assert store.indexes("x") == ["due"]
    assert store.last_event()["e"] == f"{kind} succeeded"
    assert store.finish(claim, kind, delay_ms=99) is Settled.REFUSED


def test_a_lost_run_hands_over_to_a_plain_add(store: Store) -> None:
    """When the lease of a run ends, a plain add of its id becomes the task."""
    store.add("x")
    store.take("x")
    store.plain("x", NOW + 90_000, b'{"n":2}')
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    assert (store.due("x"), store.fields("x")) == (NOW + 90_000, {"payload": b'{"n":2}'})


def test_the_newest_add_of_a_running_id_wins(store: Store) -> None:
    """Of a replacement and a plain add, the one that came last becomes the task."""
    store.add("x")
    claim = store.take("x")
    store.add("x", NOW + 7, payload=b'{"n":2}', on_conflict="replace")
    store.plain("x", NOW + 8, b'{"n":3}')
    store.twice.add("x")
    store.finish(claim)
    assert (store.due("x"), store.fields("x")) == (NOW + 8, {"payload": b'{"n":3}'})
    store.pass_ms(8)
    claim = store.take("x")
    store.plain("x", NOW + 9, b'{"n":4}')
    store.add("x", NOW + 10, payload=b'{"n":5}', on_conflict="replace")
    store.pass_ms(5)
    store.claim()
    store.finish(claim)
    assert (store.due("x"), store.fields("x")) == (NOW + 10, {"payload": b'{"n":5}'})


@pytest.mark.parametrize("way", ["start", "release", "recover"])
@pytest.mark.parametrize("met", [True, False])
def test_an_early_id_is_replaced_by_a_plain_add(store: Store, way: str, met: bool) -> None:
    """A task that is held early and not started is replaced, as one that is only scheduled."""
    claim = store.take_early("x", 50)
    store.plain("x", NOW + 20, b'{"n":2}')
    store.twice.add("x")
    if met:
        store.pass_ms(20)
        store.claim(node="r2")
    if way == "start":
        assert store.start(claim) == [Started.NOT_YET]
    elif way == "release":
        assert store.finish(claim, "release") is Settled.STORED
    else:
        store.pass_ms(LEASE + 1)
        assert store.recover() == 1
    assert (store.due("x"), store.fields("x")) == (NOW + 20, {"payload": b'{"n":2}'})
    assert store.indexes("x") == ["due"]
    assert store.last_event()["e"] == "succeeded", "no run ended"


def test_a_plain_add_takes_the_place_of_a_replacement(store: Store) -> None:
    """The token of a replacement that a later plain add displaced is no longer known."""
    store.add("x")
    claim = store.take("x")
    store.add("x", NOW + 60_000, token="U", on_conflict="replace")
    store.plain("x", NOW, b'{"n":3}')
    store.claim(node="r2")
    assert store.add("x", token="U").code is Added.EXISTS
    store.finish(claim)
    assert (store.due("x"), store.fields("x")) == (NOW, {"payload": b'{"n":3}'})
