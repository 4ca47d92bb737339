"""Many tasks in one call: what is plain goes the short way, and ends as it would alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduld.model import Keep
from scheduld.store.answers import Added, Renewed, Settled
from scheduld.store.calls import EARLY_MS, NewTask
from scheduld.store.synclink import SyncLink
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from scheduld.model import Claim

NONE = Keep(count=0, age_ms=0)


def many(store: Store, count: int, prefix: str = "t") -> list[Claim]:
    """Add tasks that are due one ms after the other, the last one now, and claim them."""
    tasks = [
        NewTask(b"%s%03d" % (prefix.encode(), n), b'{"n":%d}' % n, "", store.time - count + n + 1)
        for n in range(count)
    ]
    store.add_all(tasks, "error")
    claims = store.claim(count).claims
    assert [claim.raw_id for claim in claims] == [task.raw_id for task in tasks]
    return claims


def test_a_plain_run_leaves_its_payload_and_its_claim(store: Store) -> None:
    """Being in done is all that says it is done; nothing else is written for it."""
    (claim,) = many(store, 1)
    before = store.fields("t000")
    assert set(before) == {"payload", "fence", "owner", "due"}
    assert store.finish(claim) is Settled.STORED
    assert (store.fields("t000"), store.state("t000")) == (before, "done")


def test_plain_and_other_tasks_come_in_the_order_of_their_dues(store: Store) -> None:
    """A retry, a lost one and one ahead of its due stand between the others where they belong."""
    store.add("lost", NOW + 4)
    store.pass_ms(4)
    store.lose("lost")
    store.now = NOW
    store.add("retry")
    store.finish(store.take("retry"), "retry", delay_ms=2)
    store.now = NOW + 5
    for task_id, at_ms in [("a", NOW + 1), ("b", NOW + 3), ("c", NOW + 5), ("ahead", NOW + 40)]:
        store.add(task_id, at_ms, payload=task_id.encode())
    claims = store.claim(early_ms=EARLY_MS).claims
    assert [claim.id for claim in claims] == ["a", "retry", "b", "lost", "c", "ahead"]
    assert [claim.due_ms - NOW for claim in claims] == [1, 0, 3, 4, 5, 40]
    # From then on they may run: lateness is counted from there, not from the first due.
    assert [claim.start_ms - NOW for claim in claims] == [1, 2, 3, 4, 5, 40]
    assert [(claim.failed, claim.interruptions) for claim in claims[1:4]] == [
        (1, 0),
        (0, 0),
        (0, 1),
    ]
    assert claims[0].payload == b"a"


def test_a_token_is_no_reason_for_the_long_way(store: Store) -> None:
    """Tasks with an id and a token of the caller end in one step too, large payloads among them."""
    for task_id, size in [("small", 9), ("large", 900)]:
        store.add(task_id, token="T", payload=b'{"x":"%s"}' % (b"y" * size))
    claims = store.claim().claims
    assert store.finish_all(*map(verdict, claims)) == [Settled.STORED] * 2
    assert set(store.fields("large")) == {"payload", "token", "fence", "owner", "due"}
    assert store.add("large", token="T").code is Added.REPEATED


def test_each_end_of_a_batch_is_its_own(store: Store) -> None:
    """Among plain ends one that is repeated, cancelled, replaced, lost, retried or unknown."""
    claims = {claim.id: claim for claim in many(store, 8)}
    store.finish(claims["t000"])
    store.cancel("t001")
    store.add("t002", NOW + 9, on_conflict="replace")
    store.redis.delete(store.task_key("t003"))
    store.redis.set(store.task_key("t004"), "foreign", px=60_000)
    store.plain("t005", NOW + 500, b'{"n":2}')
    found = store.finish_all(*map(verdict, claims.values()), verdict(claims["t007"]))
    refused, stored = Settled.REFUSED, Settled.STORED
    assert found == [
        *(Settled.ALREADY, stored, stored, refused, refused, stored, stored, stored),
        Settled.ALREADY,
    ]
    states = ["done", "cancelled", "scheduled", "running", "running", "scheduled", "done", "done"]
    assert [store.state(f"t00{n}") for n in range(8)] == states
    assert store.fields("t002") == {"payload": b'{"n":1}'}
    assert store.fields("t005") == {"payload": b'{"n":2}'}
    assert store.redis.hget(store.type.meta, "n:done") == b"5", "t005 was done before it was added"
    store.wipe()


def test_a_whole_batch_can_be_repeated(store: Store) -> None:
    """Sent again in full, or beside new ends, it changes nothing and is known."""
    claims = many(store, 40)
    ends = [verdict(claim) for claim in claims]
    assert store.finish_all(*ends[:30]) == [Settled.STORED] * 30
    assert store.finish_all(*ends) == [Settled.ALREADY] * 30 + [Settled.STORED] * 10
    before = store.dump()
    assert store.finish_all(*ends) == [Settled.ALREADY] * 40
    assert store.dump() == before
    assert store.redis.hget(store.type.meta, "n:done") == b"40"


@pytest.mark.parametrize("pruned", [True, False])
@pytest.mark.parametrize("due", [NOW, NOW + 500])
def test_a_repeated_end_leaves_a_new_life_alone(store: Store, due: int, pruned: bool) -> None:
    """Also of an id that a plain add gave the very due time of the run, and after a prune."""
    claim = store.into("done", "x")
    assert claim
    store.plain("x", due, b'{"n":2}')
    store.twice.add("x")
    if pruned:
        assert store.prune(NONE) == 1
        assert store.fields("x") == {"payload": b'{"n":2}'}
    expected = Settled.REFUSED if pruned else Settled.ALREADY
    assert store.finish_all(verdict(claim), verdict(claim)) == [expected] * 2
    assert store.finish(claim, "retry") is expected
    assert store.renew(claim) == [Renewed.LOST]
    assert (store.state("x"), store.due("x")) == ("scheduled", due)
    store.pass_ms(500)
    again = store.take("x")
    assert (again.payload, again.due_ms, again.failed) == (b'{"n":2}', due, 0)
    assert store.finish(claim) is Settled.REFUSED
    assert store.finish(again) is Settled.STORED


def test_a_prune_leaves_a_foreign_key_of_a_new_life(store: Store) -> None:
    """What is scheduled and holds no hash is dead at its claim, not the end of all prunes."""
    store.into("done", "x")
    store.redis.delete(store.task_key("x"))
    store.redis.set(store.task_key("x"), "foreign", px=60_000)
    store.plain("x", NOW, payload=None)
    assert store.prune(NONE) == 1
    assert store.read("x").key_type == "string"
    store.claim()
    assert store.indexes("x") == ["dead"]


@pytest.mark.parametrize("state", ["done", "dead"])
def test_an_ended_id_with_a_hash_made_anew_is_in_one_index(store: Store, state: str) -> None:
    """Programs that delete the hash and write it again leave no mark of the old life in it."""
    store.into(state, "x")
    store.redis.delete(store.task_key("x"))
    store.plain("x", NOW, b'{"n":2}')
    claim = store.take("x")
    assert (store.indexes("x"), claim.payload) == (["leased"], b'{"n":2}')
    assert store.finish(claim) is Settled.STORED


def test_a_running_id_with_a_hash_made_anew_waits(store: Store) -> None:
    """The same of an id that runs: never a second run beside the first."""
    store.add("x")
    store.take("x")
    store.redis.delete(store.task_key("x"))
    store.plain("x", NOW, b'{"n":2}')
    assert store.claim(node="r2").claims == []
    assert store.indexes("x") == ["leased"]
    store.pass_ms(LEASE + 1)
    store.recover()
    assert store.take("x").payload == b'{"n":2}'


@pytest.mark.parametrize("before", [0, 1, 30])
def test_any_id_can_be_leased_in_a_batch(store: Store, before: int) -> None:
    """A large claim converts the index of leases; no id is taken for what that needs."""
    dashes = "-" * 65
    many(store, before, "old")
    store.add(dashes, NOW - 1_000 if before else NOW + 1)
    if before == 1:
        store.take(dashes)
    store.pass_ms(1)
    many_more = [NewTask(b"n%03d" % n, b"{}", "", NOW) for n in range(40)]
    store.add_all(many_more, "error")
    store.claim(100)
    assert store.redis.zcard(store.type.leased) == before + 41
    assert store.indexes(dashes) == ["leased"]


def test_many_fresh_tasks_are_answered_as_one_by_one(store: Store) -> None:
    """The short answer of a call that created all: each with its own due time."""
    tasks = [
        NewTask(b"a", b"{}", "T", NOW + 7),
        NewTask(b"b", b"{}", "", None, 1_500),
        NewTask(b"c", b"{}", "c"),
    ]
    answers = store.add_all(tasks, "error")
    assert [answer.due_ms for answer in answers] == [NOW + 7, NOW + 1_500, NOW]
    assert {(answer.code, answer.state) for answer in answers} == {(Added.CREATED, "scheduled")}
    assert (store.fields("a")["token"], set(store.fields("c"))) == (b"T", {"payload"})
    again = store.add_all([*tasks, NewTask(b"d", b"{}", "")], "keep")
    codes = [Added.REPEATED, Added.KEPT, Added.REPEATED, Added.CREATED]
    assert [answer.code for answer in again] == codes
    assert [answer.due_ms for answer in again] == [NOW + 7, NOW + 1_500, NOW, NOW]
    assert store.add_all([], "error") == []


@pytest.mark.parametrize("index", ["due", "leased", "done", "dead"])
def test_one_known_id_of_a_batch_is_seen_in_any_index(store: Store, index: str) -> None:
    """An id that only an index knows is met, and the others of the call are created."""
    states = {"due": "scheduled", "leased": "running"}
    store.into(states.get(index, index), "x")
    store.redis.delete(store.task_key("x"))
    tasks = [NewTask(raw_id, b"{}", "", NOW) for raw_id in (b"a", b"x", b"b")]
    codes = [answer.code for answer in store.add_all(tasks, "error")]
    assert codes == [Added.CREATED, Added.EXISTS, Added.CREATED]


def test_renewals_of_a_batch_are_apart(store: Store) -> None:
    """Held, cancelled, lost, done and unknown ones in one call."""
    claims = many(store, 5)
    store.cancel("t001")
    store.finish(claims[2])
    store.redis.delete(store.task_key("t003"))
    store.pass_ms(9)
    held, lost = Renewed.HELD, Renewed.LOST
    assert store.renew(*claims) == [held, Renewed.CANCELLED, lost, lost, held]
    assert store.read("t004").lease_end_ms == store.time + LEASE
    assert store.renew() == []


@pytest.mark.parametrize("field", ["due", "token", "owner", None])
def test_a_cancelled_run_of_an_odd_hash_is_cancelled(store: Store, field: str | None) -> None:
    """However many fields its hash has: the fields of a plain run are not only counted."""
    if field is None:
        store.add("x")
    else:
        store.redis.hset(store.task_key("x"), field, "7")
        store.redis.zadd(store.type.due, {"x": NOW - 1})
    claim = store.take("x")
    store.redis.hdel(store.task_key("x"), "payload")
    store.cancel("x")
    assert store.finish(claim) is Settled.STORED
    assert store.state("x") == "cancelled"


def test_a_prune_does_not_end_the_wait_for_a_hash(store: Store) -> None:
    """An ended id that is scheduled again, before its hash comes: it does not run without it."""
    store.add("x")
    store.finish(store.take("x"))
    store.redis.delete(store.task_key("x"))
    store.redis.zadd(store.type.due, {"x": NOW})
    assert store.claim().claims == []
    store.prune(NONE)
    store.redis.hset(store.task_key("x"), "payload", '{"late":1}')
    store.pass_ms(300)
    assert [claim.payload for claim in store.claim().claims] == [b'{"late":1}']


def test_a_claim_needs_no_leave_to_look_into_encodings(store: Store) -> None:
    """A user who may not call OBJECT loses nothing."""
    ids = [f"t{number}" for number in range(20)]
    for task_id in ids:
        store.add(task_id)
    user = f"user-{store.namespace}"
    store.redis.execute_command(  # type: ignore[no-untyped-call]
        "ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all", "-object"
    )
    link = SyncLink(store.server.url, max_connections=1)
    try:
        link.commands(("AUTH", user, "any"))
        answer = link.run(store.claim_call(20))
    finally:
        link.close()
        store.redis.acl_deluser(user)
    assert sorted(claim.id for claim in answer.claims) == sorted(ids)
    assert store.redis.zcard(store.type.leased) == 20
