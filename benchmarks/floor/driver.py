"""The floor: a bare loop over two batch scripts, with nothing a user could miss taken along.

It claims a batch with a lease and ends the batch before in one call, decodes each payload, awaits
an async no-op, and that is all: no retries, no events, no counters, no time-outs, no recovery.
No queue that works at least once can do much less per task.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hiredis
import redis

from benchmarks.work import INSTANT_S, instants, lateness, payload

if TYPE_CHECKING:
    from collections.abc import Callable

VARIANTS = {
    "default": "batches of 100",
    "batch50": "batches of 50",
    "batch500": "batches of 500",
    "tuned": "batches of 500, the next one asked for before the last one is run",
}
BATCH = {"default": 100, "batch50": 50, "batch500": 500, "tuned": 500}
DUE, LEASED, TASKS = "floor:due", "floor:leased", "floor:task:"
LEASE_MS = 30_000
AHEAD_MS = 50
_BULK = 500
Command = tuple[str | int | float | bytes, ...]
_pack: Any = hiredis.pack_command
_HERE = Path(__file__).parent


class Store:
    """The two scripts on one blocking connection."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url, protocol=2)
        self._add = self.client.script_load((_HERE / "add.lua").read_text())
        self._claim = self.client.script_load((_HERE / "claim.lua").read_text())
        self._line: Any = self.client.connection_pool.get_connection()
        self._send: Callable[[list[bytes]], None] = self._line.send_packed_command

    def add_command(self, tasks: list[tuple[str, int, str]]) -> Command:
        """Make the command that adds (id, due ms, payload) each."""
        flat = [part for task in tasks for part in task]
        return ("EVALSHA", self._add, 2, DUE, TASKS, *flat)

    def exchange(self, commands: list[Command]) -> None:
        """Send commands in one go and read all answers."""
        self._send([b"".join(map(_pack, commands))])
        for _ in commands:
            self._line.read_response()

    def ask(self, want: int, ended: list[bytes], ahead_ms: int = 0) -> None:
        """Send a claim that ends runs too; `answer` reads what it found."""
        head = ("EVALSHA", self._claim, 3, DUE, LEASED, TASKS, want, ahead_ms, LEASE_MS)
        self._send([_pack((*head, *ended))])

    def answer(self) -> list[bytes]:
        """Now in ms, next due in ms or empty, then id, due and payload of each task."""
        rows: list[bytes] = self._line.read_response()
        return rows


def info(options: argparse.Namespace) -> dict[str, Any]:  # noqa: ARG001
    """What is measured."""
    return {
        "name": "floor",
        "version": f"redis-py {redis.__version__}, hiredis {hiredis.__version__}",
        "delivery": "at-least-once",
        "variants": VARIANTS,
        "actions": sorted(ACTIONS),
    }


def fill(options: argparse.Namespace) -> dict[str, Any]:
    """Add tasks as fast as can be."""
    due = round((time.time() + options.delay) * 1000)
    _add_bulk(Store(options.redis), [due] * options.count)
    return {"count": options.count}


def add(options: argparse.Namespace) -> dict[str, Any]:
    """Time adding: a call each, 100 calls in one go, or 500 tasks a call."""
    store, due = Store(options.redis), round(time.time() * 1000)
    _add_bulk(store, [due] * 200)
    began, cpu = time.perf_counter(), time.process_time()
    if options.mode == "bulk":
        _add_bulk(store, [due] * options.count)
    else:
        at_once = 1 if options.mode == "one" else 100
        for first in range(0, options.count, at_once):
            numbers = range(first, min(first + at_once, options.count))
            store.exchange([store.add_command([_task(number, due)]) for number in numbers])
    return {
        "count": options.count,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
    }


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Drain tasks that are due."""
    drain = _drain_overlapped if options.variant == "tuned" else _drain
    return asyncio.run(drain(Store(options.redis), BATCH[options.variant], options.count))


def late(options: argparse.Namespace) -> dict[str, Any]:
    """Start tasks at random instants."""
    return asyncio.run(_timed(options, instants(options.count, options.seconds, _now_ms())))


def instant(options: argparse.Namespace) -> dict[str, Any]:
    """Start all tasks at one instant."""
    return asyncio.run(_timed(options, [round(_now_ms() + INSTANT_S * 1000)] * options.count))


async def noop(payload: dict[str, Any]) -> None:
    """Do nothing."""


async def _drain(store: Store, batch: int, count: int) -> dict[str, Any]:
    ended: list[bytes] = []
    runs, began, cpu = 0, 0.0, 0.0
    while runs < count:
        store.ask(batch, ended)
        rows = store.answer()
        if not began:
            began, cpu = time.perf_counter(), time.process_time()
        for text in rows[4::3]:
            await noop(json.loads(text))
        ended = rows[2::3]
        runs += len(ended)
    return _worked(store, ended, runs, began, cpu)


async def _drain_overlapped(store: Store, batch: int, count: int) -> dict[str, Any]:
    """The server works on the next batch while this one runs; verdicts go one batch later."""
    store.ask(batch, [])
    rows = store.answer()
    began, cpu = time.perf_counter(), time.process_time()
    ended: list[bytes] = []
    runs = 0
    while True:
        store.ask(batch, ended)
        for text in rows[4::3]:
            await noop(json.loads(text))
        ended = rows[2::3]
        runs += len(ended)
        if runs >= count:
            store.answer()
            return _worked(store, ended, runs, began, cpu)
        rows = store.answer()


def _worked(
    store: Store, ended: list[bytes], runs: int, began: float, cpu: float
) -> dict[str, Any]:
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    store.ask(0, ended)
    store.answer()
    return {"count": runs, "seconds": seconds, "cpu_seconds": cpu_seconds, "started": runs}


async def _timed(options: argparse.Namespace, dues: list[int]) -> dict[str, Any]:
    """Claim a little ahead and start each task at its due by a timer of the process."""
    store = Store(options.redis)
    _add_bulk(store, dues)
    starts = [0.0] * len(dues)
    waiting: list[tuple[int, int, bytes]] = []
    ended: list[bytes] = []
    left = len(dues)
    while left:
        store.ask(500, ended, AHEAD_MS)
        rows = store.answer()
        ended = []
        for index in range(2, len(rows), 3):
            data = json.loads(rows[index + 2])
            heapq.heappush(waiting, (int(rows[index + 1]), data["n"], rows[index]))
        # The next due is known only when none was claimed; a full batch may hide more.
        look_ms = float(rows[1] or "inf") - AHEAD_MS if len(rows) == 2 else _now_ms() + AHEAD_MS / 5
        if len(rows) == 2 + 3 * 500:
            continue
        while waiting and waiting[0][0] <= look_ms:
            due, number, task_id = heapq.heappop(waiting)
            _sleep_until(due)
            starts[number] = _now_ms()
            await noop({})
            ended.append(task_id)
            left -= 1
        if left:
            _sleep_until(min(look_ms, waiting[0][0] if waiting else look_ms))
    return lateness(starts, dues)


def _sleep_until(ms: float) -> None:
    while (wait := ms - _now_ms()) > 0:
        time.sleep(wait / 1000)


def _now_ms() -> float:
    return time.time() * 1000


def _task(number: int, due_ms: int) -> tuple[str, int, str]:
    return f"{number:020}", due_ms, json.dumps(payload(number), separators=(",", ":"))


def _add_bulk(store: Store, dues_ms: list[int]) -> None:
    for first in range(0, len(dues_ms), _BULK):
        numbers = range(first, min(first + _BULK, len(dues_ms)))
        store.exchange([store.add_command([_task(number, dues_ms[number]) for number in numbers])])


ACTIONS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    action.__name__: action for action in (info, fill, add, work, late, instant)
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
    options = parser.parse_args()
    print(json.dumps(ACTIONS[options.action](options)))  # noqa: T201


if __name__ == "__main__":
    main()
