"""Schedules in the test kit: ticks at the time of the moved clock, by the daemon's own rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import InvalidInput
from scheduld.testing import TooManyRuns

if TYPE_CHECKING:
    from pathlib import Path

    from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = """
[scheduld]
timezone = "Europe/Madrid"
[types.report]
handler = "log"
[schedules.daily]
type = "report"
cron = "30 2 * * *"
payload = { n = 1 }
"""


@pytest.fixture
def begun(scheduld: Scheduler) -> Scheduler:
    """A scheduler in Madrid at the beginning of 2026, with one type."""
    scheduld.timezone = "Europe/Madrid"
    scheduld.move_to("2026-01-01 00:00")
    scheduld.handle("report", lambda payload: payload)
    return scheduld


def _add(scheduld: Scheduler, name: str = "daily", **options: Any) -> None:
    scheduld.client.schedules.add(name, "report", **{"cron": "30 2 * * *", **options})


def test_a_year(begun: Scheduler) -> None:
    """A daily schedule makes one task a day, on time, also in the nights of clock changes."""
    _add(begun, keep_history={"count": 1000, "age": "400d"})
    runs = begun.run_until("2026-12-31 12:00")
    assert len(runs) == 365
    assert len({run.id for run in runs}) == 365
    assert all(run.at == run.due for run in runs)
    special = {run.at.date().isoformat(): run.at.hour * 60 + run.at.minute for run in runs}
    assert [special[day] for day in ("2026-03-28", "2026-03-29", "2026-03-30")] == [90, 60, 30]
    assert [special[day] for day in ("2026-10-24", "2026-10-25", "2026-10-26")] == [30, 30, 90]
    history = begun.client.schedules.history("daily", limit=1000)
    assert [(tick.outcome, tick.late_ms) for tick in history] == [("fired", 0)] * 365


def test_moved_time_is_an_outage(begun: Scheduler) -> None:
    """What is missed while the time is only moved is caught up with as the schedule says."""
    _add(begun, "latest")
    _add(begun, "none", catch_up="none")
    _add(begun, "all", catch_up="all", overlap="queue")
    begun.move_by("3d")
    runs = begun.run_until(begun.now + timedelta(seconds=5))
    assert sorted(run.id for run in runs) == [
        "all@2026-01-01T01:30:00Z",
        "all@2026-01-02T01:30:00Z",
        "all@2026-01-03T01:30:00Z",
        "latest@2026-01-03T01:30:00Z",
    ]
    (gap,) = begun.client.schedules.history("none")
    assert (gap.outcome, gap.count) == ("gap", 3)


def test_run_due_fires_what_is_due(begun: Scheduler) -> None:
    """At the very instant of a tick its task runs; a second time nothing does."""
    _add(begun)
    begun.move_to("2026-01-01 02:30")
    assert [run.id for run in begun.run_due()] == ["daily@2026-01-01T01:30:00Z"]
    assert begun.run_due() == []


def test_run_all_ends(begun: Scheduler) -> None:
    """Schedules alone are never through, so they do not keep `run_all` going."""
    _add(begun)
    assert begun.run_all() == []
    begun.client.schedule("report", delay="51h")
    assert len(begun.run_all()) == 4
    with pytest.raises(TooManyRuns):
        begun.run_until("2027-01-01 00:00", limit=10)


def test_overlap_and_steering(begun: Scheduler) -> None:
    """Paused, skipped and unfinished count as they do for a daemon."""
    begun.announce("never")
    begun.client.schedules.add("stuck", "never", every="1h")
    _add(begun)
    begun.client.schedules.skip("daily", on="2026-01-02")
    runs = begun.run_until("2026-01-03 12:00")
    assert [run.due.day for run in runs] == [1, 3]
    outcomes = [tick.outcome for tick in begun.client.schedules.history("stuck")]
    assert outcomes[0] == "fired"
    assert set(outcomes[1:]) == {"skipped"}
    begun.client.schedules.pause("daily")
    assert begun.run_until("2026-01-05 12:00") == []
    begun.client.schedules.resume("daily")
    assert len(begun.run_until("2026-01-06 12:00")) == 1


def test_config(scheduld: Scheduler, tmp_path: Path) -> None:
    """Schedules of a config fire; another config takes their place."""
    file = tmp_path / "scheduld.toml"
    file.write_text(CONFIG)
    scheduld.move_to(datetime(2026, 1, 1, tzinfo=UTC))
    seen: list[Any] = []
    scheduld.load(file, handlers={"report": seen.append})
    scheduld.run_until("2026-01-02 12:00")
    assert seen == [{"n": 1}] * 2
    assert scheduld.client.schedules.get("daily").origin == "config"
    file.write_text(CONFIG.replace("daily", "other").replace("30 2", "30 3"))
    scheduld.load(file, handlers={"report": seen.append})
    assert [info.name for info in scheduld.client.schedules.list()] == ["other"]
    scheduld.run_until("2026-01-03 03:00")
    assert len(seen) == 2
    scheduld.run_until("2026-01-03 12:00")
    assert len(seen) == 3


def test_a_changed_config(scheduld: Scheduler, tmp_path: Path) -> None:
    """A changed payload is taken over, and what was fired is not fired again."""
    file = tmp_path / "scheduld.toml"
    file.write_text(CONFIG)
    scheduld.move_to(datetime(2026, 1, 1, tzinfo=UTC))
    scheduld.load(file)
    scheduld.run_until("2026-01-01 12:00")
    file.write_text(CONFIG.replace("n = 1", "n = 2"))
    scheduld.load(file)
    runs = scheduld.run_until("2026-01-02 12:00")
    assert [run.payload for run in runs] == [{"n": 2}]


def test_time_does_not_go_back(begun: Scheduler) -> None:
    """With a schedule there is no way back in time."""
    _add(begun)
    with pytest.raises(InvalidInput, match="a task or a schedule"):
        begun.move_to("2025-12-31 00:00")


async def test_in_a_loop(begun: Scheduler) -> None:
    """The awaited forms fire too."""
    _add(begun)
    assert len(await begun.arun_until("2026-01-03 12:00")) == 3
