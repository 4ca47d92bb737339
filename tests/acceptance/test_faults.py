"""Faults of the network under daemons and clients at work; `scripts/chaos faults` is the long form.

Tasks come in all the time, some of them long, some that fail first, some that die. After a
fault daemons are at work again in time, each task has its one end, and no run was repeated
whose lease no fault can have cost (tests/chaos/faults.py).
"""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.faults import COSTS_LEASE_S, FAULTS, LEASE_S, Campaign
from tests.support.daemons import WORK, Site
from tests.support.proxy import Mode, ProxyThread
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RunningServer

pytestmark = pytest.mark.proof

SHORT_S = 0.9
_GROUPS: dict[str, tuple[Mode, ...]] = {
    "ends": ("reset", "refuse", "closed", "torn"),
    "silence": ("blackhole", "half", "stuck", "stalled"),
    "slow": ("lag", "jitter", "trickle"),
}


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """Start a server for one test."""
    with (
        tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
        start_server("valkey", Path(folder)) as running,
    ):
        yield running


@pytest.mark.parametrize("modes", _GROUPS.values(), ids=_GROUPS)
def test_faults_under_load(tmp_path: Path, server: RunningServer, modes: tuple[Mode, ...]) -> None:
    """One daemon, and clients, go through faults in turn: nothing is lost, no run is repeated."""
    assert SHORT_S < COSTS_LEASE_S
    with closing(Campaign(tmp_path, server, seed=7, daemons=1)) as campaign:
        for mode in modes:
            campaign.go_through(mode, SHORT_S)
        account = campaign.settle()
    assert not account.violations, f"{account}: {account.violations}"
    assert account.repeated == 0
    assert account.accepted > 20 * len(modes)


def test_every_fault_is_gone_through() -> None:
    """What the proxy can do is tried on daemons, each in one of the groups."""
    assert sorted(mode for modes in _GROUPS.values() for mode in modes) == sorted(FAULTS)


@pytest.mark.parametrize("mode", ["blackhole", "stuck"])
def test_a_fault_that_costs_leases(tmp_path: Path, server: RunningServer, mode: Mode) -> None:
    """One of two daemons is cut off for longer than a lease: the other takes its runs over.

    Of the one that was not hit no run is repeated.
    """
    with closing(Campaign(tmp_path, server, seed=8, daemons=2, tcp=False)) as campaign:
        campaign.go_through(mode, LEASE_S * 1.5)
        account = campaign.settle()
    assert not account.violations, f"{account}: {account.violations}"


@pytest.mark.parametrize("mode", ["reset", "refuse", "blackhole", "half", "closed"])
def test_a_command_in_a_fault(tmp_path: Path, server: RunningServer, mode: Mode) -> None:
    """`add` ends within its --wait, by exit 3 and one line; it adds when the fault is over."""
    with ProxyThread(server.url) as proxy:
        place = Site(tmp_path, proxy.url, types={"work": {"handler": WORK + "sleep"}})
        add = ("add", "--type", "work", "--in", "1h", "--id", "once", "--json", "--wait")
        proxy.become(mode)
        refused = place.run(*add, "300ms")
        proxy.become("pass")
        added = place.run(*add, "5s")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert json.loads(refused.stderr)["error"]["kind"] == "unreachable"
    assert (added.returncode, json.loads(added.stdout)["created"]) == (0, True)
