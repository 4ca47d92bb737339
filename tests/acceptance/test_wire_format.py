"""Tasks that come from plain Redis commands, good ones and broken ones, under a real daemon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until
from tests.support.work import END, START

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import redis

    from tests.support.servers import RunningServer

    Field = bytes | bytearray | memoryview[int] | str | int | float


class Plain:
    """Another program: it knows the keys and a Redis client, nothing of scheduld."""

    def __init__(self, client: redis.Redis, namespace: str) -> None:
        self.client = client
        self._namespace = namespace
        self.root = f"{namespace}:{{work}}"

    def add(self, task_id: str, due: float, fields: Mapping[Field, Field] | None) -> None:
        """HSET and ZADD in one transaction."""
        with self.client.pipeline() as pipe:
            if fields:
                pipe.hset(f"{self.root}:task:{task_id}", mapping=fields)
            pipe.zadd(f"{self.root}:due", {task_id: due})
            pipe.execute()

    def wake(self, due_ms: int) -> None:
        """PUBLISH that there is something to do."""
        self.client.publish(f"{self._namespace}:wake", f"work {due_ms}")


@pytest.fixture
def place(tmp_path: Path, valkey_server: RunningServer) -> Iterator[Site]:
    """Run a daemon that looks by itself only every 30 s."""
    types = {"work": {"handler": WORK + "sleep", "empty_poll_timeout": "30s"}}
    namespace = f"n{time.monotonic_ns()}"
    site = Site(tmp_path, valkey_server.url, namespace=namespace, types=types)
    with DaemonProcess(site).started() as daemon:
        yield site
        assert daemon.term() == 0


@pytest.fixture
def plain(place: Site, valkey_server: RunningServer) -> Iterator[Plain]:
    """Talk to its server."""
    with valkey_server.client() as client:
        yield Plain(client, place.namespace)


def now_ms() -> int:
    """Wall clock, which here is that of the server."""
    return time.time_ns() // 1_000_000


def test_a_published_task_is_prompt(place: Site, plain: Plain) -> None:
    """With PUBLISH it starts at its due, although the daemon would look much later."""
    due = now_ms() + 400
    plain.add("soon", due, {"payload": '{"s":0}'})
    plain.wake(due)
    (start,) = place.wait_for(START, within_s=5)
    late_s = time.time() - time.monotonic() + start.at - due / 1000
    assert 0 <= late_s < 0.5
    wait_until(lambda: place.counts("work") == (0, 0, 1, 0), "the verdict stored")
    told = place.show("work/soon")
    assert (told["state"], told["due_ms"], told["payload"]) == ("done", due, {"s": 0})


@pytest.mark.parametrize("score", [0, -5])
def test_a_score_of_nothing_means_now(place: Site, plain: Plain, score: int) -> None:
    """Zero and less are in the past."""
    plain.add("now", score, {"payload": "{}"})
    plain.wake(score)
    place.wait_for(END, within_s=5)


def test_no_payload_means_an_empty_one(place: Site, plain: Plain) -> None:
    """A hash without the field is a task with {}."""
    plain.add("bare", 0, {"note": "mine"})
    plain.wake(0)
    place.wait_for(END, within_s=5)
    wait_until(lambda: place.counts("work") == (0, 0, 1, 0), "the verdict stored")
    assert place.show("work/bare")["payload"] == {}


def test_broken_ones_are_dead_and_do_not_stop_the_others(place: Site, plain: Plain) -> None:
    """Each is dead with a reason within seconds; good ones of the type start meanwhile."""
    plain.add("json", 0, {"payload": "{oops"})
    plain.add("array", 0, {"payload": "[1]"})
    plain.add("seconds", 1_796_000_000, {"payload": "{}"})
    plain.add("hashless", 0, None)
    plain.add("far", 253_402_300_800_000, {"payload": "{}"})
    plain.client.set(f"{plain.root}:task:string", "not a hash")
    plain.add("string", 0, None)
    plain.client.hset(f"{plain.root}:task:bytes", mapping={"payload": b'{"a":"\xff"}'})
    plain.add("bytes", 0, None)
    good = [f"good{number}" for number in range(10)]
    for task_id in good:
        plain.add(task_id, 0, {"payload": "{}"})
    began = time.monotonic()
    plain.wake(0)
    place.wait_for(END, 10, within_s=5)
    assert time.monotonic() - began < 1.5
    wait_until(lambda: place.counts("work")[3] == 7, "the broken ones dead", 10)
    dead = ["json", "array", "seconds", "hashless", "far", "bytes"]
    for task_id in dead:
        told = place.show(f"work/{task_id}")
        assert told["state"] == "dead", told
        assert told["error"]["message"], told
    assert {line.id for line in place.ledger()} == set(good)


def test_a_hash_that_comes_after_its_index_entry(place: Site, plain: Plain) -> None:
    """ZADD before HSET is the wrong order, and is forgiven for two seconds."""
    plain.add("late", 0, None)
    plain.wake(0)
    wait_until(lambda: plain.client.hget(f"{plain.root}:task:late", "seen"), "it was looked at")
    plain.client.hset(f"{plain.root}:task:late", mapping={"payload": '{"s":0.01}'})
    place.wait_for(END, within_s=5)
    wait_until(lambda: place.counts("work") == (0, 0, 1, 0), "the verdict stored")
    assert place.show("work/late")["payload"] == {"s": 0.01}


def test_adding_an_ended_id_again_is_a_new_life(place: Site, plain: Plain) -> None:
    """HSET and ZADD of an id that is done: it runs again, its counters at zero."""
    for life in (1, 2):
        plain.add("again", 0, {"payload": f'{{"s":0,"life":{life}}}'})
        plain.wake(0)
        place.wait_for(END, life, within_s=5)
        wait_until(lambda: place.counts("work") == (0, 0, 1, 0), "the verdict stored")
        told = place.show("work/again")
        assert (told["attempt"], told["payload"]["life"]) == (1, life)


def test_adding_a_running_id_again_waits_for_its_end(place: Site, plain: Plain) -> None:
    """Never two runs side by side: the new one follows."""
    plain.add("twice", 0, {"payload": '{"s":0.6}'})
    plain.wake(0)
    place.wait_for(START, within_s=5)
    plain.add("twice", 0, {"payload": '{"s":0}'})
    plain.wake(0)
    place.wait_for(END, 2, within_s=5)
    assert [line.what for line in place.ledger()] == [START, END, START, END]
