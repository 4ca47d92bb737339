"""huey: threads that pop a Redis list. A popped task is lost with its worker."""

from __future__ import annotations

import importlib
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

huey_lib: Any = importlib.import_module("huey")

TALLY: kit.Tally
LATENESS: kit.Lateness


def noop(payload: dict[str, Any]) -> None:  # noqa: ARG001
    """Do nothing."""
    TALLY.tick()


def late(payload: dict[str, Any], due_ms: float) -> None:  # noqa: ARG001
    """Note how late this run is."""
    LATENESS.started(due_ms)


class Bench:
    """A huey of the chosen variant with the two tasks on it."""

    def __init__(self, options: kit.Options) -> None:
        self.knobs = options.knobs
        self.huey = huey_lib.RedisHuey("bench", url=options.redis, results=self.knobs["results"])
        self.noop = self.huey.task(name="noop")(noop)
        self.late = self.huey.task(name="late")(late)

    def consume(self) -> None:
        """Run the consumer in this thread, which must be the main one."""
        consumer = self.huey.create_consumer(
            workers=self.knobs["workers"], worker_type="thread", scheduler_interval=1
        )
        consumer.run()


def fill(options: kit.Options) -> kit.Answer:
    """Add tasks one by one: huey knows no other way."""
    bench = Bench(options)
    for n in range(options.count):
        if options.delay:
            # Where the consumer would put it at once: only there can it wait for its time.
            task = bench.noop.s(kit.payload(n), delay=options.delay)
            bench.huey.add_schedule(task)
        else:
            bench.noop(kit.payload(n))
    return {"count": options.count}


def add(options: kit.Options) -> kit.Answer:
    """Time adding one by one."""
    if options.mode != "one":
        raise kit.Unsupported("huey adds one task a blocking call")
    bench = Bench(options)
    return kit.add_each(options, lambda n: bench.noop(kit.payload(n)))


def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    bench = Bench(options)
    kit.end_with(TALLY)
    bench.consume()


def schedule(options: kit.Options) -> None:
    """Schedule the tasks of `late` or `instant` beside a running consumer."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)
    dues = kit.dues(options, adds_per_second=3000)
    kit.end_with(LATENESS)
    threading.Thread(target=_schedule, args=(bench, dues), daemon=True).start()
    bench.consume()


def _schedule(bench: Bench, dues: list[float]) -> None:
    for n, due in enumerate(dues):
        when = datetime.fromtimestamp(due, UTC)
        bench.late.schedule(args=(kit.payload(n), due * 1000), eta=when)


def idle(options: kit.Options) -> None:
    """A consumer with idle task types on its one queue."""
    bench = Bench(options)
    for n in range(options.types):
        bench.huey.task(name=f"idle{n}")(noop)
    kit.watch_idle(options)
    bench.consume()


PEER = kit.Peer(
    name="huey",
    packages=("huey", "redis", "hiredis"),
    delivery="at-most-once (a popped task is lost with its worker)",
    variants={
        "default": "1 worker thread, results kept, schedule looked at every second",
        "tuned": "4 worker threads, no results, else as default (the scheduler's least interval)",
    },
    knobs={
        "default": {"workers": 1, "results": True},
        "tuned": {"workers": 4, "results": False},
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
