"""RQ: a fork per job by default, in its own process as `SimpleWorker`."""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

redis: Any = importlib.import_module("redis")
rq: Any = importlib.import_module("rq")


TALLY: kit.Tally
LATENESS: kit.Lateness

# RQ refuses functions of __main__, and imports `driver.noop` by its name: give it
# this very module, so that the jobs find the counters.
sys.modules["driver"] = sys.modules[__name__]


def noop(_payload: dict[str, Any]) -> None:
    """Do nothing."""
    TALLY.tick()


def late(_payload: dict[str, Any], due_ms: float) -> None:
    """Note how late this run is."""
    LATENESS.started(due_ms)


class Bench:
    """A queue of the chosen variant."""

    def __init__(self, options: kit.Options) -> None:
        self.knobs = options.knobs
        logging.getLogger("rq").setLevel(logging.WARNING)
        self.redis = redis.Redis.from_url(options.redis)
        self.queue = rq.Queue("bench", connection=self.redis)
        self.kept = {"result_ttl": self.knobs["result_ttl"]}

    def many(self, chunk: range) -> None:
        """Add a chunk by the bulk call."""
        self.queue.enqueue_many(
            [rq.Queue.prepare_data("driver.noop", (kit.payload(n),), **self.kept) for n in chunk]
        )

    def gathered(self, chunk: range) -> None:
        """Add a chunk one by one through a pipeline."""
        with self.redis.pipeline() as pipe:
            for n in chunk:
                self.queue.enqueue("driver.noop", kit.payload(n), pipeline=pipe, **self.kept)
            pipe.execute()

    def work(self, queues: list[Any] | None = None, *, scheduler: bool = False) -> None:
        """Run the worker in this process; comes back only on a signal."""
        worker_class = getattr(rq, self.knobs["worker"])
        worker = worker_class(queues or [self.queue], connection=self.redis)
        worker.work(logging_level="WARNING", with_scheduler=scheduler)


def fill(options: kit.Options) -> kit.Answer:
    """Add tasks in bulk, or at a time where a delay is asked for."""
    bench = Bench(options)
    when = datetime.now(UTC) + timedelta(seconds=options.delay)
    for chunk in kit.chunks(options.count, 500):
        if not options.delay:
            bench.many(chunk)
            continue
        with bench.redis.pipeline() as pipe:
            for n in chunk:
                bench.queue.enqueue_at(when, "driver.noop", kit.payload(n), pipeline=pipe)
            pipe.execute()
    return {"count": options.count}


def add(options: kit.Options) -> kit.Answer:
    """Time adding: one by one, 100 in a pipeline, in bulk."""
    bench = Bench(options)
    if options.mode == "one":
        return kit.add_each(
            options,
            lambda n: bench.queue.enqueue("driver.noop", kit.payload(n), **bench.kept),
        )
    if options.mode == "gathered":
        return kit.add_chunks(options, 100, bench.gathered)
    return kit.add_chunks(options, bench.knobs["bulk"], bench.many)


def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    Bench(options).work()


def schedule(options: kit.Options) -> None:
    """Run a worker with its scheduler, and schedule the tasks of `late` or `instant`."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)

    def send() -> None:
        time.sleep(2)
        dues = kit.dues(options, adds_per_second=500)
        producer = Bench(options)
        for chunk in kit.chunks(options.count, 100):
            with producer.redis.pipeline() as pipe:
                for n in chunk:
                    when = datetime.fromtimestamp(dues[n], UTC)
                    arguments = (kit.payload(n), dues[n] * 1000)
                    producer.queue.enqueue_at(when, "driver.late", *arguments, pipeline=pipe)
                pipe.execute()
        kit.end_with(LATENESS)

    threading.Thread(target=send, daemon=True).start()
    bench.work(scheduler=True)


def idle(options: kit.Options) -> None:
    """A worker, with its scheduler, over idle queues."""
    bench = Bench(options)
    kit.watch_idle(options)
    names = [f"idle{n}" for n in range(options.types)]
    bench.work([rq.Queue(name, connection=bench.redis) for name in names], scheduler=True)


PEER = kit.Peer(
    name="rq",
    packages=("rq", "redis", "hiredis"),
    delivery="a job whose worker died is marked failed, and run again only if it has retries",
    variants={
        "default": "Worker (a fork per job), results kept 500 s, log level warning,"
        " bulk calls of 100, scheduler process every second",
        "tuned": "SimpleWorker (no fork), results not kept, bulk calls of 1000, else as default",
    },
    knobs={
        "default": {"worker": "Worker", "result_ttl": 500, "bulk": 100},
        "tuned": {"worker": "SimpleWorker", "result_ttl": 0, "bulk": 1000},
    },
    actions={
        "fill": fill,
        "add": add,
        "work": work,
        "late": schedule,
        "instant": schedule,
        "idle": idle,
    },
)

if __name__ == "__main__":
    kit.run(PEER)
