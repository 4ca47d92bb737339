"""The test kit runs tasks that come again: at their times, with their predicates."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import (
    Again,
    AsyncClient,
    Dead,
    Retry,
    Run,
    Snooze,
    TaskExists,
    WhenError,
    schedule_task,
)
from scheduld.errors import InvalidInput
from scheduld.testing import TooManyRuns

if TYPE_CHECKING:
    from scheduld.testing import Scheduler
    from scheduld.testing.worker import RunRecord

pytest_plugins = ["scheduld.testing.fixtures"]


@pytest.fixture
def kit(scheduld: Scheduler) -> Scheduler:
    """A scheduler in Madrid, at noon of New Year's Day 2027."""
    scheduld.timezone = "Europe/Madrid"
    scheduld.move_to("2027-01-01 12:00")
    return scheduld


def nothing(payload: dict[str, Any]) -> None:
    """A handler."""


def days(runs: list[RunRecord]) -> list[str]:
    """When they ran, in UTC."""
    return [run.at.strftime("%m-%d %H:%M") for run in runs]


def test_a_year_of_weeks_takes_a_moment(kit: Scheduler) -> None:
    """Each at nine in Madrid, whatever the clocks do, the payload carried on by the predicate."""
    kit.handle("job", nothing, reschedule_if=lambda payload: {"n": payload["n"] + 1})
    schedule_task("job", {"n": 0}, at="2027-01-04 09:00", every="7d", id="w")
    begin = time.perf_counter()
    runs = kit.run_until("2028-01-01 00:00")
    assert time.perf_counter() - begin < 1
    assert [run.payload["n"] for run in runs] == list(range(52))
    local = ["08:00" if not "03-28" <= day[:5] < "10-31" else "07:00" for day in days(runs)]
    assert [day[6:] for day in days(runs)] == local
    assert runs[0].at == datetime(2027, 1, 4, 8, tzinfo=UTC)
    (task,) = kit.tasks("job")
    assert (task.runs, task.missed, task.payload) == (52, 0, {"n": 52})


ANSWERS: list[tuple[Any, int, dict[str, Any]]] = [
    (True, 3, {"a": {"x": 1}}),
    ({}, 3, {"a": {"x": 1}}),
    (False, 1, {"a": {"x": 1}}),
    (None, 1, {"a": {"x": 1}}),
    ({"a": {"y": 2}}, 3, {"a": {"x": 1, "y": 2}}),
    ({"a": None}, 3, {}),
    ({"a": [1]}, 3, {"a": [1]}),
    ({"a": {}}, 3, {"a": {"x": 1}}),
    (Again(payload={"b": 1}), 3, {"a": {"x": 1}, "b": 1}),
    ("yes", 3, {"a": {"x": 1}}),
    ([], 3, {"a": {"x": 1}}),
    (7, 3, {"a": {"x": 1}}),
    ({"a": object()}, 3, {"a": {"x": 1}}),
    ({1: 2}, 3, {"a": {"x": 1}}),
    (Snooze(5), 3, {"a": {"x": 1}}),
    (Again(at="yesterday"), 3, {"a": {"x": 1}}),
]


@pytest.mark.parametrize(("answer", "count", "payload"), ANSWERS)
def test_what_the_predicate_answers(
    kit: Scheduler, answer: Any, count: int, payload: dict[str, Any]
) -> None:
    """Each answer means what the table in the docs says; rubbish leaves the series as it is."""
    kit.handle("job", nothing, reschedule_if=lambda _: answer)
    schedule_task("job", {"a": {"x": 1}}, every="1h", max_runs=3, id="s")
    assert len(kit.run_all()) == count
    assert kit.client.get("job", "s").payload == payload


def test_again_leaves_the_grid(kit: Scheduler) -> None:
    """What follows is at the next instant of the grid."""
    said = [Again(at=timedelta(hours=5)), True, True, False]
    kit.handle("job", nothing, reschedule_if=lambda _: said.pop(0))
    schedule_task("job", at="2027-01-02 09:00", every="1d")
    assert days(kit.run_all()) == ["01-02 08:00", "01-02 13:00", "01-03 08:00", "01-04 08:00"]


def test_the_predicate_has_a_copy(kit: Scheduler) -> None:
    """What it, or the handler, changes in place is not kept."""

    def spoil(payload: dict[str, Any]) -> bool:
        payload["list"].append(1)
        return True

    kit.handle("job", spoil, reschedule_if=spoil)
    schedule_task("job", {"list": []}, every="1h", max_runs=50, id="s")
    assert len(kit.run_all()) == 50
    assert kit.client.get("job", "s").payload == {"list": []}


def test_fifty_rounds_do_not_grow(kit: Scheduler) -> None:
    """The same patch again and again leaves the same payload."""
    patch = {"a": [1, 2], "b": {"c": {"d": None}, "e": 1}, "gone": None}
    kit.handle("job", nothing, reschedule_if=lambda _: patch)
    schedule_task("job", {"gone": 1, "a": 5}, every="1h", max_runs=51, id="s")
    assert len(kit.run_all()) == 51
    assert kit.client.get("job", "s").payload == {"a": [1, 2], "b": {"c": {}, "e": 1}}


def test_the_predicate_may_be_async_and_know_the_run(kit: Scheduler) -> None:
    """It is called as a handler is, and hangs no longer than its timeout."""
    asked = []

    async def again(payload: dict[str, Any], run: Run) -> bool:
        asked.append((run.id, run.due.hour, run.attempt))
        return len(asked) < 2

    kit.handle("job", nothing, reschedule_if=again)
    schedule_task("job", at="2027-01-02 09:00", every="1h", id="s")
    kit.run_all()
    assert asked == [("s", 8, 1), ("s", 9, 1)]


def test_one_that_raises_lets_the_series_go_on(kit: Scheduler) -> None:
    """The error is kept with the task; `raising` brings it out, after the end is stored."""

    def broken(payload: dict[str, Any]) -> bool:
        raise RuntimeError("no idea")

    kit.handle("job", nothing, reschedule_if=broken)
    schedule_task("job", every="1h", id="s")
    kit.run_due()
    task = kit.client.get("job", "s")
    assert task.error is not None
    assert "no idea" in task.error["message"]
    kit.move_by("1h")
    with pytest.raises(RuntimeError, match="no idea"):
        kit.run_due(raising=True)
    assert kit.client.get("job", "s").runs == 2


def test_an_error_at_the_last_end_is_kept_too(kit: Scheduler) -> None:
    """Nothing follows that could tell of it."""

    def broken(payload: dict[str, Any]) -> bool:
        raise RuntimeError("no idea")

    kit.handle("job", nothing, reschedule_if=broken)
    schedule_task("job", every="1h", max_runs=1, id="s")
    kit.run_due()
    task = kit.client.get("job", "s")
    assert (task.state, task.ends) == ("done", "max_runs")
    assert task.error is not None
    assert "no idea" in task.error["message"]


def test_a_dead_occurrence_is_kept_and_the_series_goes_on(kit: Scheduler) -> None:
    """Under its own id, without the period: requeued it runs once more, alone."""

    def work(payload: dict[str, Any], run: Run) -> None:
        if run.due == datetime(2027, 1, 3, 8, tzinfo=UTC):
            raise Dead("a bad day")

    kit.handle("job", work)
    schedule_task("job", {"a": 1}, at="2027-01-02 09:00", every="1d", max_runs=3, id="s")
    runs = kit.run_all()
    assert [run.outcome for run in runs] == ["done", "dead", "done"]
    dead = kit.assert_dead("job", {"a": 1}, reason="a bad day", id="s@2027-01-03T08:00:00Z")
    assert (dead.every, dead.runs) == (None, None)
    ended = kit.client.get("job", "s")
    assert (ended.state, ended.ends) == ("done", "max_runs")
    told = [event for event in kit.client.events("job", id="s") if event.kind == "dead"]
    assert [event.ids for event in told] == [(dead.id,)]
    kit.client.requeue("job", dead.id)
    (again,) = kit.run_all()
    assert again.id == dead.id


def test_waits_within_an_occurrence_leave_the_grid(kit: Scheduler) -> None:
    """A retry and a snooze are not asked about, and what they passed over is missed."""
    ends: list[Exception | None] = [Retry(after="10m"), Snooze("150m"), None, None]
    asked = []

    def work(payload: dict[str, Any]) -> None:
        end = ends.pop(0)
        if end is not None:
            raise end

    def again(payload: dict[str, Any], run: Run) -> bool:
        asked.append(run.due.hour)
        return bool(ends)

    kit.handle("job", work, reschedule_if=again)
    schedule_task("job", at="2027-01-02 09:00", every="1h", id="s")
    assert days(kit.run_all()) == ["01-02 08:00", "01-02 08:10", "01-02 10:40", "01-02 11:00"]
    assert asked == [8, 11]
    assert kit.client.get("job", "s").missed == 2


def test_what_time_was_moved_over_is_missed(kit: Scheduler) -> None:
    """One run, late, and then the grid: no burst. A pause is no different."""
    kit.handle("job", nothing)
    schedule_task("job", at="2027-01-02 09:00", every="1d", id="s")
    kit.move_to("2027-01-05 10:00")
    assert days(kit.run_due()) == ["01-05 09:00"]
    kit.client.pause("job", reason="holidays")
    assert kit.run_until("2027-01-09 10:00") == []
    kit.client.resume("job")
    assert days(kit.run_until("2027-01-10 10:00")) == ["01-09 09:00", "01-10 08:00"]
    assert kit.client.get("job", "s").missed == 6


def test_an_edit_during_the_run_wins(kit: Scheduler) -> None:
    """The run has its own copy, the patch of the predicate is dropped."""

    def work(payload: dict[str, Any]) -> None:
        if payload["n"] == 0:
            kit.client.edit("job", "s", merge={"n": 10})

    kit.handle("job", work, reschedule_if=lambda payload: {"n": payload["n"] + 1})
    schedule_task("job", {"n": 0}, every="1h", max_runs=3, id="s")
    assert [run.payload["n"] for run in kit.run_all()] == [0, 10, 11]


def test_a_series_follows_its_anchor(kit: Scheduler) -> None:
    """Also where the predicate moves it; a patch that takes it away is left out."""

    def again(payload: dict[str, Any], run: Run) -> Any:
        if run.due.month == 1:
            return {"day": "2027-03-20T09:00"}
        return {"day": None}

    kit.handle("job", nothing, series=["-7d", "-1d", "0"], anchor="day", reschedule_if=again)
    task = schedule_task("job", {"day": "2027-01-20 09:00"}, id="s")
    assert task.series == {"offsets": ["-7d", "-1d", "0"], "anchor": "day"}
    assert days(kit.run_all()) == ["01-13 08:00", "03-13 08:00", "03-19 08:00", "03-20 08:00"]
    assert kit.client.get("job", "s").payload == {"day": "2027-03-20T09:00"}
    with pytest.raises(WhenError, match="have passed"):
        schedule_task("job", {"day": "2027-01-02 09:00"})


def test_an_endless_one_is_no_hang(kit: Scheduler) -> None:
    """`run_all` ends by its limit, and names the task; what is left goes on."""
    kit.handle("job", nothing)
    schedule_task("job", every="1h", id="s")
    with pytest.raises(TooManyRuns, match="job/s"):
        kit.run_all(limit=20)
    kit.client.cancel("job", "s")
    assert kit.run_all() == []


async def test_in_a_loop(kit: Scheduler) -> None:
    """`arun_...` asks as `run_...` does, a `def` in a thread."""
    kit.handle("job", nothing, reschedule_if=lambda payload: {"n": payload.get("n", 0) + 1})
    async with AsyncClient() as client:
        await client.schedule("job", every="1h", max_runs=4, id="s")
        assert len(await kit.arun_all()) == 4
        assert (await client.get("job", "s")).payload == {"n": 4}


def test_types_with_faults_are_refused(kit: Scheduler) -> None:
    """As in a config, and a predicate of no form a handler has."""
    for settings, words in (
        ({"series": ["-7d"]}, "needs anchor"),
        ({"series": ["7d"], "anchor": "x"}, "has no sign"),
        ({"reschedule_if": lambda: True}, "cannot be called with a payload"),
        ({"reschedule_if": "nowhere:f"}, "nowhere"),
    ):
        with pytest.raises(InvalidInput, match=words):
            kit.handle("job", nothing, **settings)


def test_load_is_controlled_from_one_occurrence_to_the_next(kit: Scheduler) -> None:
    """A key is free between two of them, a start counts, what is unique is so until the end."""
    kit.handle("job", nothing, max_running_per_key=1, rate_limit="1/m")
    schedule_task("job", every="10m", max_runs=3, id="s", key="ana", unique="news", priority=5)
    schedule_task("job", delay="5m", id="other", key="ana")
    assert [run.id for run in kit.run_until("2027-01-01 12:10")] == ["s", "other", "s"]
    with pytest.raises(TaskExists):
        schedule_task("job", unique="news")
    assert kit.client.get("job", "s").priority == 5
    assert [run.id for run in kit.run_all()] == ["s"]
    schedule_task("job", unique="news", id="t")
    assert [run.id for run in kit.run_all()] == ["t"]


def test_a_throttled_add_that_comes_again(kit: Scheduler) -> None:
    """It is one series, however often it is added meanwhile."""
    kit.handle("job", nothing)
    for _ in range(3):
        schedule_task("job", every="1h", max_runs=2, unique="news", throttle="1d")
    assert len(kit.run_all()) == 2


def test_a_successor_takes_the_place_of_a_series(kit: Scheduler) -> None:
    """Replaced while it runs, a series ends with that run; what follows may be another series."""

    def work(payload: dict[str, Any]) -> None:
        if payload["n"] == 0:
            schedule_task("job", {"n": 1}, every="2h", max_runs=2, id="s", on_conflict="replace")

    kit.handle("job", work)
    schedule_task("job", {"n": 0}, every="10m", id="s")
    runs = kit.run_until("2027-01-01 20:00")
    assert [run.payload["n"] for run in runs] == [0, 1, 1]
    assert runs[2].at - runs[1].at == timedelta(hours=2)
