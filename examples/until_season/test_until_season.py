"""Tests of reminders that end with the season: half a year of them in a moment."""

from pathlib import Path

from scheduld import schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")


def test_weekly_until_the_season_starts(scheduld: Scheduler) -> None:
    scheduld.load(CONFIG)
    scheduld.move_to("2027-01-04 08:00")
    payload = {"to": "ana@example.com", "season_start": "2027-07-05T09:00:00+02:00"}
    schedule_task("news", payload, at="2027-01-04 09:00", every="7d", id="ana")

    runs = scheduld.run_all()
    assert len(runs) == 27
    assert (runs[0].result, runs[-1].result) == ("reminder 1", "reminder 27")
    # Nine o'clock in Madrid, in winter and in summer.
    assert {run.at.hour for run in runs[:12]} == {8}
    assert {run.at.hour for run in runs[12:]} == {7}
    assert scheduld.client.get("news", "ana").payload["sent"] == 26


def test_the_season_is_brought_forward(scheduld: Scheduler) -> None:
    scheduld.load(CONFIG)
    scheduld.move_to("2027-01-04 08:00")
    payload = {"to": "ana@example.com", "season_start": "2027-07-05T09:00:00+02:00"}
    schedule_task("news", payload, at="2027-01-04 09:00", every="7d", id="ana")
    scheduld.run_until("2027-01-20 00:00")

    scheduld.client.edit("news", "ana", merge={"season_start": "2027-01-21T00:00:00+01:00"})
    assert [run.result for run in scheduld.run_all()] == ["reminder 4"]
