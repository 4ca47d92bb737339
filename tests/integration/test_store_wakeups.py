"""Wake-ups: when a transition tells the pollers that a type has an earlier due time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduld.errors import Unreachable
from scheduld.store import calls, usercalls
from scheduld.store.calls import NewTask
from scheduld.store.synclink import SyncLink
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from collections.abc import Iterator


class Ear:
    """Hears the wake-ups of one namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._channel: Any = store.redis.pubsub()  # type: ignore[no-untyped-call]
        self._channel.subscribe(store.keys.wake)
        assert self._channel.get_message(timeout=5)

    def heard(self) -> list[str]:
        """Return what was published since the last time."""
        messages: list[str] = []
        self._store.redis.publish(self._store.keys.wake, "end")
        while messages[-1:] != ["end"]:
            message = self._channel.get_message(timeout=5)
            assert message, "the end was not heard"
            messages.append(message["data"].decode())
        return messages[:-1]

    def close(self) -> None:
        """Stop hearing."""
        self._channel.close()


@pytest.fixture
def ear(store: Store) -> Iterator[Ear]:
    """Hears what the test's calls publish."""
    ear = Ear(store)
    yield ear
    ear.close()


def test_only_a_new_earliest_is_told(store: Store, ear: Ear) -> None:
    """An add wakes the pollers of its type if nothing else is due before it."""
    store.add("a", NOW + 500)
    assert ear.heard() == [f"job {NOW + 500}"]
    store.add("b", NOW + 900)
    assert ear.heard() == []
    store.add("c", NOW + 100)
    assert ear.heard() == [f"job {NOW + 100}"]


def test_a_batch_is_told_once(store: Store, ear: Ear) -> None:
    """Many tasks of a call are one wake-up, for the earliest of them."""
    tasks = [NewTask(b"%d" % n, b"{}", "", NOW + (n * 7) % 10 + 3) for n in range(10)]
    store.add_all(tasks, "error")
    assert ear.heard() == [f"job {NOW + 3}"]


def test_every_way_back_into_due_is_told(store: Store, ear: Ear) -> None:
    """Retry, release, snooze, recover, requeue, replace and a successor wake as an add does."""
    store.add("x")
    ear.heard()
    ways: dict[str, dict[str, int]] = {
        "retry": {"delay_ms": 70},
        "release": {"delay_ms": 0},
        "snooze": {"at_ms": NOW + 10_000},
    }
    for kind, options in ways.items():
        store.finish(store.take("x"), kind, **options)
        assert ear.heard() == [f"job {store.due('x')}"]
        store.now = store.due("x")
    claim = store.lose("x")
    assert ear.heard() == [f"job {store.due('x')}"]
    store.finish(claim, "dead")
    ear.heard()
    store.requeue("x")
    assert ear.heard() == [f"job {store.time}"]
    store.add("x", store.time - 5, on_conflict="replace")
    assert ear.heard() == [f"job {store.time - 5}"]
    claim = store.take("x")
    store.add("x", store.time + 60, on_conflict="replace")
    assert ear.heard() == []
    store.finish(claim)
    assert ear.heard() == [f"job {store.time + 60}"]


def test_an_early_claim_that_is_given_back_is_told(store: Store, ear: Ear) -> None:
    """Started ahead of time, released or lost: others may have to start it."""
    claim = store.take_early("x")
    ear.heard()
    store.start(claim)
    assert ear.heard() == [f"job {NOW + 40}"]
    store.finish(store.take("x", early_ms=50), "release")
    assert ear.heard() == [f"job {NOW + 40}"]
    store.take("x", early_ms=50)
    store.pass_ms(LEASE + 1)
    store.recover()
    assert ear.heard() == [f"job {NOW + 40}"]


def test_a_call_that_puts_nothing_into_due_is_silent(store: Store, ear: Ear) -> None:
    """Claims, ends and refusals wake nobody."""
    store.add("x")
    store.add("y", NOW + 50)
    ear.heard()
    claim = store.take("x")
    store.claim(0, verdicts=[verdict(claim)])
    store.add("x")
    store.cancel("y")
    assert ear.heard() == []


def test_times_are_told_with_all_digits(store: Store, ear: Ear) -> None:
    """The latest instant that can be scheduled is told and stored to the ms."""
    last = 253_402_300_799_999
    store.add("x", last)
    assert ear.heard() == [f"job {last}"]
    assert store.due("x") == last


def test_a_wake_up_that_is_not_allowed_fails_no_call(store: Store) -> None:
    """Where the channel is forbidden to the user, tasks are stored and cancelled all the same."""
    user = f"mute-{store.namespace}"
    rights = ("on", ">pw", "allkeys", "resetchannels", "+@all")
    store.link.commands(("ACL", "SETUSER", user, *rights))
    link = SyncLink(store.server.url.replace("://", f"://{user}:pw@", 1))
    try:
        with pytest.raises(Unreachable, match="permissions"):
            link.commands(("PUBLISH", store.keys.wake, "x"))
        task = NewTask(b"x", b"{}", "")
        (added,) = link.run(calls.add(store.caller(), store.type, [task], on_conflict="error"))
        assert added.code.name == "CREATED"
        store.take("x")
        assert link.run(usercalls.cancel(store.caller(), store.type, b"x")).code == 2
    finally:
        link.close()
        store.link.commands(("ACL", "DELUSER", user))


def test_the_earliest_that_is_left_is_told(store: Store, ear: Ear) -> None:
    """Not only if it is what the call put in first: that may have left again within it."""
    tasks = [NewTask(b"x", b"{}", "", NOW + in_ms) for in_ms in (100, 500)]
    store.add_all(tasks, "replace")
    assert ear.heard() == [f"job {NOW + 500}"]


def test_what_a_claim_gives_back_and_does_not_take_is_told(store: Store, ear: Ear) -> None:
    """Others may have free slots for the rest of what a dead replica held, or for a retry."""
    for number in range(3):
        store.add(f"t{number}", NOW - 100 + number)
    store.claim(3, node="dead")
    store.pass_ms(LEASE + 1)
    ear.heard()
    assert len(store.claim(1, bound_ms=store.time).claims) == 1
    assert ear.heard() == [f"job {NOW - 99}"]
