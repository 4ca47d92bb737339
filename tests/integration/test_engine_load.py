"""Load control with real replicas: who is woken when, and what holds over all of them."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import Rate, State
from tests.support.replicas import Site, until
from tests.support.tasks import HOUR_MS, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.engine.duty import Duty
    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer

PROMPT_S = 0.1
"""Within this a task follows the end that it waited for; on an idle machine some ms."""


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


class Work:
    """Runs of all replicas: what runs now, and when each began and ended."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.most = 0
        self.most_of_key = 0
        self.began: list[tuple[str, float]] = []
        self.ended: dict[str, float] = {}
        self.let_go = asyncio.Event()

    async def run(self, payload: dict[str, Any], run: Run) -> None:
        """Run until `s` seconds have passed, or the test lets go."""
        self.running.append(run.id)
        self.began.append((run.id, time.monotonic()))
        self.most = max(self.most, len(self.running))
        keys = [task_id.partition("-")[0] for task_id in self.running]
        self.most_of_key = max(self.most_of_key, *(keys.count(key) for key in keys))
        try:
            if "s" in payload:
                await asyncio.sleep(payload["s"])
            else:
                await self.let_go.wait()
        finally:
            self.running.remove(run.id)
            self.ended[run.id] = time.monotonic()

    def duty(self, **policies: Any) -> Duty:
        """Make a type whose replicas look only when they are told to."""
        return duty("a", self.run, empty_poll_timeout_ms=HOUR_MS, **policies)


async def done(site: Site, count: int, within_s: float = 15.0) -> None:
    """Wait until so many tasks are done."""
    keys = site.keys.type("a")

    async def reached() -> bool:
        return bool(await site.redis.zcard(keys.done) >= count)

    await until(reached, f"{count} tasks done", within_s)


async def test_the_limit_of_runs_holds_over_replicas_and_is_used(site: Site) -> None:
    """Two replicas, three places, thirty tasks: never more than three, and no place lies idle."""
    work = Work()
    for _ in range(2):
        await site.start(work.duty(max_running=3))
    began = time.monotonic()
    for _ in range(30):
        await site.add("a", {"s": 0.05})
    await done(site, 30)
    assert work.most == 3
    took = time.monotonic() - began
    assert took < 10 * 0.05 + 30 * PROMPT_S / 2, "ten rounds, and little between them"


async def test_a_place_that_one_replica_frees_is_taken_by_another(site: Site) -> None:
    """The first replica stops claiming: what ends there lets a task begin at the second."""
    first = await site.start(work_a := (work := Work()).duty(max_running=1))
    task_id = await site.add("a", {"s": 0.3})
    await until(lambda: work.began, "the first began")
    second = await site.start(work_a)
    waiting = await site.add("a", {"s": 0.01})
    assert second.running
    stopping = asyncio.create_task(first.stop())
    await site.ended("a", waiting)
    await stopping
    began = dict(work.began)
    assert 0 <= began[waiting] - work.ended[task_id] < PROMPT_S


@pytest.mark.parametrize("end", ["done", "fails"])
async def test_the_next_of_a_key_begins_when_one_ends(site: Site, end: str) -> None:
    """Of one key one runs at a time over all replicas, and the next follows at once."""
    work = Work()
    for _ in range(2):
        await site.start(work.duty(max_running_per_key=1))
    payload = {"s": 0.02} if end == "done" else {"s": "no number"}
    names = [f"{key}-{number}" for number, key in itertools.product(range(5), "xyz")]
    for name in names:
        await site.client.schedule("a", {"s": 0.02}, id=name, key=name[0], allow_unknown=True)
    if end == "fails":
        await site.client.schedule("a", payload, id="x-9", key="x", allow_unknown=True)
        await site.client.schedule("a", {"s": 0.02}, id="x-10", key="x", allow_unknown=True)
    for name in names:
        await site.ended("a", name)
    assert work.most_of_key == 1
    assert work.most > 1, "keys do not wait for one another"
    for earlier, later in itertools.pairwise(name for name, _ in work.began if name[0] == "y"):
        assert dict(work.began)[later] - work.ended[earlier] < PROMPT_S
    if end == "fails":
        await site.ended("a", "x-10")


async def test_a_rate_is_kept_to_and_filled(site: Site) -> None:
    """Two replicas start no more than the rate in any period, by the times that are recorded."""
    work = Work()
    for _ in range(2):
        await site.start(work.duty(rate_limit=Rate(10, 500)))
    began = time.monotonic()
    ids = [await site.add("a", {"s": 0}) for _ in range(40)]
    await done(site, 40)
    tasks = [await site.task("a", task_id) for task_id in ids]
    starts = sorted(task.started_ms for task in tasks if task.started_ms is not None)
    assert len(starts) == 40
    for first, eleventh in zip(starts, starts[10:], strict=False):
        assert eleventh - first >= 500
    assert time.monotonic() - began < 1.5 + 1.0


async def test_urgent_ones_overtake_a_backlog(site: Site) -> None:
    """With one slot, a task of high priority is the next to begin, whenever it is added."""
    work = Work()
    await site.start(work.duty(concurrency=1))
    for number in range(30):
        await site.add("a", {"s": 0.01}, id=f"low-{number}", priority=-1)
    await until(lambda: len(work.began) > 3, "some began")
    count = len(work.began)
    await site.add("a", {"s": 0.01}, id="urgent", priority=100)
    await done(site, 31)
    place = [name for name, _ in work.began].index("urgent")
    assert place <= count + 2


async def test_low_ones_begin_at_once_on_an_idle_replica(site: Site) -> None:
    """A priority below zero is no delay where nothing else is to do."""
    work = Work()
    await site.start(work.duty())
    began = time.monotonic()
    await site.add("a", {"s": 0}, priority=-100, id="now")
    await site.add("a", {"s": 0}, in_s=0.3, priority=-100, id="later")
    await done(site, 2)
    at = dict(work.began)
    assert at["now"] - began < PROMPT_S
    assert 0.29 < at["later"] - began < 0.3 + PROMPT_S


async def test_once_more_if_it_is_running(site: Site) -> None:
    """Any number of adds during a run lead to one more run after it, with the newest payload."""
    work = Work()
    await site.start(work.duty())
    first = await site.client.schedule("a", {}, unique="sync", allow_unknown=True)
    await until(lambda: work.running, "it runs")
    for number in range(5):
        task = await site.client.schedule(
            "a", {"s": 0, "n": number}, unique="sync", on_conflict="rerun", allow_unknown=True
        )
        assert (task.id, task.created) == (first.id, True)
    work.let_go.set()
    await until(lambda: len(work.began) == 2, "once more")
    task = await site.ended("a", first.id)
    assert task.payload == {"s": 0, "n": 4}
    assert len(work.began) == 2


async def test_adds_of_one_turn_meet_one_another(site: Site) -> None:
    """Adds that travel as one call are unique, throttled and kept one by one."""
    work = Work()
    adds = [
        site.client.schedule("a", {"s": 0}, throttle="1m", unique="one", allow_unknown=True)
        for _ in range(20)
    ]
    tasks = await asyncio.gather(*adds)
    assert [task.created for task in tasks].count(True) == 1
    assert len({task.id for task in tasks}) == 1
    await site.start(work.duty())
    await site.ended("a", tasks[0].id)
    late = await site.client.schedule("a", {}, throttle="1m", unique="one", allow_unknown=True)
    assert (late.created, late.state) == (False, State.DONE)


async def test_debounce_runs_once_after_the_last(site: Site) -> None:
    """Ten adds in a row are one run, a wait after the last of them."""
    work = Work()
    await site.start(work.duty())
    for number in range(10):
        task = await site.client.schedule(
            "a", {"s": 0, "n": number}, id="doc", debounce=0.2, allow_unknown=True
        )
        assert task.created == (number == 0)
        last = time.monotonic()
        await asyncio.sleep(0)
    task = await site.ended("a", "doc")
    assert task.payload == {"s": 0, "n": 9}
    assert len(work.began) == 1
    assert 0.19 < work.began[0][1] - last < 0.2 + PROMPT_S


async def test_what_expires_is_dead_and_told(site: Site) -> None:
    """A task that found no slot in time is dead with its reason, and never runs."""
    work = Work()
    await site.start(work.duty(concurrency=1))
    await site.add("a", {"s": 0.2})
    task_id = await site.add("a", {"s": 0}, expires=0.05)
    task = await site.ended("a", task_id, State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == "expired"
    assert task.attempt is None
    assert len(work.began) == 1
