"""What reschedule predicates answer, and what becomes of the series, in every isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import RetryPolicy, State
from tests.support import predicates, process_work
from tests.support.processes import process_duty
from tests.support.replicas import Site, until
from tests.support.tasks import HOUR_MS, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scheduld.engine.duty import Duty
    from scheduld.model import Task
    from tests.support.servers import RunningServer

PLACES = ["inline", "inline, def", "thread", "process"]


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace; a lease longer than a worker takes to start on a busy machine."""
    async with Site(valkey_server.url, lease_ms=3_000) as site:
        yield site


def asked(place: str, **policies: Any) -> Duty:
    """A type whose runs return what is in the payload, and whose predicate does as that says."""
    policies = {"retry": RetryPolicy(attempts=1), "empty_poll_timeout_ms": HOUR_MS, **policies}
    if place == "process":
        return process_duty("a", "echo", "says", **policies)

    async def handler(payload: dict[str, Any]) -> Any:
        return process_work.echo(payload)

    if place == "thread":
        return duty("a", process_work.echo, predicates.says, isolation="thread", **policies)
    predicate = predicates.says if place == "inline, def" else predicates.says_async
    return duty("a", handler, predicate, **policies)


async def ended(site: Site, task_id: str) -> Task:
    """Wait for the end of an occurrence."""

    async def has_ended() -> Task | None:
        task = await site.task("a", task_id)
        return task if task.runs else None

    found: Task = await until(has_ended, "an occurrence ended")
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["false", "none"])
async def test_a_series_is_stopped(site: Site, place: str, how: str) -> None:
    """False and None end it: it is done, with its last result."""
    await site.start(asked(place))
    task_id = await site.add("a", {"how": how, "value": 7}, every="1h")
    task = await site.ended("a", task_id)
    assert (task.runs, task.result, task.payload) == (1, 7, {"how": how, "value": 7})
    assert f"done finished {task_id}\n{task_id}" in await site.events("a")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["true", "empty", "patch", "again"])
async def test_a_series_goes_on(site: Site, place: str, how: str) -> None:
    """It is scheduled for the next instant of its grid, or where Again says, and a patch is
    merged into its payload."""
    await site.start(asked(place))
    old = {"how": how, "n": 1, "gone": 1, "value": 7}
    task_id = await site.add("a", old, every="2h")
    first = (await site.task("a", task_id)).due_ms
    task = await ended(site, task_id)
    patched = {"patch": {"how": how, "n": 2, "value": 7}, "again": {**old, "n": 2}}
    assert (task.state, task.result, task.error) == (State.SCHEDULED, 7, None)
    assert task.payload == patched.get(how, old)
    assert first is not None
    assert task.due_ms is not None
    if how == "again":
        assert abs(task.due_ms - first - 3_600_000) < 10_000
    else:
        assert task.due_ms == first + 7_200_000
    assert (task.failed, task.runs, task.missed) == (0, 1, 0)


RUBBISH = {
    "raise": "KeyError: 'season'",
    "leave": "SystemExit",
    "text": "it answered str; it may answer True, False, None, a dict or Again",
    "one": "it answered int",
    "list": "it answered list",
    "outcome": "Snooze, which is for handlers",
    "again_bad": "Again",
    "again_rubbish": "a payload of type list",
    "set": "set",
    "nan": "a number that JSON cannot hold",
    "huge": "at most 262144 are allowed",
    "sly": "it cannot be read: not to be asked",
    "sly_inside": "it cannot be read: not to be read",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", RUBBISH)
async def test_rubbish_changes_nothing_but_is_told(site: Site, place: str, how: str) -> None:
    """A predicate that fails stops no series: its old payload goes on, and why is recorded."""
    await site.start(asked(place))
    task_id = await site.add("a", {"how": how}, every="2h")
    task = await ended(site, task_id)
    assert (task.state, task.payload, task.failed) == (State.SCHEDULED, {"how": how}, 0)
    assert task.error is not None
    assert task.error["kind"] == "reschedule_if"
    assert RUBBISH[how] in task.error["message"]
    events = await site.client.events(id=task_id)
    (told,) = [event for event in events if event.kind == "reschedule_failed"]
    assert any("reschedule_if" in error for error in told.errors)


@pytest.mark.parametrize("place", PLACES)
async def test_a_patch_is_taken_as_its_json(site: Site, place: str) -> None:
    """What its own methods would say is not asked once it is JSON."""
    await site.start(asked(place))
    task = await ended(site, await site.add("a", {"how": "sly_again"}, every="2h"))
    assert (task.state, task.payload) == (State.SCHEDULED, {"how": "sly_again", "n": 1})
    assert task.error is None


@pytest.mark.parametrize("place", PLACES)
async def test_one_that_hangs_is_not_waited_for(site: Site, place: str) -> None:
    """After reschedule_timeout the series goes on as it is."""
    member = await site.start(asked(place, reschedule_timeout_ms=200))
    task_id = await site.add("a", {"how": "hang"}, every="2h")
    task = await ended(site, task_id)
    assert task.state == State.SCHEDULED
    assert task.error is not None
    assert task.error["message"] == "no answer within 200ms (reschedule_timeout)"
    assert member.poller("a").busy == 0


async def test_one_that_kills_its_worker_is_told(site: Site) -> None:
    """A predicate that ends its process is one that failed."""
    await site.start(asked("process"))
    task = await ended(site, await site.add("a", {"how": "exit"}, every="2h"))
    assert task.error is not None
    assert "ended with exit code 3" in task.error["message"]
