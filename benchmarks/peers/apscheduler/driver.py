"""APScheduler 3 with its Redis job store: timers in memory, jobs pickled into a hash.

Version 4, a pre-release, has no store for Redis, so 3.x it is.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

TALLY: kit.Tally
LATENESS: kit.Lateness


def noop(_payload: dict[str, Any]) -> None:
    """Do nothing, in a thread."""
    TALLY.tick()


async def anoop(_payload: dict[str, Any]) -> None:
    """Do nothing, in the event loop."""
    TALLY.tick()


def late(_payload: dict[str, Any], due_ms: float) -> None:
    """Note how late this run is, in a thread."""
    LATENESS.started(due_ms)


async def alate(_payload: dict[str, Any], due_ms: float) -> None:
    """Note how late this run is, in the event loop."""
    LATENESS.started(due_ms)


class Bench:
    """A scheduler of the chosen variant."""

    def __init__(self, options: kit.Options) -> None:
        knobs = options.knobs
        url = urlsplit(options.redis)
        stores: Any = importlib.import_module("apscheduler.jobstores.redis")
        flavour: Any = importlib.import_module(f"apscheduler.schedulers.{knobs['module']}")
        store = stores.RedisJobStore(host=url.hostname, port=url.port, db=url.path[1:] or 0)
        self.scheduler = getattr(flavour, knobs["scheduler"])(
            jobstores={"default": store},
            job_defaults={"misfire_grace_time": None},
            timezone=UTC,
        )
        self.noop = anoop if knobs["module"] == "asyncio" else noop
        self.late = alate if knobs["module"] == "asyncio" else late

    def add(self, when: datetime, function: Any, *arguments: Any) -> None:
        """Add a job that runs once at `when`."""
        self.scheduler.add_job(function, "date", run_date=when, args=arguments)


async def fill(options: kit.Options) -> kit.Answer:
    """Add jobs through a paused scheduler: no other writes to the store."""
    bench = Bench(options)
    bench.scheduler.start(paused=True)
    when = datetime.now(UTC) + timedelta(seconds=options.delay)
    for n in range(options.count):
        bench.add(when, bench.noop, kit.payload(n))
    return {"count": options.count}


async def add(options: kit.Options) -> kit.Answer:
    """Time adding, one by one."""
    if options.mode != "one":
        raise kit.Unsupported("APScheduler has neither a pipelined nor a bulk call")
    bench = Bench(options)
    bench.scheduler.start(paused=True)
    return kit.add_each(options, lambda n: bench.add(datetime.now(UTC), bench.noop, kit.payload(n)))


async def work(options: kit.Options) -> None:
    """Drain what `fill` has added: the clock starts with the scheduler.

    The scheduler fetches, hands over and deletes all that is due in one go, in the
    tuned variant before the first job runs.
    """
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    bench = Bench(options)
    TALLY.begin()
    bench.scheduler.start()
    await asyncio.Event().wait()


async def schedule(options: kit.Options) -> None:
    """Schedule the tasks of `late` or `instant` on a running scheduler."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)
    bench.scheduler.start()
    dues = kit.dues(options, adds_per_second=500)

    def send() -> None:
        for n, due in enumerate(dues):
            when = datetime.fromtimestamp(due, UTC)
            bench.add(when, bench.late, kit.payload(n), due * 1000)
        kit.end_with(LATENESS)

    threading.Thread(target=send, daemon=True).start()
    await asyncio.Event().wait()


async def idle(options: kit.Options) -> None:
    """A scheduler with nothing due: a far-off job for each type."""
    bench = Bench(options)
    bench.scheduler.start()
    for n in range(options.types):
        bench.add(datetime.now(UTC) + timedelta(days=1), bench.noop, kit.payload(n))
    kit.watch_idle(options)
    await asyncio.Event().wait()


def main(action: Any) -> Any:
    """The action, run in an event loop, which only the tuned variant makes use of."""

    def act(options: kit.Options) -> kit.Answer | None:
        answer: kit.Answer | None = asyncio.run(action(options))
        return answer

    return act


PEER = kit.Peer(
    name="apscheduler",
    packages=("APScheduler", "redis", "hiredis"),
    delivery="at-most-once: a job leaves the store when it is handed to its executor",
    variants={
        "default": "BackgroundScheduler, a pool of 10 threads, RedisJobStore, no misfire limit"
        " (the default of one second would drop the tasks that wait longer)",
        "tuned": "AsyncIOScheduler with coroutine jobs, RedisJobStore, no misfire limit",
    },
    knobs={
        "default": {"module": "background", "scheduler": "BackgroundScheduler"},
        "tuned": {"module": "asyncio", "scheduler": "AsyncIOScheduler"},
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
