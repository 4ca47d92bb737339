"""`stats`: counts, ages and percentiles of each type, whatever else is in the namespace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import Client
from scheduld.policies.histogram import RESOLUTION, bucket
from scheduld.store import usercalls
from scheduld.store.times import LATE, RAN, flush_commands, read_commands
from tests.support.store import Store, any_store, valkey_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.client.stats import TypeStats

__all__ = ["any_store", "valkey_store"]  # the fixtures


def stats(store: Store, type_name: str | None = None) -> list[TypeStats]:
    """Ask as a client does."""
    with Client(store.server.url, namespace=store.namespace) as client:
        return client.stats(type_name)


def one(store: Store) -> TypeStats:
    """The numbers of the store's own type."""
    (found,) = stats(store, "job")
    return found


def now_of(store: Store) -> int:
    """Read the server's clock, ms."""
    ((seconds, micros),) = store.link.commands(("TIME",))
    return int(seconds) * 1000 + int(micros) // 1000


def measure(store: Store, now_ms: int, kind: str, *seconds: float) -> None:
    """Store times of runs as a replica does."""
    counts = {kind: Counter(map(bucket, seconds))}
    store.link.commands(*flush_commands(store.type, now_ms, counts))


def test_what_waits_and_what_is_later(store: Store) -> None:
    """`scheduled` counts both, `depth` what is due; the age is that of the oldest."""
    now = store.now = now_of(store)
    store.add("later", now + 3_600_000)
    found = one(store)
    assert (found.scheduled, found.depth, found.oldest_due_age_ms) == (1, 0, None)
    assert found.next_due_ms == now + 3_600_000
    store.add("old", now - 90_000)
    store.add("older", now - 100_000)
    found = one(store)
    assert (found.scheduled, found.depth) == (3, 2)
    assert found.oldest_due_age_ms is not None
    assert 100_000 <= found.oldest_due_age_ms < 130_000
    assert found.next_due_ms == now - 100_000


def test_a_priority_makes_nothing_older(store: Store) -> None:
    """The age counts from the due, whatever minutes a priority is worth in the order."""
    now = store.now = now_of(store)
    store.add("urgent", now - 20_000, load="priority=50")
    found = one(store)
    assert found.oldest_due_age_ms is not None
    assert 20_000 <= found.oldest_due_age_ms < 60_000
    assert found.next_due_ms == now - 20_000
    store.add("plain", now - 100_000)
    found = one(store)
    assert found.oldest_due_age_ms is not None
    assert 100_000 <= found.oldest_due_age_ms < 140_000
    assert (found.depth, found.next_due_ms) == (2, now - 100_000)
    store.add("low", now - 130_000, load="priority=-1")
    found = one(store)
    assert found.oldest_due_age_ms is not None
    assert 130_000 <= found.oldest_due_age_ms < 170_000
    assert (found.depth, found.next_due_ms) == (3, now - 130_000)


def test_each_state_is_counted(store: Store) -> None:
    """Running, done (cancelled ones too) and dead, with what ever happened."""
    store.now = now_of(store)
    for state in ("running", "done", "cancelled", "dead"):
        store.into(state, f"task-{state}")
    found = one(store)
    assert (found.scheduled, found.running, found.done, found.dead) == (0, 1, 2, 1)
    assert found.counters["claimed"] == 3


def test_an_early_claim_is_scheduled_still(store: Store) -> None:
    """It is held by a replica and waits for its due: it does not run."""
    store.now = now_of(store)
    claim = store.take_early("early")
    store.into("running", "now")
    found = one(store)
    assert (found.scheduled, found.running, found.depth) == (1, 1, 0)
    store.pass_ms(40)
    store.start(claim)
    assert (one(store).scheduled, one(store).running) == (0, 2)


def test_a_pause_is_told(fast_store: Store) -> None:
    """From the answer to `pause` to that to `resume`."""
    fast_store.plain("x", 1)  # nothing of a type that nobody knows can be told
    caller = fast_store.caller("cli")
    seen = [one(fast_store).paused]
    fast_store.run(usercalls.pause(caller, fast_store.type, reason="r", who="me"))
    seen.append(one(fast_store).paused)
    fast_store.run(usercalls.resume(caller, fast_store.type))
    assert [*seen, one(fast_store).paused] == [False, True, False]


@pytest.mark.parametrize("score", [0, -5, "-inf"])
def test_what_means_now_has_no_age(fast_store: Store, score: float | str) -> None:
    """Foreign writers may schedule at 0 or before: it waits, for nobody knows how long."""
    fast_store.plain("x", score)
    found = one(fast_store)
    assert (found.depth, found.oldest_due_age_ms) == (1, 0)


def test_percentiles_of_the_last_hour(store: Store) -> None:
    """Of all replicas and windows of the hour; what is older is not told."""
    now_ms = now_of(store)
    measure(store, now_ms, RAN, *(ms / 1000 for ms in range(1, 51)))
    measure(store, now_ms - 50 * 60_000, RAN, *(ms / 1000 for ms in range(51, 101)))
    measure(store, now_ms - 60 * 60_000, RAN, 100.0)
    measure(store, now_ms, LATE, 2.5)
    found = one(store)
    assert found.run_time is not None
    assert found.run_time.count == 100
    assert found.run_time.p95_ms == pytest.approx(95, rel=RESOLUTION)
    assert found.lateness is not None
    assert found.lateness.p50_ms == pytest.approx(2_500, rel=RESOLUTION)


@pytest.mark.parametrize("name", ["due", "leased", "done", "dead", "meta", "times"])
def test_a_broken_key_hides_no_other_number(fast_store: Store, name: str) -> None:
    """Where a key holds something else its number is missing, and the key is named."""
    store = fast_store
    store.now = now_of(store)
    for state in ("scheduled", "running", "done", "dead"):
        store.into(state, f"task-{state}")
    window = str(read_commands(store.type, store.now)[-1][1])
    key = window if name == "times" else store.type.root + name
    store.redis.delete(key)
    store.redis.set(key, "x", ex=60)
    store.twice = {f"task-{state}" for state in ("scheduled", "running", "done", "dead")}
    store.stray = store.twice
    store.redis.sadd(f"{store.namespace}:types", "job", "other")
    store.redis.zadd(f"{store.namespace}:{{other}}:dead", {"x": 1})
    store.redis.expire(f"{store.namespace}:{{other}}:dead", 60)
    broken, other = stats(store)
    assert broken.error == f"{key}: holds another kind of value"
    counts = {
        "due": broken.scheduled,
        "leased": broken.running,
        "done": broken.done,
        "dead": broken.dead,
    }
    assert counts == {state: 0 if state == name else 1 for state in counts}
    assert (other.type, other.dead, other.error) == ("other", 1, None)


def test_foreign_fields_among_the_times_are_passed_over(fast_store: Store) -> None:
    """Rubbish in the hash of times costs nobody the numbers."""
    now_ms = now_of(fast_store)
    measure(fast_store, now_ms, RAN, 0.1)
    key = str(read_commands(fast_store.type, now_ms)[-1][1])
    rubbish: dict[Any, Any] = {
        "ran:x": "1",
        "ran:1": "x",
        "ran:99999": "5",
        "other:1": "1",
        "ran": "1",
        "\xff": "1",
    }
    fast_store.redis.hset(key, mapping=rubbish | {"ran:" + "9" * 30: "1", "ran:2": "9" * 30})
    found = one(fast_store)
    assert found.run_time is not None
    assert found.run_time.count == 1


@pytest.fixture
def crowded(fast_store: Store) -> Iterator[Store]:
    """A store with 300,000 scheduled tasks, half of them due, and 2,000 running ones."""
    store = fast_store
    now_ms = now_of(store)
    for begin in range(0, 300_000, 10_000):
        ids = range(begin, begin + 10_000)
        entries = [part for i in ids for part in (now_ms + (i - 150_000) * 10, f"i{i}")]
        store.link.commands(("ZADD", store.type.due, *entries))
    running = [part for i in range(2_000) for part in (now_ms + 30_000, f"r{i}")]
    store.link.commands(("ZADD", store.type.leased, *running))
    yield store
    store.redis.delete(store.type.due, store.type.leased)


def test_a_crowd_is_counted_quickly(crowded: Store) -> None:
    """No command of stats keeps the server longer than 20 ms, however many tasks there are."""
    crowded.redis.config_set("slowlog-log-slower-than", 20_000)
    crowded.redis.slowlog_reset()
    found = one(crowded)
    assert (found.scheduled, found.running) == (300_000, 2_000)
    assert found.depth >= 150_000
    keys = [entry["command"] for entry in crowded.redis.slowlog_get()]
    assert not [command for command in keys if crowded.namespace.encode() in command]
