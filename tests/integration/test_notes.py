"""run.progress and run.log: inline, in threads and in processes alike."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import State, Task
from tests.support import process_work
from tests.support.processes import process_duty
from tests.support.proxy import Proxy
from tests.support.replicas import Site, until
from tests.support.tasks import ONE_ATTEMPT, Payload, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.engine.duty import Duty
    from scheduld.handlers.contract import Run
    from tests.support.servers import RunningServer

PLACES = ["inline", "thread", "process"]


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace; a lease longer than a worker takes to start on a busy machine."""
    async with Site(valkey_server.url, lease_ms=3_000) as site:
        yield site


async def _tells(payload: Payload, run: Run) -> Any:
    return process_work.tells(payload, run)


async def _tells_wrong(payload: Payload, run: Run) -> Any:
    return process_work.tells_wrong(payload, run)


def teller(place: str, name: str = "tells", **policies: Any) -> Duty:
    """Make a type that runs a handler of `process_work` in one of the three places."""
    if place == "process":
        return process_duty("a", name, **policies)
    if place == "thread":
        return duty("a", getattr(process_work, name), isolation="thread", **policies)
    return duty("a", {"tells": _tells, "tells_wrong": _tells_wrong}[name], **policies)


def texts(task: Task) -> list[str]:
    """Read the texts of the log."""
    return [line["text"] for line in task.log or []]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fail", [False, True])
async def test_all_that_was_told_is_there_at_the_end(site: Site, place: str, fail: bool) -> None:
    """The end of a run is stored after its last note, be it a success or a failure."""
    began = await site.now_ms()
    await site.start(teller(place, retry=ONE_ATTEMPT))
    task_id = await site.add("a", {"count": 30, "fail": fail})
    task = await site.ended("a", task_id, State.DEAD if fail else State.DONE)
    assert task.progress == {"at": 29}
    assert texts(task) == [f"line {number}" for number in range(30)]
    assert task.log is not None
    stamps = [line["at_ms"] for line in task.log]
    assert stamps == sorted(stamps)
    assert began - 1_000 <= stamps[0] <= stamps[-1] <= await site.now_ms()


@pytest.mark.parametrize("place", ["thread", "process"])
async def test_notes_are_seen_while_it_runs(site: Site, place: str) -> None:
    """Within a second a running task shows what it has told."""
    await site.start(teller(place))
    task_id = await site.add("a", {"count": 3, "s": 2})

    async def seen() -> bool:
        task = await site.task("a", task_id)
        return task.state is State.RUNNING and task.progress == {"at": 2}

    await until(seen, "progress of a running task")
    task = await site.ended("a", task_id)
    assert texts(task) == ["line 0", "line 1", "line 2"]


@pytest.mark.parametrize("place", PLACES)
async def test_what_cannot_be_stored_is_an_error_in_the_handler(site: Site, place: str) -> None:
    """It says what is wrong and what would be right; the run goes on if the handler likes."""
    await site.start(teller(place, "tells_wrong"))
    task = await site.ended("a", await site.add("a"))
    no_json, too_long, nan, no_text = task.result
    assert no_json.startswith("TypeError: progress cannot be stored as JSON")
    assert no_json.endswith("a JSON value of at most 4096 bytes")
    assert too_long == "ValueError: progress has 5002 bytes, at most 4096 are kept"
    assert nan.startswith("TypeError: progress has a number that JSON cannot hold")
    assert no_text == "TypeError: run.log takes a text, not int"
    assert (task.progress, task.log) == (None, None)


@pytest.mark.parametrize("text", ["\U0001f600" * 2_000, "\x00" * 2_000, "e" * 2_000])
async def test_the_longest_line_is_kept(site: Site, text: str) -> None:
    """A line of characters that JSON writes with 12 bytes is cut, not lost."""

    def told(payload: Payload, run: Run) -> None:
        run.log(text)

    await site.start(duty("a", told, isolation="thread"))
    task = await site.ended("a", await site.add("a"))
    (kept,) = texts(task)
    assert len(kept) > 1_000
    assert text.startswith(kept.removesuffix("..."))


@pytest.mark.parametrize("place", ["inline", "process"])
async def test_a_run_may_tell_as_often_as_it_likes(site: Site, place: str) -> None:
    """20,000 notes are a few calls to Redis, the newest and the last 200 lines."""
    await site.start(teller(place))
    before = (await site.redis.info("commandstats")).get("cmdstat_evalsha", {}).get("calls", 0)
    task = await site.ended("a", await site.add("a", {"count": 20_000}))
    after = (await site.redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
    assert task.progress == {"at": 19_999}
    assert texts(task)[-1] == "line 19999"
    assert len(texts(task)) == 200
    # Reads of this test are among them; without a limit there were 20,000.
    assert after - before < 6_000


async def test_the_last_words_of_a_process_are_kept(site: Site) -> None:
    """What a worker told before it died is with the failed task."""
    await site.start(teller("process", retry=ONE_ATTEMPT))
    task = await site.ended("a", await site.add("a", {"count": 5, "die": True}), State.DEAD)
    assert texts(task) == [f"line {number}" for number in range(5)]


async def test_an_outage_loses_no_note(valkey_server: RunningServer, site: Site) -> None:
    """While Redis is away notes wait, and the end of the run behind them; then all is stored."""
    away, back = threading.Event(), threading.Event()

    def told(payload: Payload, run: Run) -> str:
        run.log("before")
        away.wait(10)
        run.log("while away")
        run.progress(1)
        back.set()
        return "done"

    async with Proxy(valkey_server.url) as proxy:
        member = await site.start(duty("a", told, isolation="thread"), url=proxy.url)
        task_id = await site.add("a")
        await until(lambda: member.poller("a").runner.running, "run")
        await proxy.become("refuse")
        away.set()
        await until(back.is_set, "told")
        await until(lambda: not member.poller("a").runner.running, "returned")
        assert member.poller("a").busy == 1, "its end waits"
        await proxy.become("pass")
        task = await site.ended("a", task_id)
        await member.stop()
    assert (task.progress, texts(task)) == (1, ["before", "while away"])


async def test_a_lost_run_is_over_without_its_notes(site: Site) -> None:
    """Refused notes do not hold up the end of the run, which is refused too."""
    gate = asyncio.Event()

    async def told(payload: Payload, run: Run) -> None:
        await gate.wait()
        run.log("too late")

    member = await site.start(duty("a", told))
    task_id = await site.add("a")
    await until(lambda: member.poller("a").runner.running, "run")
    await site.redis.hset(site.keys.type("a").task(task_id.encode()), "fence", "1")
    gate.set()
    await until(lambda: not member.poller("a").busy, "over")
    assert (await site.task("a", task_id)).log is None
    assert not member.poller("a").notebook._pages


async def test_nothing_is_kept_of_runs_that_ended(site: Site) -> None:
    """The daemon forgets what it has stored."""
    member = await site.start(teller("inline"))
    for _ in range(3):
        await site.ended("a", await site.add("a", {"count": 2}))
    assert not member.poller("a").notebook._pages
