"""Tests of schedules, a quarter of a year in a second: python -m pytest test_schedule.py"""

from pathlib import Path

import pytest

from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")


@pytest.fixture
def january(scheduld: Scheduler, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    monkeypatch.syspath_prepend(CONFIG.parent)
    scheduld.move_to("2026-01-31 08:00", timezone="Europe/Madrid")
    scheduld.load(CONFIG)
    scheduld.client.schedules.pause("pulse")  # a pulse every two seconds would take long
    return scheduld


def test_month_ends(january: Scheduler) -> None:
    january.client.schedules.pause("weekday-report")
    runs = january.run_until("2026-04-30 12:00")
    assert [f"{run.due:%d %b}" for run in runs] == ["31 Jan", "28 Feb", "31 Mar", "30 Apr"]


def test_working_days(january: Scheduler) -> None:
    january.client.schedules.skip("weekday-report", on="2026-02-04")
    runs = january.run_until("2026-02-08 12:00")
    reports = [run for run in runs if run.payload["kind"] == "daily"]
    assert [f"{run.due:%a}" for run in reports] == ["Mon", "Tue", "Thu", "Fri"]
    assert reports[0].result == "daily report of 2026-02-02"


def test_an_outage(january: Scheduler) -> None:
    january.move_to("2026-02-06 12:00")  # nothing runs meanwhile
    reports = [run for run in january.run_due() if run.payload["kind"] == "daily"]
    assert [f"{run.due:%a %H:%M}" for run in reports] == ["Fri 06:00"]  # UTC
