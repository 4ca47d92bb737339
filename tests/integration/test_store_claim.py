"""Claims: order, fences, repeats, early ones, and how much one call takes."""

from __future__ import annotations

import pytest

from scheduld.store.answers import Renewed, Settled, Started
from scheduld.store.calls import EARLY_MS, LEAD_MS, NewTask
from scheduld.store.wire import Stale
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store

MB = 1024 * 1024


def test_the_oldest_come_first(store: Store) -> None:
    """Up to `want` tasks, by their due time; what is not due yet stays."""
    for task_id, at_ms in [("c", NOW), ("a", NOW - 9), ("b", NOW - 5), ("later", NOW + 60_000)]:
        store.add(task_id, at_ms)
    first = store.claim(2)
    assert [claim.id for claim in first.claims] == ["a", "b"]
    assert [claim.due_ms for claim in first.claims] == [NOW - 9, NOW - 5]
    assert first.next_due_ms == NOW
    second = store.claim(5)
    assert [claim.id for claim in second.claims] == ["c"]
    assert second.next_due_ms == NOW + 60_000
    assert store.claim(5).claims == []


def test_a_claim_of_nothing_takes_nothing(store: Store) -> None:
    """With no slot free a claim answers when to look again, and takes no task."""
    store.add("x")
    answer = store.claim(0)
    assert (answer.claims, answer.next_due_ms) == ([], NOW)
    assert answer.now_ms == NOW


def test_a_claim_leases_what_it_takes(store: Store) -> None:
    """The task goes from due to leased, with an end, an owner and its payload in the answer."""
    store.add("x", payload=b'{"big":12345678901234567,"none":[]}')
    claim = store.take("x", node="r7", lease_ms=9_000)
    assert claim.payload == b'{"big":12345678901234567,"none":[]}'
    assert (claim.start_ms, claim.early, claim.attempt) == (NOW, False, 1)
    raw = store.read("x")
    assert (raw.due_ms, raw.lease_end_ms) == (None, NOW + 9_000)
    assert raw.fields["owner"] == b"r7"
    assert int(raw.fields["fence"]) == claim.fence
    assert store.claim().next_lease_end_ms == NOW + 9_000


def test_fences_rise_with_every_claim(store: Store) -> None:
    """Also over re-used ids, a removed hash, and a clock that stands or goes back."""
    fences: list[int] = []
    for step in (0, 0, -60_000, 10):
        store.pass_ms(step)
        store.add("x", on_conflict="replace")
        claim = store.take("x")
        fences.append(claim.fence)
        store.finish(claim)
        store.redis.delete(store.task_key("x"))
        store.redis.zrem(store.type.done, "x")
    assert fences == sorted(set(fences))
    assert fences[0] == NOW * 1000


def test_fences_follow_the_servers_clock(store: Store) -> None:
    """A fence is at least the server's time in µs, so it rises over restores and failovers too."""
    store.now = None
    seconds, micros = store.redis.time()
    store.add("x")
    fence = store.take("x").fence
    assert fence >= seconds * 1_000_000 + micros
    assert fence < (seconds + 3600) * 1_000_000
    store.redis.delete(store.type.meta)
    store.add("y")
    assert store.take("y").fence > fence


def test_a_repeated_claim_answers_the_same_tasks(store: Store) -> None:
    """The same number takes nothing new: its tasks again, those that are still its own."""
    for task_id in "abcd":
        store.add(task_id)
    first = {claim.id: claim for claim in store.claim(3, sequence=5).claims}
    store.finish(first["a"])
    store.pass_ms(1_000)
    again = store.claim(3, sequence=5).claims
    assert {claim.id: (claim.fence, claim.payload, claim.due_ms) for claim in again} == {
        task_id: (first[task_id].fence, first[task_id].payload, NOW) for task_id in "bc"
    }
    assert store.state("d") == "scheduled"
    assert store.read("b").lease_end_ms == NOW + 1_000 + LEASE


def test_a_repeated_claim_leaves_what_others_took(store: Store) -> None:
    """What was lost to another replica meanwhile is not answered again."""
    store.add("x")
    store.claim(1, sequence=5)
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    assert store.take("x", node="r2").interruptions == 1
    assert store.claim(1, sequence=5).claims == []


def test_a_repeated_claim_keeps_early_ones_early(store: Store) -> None:
    """An early claim that is answered again is still to be confirmed, at its due."""
    store.add("x", NOW + 40)
    first = store.claim(1, sequence=5, early_ms=EARLY_MS).claims
    assert store.claim(1, sequence=5, early_ms=EARLY_MS).claims == first
    assert (first[0].early, first[0].start_ms) == (True, NOW + 40)
    store.pass_ms(40)
    assert store.start(first[0]) == [Started.GO]
    (again,) = store.claim(1, sequence=5).claims
    assert (again.early, again.start_ms) == (False, NOW + 40)


def test_each_replica_has_numbers_of_its_own(store: Store) -> None:
    """The number of one replica's claim says nothing about another's."""
    store.add("x")
    store.claim(0, node="r1", sequence=9)
    assert [claim.id for claim in store.claim(1, node="r2", sequence=1).claims] == ["x"]


def test_a_lower_number_is_refused(store: Store) -> None:
    """A claim that arrives after a newer one changes nothing, its verdicts included."""
    store.add("x")
    store.add("y", NOW + 60_000)
    claim = store.take("x", sequence=7)
    store.pass_ms(60_000)
    before = store.dump()
    with pytest.raises(Stale):
        store.claim(1, sequence=6, verdicts=[verdict(claim)])
    assert store.dump() == before


def test_verdicts_and_claim_are_one_step(store: Store) -> None:
    """A claim stores verdicts first, and may take the slots and ids that they free."""
    store.add("a")
    store.add("b")
    claims = store.claim().claims
    verdicts = [verdict(claims[0], "retry"), verdict(claims[1])]
    answer = store.claim(2, verdicts=verdicts, sequence=50)
    assert answer.refused == []
    assert [(claim.id, claim.failed) for claim in answer.claims] == [("a", 1)]
    assert store.state("b") == "done"
    again = store.claim(2, verdicts=verdicts, sequence=50)
    assert again.refused == [(verdicts[0], Settled.REFUSED)], "the other one is stored already"
    assert again.claims == answer.claims


def test_the_record_of_a_claim_does_not_stay(store: Store) -> None:
    """What remembers a replica's last claim goes by itself after two leases."""
    store.claim(0, lease_ms=5_000)
    assert 9_000 < store.redis.pttl(store.type.claim("r1")) <= 10_000


def test_early_claims_start_at_their_due(store: Store) -> None:
    """A task due within 50 ms can be held; it shows as scheduled until its start is confirmed."""
    store.add("near", NOW + EARLY_MS)
    store.add("far", NOW + EARLY_MS + 1)
    (claim,) = store.claim(early_ms=EARLY_MS).claims
    assert (claim.id, claim.early, claim.start_ms) == ("near", True, NOW + EARLY_MS)
    assert store.state("near") == "scheduled"
    store.pass_ms(EARLY_MS - LEAD_MS)
    assert store.start(claim) == [Started.GO]
    assert store.state("near") == "running"
    assert store.number("near", "started") == NOW + EARLY_MS
    assert store.start(claim) == [Started.GO], "a repeated start answers as the first"


def test_a_start_ahead_of_the_servers_clock_is_given_back(store: Store) -> None:
    """A replica whose timer runs fast does not start a task early; it is scheduled as before."""
    claim = store.take_early("x", 40)
    store.pass_ms(40 - LEAD_MS - 1)
    assert store.start(claim) == [Started.NOT_YET]
    assert (store.state("x"), store.due("x")) == ("scheduled", NOW + 40)
    assert store.start(claim) == [Started.TAKEN_BACK]
    assert store.finish(claim, "release") is Settled.REFUSED
    assert store.due("x") == NOW + 40


def test_a_start_cannot_follow_a_lost_lease(store: Store) -> None:
    """An early claim that was given back or claimed anew is not started by its old holder."""
    claim = store.take_early("x")
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    assert store.start(claim) == [Started.TAKEN_BACK]
    other = store.take("x", node="r2")
    assert store.start(claim, other) == [Started.TAKEN_BACK, Started.GO]


def test_within_the_lead_a_task_counts_as_due(store: Store) -> None:
    """A few ms before its due a task becomes a run at once; it starts at its due."""
    store.add("x", NOW + LEAD_MS)
    claim = store.take("x", early_ms=EARLY_MS)
    assert (claim.early, claim.start_ms, claim.due_ms) == (False, NOW + LEAD_MS, NOW + LEAD_MS)
    assert store.state("x") == "running"


def test_a_claim_answers_at_most_4_mb(store: Store) -> None:
    """Large payloads are taken over several calls; one that is larger alone is still taken."""
    big = b'{"x":"' + b"y" * MB + b'"}'
    for number in range(5):
        store.add(f"{number}", NOW + number, payload=big)
    huge = b'{"x":"' + b"y" * (5 * MB) + b'"}'
    store.add("5", NOW + 5, payload=huge)
    store.pass_ms(10)
    taken = [[claim.id for claim in store.claim().claims] for _ in range(4)]
    assert taken == [["0", "1", "2"], ["3", "4"], ["5"], []]


def test_500_tasks_at_once(store: Store) -> None:
    """The largest batch goes through add, claim, renew and finish in one call each."""
    tasks = [NewTask(b"%d" % number, b"{}", "", NOW) for number in range(500)]
    assert len(store.add_all(tasks, "error")) == 500
    claims = store.claim(500).claims
    assert len(claims) == 500
    assert set(store.renew(*claims)) == {Renewed.HELD}
    verdicts = [verdict(claim) for claim in claims]
    answer = store.claim(500, verdicts=verdicts)
    assert answer.refused == []
    assert store.redis.zcard(store.type.done) == 500


def test_broken_tasks_do_not_stop_others(store: Store) -> None:
    """Broken ids ahead of good ones cost a few claims, never a wait: the next due stays past."""
    for number in range(15):
        store.redis.set(store.task_key(f"broken{number}"), "x", px=600_000)
        store.plain(f"broken{number}", NOW - 100 + number, payload=None)
    store.add("good")
    rounds = 0
    while not (answer := store.claim(4)).claims:
        rounds += 1
        assert answer.next_due_ms is not None
        assert answer.next_due_ms <= NOW
        assert rounds < 5
    assert [claim.id for claim in answer.claims] == ["good"]
    assert store.redis.zcard(store.type.dead) == 15


def test_a_claim_recovers_and_prunes_on_the_way(store: Store) -> None:
    """A claim gives back a few expired leases, up to its bound, and takes them if it may."""
    store.add("x")
    store.take("x")
    store.pass_ms(LEASE + 1)
    assert store.claim(bound_ms=NOW + LEASE - 1).claims == []
    (claim,) = store.claim(bound_ms=NOW + LEASE).claims
    assert (claim.id, claim.interruptions) == ("x", 1)
    store.finish(claim)
    store.pass_ms(store.kind.keep_done.age_ms)
    store.claim(0)
    assert store.state("x") == "none"
    assert store.fields("x") == {}
