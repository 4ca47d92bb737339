"""Runs in worker processes: they end as inline ones do, in every way a handler can end."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from scheduld.model import State, Task
from tests.support.processes import process_duty
from tests.support.replicas import Site, until
from tests.support.tasks import ONE_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace; a lease longer than a worker takes to start on a busy machine."""
    async with Site(valkey_server.url, lease_ms=3_000) as site:
        yield site


async def run(site: Site, handler: str, payload: Any = None, state: State = State.DONE) -> Task:
    """Run one task to its end in a worker process."""
    await site.start(process_duty("a", handler, retry=ONE_ATTEMPT))
    return await site.ended("a", await site.add("a", payload), state)


async def ended(site: Site, how: str, state: State) -> Task:
    """Run one task that ends in one way."""
    return await run(site, "ends", {"how": how}, state)


@pytest.mark.parametrize(
    ("how", "result"),
    [
        ("nothing", None),
        ("text", "é\n€\U0001f600"),
        ("number", 12345678901234567),
        ("set", "not JSON serializable"),
        ("nan", "cannot hold"),
        ("surrogate", "surrogate"),
        ("itself", "deeper than 200"),
        ("deep", "deeper than 200"),
        ("big", "the result has 65537 bytes, at most 65536 are kept"),
    ],
)
async def test_a_result_comes_back_or_a_marker(site: Site, how: str, result: Any) -> None:
    """A JSON value is the result; what cannot be stored is a marker, and still a success (B64)."""
    task = await ended(site, how, State.DONE)
    if isinstance(task.result, dict):
        assert result in task.result["not_stored"]
    else:
        assert task.result == result


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("value_error", "ValueError", "wrong \x1b[31m \ud800"),
        ("unreadable", "Unreadable", "(its text cannot be read)"),
        ("long", "ValueError", "y" * 3_000),
        ("exit", "SystemExit", "3"),
        ("interrupt", "KeyboardInterrupt", ""),
        ("retry_wrong", "outcome", "Retry: duration is a object, not a text or a number of "),
        ("snooze_naive", "outcome", "Snooze: until is a datetime without a time zone"),
        ("snooze_nan", "outcome", "Snooze: duration is nan, which is no length of time"),
        ("dead", "dead", "no more"),
    ],
)
async def test_an_exception_is_a_failed_attempt(
    site: Site, how: str, kind: str, message: str
) -> None:
    """Whatever is raised comes back with its kind, text and traceback, within the limits."""
    task = await ended(site, how, State.DEAD)
    assert task.error is not None
    assert task.error["kind"] == kind
    assert task.error["message"].startswith(message)
    assert len(task.error["message"]) <= 4_096
    if how == "long":
        assert len(task.error["traceback"]) <= 16 * 1024 + 8
    elif kind not in ("outcome", "dead"):
        assert "process_work.py" in task.error["traceback"]


@pytest.mark.parametrize("how", ["retry_returned", "retry_raised", "snooze_text"])
async def test_outcomes_with_a_length_mean_what_they_mean_inline(site: Site, how: str) -> None:
    """Retry and Snooze, returned or raised, put the task an hour off."""
    await site.start(process_duty("a", "ends"))
    began = await site.now_ms()
    task_id = await site.add("a", {"how": how})

    async def waiting() -> Task | None:
        task = await site.task("a", task_id)
        is_off = task.due_ms is not None and task.due_ms > began + 3_000_000
        return task if task.state is State.SCHEDULED and is_off else None

    task = await until(waiting, "an hour off")
    assert 3_600_000 <= task.due_ms - began < 3_660_000
    assert task.failed == (0 if how == "snooze_text" else 1)
    if how == "retry_returned":
        assert task.error["message"] == "later"


async def test_an_aware_datetime_keeps_its_milliseconds(site: Site) -> None:
    """A snooze until an instant is until that instant."""
    await site.start(process_duty("a", "ends"))
    task_id = await site.add("a", {"how": "snooze_at"})
    at = datetime(2100, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)

    async def snoozed() -> bool:
        return (await site.task("a", task_id)).due == at

    await until(snoozed, "snoozed")


async def test_the_run_and_the_options_are_there(site: Site) -> None:
    """A handler sees its run, and its options with the times that TOML has."""
    options = {"at": datetime(2026, 1, 2, tzinfo=UTC), "day": date(2026, 1, 2)}
    await site.start(process_duty("a", "whoami", options={**options, "list": [1, {"b": None}]}))
    task = await site.ended("a", await site.add("a", id="x"))
    assert (task.result["id"], task.result["attempt"]) == ("x", 1)
    assert datetime.fromisoformat(task.result["due"]) == task.due
    assert task.result["options"] == {
        **{name: repr(value) for name, value in options.items()},
        "list": "[1, {'b': None}]",
    }


async def test_payloads_come_through_as_they_are(site: Site) -> None:
    """Nothing of a payload is changed on its way, however large it is."""
    value = ["é\U0001f600", 1.0, 12345678901234567, [], {}, "x" * 200_000]
    await site.start(process_duty("a", "echo"))
    task = await site.ended("a", await site.add("a", {"value": value[:-1]}))
    assert json.dumps(task.result) == json.dumps(value[:-1])
    task = await site.ended("a", await site.add("a", {"value": value}))
    assert "200" in task.result["not_stored"]


async def test_long_messages_go_by_and_by(site: Site) -> None:
    """What does not fit the buffer of the socket follows when there is room again."""
    options = {f"n{number}": "y" * 500_000 for number in range(6)}
    await site.start(process_duty("a", "counts", options=options))
    task = await site.ended("a", await site.add("a"))
    assert task.result == 3_000_000


async def test_async_handlers_share_one_loop_in_a_worker(site: Site) -> None:
    """Coroutines run in the worker's loop, which outlives a run: connections can be kept."""
    await site.start(process_duty("a", "coroutine", concurrency=1))
    first = await site.ended("a", await site.add("a"))
    second = await site.ended("a", await site.add("a"))
    assert first.result == second.result


async def test_a_hidden_coroutine_is_a_failure(site: Site) -> None:
    """A `def` that returns a coroutine has not run: that is said, as inline."""
    task = await run(site, "hidden", None, State.DEAD)
    assert task.error is not None
    assert "declare it with async def" in task.error["message"]


async def test_records_and_output_reach_the_daemon(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """What a handler logs is in the daemon's log; what it prints is kept with its failure."""
    caplog.set_level("INFO")
    with capture_logs() as logs:
        task = await run(site, "logs", {"fail": True}, State.DEAD)
        await until(lambda: len(_of_shop(logs)) == 2, "both records")
    assert _of_shop(logs) == [("sold a\nb", "info"), ("own level", "info")]
    assert {log["task"] for log in logs if "sold" in log["event"]} == {f"a/{task.id}"}
    assert task.error is not None
    assert task.error["output"] == "to stderr\n"


def _of_shop(logs: list[Any]) -> list[tuple[str, str]]:
    texts = ("sold", "own", "not at")
    return [(log["event"], log["log_level"]) for log in logs if log["event"].startswith(texts)]


async def test_the_tail_of_much_output_is_kept(site: Site) -> None:
    """Of megabytes the last 8 KB are kept, cut between characters, and it is said what is not."""
    task = await run(site, "writes", {"bytes": 5_000_000}, State.DEAD)
    assert task.error is not None
    head, _, tail = task.error["output"].partition("\n")
    assert head.endswith("bytes left out)")
    assert set(tail) == {"€"}
    assert 8_000 < len(tail.encode()) <= 8_192
