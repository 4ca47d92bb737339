"""Tests of handlers: what they return or raise, and what becomes of their tasks then."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time

from scheduld import Run, schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")


@pytest.fixture(autouse=True)
def types(scheduld: Scheduler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test has the types of the config; prices.db is in a folder of its own."""
    scheduld.load(CONFIG)
    monkeypatch.chdir(tmp_path)


def test_fetch_is_tried_three_times(scheduld: Scheduler) -> None:
    schedule_task("fetch", {"url": "https://example.com"})
    runs = scheduld.run_all()
    assert [run.outcome for run in runs] == ["retry", "retry", "done"]
    assert runs[1].at - runs[0].at == timedelta(milliseconds=200)
    assert runs[2].result == {"url": "https://example.com", "attempts": 3}


def test_without_a_url_it_is_dead_at_once(scheduld: Scheduler) -> None:
    schedule_task("fetch")
    scheduld.run_all()
    scheduld.assert_dead("fetch", reason="the payload has no url")


def test_the_shop_opens_on_time(scheduld: Scheduler) -> None:
    # This handler reads the clock itself: freezegun stops that, and the test's time moves it.
    with freeze_time("2030-01-01 08:00") as frozen:
        scheduld.follow(frozen)
        schedule_task("open", {"opens_at": "2030-01-01T09:00:00+00:00"})
        assert [run.outcome for run in scheduld.run_due()] == ["snooze"]
        scheduld.assert_scheduled("open", at="2030-01-01T09:00Z")
        scheduld.run_all()
        scheduld.assert_ran("open", outcome="done", times=1)


def test_prices_are_stored(scheduld: Scheduler) -> None:
    for cents in (250, 260):
        schedule_task("price", {"name": "bread", "cents": cents})
    assert [run.result for run in scheduld.run_all()] == ["stored", "stored"]
    with closing(sqlite3.connect("prices.db")) as db:
        assert db.execute("SELECT name, cents FROM prices").fetchall() == [("bread", 260)]


def test_a_late_run_cannot_undo_a_newer_one(tmp_path: Path) -> None:
    # A handler is a function: what only a lost lease could bring about is called as one.
    from tasks import set_price

    def price(cents: int, fence: int) -> str:
        options = {"database": str(tmp_path / "late.db")}
        due = datetime.now(UTC)
        run = Run(type="price", id="p", attempt=1, fence=fence, due=due, options=options)
        return set_price({"name": "bread", "cents": cents}, run)

    assert price(250, fence=7) == "stored"
    assert price(199, fence=6) == price(199, fence=7) == "a newer run was here before"
    assert price(260, fence=8) == "stored"
