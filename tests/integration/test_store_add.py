"""What an add does against every state, repeated, in batches and from many producers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scheduld.names import new_id
from scheduld.store import calls, usercalls
from scheduld.store.answers import Added
from scheduld.store.calls import NewTask
from tests.support.store import NOW
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from scheduld.model import OnConflict
    from tests.support.store import Store

STATES = ["scheduled", "early", "running", "done", "cancelled", "dead"]


def test_an_added_task_is_its_payload_and_its_due_time(store: Store) -> None:
    """A pending task costs one hash field and one index entry."""
    generated = new_id(NOW)
    added = store.add(generated, NOW + 5_000, payload=b'{"a":[]}', token=generated)
    assert (added.code, added.due_ms, added.state) == (Added.CREATED, NOW + 5_000, "scheduled")
    assert store.fields(generated) == {"payload": b'{"a":[]}'}
    assert store.due(generated) == NOW + 5_000
    assert store.indexes(generated) == ["due"]


def test_a_delay_counts_from_the_servers_clock(store: Store) -> None:
    """Without an instant the task is due after its delay, by the clock of the script."""
    tasks = [NewTask(b"a", b"{}", "", None, 1_500), NewTask(b"b", b"{}", "")]
    assert [added.due_ms for added in store.add_all(tasks, "error")] == [NOW + 1_500, NOW]


@pytest.mark.parametrize("on_conflict", ["error", "keep"])
@pytest.mark.parametrize("state", STATES)
def test_a_kept_record_stays(store: Store, state: str, on_conflict: OnConflict) -> None:
    """`error` and `keep` change nothing about a record in any state, and name the state."""
    store.into(state, "x")
    before = store.dump()
    added = store.add("x", NOW + 7, payload=b'{"n":2}', on_conflict=on_conflict)
    assert added.code is (Added.KEPT if on_conflict == "keep" else Added.EXISTS)
    assert added.state == state
    assert store.dump() == before


@pytest.mark.parametrize("state", [state for state in STATES if state != "running"])
def test_replace_takes_the_id(store: Store, state: str) -> None:
    """`replace` begins a new task: nothing of the old record is left, late verdicts included."""
    claim = store.into(state, "x")
    added = store.add("x", NOW + 7, payload=b'{"n":2}', token="T", on_conflict="replace")
    assert (added.code, added.due_ms, added.state) == (Added.CREATED, NOW + 7, "scheduled")
    assert store.fields("x") == {"payload": b'{"n":2}', "token": b"T"}
    assert store.indexes("x") == ["due"]
    assert store.last_event()["e"] == "replaced"
    if claim:
        assert store.finish(claim).name == "REFUSED"
        assert store.indexes("x") == ["due"]


@pytest.mark.parametrize("on_conflict", ["error", "keep", "replace"])
def test_a_key_that_holds_no_hash_is_refused(store: Store, on_conflict: OnConflict) -> None:
    """A foreign key in the place of a hash is not overwritten, and stops no other task."""
    store.redis.set(store.task_key("x"), "foreign", px=60_000)
    tasks = [NewTask(b"x", b"{}", ""), NewTask(b"y", b"{}", "")]
    codes = [added.code for added in store.add_all(tasks, on_conflict)]
    assert codes == [Added.BROKEN, Added.CREATED]
    assert store.redis.get(store.task_key("x")) == b"foreign"
    assert store.state("x") == "none"


@pytest.mark.parametrize("on_conflict", ["error", "keep", "replace"])
@pytest.mark.parametrize("state", STATES)
def test_a_repeated_add_answers_as_the_first(
    store: Store, state: str, on_conflict: OnConflict
) -> None:
    """The same id and token store nothing again, whatever became of the task meanwhile."""
    store.add("x", NOW, token="T", on_conflict=on_conflict)
    if state == "cancelled":
        store.cancel("x")
    elif state != "scheduled":
        store.now = NOW - 30 if state == "early" else NOW
        claim = store.take("x", early_ms=calls.EARLY_MS)
        assert claim.early == (state == "early")
        if state in ("done", "dead"):
            store.finish(claim, state)
    before = store.dump()
    added = store.add("x", NOW + 9, payload=b"{}", token="T", on_conflict=on_conflict)
    assert (added.code, added.due_ms) == (
        Added.REPEATED,
        None if state == "cancelled" else NOW,
    )
    assert added.state == state
    assert store.dump() == before


@pytest.mark.parametrize("state", STATES)
def test_a_generated_id_is_its_own_token(store: Store, state: str) -> None:
    """An add of a generated id can be repeated too, though no token is stored."""
    generated = new_id(NOW)
    store.into(state, generated)
    added = store.add(generated, token=generated, on_conflict="replace")
    assert (added.code, added.state) == (Added.REPEATED, state)


def test_another_token_is_another_add(store: Store) -> None:
    """Only the same token is a repeat."""
    store.add("x", token="T")
    assert store.add("x", token="U").code is Added.EXISTS
    assert store.add("x", token="").code is Added.EXISTS


def test_replacing_a_running_task_waits_for_its_end(store: Store) -> None:
    """The successor is kept beside the run, and becomes the task when that ends."""
    store.add("x")
    claim = store.take("x")
    added = store.add("x", NOW + 9, payload=b'{"n":2}', token="T", on_conflict="replace")
    assert (added.code, added.due_ms, added.state) == (Added.SUCCESSOR, NOW + 9, "running")
    assert store.indexes("x") == ["leased"]
    assert store.claim().claims == []
    assert store.finish(claim, "done").name == "STORED"
    assert store.due("x") == NOW + 9
    assert store.fields("x") == {"payload": b'{"n":2}', "token": b"T"}


def test_the_newest_successor_wins(store: Store) -> None:
    """A second replacement of a running task takes the place of the first."""
    store.add("x")
    claim = store.take("x")
    for number in (2, 3):
        payload = b'{"n":%d}' % number
        store.add("x", NOW + number, payload=payload, on_conflict="replace")
    store.finish(claim)
    assert (store.due("x"), store.fields("x")) == (NOW + 3, {"payload": b'{"n":3}'})


@pytest.mark.parametrize("kind", ["done", "retry", "dead", "snooze", "release"])
def test_a_replaced_run_is_never_repeated(store: Store, kind: str) -> None:
    """However the old run ends, its outcome goes to the events and the successor comes next."""
    store.add("x")
    claim = store.take("x")
    store.add("x", NOW + 9, payload=b'{"n":2}', on_conflict="replace")
    store.finish(claim, kind, delay_ms=500, reason="why")
    assert (store.due("x"), store.fields("x")) == (NOW + 9, {"payload": b'{"n":2}'})
    assert store.indexes("x") == ["due"]
    event = store.last_event()
    assert (event["e"], event["ids"], event["error"]) == (f"{kind} succeeded", "x\nx", "why")
    store.pass_ms(9)
    assert store.take("x").failed == 0


def test_a_repeated_replacement_is_known(store: Store) -> None:
    """The token of a successor answers as the first time, before and after the promotion."""
    store.add("x", token="T")
    claim = store.take("x")
    store.add("x", NOW + 9, token="U", on_conflict="replace")
    again = store.add("x", NOW + 10, token="U", on_conflict="replace")
    assert (again.code, again.due_ms, again.state) == (Added.REPEATED, NOW + 9, "running")
    store.finish(claim)
    again = store.add("x", NOW + 10, token="U", on_conflict="replace")
    assert (again.code, again.due_ms, again.state) == (Added.REPEATED, NOW + 9, "scheduled")


def test_cancel_drops_a_successor(store: Store) -> None:
    """A cancelled run ends cancelled; what should have come after it does not."""
    store.add("x")
    claim = store.take("x")
    store.add("x", NOW + 9, on_conflict="replace")
    store.cancel("x")
    store.finish(claim)
    assert store.state("x") == "cancelled"
    assert not {"next", "next_payload", "next_token"} & set(store.fields("x"))


def test_a_replacement_after_a_cancel_is_kept(store: Store) -> None:
    """A successor that was stored after the run was asked to stop comes next."""
    store.add("x")
    claim = store.take("x")
    store.cancel("x")
    store.add("x", NOW + 9, payload=b'{"n":2}', on_conflict="replace")
    store.finish(claim)
    assert (store.due("x"), store.fields("x")) == (NOW + 9, {"payload": b'{"n":2}'})


def test_a_lost_run_hands_over_to_its_successor(store: Store) -> None:
    """When the lease of a replaced run ends, the successor becomes the task."""
    store.add("x")
    claim = store.take("x")
    store.add("x", NOW + 9, payload=b'{"n":2}', on_conflict="replace")
    store.pass_ms(31_000)
    assert store.recover() == 1
    assert (store.due("x"), store.fields("x")) == (NOW + 9, {"payload": b'{"n":2}'})
    assert store.finish(claim).name == "REFUSED"


def test_the_same_id_twice_in_a_batch(store: Store) -> None:
    """The second of a batch meets the first: a repeat, or a conflict."""
    first, other = NewTask(b"x", b"{}", "T", NOW), NewTask(b"x", b"{}", "U", NOW + 1)
    answers = store.add_all([first, first, other], "error")
    assert [answer.code for answer in answers] == [Added.CREATED, Added.REPEATED, Added.EXISTS]
    (answer,) = store.add_all([other], "replace")
    assert (answer.code, store.due("x")) == (Added.CREATED, NOW + 1)


@pytest.mark.parametrize("index", ["leased", "done", "dead"])
def test_an_id_without_hash_is_still_a_record(store: Store, index: str) -> None:
    """Where somebody removed the hash alone, an add still sees the index."""
    store.into({"leased": "running"}.get(index, index), "x")
    store.redis.delete(store.task_key("x"))
    assert store.add("x").code is Added.EXISTS
    store.add("x", NOW + 9, on_conflict="replace")
    assert len(store.indexes("x")) == 1


def test_many_producers_add_each_id_once(store: Store) -> None:
    """Of 50 producers with the same 200 ids one each creates it, with its own payload and due."""

    def produce(number: int) -> list[Added]:
        tasks = [
            NewTask(b"i%d" % i, b'{"by":%d}' % number, f"p{number}", NOW + number)
            for i in range(200)
        ]
        half = number * 4 % 200
        answers = store.add_all(tasks[half:], "error") + store.add_all(tasks[:half], "error")
        return [
            *(answer.code for answer in answers[200 - half :]),
            *(answer.code for answer in answers[: 200 - half]),
        ]

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(produce, range(50)))
    store.pass_ms(100)
    claims = store.claim(500).claims
    assert len(claims) == 200
    for claim in claims:
        winner = claim.due_ms - NOW
        assert claim.payload == b'{"by":%d}' % winner
        codes = [codes[int(claim.id[1:])] for codes in answers]
        expected = [Added.EXISTS] * 50
        expected[winner] = Added.CREATED
        assert codes == expected


def test_types_and_namespaces_are_apart(store: Store) -> None:
    """The same id in two types is two tasks, also where type and id could be split elsewhere."""
    other = store.keys.type("job.a")
    task = NewTask(b"a:b", b"{}", "", NOW)
    store.add("a:b")
    (added,) = store.run(calls.add(store.caller(), other, [task], on_conflict="error"))
    assert added.code is Added.CREATED
    store.take("a:b")
    (raw,) = store.run(usercalls.read(store.caller(), other, [b"a:b"]))
    assert raw.due_ms == NOW
    assert replace(raw, due_ms=None).lease_end_ms is None
    store.run(usercalls.cancel(store.caller(), other, b"a:b"))
    leftovers: list[str | bytes] = [*other.common(), other.task(b"a:b")]
    for key in leftovers:
        store.redis.delete(key)
