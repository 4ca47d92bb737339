"""Schedules as people meet them: a real daemon, the real command line."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.daemons import DaemonProcess, Site
from tests.support.servers import start_server, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld import Client

pytestmark = pytest.mark.proof


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A config with one schedule, on a server of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        weekly = {"type": "job", "cron": "0 7 * * mon"}
        types = {"job": {"handler": "log"}}
        yield Site(tmp_path, server.url, types=types, schedules={"weekly": weekly})


def _cron(site: Site, *argv: str, code: int = 0) -> str:
    ran = site.run("cron", *argv)
    assert ran.returncode == code, ran.stderr
    return ran.stdout


def _fired(client: Client, name: str) -> int:
    return sum(tick.outcome == "fired" for tick in client.schedules.history(name, limit=1000))


def _is_active(client: Client, name: str) -> bool:
    return any(info.name == name for info in client.schedules.list())


def test_a_schedule_of_run_time_lives_and_ends(site: Site) -> None:
    """It fires at once after the add, stops by pause, goes on by resume, and ends by remove."""
    with DaemonProcess(site).started(), site.client() as client:
        _cron(site, "add", "pulse", "--type", "job", "--every", "200ms", "--overlap", "allow")
        wait_until(lambda: _fired(client, "pulse") >= 3, "it fires")
        _cron(site, "pause", "pulse", "--reason", "enough")
        count = _fired(client, "pulse")
        assert json.loads(_cron(site, "show", "pulse", "--json"))["state"] == "paused"
        assert _fired(client, "pulse") == count
        assert "passed over" in _cron(site, "resume", "pulse")
        wait_until(lambda: _fired(client, "pulse") >= count + 3, "it goes on")
        _cron(site, "add", "pulse", "--type", "job", "--every", "1h", "--on-conflict", "replace")
        count = _fired(client, "pulse")
        assert json.loads(_cron(site, "show", "pulse", "--json"))["definition"]["every"] == "1h"
        assert _fired(client, "pulse") == count
        _cron(site, "remove", "pulse")
        assert not _is_active(client, "pulse")


def test_a_schedule_of_the_config_is_taken_up(site: Site) -> None:
    """Before a daemon runs it is new, then active; by hand it can be steered, not removed."""
    assert re.search(r"weekly +job .* new ", _cron(site, "list"))
    with DaemonProcess(site).started(), site.client() as client:
        wait_until(lambda: _is_active(client, "weekly"), "it is taken up")
        told = json.loads(_cron(site, "show", "weekly", "--json"))
        assert (told["state"], told["origin"], told["is_served"]) == ("active", "config", True)
        ref = _cron(site, "trigger", "weekly", "kind=special").split()[0]
        wait_until(lambda: client.get(*ref.split("/")).state == "done", "it ran")
        assert client.get(*ref.split("/")).payload == {"kind": "special"}
        _cron(site, "remove", "weekly", code=1)
        _cron(site, "skip", "weekly", "--on", "2100-01-04")


def test_a_backfill_runs_at_its_rate(site: Site) -> None:
    """Its tasks run one after the other, the oldest first, and a second one adds nothing."""
    with DaemonProcess(site).started(), site.client() as client:
        wait_until(lambda: _is_active(client, "weekly"), "it is taken up")
        span = ("weekly", "--from", "2026-01-01", "--to", "2026-02-28", "--rate", "20/s")
        assert _cron(site, "backfill", *span, code=2).count("would be added") == 8
        assert _cron(site, "backfill", *span, "--yes") == "8 added\n"
        wait_until(lambda: len(client.list("job", state="done")) == 8, "all ran")
        tasks = client.list("job", state="done")
        ran = [task.id for task in sorted(tasks, key=lambda task: task.started_ms or 0)]
        assert ran == sorted(ran)
        dues = sorted(task.due_ms or 0 for task in tasks)
        assert [due - dues[0] for due in dues] == [50 * number for number in range(8)]
        assert _cron(site, "backfill", *span, "--yes").startswith("0 added")
