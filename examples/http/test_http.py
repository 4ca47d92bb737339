"""Tests of tasks that call others: a stand-in for a receiver, and the real handler's refusals."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from receiver import is_genuine

from scheduld import Retry, schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")


def test_a_receiver_that_says_when(scheduld: Scheduler) -> None:
    got: list[dict[str, Any]] = []

    def busy_at_first(payload: dict[str, Any]) -> None:
        got.append(payload)
        if len(got) == 1:
            raise Retry(after="5m", reason="answered 429")

    scheduld.load(CONFIG, handlers={"paid": busy_at_first})
    schedule_task("paid", {"order": 42})
    first, second = scheduld.run_all()
    assert second.at - first.at == timedelta(minutes=5)
    assert got == [{"order": 42}] * 2


def test_no_task_leads_into_the_own_network(scheduld: Scheduler) -> None:
    scheduld.load(CONFIG)
    for url in ("http://127.0.0.1:8000/customers/7", "http://localhost/", "http://[::1]/"):
        schedule_task("hook", {"url": url, "order": 42})
        scheduld.run_all()
        scheduld.assert_dead("hook", {"url": url, "order": 42}, reason="private address")


def test_a_forged_request_is_seen() -> None:
    assert not is_genuine("paid/1", "0", "v1,AAAA", b"{}")
    assert not is_genuine("paid/1", "soon", "", b"{}")
