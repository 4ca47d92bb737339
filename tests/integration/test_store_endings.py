"""How runs end: each verdict, whose verdict counts, and repeated ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduld.store.answers import Renewed, Settled
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store

KINDS = ["done", "retry", "dead", "snooze", "release"]
OPTIONS: dict[str, dict[str, Any]] = {
    "retry": {"delay_ms": 500, "detail": '{"kind":"E"}', "reason": "E: why"},
    "dead": {"detail": '{"kind":"E"}', "reason": "E: why"},
    "snooze": {"at_ms": NOW + 700},
}


def end(store: Store, kind: str) -> Settled:
    """Add a task, claim it, and end it that way."""
    store.add("x")
    return store.finish(store.take("x"), kind, **OPTIONS.get(kind, {}))


def test_done(store: Store) -> None:
    """A success is kept with its result, at the time it ended."""
    store.add("x")
    claim = store.take("x")
    store.pass_ms(40)
    assert store.finish(claim, "done", detail='{"sent":[]}') is Settled.STORED
    assert store.read("x").finished_ms == NOW + 40
    fields = store.fields("x")
    assert fields["result"] == b'{"sent":[]}'
    assert not {"outcome", "settled"} & set(fields), "being in done says it"
    assert store.last_event() == {"e": "done", "ids": "x", "node": "r1"}


def test_done_without_result(store: Store) -> None:
    """A success without a value keeps no result."""
    assert end(store, "done") is Settled.STORED
    assert "result" not in store.fields("x")


def test_done_after_failures(store: Store) -> None:
    """The error of an earlier attempt goes with the success; the count of failures stays."""
    end(store, "retry")
    store.pass_ms(500)
    store.finish(store.take("x"), "done")
    assert (store.error("x"), store.number("x", "failed")) == ("", 1)


def test_retry(store: Store) -> None:
    """A failed run is counted and tried again after its wait; the nominal due stays."""
    assert end(store, "retry") is Settled.STORED
    assert (store.state("x"), store.due("x")) == ("scheduled", NOW + 500)
    assert (store.number("x", "failed"), store.error("x")) == (1, '{"kind":"E"}')
    event = store.last_event()
    assert (event["e"], event["ids"], event["error"]) == ("retry", "x", "E: why")
    store.pass_ms(500)
    claim = store.take("x")
    assert (claim.failed, claim.attempt, claim.due_ms, claim.start_ms) == (1, 2, NOW, NOW + 500)


@pytest.mark.parametrize(("counted", "failed"), [(True, 1), (False, 0)])
def test_dead(store: Store, counted: bool, failed: int) -> None:
    """A run that failed for good is kept with its reason; it counts only if it was an attempt."""
    store.add("x")
    claim = store.take("x")
    store.pass_ms(40)
    store.finish(claim, "dead", detail='{"kind":"E"}', reason="E: why", counted=counted)
    assert (store.state("x"), store.read("x").died_ms) == ("dead", NOW + 40)
    assert (store.number("x", "failed"), store.error("x")) == (failed, '{"kind":"E"}')
    assert store.last_event()["error"] == "E: why"


def test_release(store: Store) -> None:
    """A run that was given back is counted as that alone, however often."""
    store.add("x")
    for number in range(1, 8):
        assert store.finish(store.take("x"), "release") is Settled.STORED
        assert store.number("x", "releases") == number
    claim = store.take("x")
    assert (claim.releases, claim.failed, claim.interruptions) == (7, 0, 0)
    assert claim.due_ms == NOW


def test_snooze(store: Store) -> None:
    """A run that put itself off counts nothing, and keeps its nominal due."""
    assert end(store, "snooze") is Settled.STORED
    assert (store.state("x"), store.due("x")) == ("scheduled", NOW + 700)
    assert not {"failed", "releases", "interruptions"} & set(store.fields("x"))
    store.pass_ms(700)
    claim = store.take("x")
    assert (claim.attempt, claim.due_ms, claim.start_ms) == (1, NOW, NOW + 700)


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_verdict_is_known(store: Store, kind: str) -> None:
    """The same verdict again answers that it is stored, and changes nothing."""
    store.add("x")
    claim = store.take("x")
    verdicts = [verdict(claim, kind, **OPTIONS.get(kind, {}))]
    assert store.finish_all(*verdicts) == [Settled.STORED]
    store.pass_ms(10)
    before = store.dump()
    assert store.finish_all(*verdicts, *verdicts) == [Settled.ALREADY] * 2
    assert store.dump() == before
    assert store.renew(claim) == [Renewed.LOST]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_newest_claim_counts(store: Store, kind: str) -> None:
    """After another replica claimed the task, the older verdict is refused and changes nothing."""
    store.add("x")
    old = store.lose("x")
    new = store.take("x", node="r2")
    before = store.dump()
    assert store.finish(old, kind, **OPTIONS.get(kind, {})) is Settled.REFUSED
    assert store.dump() == before
    assert store.finish(new) is Settled.STORED
    assert store.finish(old, kind) is Settled.REFUSED
    assert store.state("x") == "done"


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_verdict_counts_before_a_new_claim(store: Store, kind: str) -> None:
    """A lease that was lost to a pause costs nothing if nobody else took the task yet."""
    store.add("x")
    claim = store.lose("x")
    options = {**OPTIONS.get(kind, {}), **({"at_ms": NOW + 90_000} if kind == "snooze" else {})}
    assert store.finish(claim, kind, **options) is Settled.STORED
    expected = {"done": "done", "dead": "dead"}.get(kind, "scheduled")
    assert store.state("x") == expected
    assert len(store.indexes("x")) == 1
    if expected == "scheduled":
        wait = {"retry": 500, "release": 0, "snooze": NOW + 90_000 - store.time}[kind]
        assert store.due("x") == store.time + wait
    assert store.finish(claim, kind, **options) is Settled.ALREADY


def test_a_late_verdict_of_a_retry_counts(store: Store) -> None:
    """Also of a later attempt, which recover gave back to the nominal due and not to its retry."""
    end(store, "retry")
    store.pass_ms(500)
    claim = store.lose("x")
    assert store.due("x") == NOW
    assert store.finish(claim, "retry", delay_ms=500) is Settled.STORED
    assert (store.number("x", "failed"), store.due("x")) == (2, store.time + 500)


def test_a_late_verdict_leaves_a_plain_add_alone(store: Store) -> None:
    """A plain add after the lease was lost is a new task: it stays, and the verdict is told."""
    store.add("x")
    claim = store.lose("x")
    store.plain("x", NOW + 99_000, b'{"n":2}')
    assert store.finish(claim, "done") is Settled.STORED
    assert (store.due("x"), store.fields("x")) == (NOW + 99_000, {"payload": b'{"n":2}'})
    assert store.last_event()["e"] == "done succeeded"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decision", ["cancelled", "replaced", "requeued"])
def test_a_user_decision_outlives_a_late_verdict(store: Store, kind: str, decision: str) -> None:
    """Cancel, replace and requeue of a task given back cannot be undone by its old run."""
    store.add("x")
    claim = store.lose("x")
    if decision == "replaced":
        store.add("x", on_conflict="replace")
    else:
        assert store.cancel("x").code == 1
    if decision == "requeued":
        assert store.requeue("x").code == 1
    before = store.dump()
    assert store.finish(claim, kind) is Settled.REFUSED
    assert store.dump() == before


@pytest.mark.parametrize("state", ["done", "dead"])
def test_a_verdict_after_a_requeue_is_refused(store: Store, state: str) -> None:
    """A requeue is a new life: even the verdict that was stored is unknown to it."""
    claim = store.into(state, "x")
    assert claim
    store.requeue("x")
    assert store.finish(claim, state) is Settled.REFUSED
    assert (store.state("x"), store.fields("x")) == ("scheduled", {"payload": b'{"n":1}'})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["dead", "cancelled"])
def test_a_verdict_after_recover_gave_up_is_refused(store: Store, kind: str, end: str) -> None:
    """Where a lost run was the last, or was asked to stop, its late verdict is not used."""
    store.kind = replace(store.kind, max_interruptions=1)
    store.add("x")
    claim = store.take("x")
    if end == "cancelled":
        store.cancel("x")
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    before = store.dump()
    assert store.finish(claim, kind) is Settled.REFUSED
    assert (store.state("x"), store.dump()) == (end, before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_run_ends_cancelled(store: Store, kind: str) -> None:
    """Once the run was asked to stop, its verdict is not used, whatever it is."""
    store.add("x")
    claim = store.take("x")
    store.cancel("x")
    assert store.finish(claim, kind, **OPTIONS.get(kind, {})) is Settled.STORED
    assert store.state("x") == "cancelled"
    assert not {"failed", "releases", "result", "cancel"} & set(store.fields("x"))
    assert store.last_event()["e"] == "cancelled"
    assert store.finish(claim, kind) is Settled.ALREADY


@pytest.mark.parametrize("kind", ["release", "done"])
def test_an_early_claim_goes_back_as_it_was(store: Store, kind: str) -> None:
    """An end of what never started counts nothing: scheduled at its due, also when repeated."""
    claim = store.take_early("x")
    assert store.finish(claim, kind) is Settled.STORED
    assert (store.state("x"), store.due("x")) == ("scheduled", NOW + 40)
    assert store.finish(claim, kind) is Settled.ALREADY
    assert (store.due("x"), store.number("x", "releases")) == (NOW + 40, 0)
    store.pass_ms(40)
    assert store.take("x").releases == 0


def test_verdicts_of_a_call_are_apart(store: Store) -> None:
    """Verdicts of unknown, broken and lost tasks are refused; those beside them are stored."""
    for task_id in "abc":
        store.add(task_id)
    claims = store.claim().claims
    store.redis.set(store.task_key("b"), "foreign")
    store.redis.delete(store.task_key("c"))
    codes = store.finish_all(*(verdict(claim) for claim in reversed(claims)))
    assert codes == [Settled.REFUSED, Settled.REFUSED, Settled.STORED]
    assert store.state("a") == "done"


@pytest.mark.parametrize("mix", range(8))
def test_failures_and_lost_runs_are_counted_apart(store: Store, mix: int) -> None:
    """Three runs that fail or are lost, in any order: each counter tells its own."""
    store.add("x")
    lost = mix.bit_count()
    store.kind = replace(store.kind, max_interruptions=max(lost, 1))
    counted = 0
    for number in range(3):
        assert store.indexes("x") == ["due"]
        if mix >> number & 1:
            store.lose("x")
            counted += 1
        else:
            store.finish(store.take("x"), "retry")
        expected = ["dead"] if lost and counted == lost else ["due"]
        assert store.indexes("x") == expected
        if expected == ["dead"]:
            break
    assert store.number("x", "interruptions") == counted
    assert store.read("x").lease_end_ms is None


def test_a_lost_lease_is_not_stored_twice(store: Store) -> None:
    """A verdict at the very end of a lease counts once, and recover finds nothing."""
    store.add("x")
    claim = store.take("x")
    store.pass_ms(LEASE)
    assert store.finish(claim) is Settled.STORED
    assert store.recover() == 0
    assert store.state("x") == "done"
