"""dramatiq: worker threads over a Lua dispatcher, acknowledged after the run."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

TALLY: kit.Tally
LATENESS: kit.Lateness


def noop(_payload: dict[str, Any]) -> None:
    """Do nothing."""
    TALLY.tick()


def late(_payload: dict[str, Any], due_ms: float) -> None:
    """Note how late this run is."""
    LATENESS.started(due_ms)


class Bench:
    """A broker of the chosen variant with the two actors on it."""

    def __init__(self, options: kit.Options) -> None:
        self.knobs = options.knobs
        if self.knobs["prefetch"]:  # read when dramatiq is imported
            os.environ["dramatiq_queue_prefetch"] = str(self.knobs["prefetch"])  # noqa: SIM112
        self.dramatiq: Any = importlib.import_module("dramatiq")
        brokers: Any = importlib.import_module("dramatiq.brokers.redis")
        logging.getLogger("dramatiq").setLevel(logging.WARNING)
        self.broker = brokers.RedisBroker(url=options.redis)
        self.noop = self.actor(noop, "default")
        self.late = self.actor(late, "default")

    def actor(self, function: Any, queue: str) -> Any:
        """Declare `function` as an actor on `queue`."""
        name = f"{function.__name__}.{queue}"
        return self.dramatiq.actor(function, actor_name=name, queue_name=queue, broker=self.broker)

    def start(self) -> None:
        """Start the worker's threads in this process."""
        self.worker = self.dramatiq.Worker(self.broker, worker_threads=self.knobs["threads"])
        self.worker.start()


def forever() -> None:
    """Keep the main thread out of the way; the answering thread ends the process."""
    threading.Event().wait()


def fill(options: kit.Options) -> kit.Answer:
    """Add tasks one by one: there is no bulk call."""
    bench = Bench(options)
    for n in range(options.count):
        message = bench.noop.message(kit.payload(n))
        bench.broker.enqueue(message, delay=int(options.delay * 1000) or None)
    return {"count": options.count}


def add(options: kit.Options) -> kit.Answer:
    """Time adding, one by one."""
    if options.mode != "one":
        raise kit.Unsupported("dramatiq has neither a pipelined nor a bulk call")
    bench = Bench(options)
    return kit.add_each(options, lambda n: bench.noop.send(kit.payload(n)))


def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    Bench(options).start()
    forever()


def schedule(options: kit.Options) -> None:
    """Run a worker and send the delayed tasks of `late` or `instant`."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)
    bench.start()
    time.sleep(1)
    for n, due in enumerate(kit.dues(options, adds_per_second=700)):
        delay = max(0, round((due - time.time()) * 1000))
        bench.late.send_with_options(args=(kit.payload(n), due * 1000), delay=delay)
    kit.end_with(LATENESS)
    forever()


def idle(options: kit.Options) -> None:
    """A worker with idle queues, an actor on each."""
    bench = Bench(options)
    bench.broker.queues.clear()
    bench.broker.actors.clear()
    for n in range(options.types):
        bench.actor(noop, f"idle{n}")
    kit.watch_idle(options)
    bench.start()
    forever()


PEER = kit.Peer(
    name="dramatiq",
    packages=("dramatiq", "redis", "hiredis"),
    delivery="at-least-once",
    variants={
        "default": "one process of 8 threads, prefetch 16, plain functions",
        "tuned": "one process of 4 threads, prefetch 100, else as default",
    },
    knobs={
        "default": {"threads": 8, "prefetch": None},
        "tuned": {"threads": 4, "prefetch": 100},
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
