"""A test of the smallest config: python -m pytest test_hello.py"""

from pathlib import Path

import pytest

from scheduld import schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")


def test_hello(scheduld: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    scheduld.load(CONFIG)
    schedule_task("hello", {"message": "Five seconds later"}, delay="5s")

    assert scheduld.run_due() == []  # not yet
    scheduld.move_by("5s")
    assert len(scheduld.run_due()) == 1

    scheduld.assert_ran("hello", {"message": "Five seconds later"}, outcome="done")
    assert "Five seconds later" in capsys.readouterr().out
