"""Cancel and requeue, against every state."""

from __future__ import annotations

import pytest

from scheduld.store.answers import Decision, Renewed, Settled, Started
from tests.support.store import ENDED, NOW, Store
from tests.support.store import any_store as any_store


@pytest.mark.parametrize("state", ["scheduled", "early"])
def test_cancel_ends_what_has_not_started(store: Store, state: str) -> None:
    """A scheduled task is gone to done as cancelled, also one that a replica holds early."""
    claim = store.into(state, "x")
    store.pass_ms(3)
    assert store.cancel("x") == Decision(1, state)
    assert (store.state("x"), store.read("x").finished_ms) == ("cancelled", NOW + 3)
    assert store.indexes("x") == ["done"]
    event = store.last_event()
    assert (event["e"], event["ids"], event["node"]) == ("cancelled", "x", "cli")
    if claim:
        assert store.start(claim) == [Started.TAKEN_BACK]
        assert store.finish(claim, "release") is Settled.REFUSED
        assert store.indexes("x") == ["done"]


def test_cancel_asks_a_run_to_stop(store: Store) -> None:
    """A running task is marked; its replica is told by the wake-up channel and at its renewal."""
    store.add("x")
    claim = store.take("x")
    with store.redis.pubsub() as channel:  # type: ignore[no-untyped-call]
        channel.subscribe(store.keys.wake)
        assert channel.get_message(timeout=5)
        assert store.cancel("x") == Decision(2, "running")
        message = channel.get_message(timeout=5)
    assert message
    assert message["data"] == b"job cancel x"
    assert (store.state("x"), store.number("x", "cancel")) == ("running", NOW)
    assert store.last_event()["e"] == "cancelling"
    assert store.renew(claim) == [Renewed.CANCELLED]
    assert store.cancel("x") == Decision(2, "running"), "a repeat answers the same"


def test_cancel_of_a_retry_wait(store: Store) -> None:
    """A task that waits for its next attempt is cancelled like one that never ran."""
    store.add("x")
    claim = store.take("x")
    store.finish(claim, "retry", delay_ms=900, detail='{"kind":"E"}')
    assert store.cancel("x") == Decision(1, "scheduled")
    assert (store.error("x"), store.number("x", "failed")) == ("", 1)
    assert store.finish(claim, "retry") is Settled.REFUSED


@pytest.mark.parametrize(("state", "code"), [("done", 3), ("dead", 3), ("cancelled", 1)])
def test_cancel_of_what_has_ended(store: Store, state: str, code: int) -> None:
    """An end that came first stays; a repeated cancel answers as the first."""
    store.into(state, "x")
    before = store.dump()
    assert store.cancel("x") == Decision(code, state)
    assert store.dump() == before


def test_cancel_of_a_plain_add_of_a_running_id(store: Store) -> None:
    """A plain add that waits for the end of the run is dropped with it."""
    store.add("x")
    claim = store.take("x")
    store.plain("x", NOW + 9_000)
    assert store.cancel("x").code == 2
    store.finish(claim)
    assert store.indexes("x") == ["done"]


def test_cancel_drops_the_successor_of_an_early_claim(store: Store) -> None:
    """Nothing comes after a cancelled task, whatever was kept beside it."""
    store.take_early("x", 50)
    store.plain("x", NOW + 20)
    store.pass_ms(20)
    store.claim(node="r2")
    assert store.cancel("x") == Decision(1, "early")
    assert not {"next", "next_payload"} & set(store.fields("x"))


@pytest.mark.parametrize("state", ENDED)
def test_requeue_starts_over(store: Store, state: str) -> None:
    """An ended task is due now with its payload and its token; all its counters are zero."""
    store.add("x", NOW, token="T")
    store.finish(store.take("x"), "retry", detail="{}")
    store.lose("x")
    claim = store.take("x")
    if state == "cancelled":
        store.cancel("x")
    store.finish(claim, "dead" if state == "dead" else "done", detail='{"kind":"E"}')
    assert store.state("x") == state
    store.pass_ms(5)
    assert store.requeue("x") == Decision(1, state)
    assert store.due("x") == store.time
    assert store.fields("x") == {"payload": b'{"n":1}', "token": b"T"}
    assert store.indexes("x") == ["due"]
    assert store.last_event()["e"] == "requeued"
    claim = store.take("x")
    assert (claim.failed, claim.interruptions, claim.due_ms) == (0, 0, store.time)


@pytest.mark.parametrize("state", ["none", "scheduled", "early", "running"])
def test_requeue_of_what_has_not_ended(store: Store, state: str) -> None:
    """What is not ended is left as it is, and its state is named."""
    if state != "none":
        store.into(state, "x")
    before = store.dump()
    assert store.requeue("x") == Decision(3, state)
    assert store.dump() == before


def test_cancel_of_nothing(store: Store) -> None:
    """An unknown id is not created by cancelling it."""
    assert store.cancel("x") == Decision(3, "none")
    assert store.all_keys() == []


def test_requeue_without_payload(store: Store) -> None:
    """A task that was dead because its hash never came can be requeued, with an empty payload."""
    store.plain("x", NOW, payload=None)
    store.claim()
    store.pass_ms(2_200)
    store.claim()
    assert store.requeue("x") == Decision(1, "dead")
    assert store.take("x").payload == b"{}"


def test_a_stray_hash_is_not_a_task(store: Store) -> None:
    """A hash in no index is unknown to cancel and requeue; an add takes its id."""
    store.redis.hset(store.task_key("x"), "payload", "{}")
    assert store.cancel("x") == store.requeue("x") == Decision(3, "none")
    store.add("x", NOW + 1, payload=b'{"n":2}')
    assert store.fields("x") == {"payload": b'{"n":2}'}
