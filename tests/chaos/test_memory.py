"""What a pending task takes on the server (scripts/memory weighs a hundred thousand)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from tests.chaos import memory
from tests.support.servers import start_server


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
