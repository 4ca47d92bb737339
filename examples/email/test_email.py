"""Tests of tasks that send mail, with a handler that stands in for the mail server."""

from pathlib import Path
from typing import Any

import pytest

from scheduld import TaskExists, schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")
MAIL = {"to": "ana@example.com", "subject": "Welcome", "text": "Hi"}


def test_a_mail_is_sent_once(scheduld: Scheduler) -> None:
    sent: list[dict[str, Any]] = []
    scheduld.load(CONFIG, handlers={"email": sent.append})

    schedule_task("email", MAIL, id="welcome-42", delay="3s")
    with pytest.raises(TaskExists):
        schedule_task("email", MAIL, id="welcome-42", delay="3s")

    scheduld.run_all()
    assert sent == [MAIL]


def test_a_mail_server_that_is_down(scheduld: Scheduler) -> None:
    def down(payload: dict[str, Any]) -> None:
        raise ConnectionError("nobody listens")

    scheduld.load(CONFIG, handlers={"email": down})
    schedule_task("email", MAIL)

    # The retries of the config, and not a minute of waiting.
    begin = scheduld.now
    waits = [round((run.at - begin).total_seconds() / 60) for run in scheduld.run_all()]
    assert waits == [0, 1, 3, 7, 15, 31, 63, 123]
    scheduld.assert_dead("email", MAIL, reason="nobody listens")
