"""Unique tasks, debounce and throttle, at the scripts: what a clash means in every state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduld.model import Keep, Verdict, VerdictKind
from scheduld.store.answers import Added, AddedTask, Settled, Started
from scheduld.store.calls import NewTask
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from scheduld.model import OnConflict

ONE = "unique=abc"
LIVE = ["scheduled", "early", "running"]
DEAD = ["done", "cancelled", "dead"]


def hold(store: Store, state: str, load: str = ONE, task_id: str = "x") -> None:
    """Bring a unique task into a state."""
    at = {"scheduled": NOW + 60_000, "early": NOW + 40}.get(state)
    store.add(task_id, at, load=load, token="T1")
    if state == "cancelled":
        store.cancel(task_id)
    elif state != "scheduled":
        claim = store.take(task_id, early_ms=50)
        if state in ("done", "dead"):
            store.finish(claim, state, detail="" if state == "done" else "{}")


def again(store: Store, on_conflict: OnConflict, load: str = ONE) -> AddedTask:
    """Add another task that is unique in the same."""
    return store.add(
        "y", NOW + 5_000, payload=b'{"n":2}', load=load, token="T2", on_conflict=on_conflict
    )


@pytest.mark.parametrize("state", LIVE)
def test_a_clash_is_refused_or_kept(store: Store, state: str) -> None:
    """While the task has not ended another is refused, naming it, or answered with it."""
    hold(store, state)
    shown = "early" if state == "early" else state
    refused = again(store, "error")
    assert (refused.code, refused.state, refused.raw_id) == (Added.EXISTS, shown, b"x")
    kept = again(store, "keep")
    assert (kept.code, kept.state, kept.raw_id) == (Added.KEPT, shown, b"x")
    assert store.state("y") == "none"
    assert store.fields("x")["payload"] == b'{"n":1}'


@pytest.mark.parametrize("state", ["scheduled", "early"])
def test_replace_gives_the_waiting_task_the_new_payload(store: Store, state: str) -> None:
    """There is one task still, under its id, with payload and due of the newer add."""
    hold(store, state)
    added = again(store, "replace")
    assert (added.code, added.due_ms, added.raw_id) == (Added.CREATED, NOW + 5_000, b"x")
    assert store.state("y") == "none"
    assert (store.due("x"), store.fields("x")["payload"]) == (NOW + 5_000, b'{"n":2}')
    assert again(store, "error").code is Added.REPEATED, "the same add, not a third one"
    assert store.add("z", load=ONE).code is Added.EXISTS


@pytest.mark.parametrize("word", ["replace", "rerun"])
def test_a_running_one_runs_once_more(store: Store, word: OnConflict) -> None:
    """It is followed, by the newest payload, once; then the task is unique as before."""
    hold(store, "running")
    claim = store.read("x")
    first = store.add("w", payload=b'{"n":9}', load=ONE, token="T0", on_conflict=word)
    added = again(store, word)
    assert first.code is added.code is Added.SUCCESSOR
    assert added.raw_id == b"x"
    fence = int(claim.fields["fence"])
    store.finish_all(verdict_of("x", fence))
    assert store.state("x") == "scheduled"
    assert (store.due("x"), store.fields("x")["payload"]) == (NOW + 5_000, b'{"n":2}')
    assert store.add("z", load=ONE).code is Added.EXISTS
    store.pass_ms(5_000)
    store.finish(store.take("x"))
    assert store.add("z", load=ONE).code is Added.CREATED


def verdict_of(task_id: str, fence: int) -> Verdict:
    """The verdict `done` of a claim that is known by its fence."""
    return Verdict(task_id.encode(), fence, VerdictKind.DONE)


@pytest.mark.parametrize("state", ["scheduled", "early"])
def test_rerun_keeps_what_comes_anyway(store: Store, state: str) -> None:
    """Once more if it is running: a task that is to run has not begun yet, and is enough."""
    hold(store, state)
    kept = again(store, "rerun")
    assert (kept.code, kept.raw_id) == (Added.KEPT, b"x")


def test_rerun_of_an_id(store: Store) -> None:
    """The same for ids: scheduled is kept, running is followed, ended lives again."""
    for state, code in (
        ("scheduled", Added.KEPT),
        ("early", Added.KEPT),
        ("running", Added.SUCCESSOR),
        ("done", Added.CREATED),
        ("cancelled", Added.CREATED),
        ("dead", Added.CREATED),
    ):
        store.into(state, state)
        assert store.add(state, NOW + 9, on_conflict="rerun").code is code, state


@pytest.mark.parametrize("state", DEAD)
@pytest.mark.parametrize("word", ["error", "keep", "replace", "rerun"])
def test_an_ended_one_is_no_clash(store: Store, state: str, word: OnConflict) -> None:
    """Without a period the end of the task frees what it was unique in."""
    hold(store, state)
    added = again(store, word)
    assert (added.code, added.raw_id) == (Added.CREATED, None)
    assert store.add("z", load=ONE).raw_id == b"y"


def test_a_failed_one_is_a_clash_until_its_last_attempt(store: Store) -> None:
    """In its retry wait, or given back, a task has not ended."""
    hold(store, "scheduled")
    store.pass_ms(60_000)
    store.finish(store.take("x"), "retry", delay_ms=1_000, detail="{}")
    assert again(store, "error").code is Added.EXISTS
    store.pass_ms(1_000)
    store.lose("x")
    assert again(store, "error").code is Added.EXISTS


def test_a_period_outlasts_the_task(store: Store) -> None:
    """With a period there is one in it, ended or not, even pruned; then another may come."""
    load = ONE + "\nunique_for=10000"
    store.now = None  # the server's own clock ends the period
    store.add("x", load=load)
    store.finish(store.take("x"))
    assert store.add("y", load=load).code is Added.EXISTS
    store.redis.delete(store.task_key("x"))
    store.redis.zrem(store.type.done, "x")
    kept = store.add("y", load=load, on_conflict="keep")
    assert (kept.code, kept.state, kept.raw_id) == (Added.KEPT, "none", b"x")
    ttl = store.redis.pttl(store.type.unique("abc"))
    assert 0 < int(ttl) <= 10_000
    assert store.add("y", load=load, on_conflict="rerun").code is Added.CREATED
    store.redis.pexpire(store.type.unique("abc"), 0)
    assert store.add("z", load=load).code is Added.CREATED


def test_a_cancelled_one_ends_its_period(store: Store) -> None:
    """What was cancelled is as if it had not been added."""
    hold(store, "cancelled", ONE + "\nunique_for=10000")
    assert again(store, "error").code is Added.CREATED


@pytest.mark.parametrize("how", ["hash", "index", "another life", "plain add"])
def test_a_stale_record_is_no_clash(store: Store, how: str) -> None:
    """A record is believed only if its task has not ended and is still unique in that."""
    hold(store, "scheduled")
    if how == "hash":
        store.redis.delete(store.task_key("x"))
        store.redis.zrem(store.type.due, "x")
    elif how == "index":
        store.redis.zrem(store.type.due, "x")
        store.stray.add("x")
    elif how == "another life":
        store.add("x", on_conflict="replace")
    else:
        store.redis.hdel(store.task_key("x"), "unique")
    assert again(store, "error").code is Added.CREATED


def test_a_repeat_answers_as_the_first_time(store: Store) -> None:
    """With the same token nothing is stored twice, whichever id the task went to."""
    first = store.add("x", NOW + 9, load=ONE, token="T1")
    assert first.code is Added.CREATED
    assert store.add("x", NOW + 9, load=ONE, token="T1").code is Added.REPEATED
    assert again(store, "replace").code is Added.CREATED
    for _ in range(2):
        repeated = again(store, "replace")
        assert (repeated.code, repeated.raw_id) == (Added.REPEATED, b"x")
    store.pass_ms(5_000)
    store.finish(store.take("x"))
    assert again(store, "replace").code is Added.REPEATED, "though the task has ended since"
    assert store.state("y") == "none"


def test_a_repeat_of_a_generated_id_survives_later_adds(store: Store) -> None:
    """The first add of a debounced task, repeated late, does not bring its old payload back."""
    generated = "a" * 20
    load = ONE + "\ndebounce=1000"
    store.add(generated, payload=b'{"n":1}', load=load, token=generated)
    store.add("y", payload=b'{"n":2}', load=load, token="T2")
    assert store.add(generated, payload=b'{"n":1}', load=load, token=generated).code is (
        Added.REPEATED
    )
    assert store.fields(generated)["payload"] == b'{"n":2}'


def test_tasks_of_one_call_clash_too(store: Store) -> None:
    """Of two tasks in one call that are unique in the same the second meets the first."""
    tasks = [NewTask(name, b"{}", "", NOW, load=ONE) for name in (b"x", b"y")]
    plain = NewTask(b"z", b"{}", "", NOW)
    rows = store.add_all([*tasks, plain], "error")
    assert [row.code for row in rows] == [Added.CREATED, Added.EXISTS, Added.CREATED]
    assert rows[1].raw_id == b"x"


def test_purge_and_cancel_free_what_was_unique(store: Store) -> None:
    """A scheduled task that is purged, and a successor that is cancelled with its run."""
    hold(store, "scheduled")
    assert store.purge("scheduled").removed == 1
    hold(store, "running")
    store.add("x", load="unique=def", on_conflict="replace")
    assert store.add("z", load="unique=def").raw_id == b"x"
    store.cancel("x")
    assert store.add("z", load="unique=def").code is Added.CREATED


# Debounce.

WAIT = ONE + "\ndebounce=1000"


def test_each_add_puts_the_task_off(store: Store) -> None:
    """Due one wait after the last add, with its payload; one task, whatever the ids are."""
    store.add("a", payload=b'{"n":1}', load=WAIT, token="T1")
    for number in range(2, 5):
        store.pass_ms(600)
        added = store.add("b", payload=b'{"n":%d}' % number, load=WAIT, token=f"T{number}")
        assert (added.code, added.due_ms, added.raw_id) == (
            Added.PUT_OFF,
            store.time + 1_000,
            b"a",
        )
    store.pass_ms(999)
    assert store.claim().count == 0
    store.pass_ms(1)
    claim = store.take("a")
    assert claim.payload == b'{"n":4}'
    store.finish(claim)
    assert store.add("c", load=WAIT, token="T9").code is Added.CREATED


def test_debounce_by_id(store: Store) -> None:
    """Without `unique` the id says which adds belong together; after the end it lives again."""
    for number in range(2):
        store.add("a", payload=b'{"n":%d}' % number, load="debounce=1000", token=f"T{number}")
        store.pass_ms(600)
    store.pass_ms(400)
    claim = store.take("a")
    assert claim.payload == b'{"n":1}'
    store.finish(claim)
    added = store.add("a", load="debounce=1000", token="T3")
    assert (added.code, added.due_ms) == (Added.CREATED, store.time + 1_000)


def test_debounce_has_an_end(store: Store) -> None:
    """However many adds come, the task runs within debounce_max of the first."""
    load = WAIT + "\ndebounce_max=2500"
    for number in range(5):
        store.add("a", load=load, token=f"T{number}")
        store.pass_ms(600)
    assert store.due("a") == NOW + 2_500
    store.take("a")


def test_debounce_of_a_running_task_follows_it(store: Store) -> None:
    """What comes during the run waits for calm behind it, and is one task again."""
    store.add("a", load=WAIT + "\ndebounce_max=1500", token="T0")
    store.pass_ms(1_000)
    claim = store.take("a")
    codes = []
    for number in range(1, 4):
        added = store.add("a", payload=b'{"n":%d}' % number, load=WAIT, token=f"T{number}")
        codes.append(added.code)
        store.pass_ms(100)
    assert codes == [Added.SUCCESSOR, Added.PUT_OFF, Added.PUT_OFF]
    assert store.finish(claim) is Settled.STORED
    assert (store.due("a"), store.fields("a")["payload"]) == (NOW + 2_200, b'{"n":3}')


def test_debounce_takes_an_early_claim_back(store: Store) -> None:
    """A task that was claimed for its due and is put off before it does not start."""
    store.add("a", load=WAIT, token="T1")
    store.pass_ms(960)
    claim = store.take("a", early_ms=50)
    store.add("a", payload=b'{"n":2}', load=WAIT, token="T2")
    assert store.start(claim) == [Started.TAKEN_BACK]
    assert store.due("a") == NOW + 1_960


def test_a_repeated_debounce_does_not_put_off(store: Store) -> None:
    """The same add again is no other add."""
    store.add("a", load=WAIT, token="T1")
    store.pass_ms(500)
    store.add("b", load=WAIT, token="T2")
    store.pass_ms(300)
    repeated = store.add("b", load=WAIT, token="T2")
    assert (repeated.code, repeated.raw_id) == (Added.REPEATED, b"a")
    assert store.due("a") == NOW + 1_500


def test_a_repeat_of_an_older_debounce_brings_no_old_payload_back(store: Store) -> None:
    """By id as well: the first add again, after the second, changes nothing."""
    for number in (1, 2, 1):
        store.add("a", payload=b'{"n":%d}' % number, load="debounce=1000", token=f"T{number}")
        store.pass_ms(100)
    assert store.fields("a")["payload"] == b'{"n":2}'
    assert store.due("a") == NOW + 1_100


def test_a_foreign_record_refuses_the_add(store: Store) -> None:
    """Another kind of value in the place of a record: nothing can be promised, nothing is added."""
    store.redis.rpush(store.type.unique("abc"), "foreign")
    store.redis.pexpire(store.type.unique("abc"), 60_000)
    added = again(store, "error")
    assert added.code is Added.BROKEN
    assert store.state("y") == "none"
    store.add("x")
    store.finish_all(verdict(store.take("x")))


def test_a_lost_unique_task_frees_nothing_while_it_runs_again(store: Store) -> None:
    """After a crash of its replica a unique task is still the one."""
    hold(store, "running")
    store.pass_ms(LEASE + 1)
    store.recover()
    assert again(store, "error").code is Added.EXISTS


@pytest.mark.parametrize("token", ["x", "T1", "T2"])
def test_a_pruned_one_is_still_the_one_of_its_period(store: Store, token: str) -> None:
    """The period outlives the record: the same id is no way around it, nor is a repeat."""
    load = ONE + "\nunique_for=60000"
    store.add("x", load=load, token="x" if token == "x" else "T1")
    store.finish(store.take("x"))
    store.pass_ms(1_000)
    assert store.prune(Keep(0, 500)) == 1
    told = store.add("x", load=load, token=token, on_conflict="keep")
    assert told.code is (Added.REPEATED if token == "x" else Added.KEPT)
    assert store.state("x") == "none"
    if token != "x":
        assert store.add("x", load=load, token=token).code is Added.EXISTS
        assert store.add("x", load=load, token=token, on_conflict="replace").code is Added.CREATED
