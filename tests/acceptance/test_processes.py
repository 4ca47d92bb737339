"""Process isolation as users meet it: the real daemon, killed and stopped, with its workers."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.daemons import DaemonProcess, Site
from tests.support.processes import is_alive, pid_in
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from tests.support.servers import RunningServer

pytestmark = pytest.mark.proof

HANDLERS = "tests.support.process_work:"


@pytest.fixture
def site(valkey_server: RunningServer, tmp_path: Path) -> Site:
    """A config with types in processes."""
    settings = {"isolation": "process", "concurrency": 2, "retry": {"attempts": 1}}
    names = ("leaves", "hangs", "dies", "whoami", "tells")
    types: dict[str, Any] = {name: {"handler": HANDLERS + name, **settings} for name in names}
    types["leaves-inline"] = {"handler": HANDLERS + "leaves", "isolation": "thread"}
    types["sleeps"] = {"handler": "command", "options": {"argv": ["sleep", "100"]}}
    return Site(
        tmp_path,
        valkey_server.url,
        namespace=f"p{secrets.token_hex(6)}",
        core={"lease": "2s", "shutdown_grace": "300ms"},
        types=types,
    )


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found |= {int(text) for text in file.read().split()}
    return found | {grandchild for child in found for grandchild in _children(child)}


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("end", ["kill", "term"])
def test_nothing_outlives_the_daemon(site: Site, tmp_path: Path, end: str, session: bool) -> None:
    """Killed or stopped, it leaves no worker, no keeper and no child of a run behind.

    Not even one that a run has put into a session of its own, or a run that holds the lock.
    """
    left, held = tmp_path / "left", tmp_path / "held"
    with DaemonProcess(site).started() as daemon:
        site.add("leaves", pid_file=str(left), session=session, s=60)
        site.add("hangs", pid_file=str(held), how="lock")
        wait_until(lambda: pid_in(left) and pid_in(held), "both run")
        family = _children(daemon.pid)
        assert {pid_in(left), pid_in(held)} <= family
        if end == "kill":
            daemon.kill()
        else:
            assert daemon.term() == 0
        wait_until(lambda: not [pid for pid in family if is_alive(pid)], "all gone", 5.0)


def test_a_copy_of_the_daemon_keeps_nothing_alive(site: Site, tmp_path: Path) -> None:
    """A handler in the daemon may fork, as pools of multiprocessing do.

    What it leaves when the daemon is killed does not keep workers or commands from ending.
    """
    copy, run = tmp_path / "copy", tmp_path / "run"
    with DaemonProcess(site).started() as daemon:
        site.add("hangs", pid_file=str(run), how="sleep")
        site.add("sleeps")
        wait_until(lambda: pid_in(run) and site.counts("sleeps")[1], "both run")
        wait_until(lambda: _named(daemon.pid, "sleep"), "command runs")
        site.add("leaves-inline", pid_file=str(copy))
        wait_until(lambda: pid_in(copy), "forked")
        family = _children(daemon.pid) - {pid_in(copy)}
        daemon.kill()
        try:
            wait_until(lambda: not [pid for pid in family if is_alive(pid)], "all gone", 8.0)
            assert is_alive(pid_in(copy))
        finally:
            os.kill(pid_in(copy), signal.SIGKILL)


def _named(pid: int, program: str) -> bool:
    """Whether a process has a descendant of such a name."""
    return any(Path(f"/proc/{one}/comm").read_text() == f"{program}\n" for one in _children(pid))


def test_a_daemon_lives_through_its_workers_deaths(site: Site) -> None:
    """Ten runs that die in ten ways are ten dead tasks; the daemon works on, and leaks nothing."""
    with DaemonProcess(site).started() as daemon:
        site.add("whoami")
        wait_until(lambda: site.counts("whoami")[2] == 1, "one run")
        before = daemon.descriptors()
        for how in ("os._exit", "segfault", "abort", "SIGKILL", "garbage") * 2:
            site.add("dies", how=how)
        wait_until(lambda: site.counts("dies") == (0, 0, 0, 10), "all are dead")
        site.add("whoami")
        wait_until(lambda: site.counts("whoami")[2] == 2, "another run")
        # Three of each worker would be left; a connection to Redis more may be open.
        wait_until(lambda: daemon.descriptors() <= before + 8, "descriptors are free again")
        assert daemon.term() == 0


def test_show_tells_how_a_worker_died_and_what_it_wrote(site: Site) -> None:
    """People see the signal and the last output; programs find it in `error.output`."""
    with DaemonProcess(site).started():
        (task_id,) = site.add("dies", how="segfault")
        wait_until(lambda: site.counts("dies")[3] == 1, "dead")
    told = site.run("show", f"dies/{task_id}").stdout
    assert "last error" in told
    assert "was killed by SIGSEGV" in told
    assert "    > dying by segfault" in told
    assert site.show(f"dies/{task_id}")["error"]["output"] == "dying by segfault\n"


def test_show_tells_progress_and_log(site: Site) -> None:
    """What a run told is shown, each line with its time."""
    with DaemonProcess(site).started(), site.client() as client:
        task_id = client.schedule("tells", {"count": 2}, allow_unknown=True).id
        wait_until(lambda: site.counts("tells")[2] == 1, "done")
    told = site.run("show", f"tells/{task_id}").stdout
    assert 'progress  {"at": 1}' in told
    lines = [line for line in told.splitlines() if line.startswith("    . ")]
    assert [line.rpartition("  ")[2] for line in lines] == ["line 0", "line 1"]


def test_a_worker_ignores_a_stop_that_is_the_daemons(site: Site, tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches the daemon's group only: it, not its workers, decides."""
    path = tmp_path / "pid"
    with DaemonProcess(site, prefix=["setsid"]).started() as daemon:
        site.add("hangs", pid_file=str(path), how="sleep")
        wait_until(lambda: pid_in(path), "runs")
        assert os.getpgid(pid_in(path)) != os.getpgid(daemon.pid)
        os.killpg(os.getpgid(daemon.pid), signal.SIGINT)
        assert daemon.wait() == 0
        assert not is_alive(pid_in(path))
    assert site.counts("hangs") == (1, 0, 0, 0)
