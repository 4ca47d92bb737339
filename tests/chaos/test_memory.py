"""What a pending task takes on the server (scripts/memory weighs a hundred thousand)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from tests.chaos import memory, worked
from tests.support.servers import start_server

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
def test_bytes_of_a_pending_task(kind: memory.ServerKind) -> None:
    """Twenty thousand one-off tasks with 90 bytes of payload keep within the limit."""
    with (
        tempfile.TemporaryDirectory(prefix="memory-") as folder,
        start_server(kind, Path(folder)) as server,
    ):
        weight = memory.weigh(kind, server, 20_000, singly=500)
    assert weight.is_within, str(weight)
    assert weight.bytes_a_task > 150, "a measurement that is too good to be true"


def test_the_payload_has_the_size_it_is_said_to_have() -> None:
    """Ninety bytes as JSON, whatever the number."""
    for number in (0, 99_999, 9_999_999):
        assert len(json.dumps(memory.payload(number), separators=(",", ":"))) == 90


def test_failed_and_killed_runs_leave_nothing(tmp_path: Path) -> None:
    """Five thousand tasks, some failed, some killed with their children: all is accounted for.

    The growth over more of them is for `scripts/memory worked`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="memory-") as folder,
        start_server("valkey", Path(folder)) as server,
    ):
        (weight,) = worked.work(tmp_path, server, worked.STEP, lambda _: None)
    assert weight.children <= worked.KEPT_CHILDREN
    assert weight.descriptors < 40
    assert weight.threads < 12


def test_growth_is_told() -> None:
    """What grows after the first quarter is named, what grew before it is not."""
    flat = [worked.Weight(n, 50_000, 15, 4, 0, 3_000) for n in range(1, 9)]
    assert worked.violations([worked.Weight(0, 1, 1, 1, 0, 1), *flat]) == []
    grown = worked.Weight(9, 60_000, 20, 9, 5, 9_000)
    assert len(worked.violations([*flat, grown])) == 5
