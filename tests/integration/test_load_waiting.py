"""Tasks that wait for their key, at the scripts: whatever becomes of some, the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduld.model import Rate
from scheduld.store.answers import Added
from tests.integration.test_load_limits import add_many, limit, names
from tests.support.store import NOW
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from tests.support.store import Store


def test_room_that_grew_is_given_without_a_loss(store: Store) -> None:
    """Those that come back stand before what the claim has read: none is lost or runs twice."""
    limit(store, max_running_per_key=1)
    add_many(store, 4, "a", "key=a")
    assert names(store.claim().claims) == ["a00000"]
    limit(store, max_running_per_key=3)
    store.pass_ms(10)
    store.add("new", store.time, load="key=a")
    assert names(store.claim(1).claims) == ["new"]
    assert names(store.claim(9).claims) == ["a00001"]
    assert store.indexes("new") == ["leased"]
    assert [store.indexes(f"a0000{i}") for i in (1, 2, 3)] == [["leased"], ["due"], ["due"]]


LEAVING = ["cancel", "purge", "replace", "edit", "expire"]


def leave(store: Store, how: str, task_id: str) -> None:
    """Let a task that waits for its key no longer wait."""
    if how == "cancel":
        store.cancel(task_id)
    elif how == "purge":
        assert store.purge("scheduled", limit=1).removed == 1
    elif how == "replace":
        store.add(task_id, store.time + 600_000, on_conflict="replace")
    elif how == "edit":
        store.edit(task_id, at_ms=store.time + 600_000)
    else:
        store.redis.hset(store.task_key(task_id), "expires", store.time - 1)
        assert store.claim().next_due_ms == NOW, "the claim that meets it says to come again"


@pytest.mark.parametrize("how", ["cancel", "replace", "edit"])
def test_the_next_follows_though_many_before_it_have_left(store: Store, how: str) -> None:
    """Those that left the line, however many, do not use up what an end lets go."""
    limit(store, max_running_per_key=1)
    add_many(store, 40, "a", "key=a")
    (claim,) = store.claim().claims
    assert store.claim().count == 0
    for i in range(1, 39):
        leave(store, how, f"a{i:05d}")
    store.finish(claim)
    assert names(store.claim().claims) == ["a00039"]


@pytest.mark.parametrize("how", LEAVING)
def test_who_was_let_go_and_leaves_gives_its_place_on(store: Store, how: str) -> None:
    """The task whose turn it is ends before it starts: the turn is the next one's."""
    limit(store, max_running_per_key=1)
    add_many(store, 3, "a", "key=a")
    (claim,) = store.claim().claims
    assert store.claim().count == 0
    store.finish(claim)
    assert store.due("a00001") == NOW
    leave(store, how, "a00001")
    assert names(store.claim().claims) == ["a00002"]


@pytest.mark.parametrize("how", ["cancel", "replace", "edit"])
def test_who_waits_for_a_start_waits_for_none_that_left(store: Store, how: str) -> None:
    """A newcomer gets the next start, not the one behind those of tasks that are gone."""
    limit(store, rate_limit_per_key=Rate(1, 60_000))
    add_many(store, 40, "a", "key=a")
    assert store.claim().count == 1
    for i in range(1, 40):
        leave(store, how, f"a{i:05d}")
    store.add("new", load="key=a")
    assert store.claim().count == 0
    assert store.due("new") == NOW + 60_000


def test_large_payloads_bound_what_is_looked_at(store: Store) -> None:
    """A claim reads no more bytes of tasks that must wait than of tasks that it takes."""
    limit(store, max_running_per_key=1)
    payload = b'{"x":"%s"}' % (b"x" * 200_000)
    for i in range(60):
        store.add(f"a{i:02d}", payload=payload, load="key=a")
    store.add("plain", NOW + 1)
    store.pass_ms(1)
    assert names(store.claim(1).claims) == ["a00"]
    answer = store.claim(100)
    assert (answer.count, answer.next_due_ms) == (0, NOW)
    assert store.redis.zcard(store.type.of_key("parked", "a")) == 20
    assert names([*store.claim(100).claims, *store.claim(100).claims]) == ["plain"]


def test_purge_takes_no_place_from_a_run(store: Store) -> None:
    """What a plain ZADD put beside a run is removed; the run still counts for its key."""
    limit(store, max_running_per_key=1)
    store.add("a", load="key=k\nunique=abc")
    claim = store.take("a")
    store.plain("a", NOW, payload=None)
    assert store.purge("scheduled").removed == 1
    store.add("b", load="key=k")
    assert store.claim().count == 0
    assert store.add("c", load="unique=abc").code is Added.EXISTS
    store.finish(claim)
    assert names(store.claim().claims) == ["b"]
