"""Celery with acks_late: acknowledged after the run, redelivered when a worker dies."""

from __future__ import annotations

import importlib
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

celery: Any = importlib.import_module("celery")
celery_signals: Any = importlib.import_module("celery.signals")

TALLY: kit.Tally
LATENESS: kit.Lateness


def noop(_payload: dict[str, Any]) -> None:
    """Do nothing."""
    TALLY.tick()


def late(_payload: dict[str, Any], due_ms: float) -> None:
    """Note how late this run is."""
    LATENESS.started(due_ms)


class Bench:
    """An application of the chosen variant with the two tasks on it."""

    def __init__(self, options: kit.Options) -> None:
        self.knobs = options.knobs
        self.app = celery.Celery("bench", broker=options.redis)
        self.app.conf.update(
            task_acks_late=True,
            task_reject_on_worker_lost=True,
            task_ignore_result=True,
            worker_prefetch_multiplier=self.knobs["prefetch"],
            broker_connection_retry_on_startup=True,
        )
        self.noop = self.app.task(noop, name="noop")
        self.late = self.app.task(late, name="late")

    def run(self, pool: str, queues: str = "celery") -> None:
        """Run the worker in this process; comes back only on a signal."""
        arguments = ["worker", "--pool", pool, "--loglevel", "WARNING"]
        arguments += ["--concurrency", str(self.knobs["concurrency"]), "--queues", queues]
        self.app.worker_main([*arguments, *self.knobs["arguments"]])


def fill(options: kit.Options) -> kit.Answer:
    """Add tasks one by one: there is no bulk call that pipelines."""
    bench = Bench(options)
    for n in range(options.count):
        bench.noop.apply_async((kit.payload(n),), countdown=options.delay or None)
    return {"count": options.count}


def add(options: kit.Options) -> kit.Answer:
    """Time adding: one by one, or as a group."""
    bench = Bench(options)
    if options.mode == "gathered":
        raise kit.Unsupported("Celery's client is synchronous and does not pipeline")
    if options.mode == "one":
        return kit.add_each(options, lambda n: bench.noop.delay(kit.payload(n)))

    def many(chunk: range) -> None:
        celery.group(bench.noop.s(kit.payload(n)) for n in chunk).apply_async()

    return kit.add_chunks(options, 1000, many)


def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    Bench(options).run(options.knobs["pool"])


def schedule(options: kit.Options) -> None:
    """Run a worker and, when it is ready, send the tasks of `late` or `instant`."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)

    def send() -> None:
        for n, due in enumerate(kit.dues(options, adds_per_second=400)):
            bench.late.apply_async(
                (kit.payload(n), due * 1000), eta=datetime.fromtimestamp(due, UTC)
            )
        kit.end_with(LATENESS)

    def ready(**_: object) -> None:
        threading.Thread(target=send, daemon=True).start()

    celery_signals.worker_ready.connect(ready, weak=False)
    # The solo pool carries out one task a turn of its loop, tens of ms when timers fire.
    bench.run(options.knobs["timed_pool"])


def idle(options: kit.Options) -> None:
    """A worker with idle queues."""
    bench = Bench(options)

    def ready(**_: object) -> None:
        kit.watch_idle(options)

    celery_signals.worker_ready.connect(ready, weak=False)
    bench.run(options.knobs["pool"], ",".join(f"idle{n}" for n in range(options.types)))


PEER = kit.Peer(
    name="celery",
    packages=("celery", "kombu", "redis", "hiredis"),
    delivery="at-least-once (acks_late, reject_on_worker_lost)",
    variants={
        "default": "prefork pool of one child, prefetch multiplier 4, acks_late,"
        " results ignored, log level warning",
        "tuned": "solo pool (timed cases: one thread), prefetch multiplier 32, no gossip, mingle or"
        " heartbeat, else as default",
    },
    knobs={
        "default": {
            "pool": "prefork",
            "timed_pool": "prefork",
            "concurrency": 1,
            "prefetch": 4,
            "arguments": [],
        },
        "tuned": {
            "pool": "solo",
            "timed_pool": "threads",
            "concurrency": 1,
            "prefetch": 32,
            "arguments": ["--without-gossip", "--without-mingle", "--without-heartbeat"],
        },
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
