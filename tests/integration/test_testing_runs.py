"""The test kit runs what is due by the rules of a daemon: its scripts, its verdicts, its codec."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import redis

from scheduld import Dead, InvalidInput, Retry, Run, Snooze, schedule_task
from scheduld.store import usercalls
from scheduld.store.calls import Caller
from scheduld.store.keys import Keys
from scheduld.store.synclink import SyncLink
from scheduld.testing import Scheduler, Server, TooManyRuns

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["scheduld.testing.fixtures"]


def fails(payload: dict[str, Any]) -> None:
    """A handler that never comes to a good end."""
    raise ValueError("no luck")


async def fails_async(payload: dict[str, Any]) -> None:
    """The same in the event loop."""
    raise ValueError("no luck")


@pytest.mark.parametrize("handler", [fails, fails_async])
def test_retries_come_as_the_policy_says(scheduld: Scheduler, handler: Any) -> None:
    """Each wait is the policy's, without jitter; after the last attempt the task is dead."""
    begin = scheduld.now
    retry = {"attempts": 4, "delay": "10s", "max_delay": "30s"}
    scheduld.handle("job", handler, retry=retry)
    schedule_task("job", {"n": 1})
    runs = scheduld.run_all()
    assert [(run.at - begin).total_seconds() for run in runs] == [0, 10, 30, 60]
    assert [run.outcome for run in runs] == ["retry", "retry", "retry", "dead"]
    assert [run.attempt for run in runs] == [1, 2, 3, 4]
    assert all(isinstance(run.error, ValueError) for run in runs)
    task = scheduld.assert_dead("job", {"n": 1}, reason="ValueError: no luck")
    assert task.failed == 4


def test_outcomes(scheduld: Scheduler) -> None:
    """Retry counts an attempt, Snooze none, Dead ends at once; returned or raised."""
    begin = scheduld.now
    outcomes: dict[str, Callable[[Run], Any]] = {
        "again": lambda run: Retry(after="1h") if run.attempt == 1 else "at last",
        "later": lambda _: Snooze(begin + timedelta(days=1)) if scheduld.now == begin else None,
        "never": lambda _: Dead("of no use"),
    }

    def handler(payload: dict[str, Any], run: Run) -> Any:
        return outcomes[run.id](run)

    scheduld.handle("job", handler)
    for name in outcomes:
        schedule_task("job", id=name)
    assert [run.outcome for run in scheduld.run_due()] == ["retry", "snooze", "dead"]
    scheduld.assert_dead("job", id="never", reason="of no use")
    scheduld.assert_scheduled("job", id="later", at="+1d")
    (again, later) = scheduld.run_all()
    assert (again.at - begin, again.attempt, again.result) == (timedelta(hours=1), 2, "at last")
    assert (later.at - begin, later.attempt) == (timedelta(days=1), 1)


def test_order(scheduld: Scheduler) -> None:
    """The earliest due is first, whatever its type; at one instant the order is that of adding."""
    for name in ("a", "b"):
        scheduld.handle(name, lambda _: None)
    for n in range(20):
        schedule_task("a", {"n": n}, delay="1m")
    scheduld.client.schedule_many("b", [{"n": n} for n in range(100, 120)])
    schedule_task("b", {"n": 99}, delay="30s")
    runs = scheduld.run_all()
    assert [run.payload["n"] for run in runs] == [*range(100, 120), 99, *range(20)]


def test_what_handlers_schedule_runs_too(scheduld: Scheduler) -> None:
    """A chain that is due at once is run to its end; what is due later waits."""

    def handler(payload: dict[str, Any]) -> None:
        if payload["n"] < 5:
            schedule_task("job", {"n": payload["n"] + 1})
        else:
            schedule_task("job", {"n": 0}, delay="1s")

    scheduld.handle("job", handler)
    schedule_task("job", {"n": 0})
    assert len(scheduld.run_due()) == 6
    assert scheduld.run_due() == []
    scheduld.assert_scheduled("job", {"n": 0}, at="+1s")


@pytest.mark.parametrize("delay", [0, "1h"])
def test_endless(scheduld: Scheduler, delay: Any) -> None:
    """A task that schedules itself again is stopped at the limit, by name, and stays scheduled."""
    scheduld.handle("job", lambda _: schedule_task("job", delay=delay).id)
    schedule_task("job")
    with pytest.raises(TooManyRuns, match=r"25 tasks ran, and job/.* schedule itself again"):
        scheduld.run_all(limit=25)
    assert len(scheduld.runs) == 25
    task = scheduld.assert_scheduled("job", times=1)
    assert (task.failed, task.interruptions) == (0, 0)


def test_as_many_as_the_limit_are_no_fault(scheduld: Scheduler) -> None:
    """The limit is how many may run, not one less."""
    scheduld.handle("job", lambda _: None)
    scheduld.client.schedule_many("job", [{}] * 7)
    assert len(scheduld.run_due(limit=7)) == 7
    for wrong in (0, -1, "5", None):
        with pytest.raises(InvalidInput, match="limit is a number of runs"):
            scheduld.run_due(limit=wrong)  # type: ignore[arg-type]


def test_payloads_are_json(scheduld: Scheduler) -> None:
    """A handler gets what JSON makes of a payload, a copy of its own at each attempt."""
    seen = []

    def handler(payload: dict[str, Any]) -> None:
        seen.append(dict(payload))
        payload["more"] = True
        raise Retry(after=1)

    scheduld.handle("job", handler, retry={"attempts": 2})
    given = {"to": ("a", "b"), "big": 12345678901234567, "empty": []}
    schedule_task("job", given)
    given["late"] = 1
    runs = scheduld.run_all()
    wanted = {"to": ["a", "b"], "big": 12345678901234567, "empty": []}
    assert seen == [wanted, wanted] == [run.payload for run in runs]
    with pytest.raises(InvalidInput, match="payload"):
        schedule_task("job", {"when": datetime.now(UTC)})


def test_results(scheduld: Scheduler) -> None:
    """A result is what is stored of it; one that JSON cannot hold is a marker, as in a daemon."""
    values: dict[str, Any] = {"1-good": {"a": (1, 2)}, "2-bad": object()}
    scheduld.handle("job", lambda _, run: values[run.id])
    for name in values:
        schedule_task("job", id=name)
    good, bad = scheduld.run_due()
    assert good.result == {"a": [1, 2]}
    assert "not_stored" in bad.result
    assert bad.outcome == "done"


def test_a_run_tells_how_its_task_is_kept() -> None:
    """Also the first run of a server, which has to be sent the scripts."""
    with Server() as server, Scheduler(server=server) as scheduld:
        scheduld.tasks()
        scheduld.handle("job", lambda _: 5)
        schedule_task("job")
        scheduld.tasks()
        (run,) = scheduld.run_due()
        assert run.task is not None
        assert (run.task.state, run.result) == ("done", 5)


def test_the_run_of_a_handler(scheduld: Scheduler) -> None:
    """`run` says type, id, attempt, due and options; fences rise."""
    seen: list[Run] = []
    scheduld.handle("job", lambda _, run: seen.append(run), options={"key": "value"})
    schedule_task("job", id="one", delay="1h")
    schedule_task("job", id="two", delay="1h")
    scheduld.run_all()
    assert [(run.type, run.id, run.attempt) for run in seen] == [
        ("job", "one", 1),
        ("job", "two", 1),
    ]
    assert {run.due for run in seen} == {scheduld.now}
    assert seen[0].fence < seen[1].fence
    assert seen[0].options == {"key": "value"}


def test_raising(scheduld: Scheduler) -> None:
    """`raising` shows the handler's own exception, after it was stored; outcomes are none."""
    scheduld.handle("job", fails)
    scheduld.handle("again", lambda _: Retry())
    schedule_task("again")
    scheduld.run_due(raising=True)
    schedule_task("job")
    with pytest.raises(ValueError, match="no luck") as caught:
        scheduld.run_due(raising=True)
    assert caught.traceback[-1].name == "fails"
    scheduld.assert_ran("job", outcome="retry", times=1)
    scheduld.assert_scheduled("job", at="+2s")


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_whatever_is_raised_is_a_failed_attempt(scheduld: Scheduler, error: BaseException) -> None:
    """A handler cannot end the test, as it cannot end the daemon."""

    def handler(payload: dict[str, Any]) -> None:
        raise error

    async def handler_async(payload: dict[str, Any]) -> None:
        raise error

    scheduld.handle("job", handler)
    scheduld.handle("job2", handler_async)
    schedule_task("job")
    schedule_task("job2")
    assert [run.outcome for run in scheduld.run_due()] == ["retry", "retry"]


def test_what_is_meant_for_the_test_gets_there(scheduld: Scheduler) -> None:
    """`pytest.fail` in a handler fails the test; Ctrl-C gives the task back, and stops it."""

    def handler(payload: dict[str, Any]) -> None:
        if payload:
            raise KeyboardInterrupt
        pytest.fail("seen in the test")

    scheduld.handle("job", handler)
    schedule_task("job")
    with pytest.raises(pytest.fail.Exception, match="seen in the test"):
        scheduld.run_due()
    schedule_task("job", {"stop": True}, id="stopped")
    with pytest.raises(KeyboardInterrupt):
        scheduld.run_due()
    task = scheduld.assert_scheduled("job", id="stopped", at="+0s")
    assert (task.failed, task.releases) == (0, 1)


def test_run_timeout_is_real_time(scheduld: Scheduler) -> None:
    """An `async def` handler that hangs is cancelled after its run_timeout, a failed attempt."""
    told = []

    async def hangs(payload: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    scheduld.handle("job", hangs, run_timeout="20ms", retry={"attempts": 1})
    schedule_task("job")
    (run,) = scheduld.run_due()
    assert (run.outcome, told) == ("dead", ["cancelled"])
    scheduld.assert_dead("job", reason="timeout: the run took longer than 20ms")


def test_a_handler_that_forgot_to_be_async(scheduld: Scheduler) -> None:
    """A `def` that returns a coroutine has done nothing: a failed attempt that says so."""
    scheduld.handle("job", lambda payload: fails_async(payload), retry={"attempts": 1})
    schedule_task("job")
    scheduld.run_due()
    scheduld.assert_dead("job", reason="declare it with async def")


def test_broken_tasks_are_dead_and_stop_nothing(scheduld: Scheduler) -> None:
    """What another program stored wrongly is dead with a reason, no handler sees it."""
    scheduld.handle("job", lambda _: None)
    root = f"{scheduld.namespace}:{{job}}:"
    with closing(redis.Redis.from_url(scheduld.url)) as server:
        server.hset(f"{root}task:bad", "payload", "{no json")
        server.set(f"{root}task:text", "a string")
        server.hset(f"{root}task:no id", "payload", "{}")
        server.hset(f"{root}task:plain", "payload", '{"n": 1}')
        due = scheduld.now.timestamp() * 1000
        server.zadd(f"{root}due", dict.fromkeys(("bad", "text", "no id", "plain"), due))
        server.zadd(f"{root}due", {"far": 9e15, "seconds": 1_790_000_000})
        server.hset(f"{root}task:far", "payload", "{}")
        server.hset(f"{root}task:seconds", "payload", "{}")
    (run,) = scheduld.run_due()
    assert (run.ref, run.payload) == ("job/plain", {"n": 1})
    dead = {task.id for task in scheduld.tasks(state="dead")}
    assert dead == {"bad", "text", "no id", "far", "seconds"}
    assert scheduld.run_all() == []


def test_cancelled_by_its_own_handler(scheduld: Scheduler) -> None:
    """A task that is cancelled while it runs is cancelled, whatever its handler says."""

    def handler(payload: dict[str, Any], run: Run) -> str:
        scheduld.client.cancel(run.type, run.id)
        return "done"

    scheduld.handle("job", handler)
    schedule_task("job")
    (run,) = scheduld.run_due()
    assert run.outcome == "cancelled"
    assert run.task is not None
    assert run.task.state == "cancelled"


def test_types_without_handlers_wait(scheduld: Scheduler) -> None:
    """What is only announced is scheduled and never run; a type of no name is refused."""
    scheduld.announce("report")
    schedule_task("report")
    assert scheduld.run_all() == []
    scheduld.assert_scheduled("report", at="+0s")
    scheduld.assert_nothing_ran()
    with pytest.raises(InvalidInput, match="no task type 'reprot'") as caught:
        schedule_task("reprot")
    assert caught.value.hint == "did you mean report?"


@pytest.mark.parametrize(
    ("handler", "settings", "told"),
    [
        ("no_such", {}, "there is no handler 'no_such'"),
        ("no.such:handler", {}, "there is no module 'no'"),
        (lambda: None, {}, "cannot be called with a payload"),
        (Run, {}, "is a class"),
        (None, {}, "handler"),
        ("log", {"retries": 3}, "retries"),
        (fails, {"retry": {"attempts": 0}}, "retry.attempts"),
        (fails, {"run_timeout": "soon", "concurrency": -1}, "run_timeout: .*; concurrency: "),
        (fails_async, {"isolation": "thread"}, "is async"),
        ("email", {}, "smtp_url"),
    ],
)
def test_types_that_cannot_be(
    scheduld: Scheduler, handler: Any, settings: dict[str, Any], told: str
) -> None:
    """A handler or a setting that a config could not have is refused, all faults at once."""
    with pytest.raises(InvalidInput, match=f"(?s){told}"):
        scheduld.handle("job", handler, **settings)


def test_running_within_a_run_is_refused(scheduld: Scheduler) -> None:
    """A handler that calls `run_due` would wait for itself: its attempt fails, and says so."""
    scheduld.handle("job", lambda _: len(scheduld.run_due()), retry={"attempts": 1})
    schedule_task("job")
    scheduld.run_due()
    scheduld.assert_dead("job", reason="it is being run")


async def test_in_an_event_loop(scheduld: Scheduler) -> None:
    """`arun_due` runs `async def` handlers in the test's loop, `def` ones as a daemon does."""
    loops = []

    async def handler(payload: dict[str, Any]) -> None:
        loops.append(asyncio.get_running_loop())

    async def nested() -> str:
        return "a loop of its own"

    scheduld.handle("job", handler)
    scheduld.handle("sync", lambda _: asyncio.run(nested()))
    schedule_task("job")
    schedule_task("sync")
    _, sync = await scheduld.arun_due()
    assert loops == [asyncio.get_running_loop()]
    assert sync.result == "a loop of its own"
    schedule_task("job", delay="1h")
    assert len(await scheduld.arun_until(scheduld.now + timedelta(minutes=59))) == 0
    assert len(await scheduld.arun_all()) == 1


async def test_blocking_in_an_event_loop_is_refused(scheduld: Scheduler) -> None:
    """The blocking forms say which to use instead, and take nothing."""
    scheduld.handle("job", lambda _: None)
    schedule_task("job")
    with pytest.raises(InvalidInput, match=r"block the running event loop: await arun_due"):
        scheduld.run_due()
    scheduld.assert_scheduled("job")
    assert len(await scheduld.arun_due()) == 1


async def test_a_test_that_gives_up(scheduld: Scheduler) -> None:
    """A run whose test was cancelled is given back, and its handler cancelled."""
    told = []
    begun = asyncio.Event()

    async def hangs(payload: dict[str, Any]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.append("ended")

    scheduld.handle("job", hangs)
    schedule_task("job")
    running = asyncio.create_task(scheduld.arun_due())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert told == ["ended"]
    assert scheduld.assert_scheduled("job").releases == 1
    scheduld.assert_nothing_ran()


def test_handlers_of_a_test_share_a_loop(scheduld: Scheduler) -> None:
    """What a handler keeps open for the next run is usable there."""
    kept: list[asyncio.Queue[int]] = []

    async def handler(payload: dict[str, Any]) -> int:
        if not kept:
            kept.append(asyncio.Queue())
            asyncio.get_running_loop().call_later(0.001, kept[0].put_nowait, 7)
            return 0
        return await kept[0].get()

    scheduld.handle("job", handler)
    schedule_task("job")
    schedule_task("job")
    assert [run.result for run in scheduld.run_due()] == [0, 7]


def test_paused_types_wait(scheduld: Scheduler) -> None:
    """What may not be claimed stops nothing else, and runs when it may, at the same instant too."""
    link = SyncLink(scheduld.url)
    caller = Caller(Keys(scheduld.namespace), "cli")
    keys = caller.keys.type("paused")
    scheduld.handle("paused", lambda _: None)
    scheduld.handle("job", lambda _: link.run(usercalls.resume(caller, keys)))
    link.run(usercalls.pause(caller, keys, reason="", who=""))
    schedule_task("paused")
    schedule_task("paused", delay="1h")
    assert scheduld.run_all() == []
    schedule_task("job")
    assert [run.type for run in scheduld.run_all()] == ["job", "paused", "paused"]
    link.close()


def test_what_a_run_tells_is_with_the_task(scheduld: Scheduler) -> None:
    """Progress and log are kept as the daemon keeps them, at the time of the moved clock."""

    def tells(payload: dict[str, Any], run: Run) -> None:
        run.progress({"step": run.attempt})
        run.log(f"attempt {run.attempt}")
        if run.attempt == 1:
            raise Retry(after="10s")

    scheduld.handle("job", tells)
    begin_ms = int(scheduld.now.timestamp() * 1000)
    schedule_task("job", {})
    first, second = (run.task for run in scheduld.run_all())
    assert first is not None
    assert first.progress == {"step": 1}
    assert second is not None
    assert second.progress == {"step": 2}
    assert second.log == [
        {"at_ms": begin_ms, "text": "attempt 1"},
        {"at_ms": begin_ms + 10_000, "text": "attempt 2"},
    ]
