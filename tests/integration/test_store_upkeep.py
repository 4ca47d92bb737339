"""Prune, audit and read; what the events tell; when pollers are woken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scheduld.model import Keep
from scheduld.store import usercalls
from scheduld.store.calls import NewTask
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store

ALL = Keep(count=1_000, age_ms=10**12)
NONE = Keep(count=0, age_ms=0)


def ended(store: Store, state: str, count: int) -> list[str]:
    """End tasks one ms after the other; returns their ids, oldest first."""
    ids = [f"{state}{number}" for number in range(count)]
    for task_id in ids:
        store.into(state, task_id)
        store.pass_ms(1)
    return ids


@pytest.mark.parametrize("state", ["done", "dead", "cancelled"])
def test_prune_by_count(store: Store, state: str) -> None:
    """What is beyond the number to keep goes, oldest first, hash and index."""
    ids = ended(store, state, 5)
    keep = Keep(count=2, age_ms=10**12)
    assert store.prune(*((ALL, keep) if state == "dead" else (keep, ALL))) == 3
    assert [store.read(task_id).key_type for task_id in ids] == ["none"] * 3 + ["hash"] * 2
    assert [store.state(task_id) for task_id in ids[3:]] == [state] * 2
    assert store.prune(Keep(2, 10**12), Keep(2, 10**12)) == 0


@pytest.mark.parametrize("state", ["done", "dead"])
def test_prune_by_age(store: Store, state: str) -> None:
    """What is as old as the retention goes, however few there are."""
    ids = ended(store, state, 4)
    keep = Keep(count=1_000, age_ms=3)
    assert store.prune(*((ALL, keep) if state == "dead" else (keep, ALL))) == 2
    assert [store.state(task_id) for task_id in ids] == ["none"] * 2 + [state] * 2


def test_prune_is_bounded(store: Store) -> None:
    """A call removes at most its limit of each index."""
    ended(store, "done", 5)
    ended(store, "dead", 5)
    assert [store.prune(NONE, NONE, limit=2) for _ in range(4)] == [4, 4, 2, 0]


def test_prune_leaves_what_has_not_ended(store: Store) -> None:
    """Tasks that are scheduled or running are not touched."""
    store.into("running", "r")
    store.into("scheduled", "s")
    store.pass_ms(10**10)
    assert store.prune(NONE, NONE) == 0
    assert (store.state("r"), store.state("s")) == ("running", "scheduled")


@pytest.mark.parametrize("state", ["done", "dead"])
def test_prune_leaves_the_hash_of_a_new_life(store: Store, state: str) -> None:
    """An ended id that a plain add scheduled again loses its old record and nothing else."""
    store.into(state, "x")
    store.plain("x", store.time, b'{"n":2}')
    store.pass_ms(1)
    assert store.prune(NONE, NONE) == 1
    assert store.indexes("x") == ["due"]
    assert store.take("x").payload == b'{"n":2}'
    assert set(store.fields("x")) == {"payload", "fence", "owner", "due"}


def test_a_claim_prunes_what_its_verdicts_add(store: Store) -> None:
    """However many tasks end in a call, the records do not outgrow the number to keep."""
    store.kind = replace(store.kind, keep_done=Keep(5, 10**12))
    for round_number in range(3):
        tasks = [NewTask(b"%d-%d" % (round_number, n), b"{}", "", NOW) for n in range(100)]
        store.add_all(tasks, "error")
        verdicts = [verdict(claim) for claim in store.claim().claims]
        store.claim(0, verdicts=verdicts)
        assert store.redis.zcard(store.type.done) == 5


def test_audit_finds_both_faults(store: Store) -> None:
    """A hash in no index and an entry without hash are told apart from what is whole."""
    store.stray |= {"stray"}
    store.redis.hset(store.task_key("stray"), "payload", "{}")
    for state in ("scheduled", "running", "done", "dead"):
        store.into(state, state)
        store.into(state, f"bare-{state}")
        store.redis.delete(store.task_key(f"bare-{state}"))
    before = store.dump()
    whole = store.audit("scheduled", "running", "done", "dead", "unknown")
    assert whole == [0] * 5
    assert store.audit("stray", "bare-scheduled", "bare-running", "bare-done", "bare-dead") == [
        1,
        2,
        2,
        2,
        2,
    ]
    assert store.dump() == before, "a look changes nothing"


def test_audit_mends_when_told_to(store: Store) -> None:
    """At the second look what is broken becomes dead with a reason; what is whole stays."""
    store.redis.hset(store.task_key("stray"), "payload", '{"n":7}')
    store.into("scheduled", "bare")
    store.redis.delete(store.task_key("bare"))
    store.into("scheduled", "whole")
    assert store.audit("stray", "bare", "whole", mend=True) == [1, 2, 0]
    assert [store.indexes(task_id) for task_id in ("stray", "bare")] == [["dead"]] * 2
    assert '"kind":"no_index"' in store.error("stray")
    assert '"kind":"no_hash"' in store.error("bare")
    assert store.state("whole") == "scheduled"
    event = store.last_event()
    assert (event["e"], event["ids"]) == ("dead", "stray bare")
    assert event["error"] == "no_index: in no index\nno_hash: in an index without a hash"
    assert store.audit("stray", "bare", mend=True) == [0, 0]
    assert store.requeue("stray").code == 1
    assert store.take("stray").payload == b'{"n":7}'


def test_audit_leaves_what_was_repaired_meanwhile(store: Store) -> None:
    """Mending looks again itself: what became whole since the first look stays as it is."""
    store.redis.hset(store.task_key("x"), "payload", "{}")
    assert store.audit("x") == [1]
    store.plain("x", NOW)
    assert store.audit("x", mend=True) == [0]
    assert store.state("x") == "scheduled"


def test_audit_tells_a_foreign_key_once(store: Store) -> None:
    """A dead entry whose key is of another type was told already, and is not mended again."""
    store.redis.set(store.task_key("x"), "foreign")
    store.plain("x", NOW, payload=None)
    store.claim()
    assert store.audit("x", mend=True) == [0]


def test_read_is_one_instant(store: Store) -> None:
    """Several tasks are read as they are, with the server's time, also unknown and foreign ones."""
    store.add("a", NOW + 5, payload=b'{"a":1}')
    store.add("b")
    store.take("b")
    store.redis.rpush(store.task_key("c"), "x")
    store.redis.expire(store.task_key("c"), 60)
    call = usercalls.read(store.caller(), store.type, [b"a", b"b", b"c", b"d"])
    a, b, c, d = store.run(call)
    assert (a.now_ms, a.due_ms, a.fields, a.key_type) == (
        NOW,
        NOW + 5,
        {"payload": b'{"a":1}'},
        "hash",
    )
    assert (b.lease_end_ms, b.due_ms) == (NOW + LEASE, None)
    assert (c.key_type, c.fields) == ("list", {})
    assert (d.key_type, d.fields, d.due_ms, d.died_ms) == ("none", {}, None, None)


def test_a_call_writes_one_event(store: Store) -> None:
    """Whatever a call did is one entry: kinds, their ids, who called, and why things failed."""
    for task_id in "abcd":
        store.add(task_id)
    a, b, c, _ = store.claim().claims
    length = len(store.events())
    verdicts = [
        verdict(a),
        verdict(b, "retry", delay_ms=0, reason="E: one"),
        verdict(c, "retry", delay_ms=9_000, reason="E: two"),
    ]
    store.claim(node="r9", verdicts=verdicts, sequence=3)
    events = store.events()
    assert len(events) == length + 1
    assert events[-1] == {
        "e": "done retry claimed",
        "ids": "a\nb c\nb",
        "node": "r9",
        "error": "E: one\nE: two",
    }


def test_calls_that_change_nothing_write_no_event(store: Store) -> None:
    """Empty claims, renewals, refusals and looks leave no trace."""
    store.into("running", "x")
    length = len(store.events())
    store.claim()
    store.add("x", on_conflict="keep")
    store.requeue("x")
    store.recover()
    store.audit("x", mend=True)
    assert len(store.events()) == length


def test_events_name_up_to_100_ids(store: Store) -> None:
    """A large batch names some ids and counts the others; the counters are exact."""
    store.add_all([NewTask(b"%d" % n, b"{}", "", NOW) for n in range(130)], "error")
    ids = store.last_event()["ids"].split(" ")
    assert (len(ids), ids[-1]) == (101, "+30")
    assert store.redis.hget(store.type.meta, "n:added") == b"130"


def test_counters_follow_the_events(store: Store) -> None:
    """The type's counters tell how often each kind of event happened."""
    store.add("x")
    store.lose("x")
    store.finish(store.take("x"))
    (flat,) = store.link.commands(("HGETALL", store.type.meta))
    meta = dict(zip(flat[::2], flat[1::2], strict=True))
    counted = {k.decode(): int(v) for k, v in meta.items() if k.startswith(b"n:")}
    seen = Counter(f"n:{kind}" for event in store.events() for kind in event["e"].split(" "))
    assert counted == seen == {"n:added": 1, "n:claimed": 2, "n:lost": 1, "n:done": 1}


def test_events_are_trimmed(store: Store) -> None:
    """The stream stays near 10,000 entries."""
    pipeline = store.redis.pipeline(transaction=False)
    for _ in range(10_200):
        pipeline.xadd(store.type.events, {"e": "x"})
    pipeline.execute()
    store.add("x")
    assert 10_000 <= store.redis.xlen(store.type.events) <= 10_150
