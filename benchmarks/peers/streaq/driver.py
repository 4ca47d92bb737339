"""streaq: asyncio workers over Redis streams, through coredis."""

from __future__ import annotations

import asyncio
import importlib
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

anyio: Any = importlib.import_module("anyio")
streaq: Any = importlib.import_module("streaq")

TALLY: kit.Tally
LATENESS: kit.Lateness


async def noop(_payload: dict[str, Any]) -> None:
    """Do nothing."""
    TALLY.tick()


async def late(_payload: dict[str, Any], due_ms: float) -> None:
    """Note how late this run is."""
    LATENESS.started(due_ms)


class Bench:
    """A worker of the chosen variant with the two tasks on it."""

    def __init__(self, options: kit.Options) -> None:
        knobs = options.knobs
        self.worker = streaq.Worker(
            redis_url=options.redis, concurrency=knobs["concurrency"], prefetch=knobs["prefetch"]
        )
        self._task = partial(self.worker.task, ttl=knobs["ttl"], silent=knobs["silent"])
        self.noop = self._task(name="noop")(noop)
        self.late = self._task(name="late")(late)

    def idle_types(self, count: int) -> None:
        """Register `count` further tasks."""
        for n in range(count):
            self._task(name=f"idle{n}")(noop)


def main(action: Any) -> Any:
    """The action, run in the variant's event loop."""

    def act(options: kit.Options) -> kit.Answer | None:
        loop = {"use_uvloop": options.knobs["uvloop"]}
        answer: kit.Answer | None = anyio.run(partial(action, options), backend_options=loop)
        return answer

    return act


async def fill(options: kit.Options) -> kit.Answer:
    """Add tasks in bulk."""
    bench = Bench(options)
    async with bench.worker:
        for chunk in kit.chunks(options.count, 500):
            tasks = [bench.noop.enqueue(kit.payload(n)) for n in chunk]
            if options.delay:
                tasks = [task.start(delay=int(options.delay)) for task in tasks]
            await bench.worker.enqueue_many(tasks)
    return {"count": options.count}


async def add(options: kit.Options) -> kit.Answer:
    """Time adding: one by one, 100 gathered, in bulk."""
    bench = Bench(options)

    async def one(n: int) -> None:
        await bench.noop.enqueue(kit.payload(n))

    async def many(chunk: range) -> None:
        await bench.worker.enqueue_many([bench.noop.enqueue(kit.payload(n)) for n in chunk])

    async with bench.worker:
        await many(range(kit.WARM_UP))
        with kit.Stopwatch() as watch:
            if options.mode == "bulk":
                for chunk in kit.chunks(options.count, options.knobs["bulk"]):
                    await many(chunk)
            elif options.mode == "gathered":
                for chunk in kit.chunks(options.count, 100):
                    await asyncio.gather(*(one(n) for n in chunk))
            else:
                for n in range(options.count):
                    await one(n)
    return watch.answer(options.count)


async def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    await Bench(options).worker.run_async()


async def schedule(options: kit.Options) -> None:
    """Run a worker and schedule the tasks of `late` or `instant`."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)
    worker = asyncio.ensure_future(bench.worker.run_async())
    await asyncio.sleep(2)
    dues = kit.dues(options, adds_per_second=2000)
    for chunk in kit.chunks(options.count, 500):
        tasks = [
            bench.late.enqueue(kit.payload(n), dues[n] * 1000).start(
                schedule=datetime.fromtimestamp(dues[n], UTC)
            )
            for n in chunk
        ]
        await bench.worker.enqueue_many(tasks)
    kit.end_with(LATENESS)
    await worker


async def idle(options: kit.Options) -> None:
    """A worker with idle task types on its one queue."""
    bench = Bench(options)
    bench.idle_types(options.types)
    kit.watch_idle(options)
    await bench.worker.run_async()


DEFAULTS = {
    "concurrency": 16,
    "prefetch": None,
    "ttl": 300,
    "silent": False,
    "uvloop": False,
    "bulk": 100,
}

PEER = kit.Peer(
    name="streaq",
    packages=("streaq", "coredis", "hiredis", "uvloop"),
    delivery="at-least-once",
    variants={
        "default": "concurrency 16, prefetch 16, results kept 5 min, bulk calls of 100",
        "tuned": "uvloop, concurrency 32, prefetch 100, no results kept, silent tasks,"
        " bulk calls of 500",
    },
    knobs={
        "default": DEFAULTS,
        "tuned": {
            "concurrency": 32,
            "prefetch": 100,
            "ttl": 0,
            "silent": True,
            "uvloop": True,
            "bulk": 500,
        },
    },
    actions={
        "fill": main(fill),
        "add": main(add),
        "work": main(work),
        "late": main(schedule),
        "instant": main(schedule),
        "idle": main(idle),
    },
)

if __name__ == "__main__":
    kit.run(PEER)
