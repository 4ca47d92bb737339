"""Never run: the public API as users write it, to be accepted by a strict type checker."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_type

from scheduld import (
    AsyncClient,
    Backfill,
    Client,
    ConfigError,
    Dead,
    DeadGroup,
    Event,
    NextTick,
    Node,
    OutcomeUnknown,
    Requeued,
    Resumed,
    Retry,
    Run,
    ScheduldError,
    Schedule,
    ScheduleInfo,
    SchedulePause,
    Skip,
    Snooze,
    State,
    Task,
    TaskExists,
    TaskSpec,
    Tick,
    Triggered,
    TypePause,
    TypeStats,
    parse_when,
    schedule_task,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def add(payload: Mapping[str, Any]) -> Task:
    """One-off tasks in every form of time."""
    schedule_task("email")
    schedule_task("email", payload, at="2026-12-24 09:00", timezone="Europe/Madrid")
    schedule_task("email", payload, at=datetime(2026, 12, 24, tzinfo=UTC), timezone=UTC)
    schedule_task("email", {"to": ["a@b.c"]}, delay=timedelta(minutes=5), on_conflict="replace")
    schedule_task("email", delay=1.5, id="x", token="t", allow_past=True, allow_unknown=True)
    # One that must be refused, or the checker checks nothing.
    schedule_task("email", on_conflict="overwrite")  # type: ignore[arg-type]
    return schedule_task("email", payload, delay="5m")


def come_again(client: Client, payload: Mapping[str, Any]) -> Task:
    """Periodic tasks, and what changes them."""
    schedule_task("email", payload, every="7d", until=date(2027, 1, 1), max_runs=3)
    client.schedule("email", every=timedelta(hours=1), until=datetime(2027, 1, 1, tzinfo=UTC))
    client.schedule_many("email", [TaskSpec(every=90, until="2027-01-01"), payload])
    assert_type(client.cancel("email", "42", this_run=True), Task)
    schedule_task("email", every=None, max_runs="3")  # type: ignore[arg-type]
    return client.edit("email", "42", every="1mo", until="never", max_runs=9)


def ask(client: Client) -> None:
    """What is answered has types."""
    task = client.get("email", "42")
    assert_type(task.due, datetime | None)
    assert_type(task.state, State)
    assert_type(client.list("email", state=State.DEAD), list[Task])
    assert_type(client.stats(), list[TypeStats])
    assert_type(client.schedule_many("email", [{}, TaskSpec(delay=3)]), list[Task | ScheduldError])
    assert_type(client.cancel("email", "42"), Task)
    assert_type(client.requeue("email", "42").to_dict(), dict[str, Any])
    assert_type(client.find("42").ref, str)
    assert_type(client.edit("email", "42", merge={"a": None}, if_revision=3).revision, int)
    assert_type(client.run_now("email", "42"), Task)
    assert_type(client.pause("email", reason="why"), TypePause)
    assert_type(client.paused(), list[TypePause])
    assert_type(client.resume("email"), bool)
    assert_type(client.dead(error="timeout"), list[Task])
    assert_type(client.dead_groups("email"), list[DeadGroup])
    assert_type(client.requeue_dead("email", canary=True), Requeued)
    assert_type(client.purge("email", state=State.DONE, older_than=timedelta(days=1)), int)
    assert_type(client.events("email", id="42", since="1h")[0].ids, tuple[str, ...])
    assert_type(client.nodes(), list[Node])
    for event in client.follow():
        assert_type(event, Event)
    for task in client.export(state="dead"):
        assert_type(task, Task)
    assert_type(parse_when("tomorrow 09:00", timezone="Asia/Tokyo"), datetime)


async def ask_async() -> None:
    """The same for asyncio."""
    async with AsyncClient("redis://localhost", namespace="n", wait_s=1) as client:
        assert_type(await client.schedule("email", {"a": 1}, delay="1h"), Task)
        assert_type(await client.list(limit=3), list[Task])
        assert_type(await client.edit("email", "42", delay="5m"), Task)
        async for event in client.follow("email"):
            assert_type(event, Event)
        async for task in client.export():
            assert_type(task, Task)
        assert_type(await client.stats("email"), list[TypeStats])
        assert_type(await client.schedule_many("email", [{}]), list[Task | ScheduldError])


def fail() -> None:
    """Errors have what is documented."""
    try:
        with Client() as client:
            client.schedule("email")
    except TaskExists as error:
        assert_type(error.state, str)
    except OutcomeUnknown as error:
        assert_type(error.token, str | None)
    except ConfigError as error:
        print([problem.line for problem in error.problems])  # noqa: T201
    except ScheduldError as error:
        assert_type((error.message, error.hint, error.exit_code), tuple[str, str | None, int])


async def handler(payload: dict[str, Any], run: Run) -> dict[str, int] | Snooze:
    """A handler returns or raises its outcome."""
    if run.cancelled:
        raise Retry(after=timedelta(seconds=3), reason="asked to stop")
    if payload.get("late"):
        return Snooze(until=run.due + timedelta(hours=1))
    if run.attempt > 3:
        raise Dead("no use")
    return {"fence": run.fence}


def schedules(client: Client) -> None:
    """Schedules in every form of their settings."""
    info = client.schedules.add("a", "email", cron="@daily", timezone=UTC, payload={"to": []})
    client.schedules.add("b", "email", every=timedelta(hours=1), on_conflict="replace")
    # Those that must be refused, or the checker checks nothing.
    client.schedules.add("b", "email", every="1h", overlap="drop")  # type: ignore[arg-type]
    client.schedules.add("b", "email", evry="1h")  # type: ignore[call-arg]
    assert_type(info, ScheduleInfo)
    assert_type(info.definition, Schedule | None)
    assert_type(info.next, datetime | None)
    assert_type(client.schedules.list("email"), list[ScheduleInfo])
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert_type(client.schedules.next("a", 3, after=after), list[NextTick])
    assert_type(client.schedules.history("a"), list[Tick])
    assert_type(client.schedules.pause("a", reason="x"), SchedulePause)
    assert_type(client.schedules.resume("a", catch_up=True), Resumed)
    assert_type(client.schedules.trigger("a", {"n": 1}), Triggered)
    assert_type(client.schedules.skip("a", on="2026-12-24"), list[Skip])
    assert_type(client.schedules.backfill("a", "2026-01-01", "2026-01-02"), Backfill)
    assert_type(client.schedules.remove("a"), int)


async def schedules_in_a_loop(client: AsyncClient) -> None:
    """The same, awaited."""
    assert_type(await client.schedules.get("a"), ScheduleInfo)
    assert_type(await client.schedules.list(), list[ScheduleInfo])
