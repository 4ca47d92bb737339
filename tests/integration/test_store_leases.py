"""Leases: renewed, lost, given back, and what a clock that jumps does to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduld.store.answers import Renewed, Settled, Started
from tests.support.store import LEASE, NOW, Store
from tests.support.store import any_store as any_store


def test_a_renewed_lease_lasts_longer(store: Store) -> None:
    """A renewal pushes the end out from now, and changes nothing else."""
    store.add("x")
    claim = store.take("x")
    fields = store.fields("x")
    store.pass_ms(10_000)
    assert store.renew(claim) == [Renewed.HELD]
    assert store.read("x").lease_end_ms == NOW + 10_000 + LEASE
    assert store.fields("x") == fields
    store.pass_ms(LEASE - 1)
    assert store.recover() == 0


def test_a_renewal_tells_what_became_of_each_run(store: Store) -> None:
    """Held, asked to stop, ended, and gone: one answer each, in order, in one call."""
    for task_id in ("held", "stop", "retry", "done", "gone"):
        store.add(task_id)
    claims = {claim.id: claim for claim in store.claim().claims}
    store.cancel("stop")
    store.finish(claims["retry"], "retry")
    store.finish(claims["done"])
    store.redis.delete(store.task_key("gone"))
    store.pass_ms(5)
    codes = dict(zip(claims, store.renew(*claims.values()), strict=True))
    assert codes == {
        "held": Renewed.HELD,
        "stop": Renewed.CANCELLED,
        "retry": Renewed.LOST,
        "done": Renewed.LOST,
        "gone": Renewed.LOST,
    }
    assert store.read("stop").lease_end_ms == store.time + LEASE
    assert store.read("gone").lease_end_ms == NOW + LEASE


def test_a_renewal_after_recover_says_given_back(store: Store) -> None:
    """Until another claims the task its old run may still end it; the renewal says so."""
    store.add("x")
    claim = store.lose("x")
    assert store.renew(claim) == [Renewed.GIVEN_BACK]
    assert store.indexes("x") == ["due"]
    store.take("x", node="r2")
    assert store.renew(claim) == [Renewed.LOST]


@pytest.mark.parametrize("decision", ["replace", "cancel"])
def test_a_renewal_of_what_a_user_took_back_is_lost(store: Store, decision: str) -> None:
    """A task that was given back and then replaced or cancelled is lost to its old run."""
    store.add("x")
    claim = store.lose("x")
    store.cancel("x") if decision == "cancel" else store.add("x", on_conflict="replace")
    assert store.renew(claim) == [Renewed.LOST]
    assert len(store.indexes("x")) == 1


def test_a_new_life_is_not_the_old_run_given_back(store: Store) -> None:
    """A plain add of an id that recover gave up on is lost to the old run, and not its own."""
    store.kind = replace(store.kind, max_interruptions=1)
    store.add("x")
    claim = store.lose("x")
    store.plain("x", store.time)
    store.twice.add("x")
    assert store.renew(claim) == [Renewed.LOST]
    assert store.finish(claim) is Settled.REFUSED
    assert store.take("x").interruptions == 0


def test_a_started_run_that_was_given_back_is_not_started_again(store: Store) -> None:
    """A start that is repeated after its lease was lost is refused."""
    store.add("x")
    claim = store.lose("x")
    assert store.start(claim) == [Started.TAKEN_BACK]
    assert store.indexes("x") == ["due"]


def test_a_lost_run_is_counted_and_comes_again(store: Store) -> None:
    """A lease that ran out gives the task back to its nominal due, and counts an interruption."""
    store.add("x", NOW - 7)
    store.lose("x")
    assert (store.state("x"), store.due("x")) == ("scheduled", NOW - 7)
    assert store.last_event() == {"e": "lost", "ids": "x", "node": "sweeper"}
    claim = store.take("x")
    assert (claim.interruptions, claim.failed, claim.attempt) == (1, 0, 1)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_task_is_dead_after_so_many_lost_runs(store: Store, limit: int) -> None:
    """Exactly max_interruptions lost runs make a task dead, with a reason."""
    store.kind = replace(store.kind, max_interruptions=limit)
    store.add("x")
    for _ in range(limit):
        assert store.state("x") == "scheduled"
        store.lose("x")
    assert (store.state("x"), store.number("x", "interruptions")) == ("dead", limit)
    assert f'"message":"the worker was lost in {limit} runs"' in store.error("x")
    assert store.last_event()["error"] == f"interrupted: the worker was lost in {limit} runs"
    assert store.read("x").died_ms == store.time


def test_an_early_claim_that_is_lost_counts_nothing(store: Store) -> None:
    """What was held but never started goes back to its due, without an event or a counter."""
    store.take_early("x")
    before = store.events()
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    assert store.due("x") == NOW + 40
    assert set(store.fields("x")) == {"payload", "owner", "due"}
    assert store.events() == before


def test_a_cancelled_run_that_is_lost_ends_cancelled(store: Store) -> None:
    """A run that was asked to stop and vanished is not given back."""
    store.add("x")
    store.take("x")
    store.cancel("x")
    store.pass_ms(LEASE + 1)
    assert store.recover() == 1
    assert (store.state("x"), store.number("x", "interruptions")) == ("cancelled", 0)


def test_recover_is_bounded(store: Store) -> None:
    """A call gives back at most its limit, those first whose leases ended first."""
    for number in range(5):
        store.add(f"{number}")
        store.take(f"{number}")
        store.pass_ms(1)
    store.pass_ms(LEASE)
    assert store.recover(limit=3) == 3
    assert [store.state(f"{number}") for number in range(5)] == ["scheduled"] * 3 + ["running"] * 2
    assert store.recover(limit=3) == 2
    assert store.recover(limit=3) == 0


def test_nothing_is_taken_beyond_the_bound(store: Store) -> None:
    """Only leases that ended by the sweeper's own old time are taken, and none before its end."""
    store.add("x")
    store.take("x")
    store.pass_ms(LEASE * 100)
    assert store.recover(bound_ms=NOW + LEASE - 1) == 0
    assert store.recover(bound_ms=NOW + LEASE) == 1
    store.take("x")
    assert store.recover(bound_ms=store.time + LEASE * 10) == 0, "a bound ahead of the clock"
    assert store.state("x") == "running"


def test_a_clock_that_steps_back_does_not_make_leases_endless(store: Store) -> None:
    """A lease that ends beyond two leases from now is cut to one; a dead replica's task returns."""
    store.add("x")
    store.take("x")
    store.pass_ms(-3_600_000)
    assert store.recover() == 0
    assert store.read("x").lease_end_ms == store.time + LEASE
    store.pass_ms(LEASE)
    assert store.recover() == 1


@pytest.mark.parametrize(("step", "cut"), [(LEASE, False), (LEASE + 1, True)])
def test_only_what_no_clock_step_explains_is_cut(store: Store, step: int, cut: bool) -> None:
    """A lease of up to two leases stays as it is: its replica may have renewed it just now."""
    store.add("x")
    store.take("x")
    store.pass_ms(-step)
    store.recover()
    expected = store.time + LEASE if cut else NOW + LEASE
    assert store.read("x").lease_end_ms == expected


def test_the_longest_lease_of_the_type_decides(store: Store) -> None:
    """A sweeper with a shorter lease in its config does not cut those of others."""
    store.add("x")
    store.take("x", lease_ms=LEASE * 10)
    store.add("y")
    store.take("y", lease_ms=LEASE)
    store.recover(lease_ms=LEASE)
    assert store.read("x").lease_end_ms == NOW + LEASE * 10
    store.pass_ms(-LEASE * 10 - 1)
    store.recover(lease_ms=LEASE)
    assert store.read("x").lease_end_ms == store.time + LEASE


def test_a_claim_cuts_leases_too(store: Store) -> None:
    """The claims of a type repair leases behind a clock step without a sweeper."""
    store.add("x")
    store.take("x")
    store.pass_ms(-3_600_000)
    store.claim()
    assert store.read("x").lease_end_ms == store.time + LEASE
