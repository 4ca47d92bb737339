"""docket (pydocket): a Redis stream with a consumer group, redelivered when a worker dies."""

from __future__ import annotations

import asyncio
import importlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.peers import kit

docket_lib: Any = importlib.import_module("docket")

TALLY: kit.Tally
LATENESS: kit.Lateness


async def noop(payload: dict[str, Any]) -> None:  # noqa: ARG001
    """Do nothing."""
    TALLY.tick()


async def late(payload: dict[str, Any], due_ms: float) -> None:  # noqa: ARG001
    """Note how late this run is."""
    LATENESS.started(due_ms)


async def nothing() -> None:
    """Never run."""


def loop_of(options: kit.Options) -> asyncio.Runner:
    """The event loop of the variant: asyncio's own or uvloop's."""
    if options.knobs["uvloop"]:
        uvloop: Any = importlib.import_module("uvloop")
        return asyncio.Runner(loop_factory=uvloop.new_event_loop)
    return asyncio.Runner()


def docket_of(options: kit.Options) -> Any:
    """The docket of the variant, to be entered."""
    ttl = timedelta(seconds=options.knobs["execution_ttl"])
    docket = docket_lib.Docket(name="bench", url=options.redis, execution_ttl=ttl)
    docket.register(noop)
    docket.register(late)
    return docket


def worker_of(docket: Any, options: kit.Options) -> Any:
    """The worker of the variant, to be entered."""
    return docket_lib.Worker(
        docket,
        concurrency=options.knobs["concurrency"],
        minimum_check_interval=timedelta(milliseconds=options.knobs["check_ms"]),
        scheduling_resolution=timedelta(milliseconds=options.knobs["resolution_ms"]),
    )


async def fill(options: kit.Options) -> kit.Answer:
    """Add tasks by the bulk call."""
    when = datetime.now(UTC) + timedelta(seconds=options.delay) if options.delay else None
    async with docket_of(options) as docket:
        for chunk in kit.chunks(options.count, 1000):
            await docket.add_many([docket.call(noop, when)(kit.payload(n)) for n in chunk])
    return {"count": options.count}


async def add(options: kit.Options) -> kit.Answer:
    """Time adding."""
    sizes = {"one": 1, "gathered": 100, "bulk": options.knobs["bulk"]}
    async with docket_of(options) as docket:

        async def many(chunk: range) -> None:
            if options.mode == "bulk":
                await docket.add_many([docket.call(noop)(kit.payload(n)) for n in chunk])
            elif len(chunk) == 1:
                await docket.add(noop)(kit.payload(chunk[0]))
            else:
                await asyncio.gather(*(docket.add(noop)(kit.payload(n)) for n in chunk))

        await many(range(kit.WARM_UP))
        with kit.Stopwatch() as watch:
            for chunk in kit.chunks(options.count, sizes[options.mode]):
                await many(chunk)
    return watch.answer(options.count)


async def work(options: kit.Options) -> None:
    """Drain what `fill` has added."""
    global TALLY
    TALLY = kit.Tally(options.count)
    kit.end_with(TALLY)
    async with docket_of(options) as docket, worker_of(docket, options) as worker:
        await worker.run_forever()


async def schedule(options: kit.Options) -> None:
    """Schedule the tasks of `late` or `instant` beside a running worker."""
    global LATENESS
    LATENESS = kit.Lateness(options.count)
    async with docket_of(options) as docket, worker_of(docket, options) as worker:
        running = asyncio.ensure_future(worker.run_forever())
        await asyncio.sleep(0.5)
        dues = kit.dues(options, adds_per_second=3000)
        for chunk in kit.chunks(options.count, 500):
            calls = [
                docket.call(late, datetime.fromtimestamp(dues[n], UTC))(
                    kit.payload(n), dues[n] * 1000
                )
                for n in chunk
            ]
            await docket.add_many(calls)
        kit.end_with(LATENESS)
        await running


async def idle(options: kit.Options) -> None:
    """A worker with idle task types on its one docket."""
    async with docket_of(options) as docket, worker_of(docket, options) as worker:
        for n in range(options.types):
            docket.register(nothing, names=[f"idle{n}"])
        kit.watch_idle(options)
        await worker.run_forever()


def main(action: Any) -> Any:
    """The action, run in the variant's event loop."""

    def act(options: kit.Options) -> kit.Answer | None:
        with loop_of(options) as runner:
            answer: kit.Answer | None = runner.run(action(options))
        return answer

    return act


PEER = kit.Peer(
    name="docket",
    packages=("pydocket", "redis", "hiredis", "uvloop"),
    delivery="at-least-once (unacknowledged stream entries are redelivered)",
    variants={
        "default": "as its command line: concurrency 10, checks every 100 ms (and so at most 100"
        " runs a second), schedules every 250 ms, finished runs kept 15 min,"
        " add_many of 1000; hiredis installed",
        "tuned": "concurrency 50, checks every ms, schedules every 2 ms, finished runs not kept,"
        " uvloop, add_many of 1000; hiredis installed",
    },
    knobs={
        "default": {
            "concurrency": 10,
            "check_ms": 100,
            "resolution_ms": 250,
            "execution_ttl": 900,
            "bulk": 1000,
            "uvloop": False,
        },
        "tuned": {
            "concurrency": 50,
            "check_ms": 1,
            "resolution_ms": 2,
            "execution_ttl": 0,
            "bulk": 1000,
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
