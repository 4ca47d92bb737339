"""taskiq over Redis streams (at-least-once), and over a list (lossy) to compare."""

from __future__ import annotations

import asyncio
import importlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

taskiq: Any = importlib.import_module("taskiq")
taskiq_api: Any = importlib.import_module("taskiq.api")
taskiq_redis: Any = importlib.import_module("taskiq_redis")

TALLY: kit.Tally
LATENESS: kit.Lateness


async def noop(_payload: dict[str, Any]) -> None:
    """Do nothing."""
    TALLY.tick()


async def late(_payload: dict[str, Any], due_ms: float) -> None:
    """Note how late this run is."""
    LATENESS.started(due_ms)


class Bench:
    """A broker of the chosen variant with the two tasks on it."""

    def __init__(self, options: kit.Options) -> None:
        self.knobs = options.knobs
        if self.knobs["broker"] == "list":
            self.broker = taskiq_redis.ListQueueBroker(options.redis)
        else:
            self.broker = taskiq_redis.RedisStreamBroker(
                options.redis, xread_count=self.knobs["read"], maxlen=self.knobs["maxlen"]
            )
        self.noop = self.broker.task(task_name="noop")(noop)
        self.late = self.broker.task(task_name="late")(late)

    def receive(self) -> asyncio.Task[None]:
        """Start a worker in this loop; hold the returned task."""
        receiver = taskiq_api.run_receiver_task(
            self.broker,
            run_startup=True,
            validate_params=self.knobs["validate"],
            max_async_tasks=self.knobs["concurrency"],
            max_prefetch=self.knobs["prefetch"],
        )
        return asyncio.ensure_future(receiver)


def loop_of(options: kit.Options) -> asyncio.Runner:
    """The event loop of the variant: asyncio's own or uvloop's."""
    if options.knobs["uvloop"]:
        uvloop: Any = importlib.import_module("uvloop")
        return asyncio.Runner(loop_factory=uvloop.new_event_loop)
    return asyncio.Runner()


async def fill(options: kit.Options) -> kit.Answer:
    """Add tasks, or schedules where a delay is asked for."""
    bench = Bench(options)
    await bench.broker.startup()
    source = taskiq_redis.ListRedisScheduleSource(options.redis)
    when = datetime.now(UTC) + timedelta(seconds=options.delay)
    for chunk in kit.chunks(options.count, 100):
        if options.delay:
            adds = [bench.noop.schedule_by_time(source, when, kit.payload(n)) for n in chunk]
        else:
            adds = [bench.noop.kiq(kit.payload(n)) for n in chunk]
        await asyncio.gather(*adds)
    return {"count": options.count}


async def add(options: kit.Options) -> kit.Answer:
    """Time adding, one by one or 100 gathered."""
    if options.mode == "bulk":
        raise kit.Unsupported("taskiq has no bulk call")
    bench = Bench(options)
    await bench.broker.startup()
    size = 100 if options.mode == "gathered" else 1
    await asyncio.gather(*(bench.noop.kiq(kit.payload(n)) for n in range(kit.WARM_UP)))
    with kit.Stopwatch() as watch:
        if size == 1:
            for n in range(options.count):
                await bench.noop.kiq(kit.payload(n))
        else:
            for chunk in kit.chunks(options.count, size):
                await asyncio.gather(*(bench.noop.kiq(kit.payload(n)) for n in chunk))
    return watch.answer(options.count)


async def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    await Bench(options).receive()


async def schedule(options: kit.Options) -> None:
    """Run worker and scheduler, then schedule the tasks of `late` or `instant`."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    bench = Bench(options)
    receiver = bench.receive()
    source = taskiq_redis.ListRedisScheduleSource(options.redis)
    scheduler = taskiq.TaskiqScheduler(bench.broker, [source])
    update = timedelta(seconds=options.knobs["update"])
    ticker = asyncio.ensure_future(taskiq_api.run_scheduler_task(scheduler, interval=update))
    await asyncio.sleep(1)
    dues = kit.dues(options, adds_per_second=1000)
    for chunk in kit.chunks(options.count, 100):
        await asyncio.gather(
            *(
                bench.late.schedule_by_time(
                    source, datetime.fromtimestamp(dues[n], UTC), kit.payload(n), dues[n] * 1000
                )
                for n in chunk
            )
        )
    kit.end_with(LATENESS)
    await asyncio.gather(receiver, ticker)


async def idle(options: kit.Options) -> None:
    """A worker with idle task types on its one queue."""
    bench = Bench(options)
    for n in range(options.types):
        bench.broker.task(task_name=f"idle{n}")(noop)
    kit.watch_idle(options)
    await bench.receive()


def main(action: Any) -> Any:
    """The action, run in the variant's event loop."""

    def act(options: kit.Options) -> kit.Answer | None:
        with loop_of(options) as runner:
            answer: kit.Answer | None = runner.run(action(options))
        return answer

    return act


STREAM = {
    "broker": "stream",
    "read": 100,
    "maxlen": None,
    "validate": True,
    "concurrency": 100,
    "prefetch": 0,
    "uvloop": False,
    "update": 60,
}

TUNED = STREAM | {
    "read": 1000,
    "validate": False,
    "concurrency": 10,
    "uvloop": True,
    "update": 1,
}

PEER = kit.Peer(
    name="taskiq",
    packages=("taskiq", "taskiq-redis", "redis", "hiredis", "uvloop"),
    delivery="at-least-once (stream, acknowledged after the run); variant lossy: at-most-once",
    variants={
        "default": "RedisStreamBroker, 100 async tasks, no prefetch, 100 a read, no result backend,"
        " scheduler looks for new schedules every 60 s",
        "tuned": "as default, but uvloop, 10 async tasks (more cost more), 1000 a read,"
        " parameters not parsed, scheduler looks for new schedules every second",
        "lossy": "ListQueueBroker (a popped task is lost with its worker), 4 async tasks,"
        " else as tuned",
    },
    knobs={
        "default": STREAM,
        "tuned": TUNED,
        "lossy": TUNED | {"broker": "list", "concurrency": 4},
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
