"""A test of a program that adds tasks: what it has scheduled, and for when."""

import runpy
from pathlib import Path

import pytest

from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
HERE = Path(__file__).parent


def test_adding(scheduld: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    scheduld.load(HERE / "scheduld.toml")
    # Whatever makes a client, or calls schedule_task, leads to the test: no server of yours.
    runpy.run_path(str(HERE / "add.py"))

    scheduld.assert_scheduled("hello", {"message": "merry"}, at="2100-12-24 09:00")
    scheduld.assert_scheduled("hello", {"message": "in a while"}, at="+5m", times=1)
    scheduld.assert_scheduled("hello", {"message": "once"}, id="welcome-42", times=1)
    scheduld.assert_scheduled("hello", {"message": "twice"}, times=0)
    assert "refused: hello/welcome-42 exists" in capsys.readouterr().out

    runs = scheduld.run_until("+1m")
    assert [run.payload["message"] for run in runs if "number" in run.payload["message"]] == [
        f"number {n}" for n in range(100)
    ]
    scheduld.assert_scheduled("hello", times=2)  # in a while, merry
