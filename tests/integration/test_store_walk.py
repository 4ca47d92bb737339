"""Reading an index from end to end, and one field of many tasks."""

from __future__ import annotations

import pytest

from scheduld.store import usercalls
from tests.support.store import NOW, Store
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store


def ids_of(store: Store, limit: int) -> list[str]:
    """Walk all of due."""
    found: list[str] = []
    place = None
    while page := store.walk("due", place, limit):
        found += [entry.raw.raw_id.decode() for entry in page]
        place = page[-1].place
    return found


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_walk_reads_each_once(store: Store, limit: int) -> None:
    """In the order of the index, also among many of one score, whatever the page."""
    ids = sorted(f"{letter}{number}" for letter in ("a", "Z", "é") for number in range(5))
    for task_id in ids:
        store.add(task_id, NOW + 5)
    store.add("last", NOW + 6)
    by_bytes = sorted(ids, key=str.encode)
    assert ids_of(store, limit) == [*by_bytes, "last"]


def test_a_walk_survives_changes_behind_and_before_it(store: Store) -> None:
    """Tasks that leave, its own last one too, move nothing past it; those that come in ahead are
    read."""
    for number in range(10):
        store.add(f"t{number}", NOW + (number // 5))
    page = store.walk("due", None, 4)
    assert [entry.raw.raw_id for entry in page] == [b"t0", b"t1", b"t2", b"t3"]
    for gone in ("t0", "t2", "t3"):
        store.cancel(gone)
    store.add("t22", NOW)
    store.add("t35", NOW)
    page = store.walk("due", page[-1].place, 4)
    assert [entry.raw.raw_id for entry in page] == [b"t35", b"t4", b"t5", b"t6"]
    store.cancel("t6")
    assert [entry.raw.raw_id for entry in store.walk("due", page[-1].place, 9)] == [
        b"t7",
        b"t8",
        b"t9",
    ]


def test_a_page_is_bounded_in_bytes(store: Store) -> None:
    """Large payloads make short pages, and one that is larger than a page comes alone."""
    big = b'{"a":"%s"}' % (b"x" * 600_000)
    for number in range(4):
        store.add(f"t{number}", NOW, payload=big)
    assert [len(store.walk("due", None, 9)), len(ids_of(store, 9))] == [2, 4]


@pytest.mark.parametrize("score", ["-inf", "inf", "1.5", "-1e300"])
def test_odd_scores_are_places_too(fast_store: Store, score: str) -> None:
    """A score of any kind is walked past."""
    for task_id in ("a", "b", "c"):
        fast_store.plain(task_id, score)
    assert ids_of(fast_store, 1) == ["a", "b", "c"]


def test_fields_of_what_has_none(store: Store) -> None:
    """A missing field, a missing hash and a key of another type are all empty."""
    store.add("x")
    store.redis.set(store.task_key("s"), "text", px=60_000)
    ids = [b"x", b"none", b"s"]
    call = usercalls.fields(store.caller(), store.type, ids, "payload")
    assert store.run(call) == [b'{"n":1}', b"", b""]


def test_requeue_of_many(store: Store) -> None:
    """Each by its own state; with a wanted one only those."""
    for state in ("done", "dead", "scheduled"):
        store.into(state, state)
    ids = [b"done", b"dead", b"scheduled", b"none"]
    call = usercalls.requeue(store.caller("cli"), store.type, ids, wanted="dead")
    assert [(found.code, found.state) for found in store.run(call)] == [
        (3, "done"),
        (1, "dead"),
        (3, "scheduled"),
        (3, "none"),
    ]
