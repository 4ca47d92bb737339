"""arq: a sorted set that workers poll; a job is run again when its worker died."""

from __future__ import annotations

import asyncio
import importlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

arq_connections: Any = importlib.import_module("arq.connections")
arq_worker: Any = importlib.import_module("arq.worker")

TALLY: kit.Tally
LATENESS: kit.Lateness


async def noop(context: dict[str, Any], payload: dict[str, Any]) -> None:  # noqa: ARG001
    """Do nothing."""
    TALLY.tick()


async def late(
    context: dict[str, Any],  # noqa: ARG001
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


async def pool_of(options: kit.Options) -> Any:
    """The client."""
    return await arq_connections.create_pool(arq_connections.RedisSettings.from_dsn(options.redis))


def worker_of(options: kit.Options, pool: Any, queue: str = "arq:queue") -> Any:
    """The worker of the variant, to be run."""
    return arq_worker.Worker(
        [arq_worker.func(noop, name="noop"), arq_worker.func(late, name="late")],
        queue_name=queue,
        redis_pool=pool,
        handle_signals=False,
        max_jobs=options.knobs["max_jobs"],
        queue_read_limit=options.knobs["read"],
        poll_delay=options.knobs["poll_delay"],
        keep_result=options.knobs["keep_result"],
        log_results=options.knobs["log_results"],
    )


async def fill(options: kit.Options) -> kit.Answer:
    """Add tasks, 100 at a time."""
    pool = await pool_of(options)
    defer = timedelta(seconds=options.delay) if options.delay else None
    for chunk in kit.chunks(options.count, 100):
        adds = (pool.enqueue_job("noop", kit.payload(n), _defer_by=defer) for n in chunk)
        await asyncio.gather(*adds)
    await pool.aclose()
    return {"count": options.count}


async def add(options: kit.Options) -> kit.Answer:
    """Time adding, one by one or 100 gathered."""
    if options.mode == "bulk":
        raise kit.Unsupported("arq has no bulk call")
    pool = await pool_of(options)
    adds = (pool.enqueue_job("noop", kit.payload(n)) for n in range(2 * kit.WARM_UP))
    await asyncio.gather(*adds)
    with kit.Stopwatch() as watch:
        if options.mode == "one":
            for n in range(options.count):
                await pool.enqueue_job("noop", kit.payload(n))
        else:
            for chunk in kit.chunks(options.count, 100):
                await asyncio.gather(*(pool.enqueue_job("noop", kit.payload(n)) for n in chunk))
    await pool.aclose()
    return watch.answer(options.count)


async def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    await worker_of(options, await pool_of(options)).async_run()


async def schedule(options: kit.Options) -> None:
    """Schedule the tasks of `late` or `instant` beside a running worker."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    running = asyncio.ensure_future(worker_of(options, await pool_of(options)).async_run())
    pool = await pool_of(options)
    await asyncio.sleep(0.5)
    dues = kit.dues(options, adds_per_second=1500)

    async def one(n: int) -> None:
        when = datetime.fromtimestamp(dues[n], UTC)
        await pool.enqueue_job("late", kit.payload(n), dues[n] * 1000, _defer_until=when)

    for chunk in kit.chunks(options.count, 100):
        await asyncio.gather(*map(one, chunk))
    kit.end_with(LATENESS)
    await running


async def idle(options: kit.Options) -> None:
    """A worker with nothing to do for each of the queues: an arq worker has one queue."""
    pool = await pool_of(options)
    workers = [worker_of(options, pool, f"arq:idle{n}") for n in range(options.types)]
    kit.watch_idle(options)
    await asyncio.gather(*(worker.async_run() for worker in workers))


def main(action: Any) -> Any:
    """The action, run in the variant's event loop."""

    def act(options: kit.Options) -> kit.Answer | None:
        with loop_of(options) as runner:
            answer: kit.Answer | None = runner.run(action(options))
        return answer

    return act


PEER = kit.Peer(
    name="arq",
    packages=("arq", "redis", "hiredis", "uvloop"),
    delivery="at-least-once (a job stays in its queue until it is done)",
    variants={
        "default": "max_jobs 10, poll every 500 ms, results kept 1 h",
        "tuned": "max_jobs 100, 1000 a read, poll every 2 ms, results not kept nor logged, uvloop",
    },
    knobs={
        "default": {
            "max_jobs": 10,
            "read": None,
            "poll_delay": 0.5,
            "keep_result": 3600,
            "log_results": True,
            "uvloop": False,
        },
        "tuned": {
            "max_jobs": 100,
            "read": 1000,
            "poll_delay": 0.002,
            "keep_result": 0,
            "log_results": False,
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
