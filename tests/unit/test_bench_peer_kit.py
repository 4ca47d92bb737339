"""What the drivers of the Python peers share: payloads, due times, counters across forks."""

from __future__ import annotations

import json
import os
import time

import pytest

from benchmarks.peers import kit


def _options(action: str, count: int, seconds: float = 20) -> kit.Options:
    return kit.Options(action, "", "default", count, 0, "one", seconds, 10)


def test_a_payload_has_the_size_that_all_drivers_use() -> None:
    """36 bytes or so of JSON, the index in it."""
    assert kit.payload(12345) == {"to": "user12345@example.com", "n": 12345}
    assert len(json.dumps(kit.payload(7))) == len('{"to": "user00007@example.com", "n": 7}')


def test_chunks_cover_the_range_once() -> None:
    """The last chunk is what is left."""
    assert [list(chunk) for chunk in kit.chunks(7, 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(kit.chunks(0, 3)) == []


def test_random_instants_are_ascending_and_far_enough_ahead() -> None:
    """From two seconds ahead on, spread over the seconds asked for."""
    now = time.time()
    dues = kit.dues(_options("late", 200, seconds=5), adds_per_second=1)
    assert dues == sorted(dues)
    assert now + 2 <= dues[0]
    assert dues[-1] <= time.time() + 7
    assert dues[-1] - dues[0] > 4


def test_one_instant_leaves_a_slow_peer_time_to_add() -> None:
    """Three seconds ahead, more where adding takes longer."""
    now = time.time()
    (quick,) = set(kit.dues(_options("instant", 100), adds_per_second=1000))
    (slow,) = set(kit.dues(_options("instant", 100), adds_per_second=10))
    assert 3 <= quick - now < 4
    assert 11 <= slow - now < 12


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_tally_counts_runs_of_forked_children() -> None:
    """The clock goes from the first run to the last, wherever they ran."""
    tally = kit.Tally(3)
    tally.tick()
    child = os.fork()
    if not child:
        tally.tick()
        tally.tick()
        os._exit(0)
    os.waitpid(child, 0)
    answer = tally.wait()
    assert (answer["count"], answer["started"]) == (3, 3)
    assert answer["seconds"] > 0
    assert answer["cpu_seconds"] >= 0


def test_a_tally_of_one_run_ends() -> None:
    """The first run may be the last."""
    tally = kit.Tally(1)
    tally.begin()
    tally.tick()
    assert tally.wait()["seconds"] >= 0


def test_lateness_tells_early_runs_apart() -> None:
    """A run before its due time is early."""
    lateness = kit.Lateness(2)
    lateness.started(time.time() * 1000 - 50)
    lateness.started(time.time() * 1000 + 5000)
    answer = lateness.wait()
    assert answer["count"] == 2
    assert answer["early"] == 1
    assert max(answer["lateness_ms"]) >= 50
