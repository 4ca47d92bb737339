"""Pause, resume and purge."""

from __future__ import annotations

import pytest

from scheduld.store.answers import Started
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store


def test_a_paused_type_is_not_claimed(store: Store) -> None:
    """Nothing is taken and no next due told, so that nobody looks in vain; the rest goes on."""
    store.add("old")
    claim = store.take("old")
    store.add("lost")
    store.take("lost", lease_ms=10)
    store.add("x")
    assert store.pause("smtp is down") == NOW
    event = store.last_event()
    assert (event["e"], event["ids"], event["error"]) == ("paused", "", "smtp is down")
    store.pass_ms(11)
    answer = store.claim(verdicts=[verdict(claim)], bound_ms=store.time)
    assert (answer.claims, answer.next_due_ms) == ([], None)
    assert (store.state("old"), store.indexes("lost")) == ("done", ["due"])
    store.add("y")
    assert store.edit("y", payload=b"{}").code == store.cancel("y").code == 1
    assert store.resume()
    assert {found.id for found in store.claim().claims} == {"x", "lost"}


def test_a_second_pause_goes_on_with_a_new_reason(store: Store) -> None:
    """It is paused since the first; resume ends it once, and leaves nothing behind."""
    store.add("x", NOW + 9)
    store.pause("one")
    store.pass_ms(5)
    assert store.pause("two") == NOW
    assert store.redis.hmget(store.type.meta, "paused", "pause_reason", "pause_who") == [
        str(NOW).encode(),
        b"two",
        b"ana@host",
    ]
    assert [store.resume(), store.resume()] == [True, False]
    left = set(store.redis.hkeys(store.type.meta))
    assert not {b"paused", b"pause_reason", b"pause_who"} & left


def test_resume_wakes(store: Store) -> None:
    """Pollers hear of the earliest due."""
    store.add("x", NOW + 70)
    store.pause()
    with store.redis.pubsub() as channel:  # type: ignore[no-untyped-call]
        channel.subscribe(store.keys.wake)
        assert channel.get_message(timeout=5)
        store.resume()
        assert channel.get_message(timeout=5)["data"] == f"job {NOW + 70}".encode()


def test_an_early_claim_does_not_start_while_paused(store: Store) -> None:
    """It is given back at its confirmation, with its due time, and runs after the resume."""
    claim = store.take_early("x", 40)
    store.pause()
    store.pass_ms(40)
    assert store.start(claim) == [Started.NOT_YET]
    assert (store.indexes("x"), store.due("x")) == (["due"], NOW + 40)
    assert store.claim().claims == []
    store.resume()
    again = store.take("x")
    assert (again.due_ms, again.interruptions, again.releases) == (NOW + 40, 0, 0)


@pytest.mark.parametrize("early_ms", [0, 50])
def test_a_claim_repeated_while_paused_is_taken_back(store: Store, early_ms: int) -> None:
    """The answer of a claim was lost, the type paused: its tasks have not begun, and do not."""
    store.add("x", NOW + (20 if early_ms else 0))
    store.add("y", NOW + (20 if early_ms else 0))
    store.claim(early_ms=early_ms, sequence=7)
    store.cancel("y")
    store.pause()
    assert store.claim(early_ms=early_ms, sequence=7).claims == []
    assert store.indexes("x") == ["due"]
    assert store.indexes("y") == (["done"] if early_ms else ["due"])
    store.resume()
    store.pass_ms(20)
    assert store.take("x", sequence=8).due_ms == NOW + (20 if early_ms else 0)


@pytest.mark.parametrize("state", ["done", "cancelled", "dead", "scheduled"])
def test_purge_removes_one_state(store: Store, state: str) -> None:
    """Hash and index entry of that state are gone, all others stay."""
    states = ["done", "cancelled", "dead", "scheduled", "running", "early"]
    for name in states:
        store.into(name, name)
    assert store.purge(state) == ((2, 1) if state in ("done", "cancelled") else (1, 1))
    assert store.read(state).key_type == "none"
    assert store.last_event()["e"] == "purged"
    for name in set(states) - {state}:
        assert store.state(name) == ("scheduled" if name == "early" else name)
    assert store.purge(state).removed == 0


def test_purge_is_bounded_and_goes_on_behind_what_stays(store: Store) -> None:
    """A step looks at so many entries from an offset on, and only up to an instant."""
    for number in range(6):
        store.into("cancelled" if number % 2 else "done", f"t{number}")
        store.pass_ms(10)
    assert store.purge("cancelled", limit=3) == (3, 1)
    assert store.purge("cancelled", limit=9, offset=2, before_ms=NOW + 30) == (1, 1)
    assert store.purge("cancelled", limit=9, offset=2, before_ms=NOW + 30) == (0, 0)
    assert store.purge("cancelled", offset=2) == (2, 1)
    assert store.redis.zrange(store.type.done, 0, -1) == [b"t0", b"t2", b"t4"]


@pytest.mark.parametrize("state", ["done", "dead"])
def test_purge_of_an_id_that_has_a_new_life(store: Store, state: str) -> None:
    """The old end is gone, the hash is the new life's."""
    store.into(state, "x")
    store.plain("x", NOW + 500)
    assert store.purge(state).removed == 1
    assert (store.indexes("x"), store.fields("x")) == (["due"], {"payload": b'{"p":1}'})


def test_purge_of_scheduled_leaves_runs_alone(store: Store) -> None:
    """What was claimed is not touched: of a running id only the plain add that waits is gone."""
    store.add("x")
    claim = store.take("x")
    store.plain("x", NOW + 500)
    store.add("y", NOW + LEASE)
    assert store.purge("scheduled") == (2, 2)
    assert (store.state("x"), store.indexes("x")) == ("running", ["leased"])
    store.finish(claim)
    assert store.indexes("x") == ["done"]


def test_purge_of_broken_keys(store: Store) -> None:
    """A dead entry whose key holds no hash goes with its key."""
    store.plain("x", NOW, payload=None)
    store.redis.set(store.task_key("x"), "foreign")
    store.claim()
    assert store.indexes("x") == ["dead"]
    assert store.purge("dead").removed == 1
    assert store.read("x").key_type == "none"
