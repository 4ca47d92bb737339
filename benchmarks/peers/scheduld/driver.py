"""Driver of scheduld itself: the real daemon and the public clients, settings at their defaults."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.drive import READY
from benchmarks.peers.scheduld.daemons import HANDLERS, TYPE, Daemons
from benchmarks.work import INSTANT_S, instants, lateness, payload
from scheduld import AsyncClient, Client, ScheduldError, TaskSpec, __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VARIANTS = {
    "default": "no setting but handler and redis_url; adds by AsyncClient, bulk: 3 x 500 under way",
    "tuned": "as default, and concurrency = 1000 of the replica and the type",
    "blocking": "adds by Client, in bulk one list of all",
    "thread": "as default, a def handler: 10 threads",
    "two": "as default, two daemons",
    "spin": "as default, an inline handler that computes for 1 ms",
}
_AT_ONCE = 5_000
_LIST, _LISTS = 500, 3
"""Bulk adds: tasks in a list, and lists under way at once."""
_SETTLE_S = 3.0
_WARM_UP = 50
_OTHER = "other"
_OTHER_EVERY_MS, _BEFORE = 20, 25
"""Beside a flood: how often another task is due, and how many are due before it."""


def info(options: argparse.Namespace) -> dict[str, Any]:  # noqa: ARG001
    """What is measured."""
    return {
        "name": "scheduld",
        "version": __version__,
        "delivery": "at-least-once",
        "variants": VARIANTS,
        "actions": sorted(ACTIONS),
    }


def fill(options: argparse.Namespace) -> dict[str, Any]:
    """Add tasks as fast as can be."""
    with Client(options.redis) as client:
        _fill(client, options.count, options.delay)
    return {"count": options.count}


def add(options: argparse.Namespace) -> dict[str, Any]:
    """Time adding from one process."""
    if options.variant == "blocking":
        return _add_blocking(options)
    return asyncio.run(_add(options))


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Drain tasks that are due by daemons that find them when they start."""
    handler = "thread_noop" if options.variant == "thread" else "noop"
    replicas = 2 if options.variant == "two" else 1
    with _daemons(options, handler, replicas=replicas) as daemons:
        daemons.wait_for_runs(options.count, 30 + options.count / 100)
        cpu_s = daemons.busy_cpu_s()
        return {
            "count": options.count,
            "seconds": daemons.span_s(),
            "cpu_seconds": cpu_s,
            "started": daemons.runs,
        }


def late(options: argparse.Namespace) -> dict[str, Any]:
    """Start tasks at random instants."""
    return _timed(options, lambda now: instants(options.count, options.seconds, now))


def instant(options: argparse.Namespace) -> dict[str, Any]:
    """Start all tasks at one instant."""
    return _timed(options, lambda now: [round(now + INSTANT_S * 1000)] * options.count)


def idle(options: argparse.Namespace) -> dict[str, Any]:
    """Have nothing to do."""
    names = [f"type{number}" for number in range(options.types)]
    types = {name: _type("noop") for name in names}
    with Daemons(options.redis, types) as daemons:
        daemons.wait_until_working()
        time.sleep(_SETTLE_S)
        print(READY, flush=True)  # noqa: T201
        before, began = daemons.cpu_s(), time.monotonic()
        time.sleep(options.seconds)
        seconds = time.monotonic() - began
        return {"seconds": seconds, "cpu_seconds": daemons.cpu_s() - before}


def pace(options: argparse.Namespace) -> dict[str, Any]:
    """Work off tasks that are due at a `poll_timeout` of so many seconds, one a claim."""
    with Client(options.redis) as client:
        _fill(client, options.count, 0)
    extra = f'poll_timeout = "{round(options.seconds * 1000)}ms"'
    with _daemons(options, "stamp", starts=options.count, extra=extra) as daemons:
        daemons.wait_for_runs(options.count, 20 + 2 * options.count * options.seconds)
        starts = sorted(daemons.starts_ms)
    # The first claim of a daemon sends its scripts: that start is late, and no later one.
    gaps = [late - early for early, late in pairwise(starts[1:])]
    return {"count": options.count, "gaps_ms": [round(gap, 3) for gap in gaps]}


def flood(options: argparse.Namespace) -> dict[str, Any]:
    """Start tasks of one type, due every so many seconds, while many of another type are due."""
    handler = {"thread": "thread_noop", "spin": "spin"}.get(options.variant, "noop")
    most = round(options.seconds * 1000 / _OTHER_EVERY_MS)
    types = {TYPE: _type(handler), _OTHER: _type("stamp")}
    with Daemons(options.redis, types, starts=most) as daemons, Client(options.redis) as client:
        daemons.wait_until_working()
        flood_ms = round(time.time() * 1000) + 2_000 + options.count // 10
        at = datetime.fromtimestamp(flood_ms / 1000, UTC)
        specs = [TaskSpec(payload=payload(n), at=at) for n in range(options.count)]
        for first in range(0, options.count, _AT_ONCE):
            _check(client.schedule_many(TYPE, specs[first : first + _AT_ONCE]))
        dues = [flood_ms + _OTHER_EVERY_MS * (n - _BEFORE) for n in range(most)]
        others = [
            TaskSpec(payload=payload(n), at=datetime.fromtimestamp(due / 1000, UTC))
            for n, due in enumerate(dues)
        ]
        _check(client.schedule_many(_OTHER, others))
        daemons.wait_for_unstamped(options.count, 30 + options.seconds + options.count / 100)
        end_ms = time.time() * 1000
        beside = [n for n, due in enumerate(dues) if flood_ms <= due < end_ms]
        daemons.wait_for_runs(options.count + beside[-1] + 1, 30)
        starts = [daemons.starts_ms[n] for n in beside]
    return {**lateness(starts, [dues[n] for n in beside]), "seconds": (end_ms - flood_ms) / 1000}


def growth(options: argparse.Namespace) -> dict[str, Any]:
    """Memory of one daemon after each `step` of many tasks."""
    sizes = []
    with Client(options.redis) as client, _daemons(options, "noop") as daemons:
        for done in range(options.step, options.count + 1, options.step):
            _fill(client, options.step, 0)
            daemons.wait_for_runs(done, 30 + options.step / 100)
            sizes.append(daemons.rss_kb())
    return {"count": options.count, "step": options.step, "rss_kb": sizes}


def cli(options: argparse.Namespace) -> dict[str, Any]:
    """CPU of `scheduld add`, from start to exit."""
    Path("scheduld.toml").write_text(
        f'[scheduld]\nredis_url = "{options.redis}"\n[types.{TYPE}]\n{_type("noop")}\n'
    )
    argv = [sys.executable, "-m", "scheduld", "add", "--config", "scheduld.toml"]
    argv += ["--type", TYPE, "--in", "1h", "to=user@example.com", "n:=1"]
    seconds = []
    for _ in range(options.count + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        seconds.append(spent)
    # The first may have compiled modules.
    return {"count": options.count, "cpu_seconds": seconds[1:]}


def _type(handler: str, extra: str = "") -> str:
    return f'handler = "{HANDLERS}{handler}"\n{extra}'


def _daemons(
    options: argparse.Namespace,
    handler: str,
    *,
    replicas: int = 1,
    starts: int = 0,
    extra: str = "",
) -> Daemons:
    tuned = options.variant == "tuned"
    if tuned:
        extra += "\nconcurrency = 1000"
    return Daemons(
        options.redis,
        {TYPE: _type(handler, extra)},
        replicas=replicas,
        starts=starts,
        top="concurrency = 1000" if tuned else "",
    )


def _fill(client: Client, count: int, delay_s: float) -> None:
    for first in range(0, count, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, count))
        specs = [TaskSpec(payload=payload(n), delay=delay_s or None) for n in numbers]
        _check(client.schedule_many(TYPE, specs, allow_unknown=True))


def _check(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, ScheduldError):
            raise result


async def _add(options: argparse.Namespace) -> dict[str, Any]:
    async with AsyncClient(options.redis) as client:
        for number in range(_WARM_UP):
            await client.schedule(TYPE, payload(number), allow_unknown=True)
        payloads = [payload(number) for number in range(options.count)]
        began, cpu = time.perf_counter(), time.process_time()
        if options.mode == "one":
            for data in payloads:
                await client.schedule(TYPE, data)
        elif options.mode == "gathered":
            for first in range(0, options.count, 100):
                some = payloads[first : first + 100]
                await asyncio.gather(*[client.schedule(TYPE, data) for data in some])
        else:
            lists = iter(range(0, options.count, _LIST))
            await asyncio.gather(*[_add_lists(client, payloads, lists) for _ in range(_LISTS)])
        return _spent(options.count, began, cpu)


async def _add_lists(
    client: AsyncClient, payloads: Sequence[dict[str, Any]], lists: Iterator[int]
) -> None:
    for first in lists:
        _check(await client.schedule_many(TYPE, payloads[first : first + _LIST]))


def _add_blocking(options: argparse.Namespace) -> dict[str, Any]:
    if options.mode == "gathered":
        return {"unsupported": "a blocking client has one call at a time"}
    with Client(options.redis) as client:
        for number in range(_WARM_UP):
            client.schedule(TYPE, payload(number), allow_unknown=True)
        payloads = [payload(number) for number in range(options.count)]
        began, cpu = time.perf_counter(), time.process_time()
        if options.mode == "one":
            for data in payloads:
                client.schedule(TYPE, data)
        else:
            _check(client.schedule_many(TYPE, payloads))
        return _spent(options.count, began, cpu)


def _spent(count: int, began: float, cpu: float) -> dict[str, Any]:
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    return {"count": count, "seconds": seconds, "cpu_seconds": cpu_seconds}


def _timed(options: argparse.Namespace, plan: Callable[[float], list[int]]) -> dict[str, Any]:
    with _daemons(options, "stamp", starts=options.count) as daemons:
        daemons.wait_until_working()
        with Client(options.redis) as client:
            dues = plan(time.time() * 1000)
            specs = [
                TaskSpec(payload=payload(n), at=datetime.fromtimestamp(due / 1000, UTC))
                for n, due in enumerate(dues)
            ]
            _check(client.schedule_many(TYPE, specs))
        last_s = max(dues) / 1000 - time.time()
        daemons.wait_for_runs(options.count, last_s + 60)
        return lateness(daemons.starts_ms, dues)


ACTIONS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    action.__name__: action
    for action in (info, fill, add, work, late, instant, idle, pace, flood, growth, cli)
}


def main() -> None:
    """Carry out one action and print its answer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=sorted(ACTIONS))
    parser.add_argument("--redis", default="")
    parser.add_argument("--variant", default="default", choices=sorted(VARIANTS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--mode", choices=["one", "gathered", "bulk"], default="one")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--types", type=int, default=10)
    parser.add_argument("--step", type=int, default=50_000)
    options = parser.parse_args()
    os.environ.pop("SCHEDULD_CONFIG", None)
    print(json.dumps(ACTIONS[options.action](options)))  # noqa: T201


if __name__ == "__main__":
    main()
