"""The test kit's time: it stands, and moves when a test says so; all of scheduld takes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from scheduld import Dead, InvalidInput, WhenError, schedule_task

if TYPE_CHECKING:
    from scheduld.testing import Scheduler, Server

pytest_plugins = ["scheduld.testing.fixtures"]

EIGHT = datetime(2030, 3, 1, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def at_eight(scheduld: Scheduler) -> None:
    """Each test begins on 1 March 2030 at 08:00, in Madrid's zone 09:00."""
    scheduld.timezone = "Europe/Madrid"
    scheduld.move_to(EIGHT)
    scheduld.announce("job")


def test_time_stands(scheduld: Scheduler) -> None:
    """Two adds some real time apart are due at one instant, and ids tell the moved time."""
    first = schedule_task("job", delay="5m")
    second = schedule_task("job", delay="5m")
    assert first.due == second.due == EIGHT + timedelta(minutes=5)
    assert first.added_ms == EIGHT.timestamp() * 1000
    assert scheduld.now == EIGHT


def test_every_way_to_say_when(scheduld: Scheduler) -> None:
    """Delays, elapsed times, named days, datetimes and nothing count from the moved time."""
    at = {
        schedule_task("job").due,
        schedule_task("job", delay=0).due,
        schedule_task("job", at=EIGHT).due,
        schedule_task("job", at="today 09:00", timezone="Europe/Madrid").due,
        scheduld.client.schedule("job", at="+1s").due,
    }
    assert at == {EIGHT, EIGHT + timedelta(seconds=1)}
    tomorrow = schedule_task("job", at="tomorrow 09:00", timezone="Europe/Madrid")
    assert tomorrow.due == EIGHT + timedelta(days=1)


def test_past_is_the_past_of_the_test(scheduld: Scheduler) -> None:
    """A time before the test's is refused, though it is years ahead; a later one is taken."""
    with pytest.raises(WhenError, match=r"is past.*1h ago"):
        schedule_task("job", at=EIGHT - timedelta(hours=1))
    scheduld.move_to("2040-01-01 00:00")
    with pytest.raises(WhenError, match="is past"):
        schedule_task("job", at=EIGHT)


def test_time_only_goes_forward_once_there_is_a_task(scheduld: Scheduler) -> None:
    """Until then it may be set anywhere; later a step back is refused, and nothing has moved."""
    scheduld.move_to("2019-01-01 00:00")
    scheduld.move_to("2025-01-01 00:00")
    schedule_task("job")
    with pytest.raises(InvalidInput, match=r"2024-12-31T22:00:00.000Z is before the test's now"):
        scheduld.move_to("2025-01-01 00:00", timezone="Europe/Athens")
    with pytest.raises(InvalidInput, match="before the test's now"):
        scheduld.run_until("2024-01-01 00:00")
    scheduld.move_by("1h30m")
    scheduld.move_by(timedelta(minutes=30))
    assert scheduld.now == datetime(2025, 1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("wrong", ["soon", "09:00", "2025-03-30 02:30", -5, None])
def test_times_that_are_none(scheduld: Scheduler, wrong: object) -> None:
    """A text with no one reading moves nothing, and says what would be right."""
    with pytest.raises(InvalidInput):
        scheduld.move_to(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        scheduld.move_by(wrong)  # type: ignore[arg-type]
    assert scheduld.now == EIGHT


def test_run_due_is_late_and_run_until_on_time(scheduld: Scheduler) -> None:
    """What time was moved over runs late, at the test's now; `run_until` runs it at its due."""
    scheduld.handle("job", lambda _: None)
    schedule_task("job", delay="10m")
    scheduld.move_by("1h")
    (late,) = scheduld.run_due()
    assert (late.due, late.at) == (EIGHT + timedelta(minutes=10), EIGHT + timedelta(hours=1))
    schedule_task("job", delay="10m")
    schedule_task("job", delay="3h")
    (punctual,) = scheduld.run_until("2030-03-01 11:00")
    assert punctual.at == punctual.due == EIGHT + timedelta(hours=1, minutes=10)
    assert scheduld.now == EIGHT + timedelta(hours=2)


def test_started_and_finished_are_moved_times(scheduld: Scheduler) -> None:
    """The store knows no other time: a task tells when it ran by the test's clock."""
    scheduld.handle("job", lambda _: None)
    task = schedule_task("job", delay="1d")
    scheduld.run_all()
    kept = scheduld.client.get("job", task.id)
    assert kept.started_ms == kept.finished_ms == kept.due_ms


def test_retention_is_by_the_moved_time(scheduld: Scheduler) -> None:
    """Done tasks are pruned when the test's clock has passed their age."""
    scheduld.handle("job", lambda _: None, keep_done={"age": "1h"})
    schedule_task("job", id="old")
    schedule_task("job", id="new", delay="2h")
    scheduld.run_all()
    assert [task.id for task in scheduld.tasks(state="done")] == ["new"]


def test_after_the_test_time_goes_on(scheduld_server: Server) -> None:
    """Nothing of the moved time is left when the scheduler has ended."""
    # The fixture's own is at work: look at what it does when it ends, in a process of its own.
    from tests.support.kit import run_python

    run_python(
        "import time; from scheduld.clock import wall_ms; from scheduld.testing import Scheduler\n"
        "with Scheduler(now='2100-01-01T00:00Z'): assert wall_ms() == 4102444800000\n"
        "assert abs(wall_ms() - time.time() * 1000) < 1000"
    )


def test_follow_takes_frozen_time_and_moves_it(scheduld: Scheduler) -> None:
    """With freezegun handlers read the time of the test, and `async def` ones can still sleep."""
    seen = []

    async def handler(payload: object) -> None:
        import asyncio

        await asyncio.sleep(0.001)
        seen.append(datetime.now(UTC))

    scheduld.handle("job", handler)
    with freeze_time("2031-05-05 05:00") as frozen:
        assert isinstance(frozen, FrozenDateTimeFactory)
        scheduld.follow(frozen)
        assert scheduld.now == datetime.now(UTC) == datetime(2031, 5, 5, 5, tzinfo=UTC)
        schedule_task("job", at=datetime.now(UTC) + timedelta(hours=2))
        scheduld.run_all()
        assert seen == [datetime(2031, 5, 5, 7, tzinfo=UTC)] == [scheduld.now]


def test_a_scheduler_that_begins_in_frozen_time_has_it() -> None:
    """Its first now is what the frozen clock says."""
    from tests.support.kit import run_python

    run_python(
        "from freezegun import freeze_time; from scheduld.testing import Scheduler\n"
        "with freeze_time('2031-05-05 05:00'), Scheduler() as scheduld:\n"
        "    assert scheduld.now.isoformat() == '2031-05-05T05:00:00+00:00'"
    )


def test_the_time_zone_of_a_test(scheduld: Scheduler) -> None:
    """It is that of all adds and assertions from then on; one that is none changes nothing."""
    scheduld.timezone = "Asia/Tokyo"
    assert schedule_task("job", at="2030-03-02 09:00").due == datetime(2030, 3, 2, tzinfo=UTC)
    scheduld.client.schedule("job", at="2030-03-02 09:00")
    scheduld.assert_scheduled("job", at="2030-03-02 09:00", times=2)
    with pytest.raises(WhenError, match="unknown time zone 'Asia/Tokio'"):
        scheduld.timezone = "Asia/Tokio"
    assert scheduld.timezone == "Asia/Tokyo"
    scheduld.timezone = None
    with pytest.raises(WhenError, match="has no time zone"):
        schedule_task("job", at="2030-03-02 09:00")


def test_verbs_of_operation_take_the_moved_time(scheduld: Scheduler) -> None:
    """What is told apart by age, or by "until now", is so by the test's clock."""
    scheduld.handle("job", lambda _: Dead("once") if scheduld.now < EIGHT + HOUR else None)
    for task_id in ("early", "late"):
        schedule_task("job", id=task_id)
        scheduld.run_due()
        scheduld.move_by("10m")
    client = scheduld.client
    assert client.stats("job")[0].now_ms == int(scheduld.now.timestamp() * 1000)
    assert client.purge("job", state="dead", older_than="15m") == 1
    scheduld.move_by("2h")
    assert client.requeue_dead("job").requeued == 1
    scheduld.run_due()
    scheduld.assert_ran("job", id="late", outcome="done")
