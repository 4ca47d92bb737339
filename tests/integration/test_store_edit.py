"""Edit and run-now, against every state."""

from __future__ import annotations

import pytest

from scheduld.store.answers import Decision, Edited, Renewed, Settled, Started
from scheduld.store.keys import encode_id
from tests.support.store import LEASE, NOW, Store
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

NEW = b'{"n":2}'
REFUSED = ["none", "running", "done", "cancelled", "dead"]


def test_an_edit_changes_what_it_names(store: Store) -> None:
    """Payload and due time change apart from each other; each edit counts as one revision."""
    store.add("x", NOW + 9_000, token="T")
    assert store.edit("x", payload=NEW) == Edited(1, "scheduled", 1)
    assert (store.due("x"), store.fields("x")["payload"]) == (NOW + 9_000, NEW)
    assert store.edit("x", at_ms=NOW + 500) == Edited(1, "scheduled", 2)
    assert store.edit("x", delay_ms=700).revision == 3
    assert (store.due("x"), store.fields("x")["payload"]) == (NOW + 700, NEW)
    assert store.last_event()["e"] == "edited"
    store.pass_ms(700)
    claim = store.take("x")
    assert (claim.due_ms, claim.payload) == (NOW + 700, NEW)
    store.finish(claim)
    assert store.fields("x")["token"] == b"T"


def test_a_repeated_edit_changes_nothing(store: Store) -> None:
    """An edit whose answer was lost answers the same again, whatever has become of the task."""
    store.add("x", NOW + 100)
    assert store.edit("x", "T1", delay_ms=300, if_revision=0).code == 1
    store.pass_ms(100)
    before = store.dump()
    assert store.edit("x", "T1", delay_ms=300, if_revision=0) == Edited(1, "scheduled", 1)
    assert store.dump() == before
    store.pass_ms(200)
    store.take("x")
    assert store.edit("x", "T1", delay_ms=300).code == 1
    assert store.edit("x", "T2", delay_ms=300).code == 3


def test_an_edit_of_another_revision_is_refused(store: Store) -> None:
    """A task that was edited meanwhile is left alone, and its revision told; so is a payload that
    was not edited but written over."""
    store.add("x", NOW + 100)
    store.edit("x", payload=NEW)
    before = store.dump()
    assert store.edit("x", payload=b"{}", if_revision=0) == Edited(4, "scheduled", 1)
    assert store.edit("x", payload=b"{}", if_revision=1, old_payload=b'{"n":1}').code == 4
    assert store.dump() == before
    assert store.edit("x", payload=b"{}", if_revision=1, old_payload=NEW).revision == 2


@pytest.mark.parametrize("state", REFUSED)
def test_what_runs_or_has_ended_is_not_changed(store: Store, state: str) -> None:
    """Edit and run-now leave it as it is, and name its state."""
    if state != "none":
        store.into(state, "x")
    before = store.dump()
    assert store.edit("x", payload=NEW) == Edited(3, state, 0)
    assert store.run_now("x") == Decision(3, state)
    assert store.dump() == before


@pytest.mark.parametrize("verb", ["edit", "run_now"])
def test_an_early_claim_is_taken_back(store: Store, verb: str) -> None:
    """What a replica holds before its due is changed all the same, and cannot start as it was."""
    claim = store.take_early("x", 40)
    code = store.run_now("x").code if verb == "run_now" else store.edit("x", payload=NEW).code
    assert code == 1
    assert (store.indexes("x"), "early" in store.fields("x")) == (["due"], False)
    assert store.due("x") == (NOW if verb == "run_now" else NOW + 40)
    assert store.renew(claim) == [Renewed.LOST]
    store.pass_ms(40)
    assert store.start(claim) == [Started.TAKEN_BACK]
    assert store.finish(claim, "release") is Settled.REFUSED
    again = store.take("x")
    assert (again.due_ms, again.payload) == (
        NOW + 40,
        NEW if verb == "edit" else b'{"n":1}',
    )


@pytest.mark.parametrize("verb", ["edit", "run_now"])
@pytest.mark.parametrize("kind", ["retry", "snooze", "lost"])
def test_a_waiting_task_keeps_its_counters(store: Store, kind: str, verb: str) -> None:
    """A retry, a snooze or a lost run is changed while it waits; a verdict that comes late, after
    it, counts no more."""
    store.add("x")
    if kind == "lost":
        claim = store.lose("x")
    else:
        claim = store.take("x")
        wait = {"delay_ms": 900} if kind == "retry" else {"at_ms": store.time + 900}
        store.finish(claim, kind, detail='{"kind":"E"}' if kind == "retry" else "", **wait)
    store.pass_ms(10)
    if verb == "run_now":
        assert store.run_now("x") == Decision(1, "scheduled")
        expected = NOW if kind == "lost" else store.time
    else:
        assert store.edit("x", at_ms=store.time + 5).code == 1
        expected = store.time + 5
    assert store.due("x") == expected
    assert store.finish(claim, "retry") is Settled.REFUSED
    store.pass_ms(5)
    again = store.take("x")
    assert again.due_ms == (NOW if verb == "run_now" else store.time)
    assert (again.failed, again.interruptions) == (int(kind == "retry"), int(kind == "lost"))


def test_run_now_keeps_the_nominal_due(store: Store) -> None:
    """The run knows when it was meant to be; a task that is due already keeps its place."""
    store.add("x", NOW + 90_000)
    assert store.run_now("x") == Decision(1, "scheduled")
    assert (store.due("x"), store.number("x", "due")) == (NOW, NOW + 90_000)
    store.pass_ms(10)
    assert store.run_now("x").code == 1
    assert store.due("x") == NOW
    assert store.take("x").due_ms == NOW + 90_000


def test_run_now_wakes(store: Store) -> None:
    """Pollers hear of it, also of an edit that puts a task before all others."""
    store.add("a", NOW + 50_000)
    store.add("x", NOW + 90_000)
    with store.redis.pubsub() as channel:  # type: ignore[no-untyped-call]
        channel.subscribe(store.keys.wake)
        assert channel.get_message(timeout=5)
        store.edit("x", at_ms=NOW + 70)
        assert channel.get_message(timeout=5)["data"] == f"job {NOW + 70}".encode()
        store.run_now("x")
        assert channel.get_message(timeout=5)["data"] == f"job {NOW}".encode()


@pytest.mark.parametrize("state", ["done", "cancelled", "dead"])
@pytest.mark.parametrize("verb", ["edit", "run_now", "cancel"])
def test_a_plain_add_of_an_ended_id(store: Store, state: str, verb: str) -> None:
    """A new life that has not begun is changed, or cancelled, without anything of the old one."""
    store.into(state, "x")
    store.plain("x", NOW + 500)
    if verb == "cancel":
        assert store.cancel("x").code == 1
        assert (store.state("x"), store.indexes("x")) == ("cancelled", ["done"])
        assert store.fields("x").keys() == {"payload", "outcome"}
        return
    if verb == "edit":
        store.edit("x", at_ms=NOW)
    else:
        store.run_now("x")
    assert store.indexes("x") == ["due"]
    assert not {"outcome", "error", "fence"} & store.fields("x").keys()
    assert store.take("x").payload == b'{"p":1}'


def test_a_new_life_has_no_edits_behind_it(store: Store) -> None:
    """Its revision is counted from zero, whatever the old one had come to."""
    store.add("x", NOW)
    store.edit("x", payload=NEW)
    store.finish(store.take("x"))
    store.plain("x", NOW + 500)
    assert store.edit("x", payload=NEW, if_revision=1) == Edited(4, "scheduled", 0)
    assert store.edit("x", payload=NEW, if_revision=0) == Edited(1, "scheduled", 1)
    assert store.fields("x")["revision"] == b"1"


def test_what_was_put_in_the_place_of_an_early_claim_is_changed(store: Store) -> None:
    """A plain add of an id that is claimed early counts first, then the change is made to it."""
    claim = store.take_early("x", 50)
    store.plain("x", NOW + 30)
    assert store.edit("x", at_ms=NOW + 70).code == 1
    assert (store.indexes("x"), store.due("x")) == (["due"], NOW + 70)
    assert store.fields("x")["payload"] == b'{"p":1}'
    assert store.start(claim) == [Started.TAKEN_BACK]


def test_a_run_with_a_successor_is_not_changed(store: Store) -> None:
    """Neither the run nor what waits for its end."""
    store.twice.add("x")
    store.add("x")
    store.take("x")
    store.add("x", NOW + 9, payload=NEW, on_conflict="replace")
    assert store.edit("x", payload=b"{}").code == store.run_now("x").code == 3
    store.plain("x", NOW + 8)
    assert store.edit("x", payload=b"{}").code == store.run_now("x").code == 3


@pytest.mark.parametrize("score", ["-5", "1.5", str(NOW / 1000), "253402300800000", "inf", "-inf"])
def test_odd_scores(fast_store: Store, score: str) -> None:
    """Whatever another program wrote as due time, run-now and edit make a task of it."""
    store = fast_store
    store.plain("x", score)
    store.plain("y", score)
    assert store.run_now("x").code == 1
    assert store.edit("y", at_ms=NOW).code == 1
    found = {claim.id for claim in store.claim().claims}
    assert "y" in found
    assert "x" in found or store.state("x") == "dead"


def test_an_id_without_hash_is_not_begun_by_hurry(store: Store) -> None:
    """run-now makes no hash where a plain add has yet to write it."""
    store.plain("x", NOW + 500, payload=None)
    assert store.run_now("x").code == 1
    assert store.read("x").key_type == "none"
    assert store.claim().claims == []
    assert store.run_now("x").code == 1
    store.redis.hset(store.task_key("x"), "payload", "{}")
    store.pass_ms(200)
    assert store.take("x").payload == b"{}"


def test_a_broken_key_and_odd_ids(store: Store) -> None:
    """A key that holds no hash is named as broken; an id of any bytes can be edited."""
    store.redis.zadd(store.type.due, {b"b": NOW})
    store.redis.set(store.task_key("b"), "foreign", px=60_000)
    before = store.dump()
    assert store.edit("b", payload=b"{}") == Edited(3, "broken", 0)
    assert store.run_now("b") == Decision(3, "broken")
    assert store.dump() == before
    store.redis.zrem(store.type.due, b"b")
    odd = "é{}\udcff%s\\"
    store.add(odd, NOW + 5)
    assert store.edit(odd, at_ms=NOW).code == 1
    assert store.take(odd).raw_id == encode_id(odd)


def test_the_lease_of_an_edited_early_claim_is_gone(store: Store) -> None:
    """Nothing is left to recover of a claim that was taken back."""
    store.take_early("x", 40)
    store.edit("x", at_ms=NOW + LEASE * 2)
    store.pass_ms(LEASE + 1)
    assert store.recover() == 0
    assert store.number("x", "interruptions") == 0
