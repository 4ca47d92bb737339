"""SAQ: a Redis list moved to an active list by BLMOVE, swept when a worker dies."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

redis_asyncio: Any = importlib.import_module("redis.asyncio")
saq_queue: Any = importlib.import_module("saq.queue.redis")
saq_worker: Any = importlib.import_module("saq.worker")

TALLY: kit.Tally
LATENESS: kit.Lateness


async def noop(context: dict[str, Any], *, payload: dict[str, Any]) -> None:  # noqa: ARG001
    """Do nothing."""
    TALLY.tick()


async def late(
    context: dict[str, Any],  # noqa: ARG001
    *,
    payload: dict[str, Any],  # noqa: ARG001
    due_ms: float,
) -> None:
    """Note how late this run is."""
    LATENESS.started(due_ms)


def loop_of(options: kit.Options) -> asyncio.Runner:
    """The event loop of the variant: asyncio's own or uvloop's."""
    if options.knobs["uvloop"]:
        uvloop: Any = importlib.import_module("uvloop")
        return asyncio.Runner(loop_factory=uvloop.new_event_loop)
    return asyncio.Runner()


class Bench:
    """A queue of the chosen variant."""

    def __init__(self, options: kit.Options, name: str = "bench") -> None:
        self.options = options
        self.knobs = options.knobs
        orjson: Any = importlib.import_module("orjson") if self.knobs["orjson"] else json
        self.queue = saq_queue.RedisQueue(
            redis_asyncio.from_url(options.redis),
            name=name,
            dump=orjson.dumps,
            load=orjson.loads,
            max_concurrent_ops=self.knobs["operations"],
        )

    async def add(self, n: int, **more: Any) -> None:
        """Add the task `n`; `more` are its properties."""
        job = {"payload": kit.payload(n), "retries": self.knobs["retries"], **more}
        await self.queue.enqueue("noop", ttl=self.knobs["ttl"], **job)

    def worker(self) -> Any:
        """A worker, to be started."""
        return saq_worker.Worker(
            self.queue,
            [("noop", noop), ("late", late)],
            concurrency=self.knobs["concurrency"],
            timers={"schedule": 1},
        )


async def fill(options: kit.Options) -> kit.Answer:
    """Add tasks, 100 at a time."""
    bench = Bench(options)
    due = int(time.time() + options.delay) if options.delay else 0
    for chunk in kit.chunks(options.count, 100):
        await asyncio.gather(*(bench.add(n, scheduled=due) for n in chunk))
    await bench.queue.disconnect()
    return {"count": options.count}


async def add(options: kit.Options) -> kit.Answer:
    """Time adding, one by one or 100 gathered."""
    if options.mode == "bulk":
        raise kit.Unsupported("SAQ has no bulk call that adds without waiting for results")
    bench = Bench(options)
    await asyncio.gather(*(bench.add(n) for n in range(kit.WARM_UP)))
    with kit.Stopwatch() as watch:
        if options.mode == "one":
            for n in range(options.count):
                await bench.add(n)
        else:
            for chunk in kit.chunks(options.count, 100):
                await asyncio.gather(*(bench.add(n) for n in chunk))
    await bench.queue.disconnect()
    return watch.answer(options.count)


async def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    await Bench(options).worker().start()


async def schedule(options: kit.Options) -> None:
    """Schedule the tasks of `late` or `instant` beside a running worker.

    SAQ documents whole seconds; it takes fractions too, which serves it better.
    """
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)
    running = asyncio.ensure_future(bench.worker().start())
    await asyncio.sleep(0.5)
    dues = kit.dues(options, adds_per_second=3000)

    async def one(n: int) -> None:
        job = {"payload": kit.payload(n), "due_ms": dues[n] * 1000, "scheduled": dues[n]}
        await bench.queue.enqueue("late", ttl=bench.knobs["ttl"], **job)

    for chunk in kit.chunks(options.count, 100):
        await asyncio.gather(*map(one, chunk))
    kit.end_with(LATENESS)
    await running


async def idle(options: kit.Options) -> None:
    """A worker with nothing to do for each of the queues."""
    workers = [Bench(options, f"idle{n}").worker() for n in range(options.types)]
    kit.watch_idle(options)
    await asyncio.gather(*(worker.start() for worker in workers))


def main(action: Any) -> Any:
    """The action, run in the variant's event loop."""

    def act(options: kit.Options) -> kit.Answer | None:
        with loop_of(options) as runner:
            answer: kit.Answer | None = runner.run(action(options))
        return answer

    return act


PEER = kit.Peer(
    name="saq",
    packages=("saq", "redis", "hiredis", "uvloop", "orjson"),
    delivery="at-least-once (the sweep retries a job whose worker died, if it has retries left:"
    " by default it has none)",
    variants={
        "default": "concurrency 10, 20 concurrent operations, one try, finished jobs kept 10 min;"
        " hiredis installed",
        "tuned": "concurrency 100, 100 concurrent operations, 3 tries, finished jobs not kept,"
        " orjson, uvloop; hiredis installed",
    },
    knobs={
        "default": {
            "concurrency": 10,
            "operations": 20,
            "retries": 1,
            "ttl": 600,
            "orjson": False,
            "uvloop": False,
        },
        "tuned": {
            "concurrency": 100,
            "operations": 100,
            "retries": 3,
            "ttl": -1,
            "orjson": True,
            "uvloop": True,
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
