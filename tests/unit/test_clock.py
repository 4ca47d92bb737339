"""Clocks: what this process knows of the server's time."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.clock import ServerClock, monotonic, wall_ms

SERVER_MS = 1_800_000_000_000.0


def test_before_any_answer_the_wall_clock_stands_in() -> None:
    """An unknown server is taken to agree with this host."""
    server = ServerClock()
    assert not server.known
    assert abs(server.now_ms() - time.time() * 1000) < 5_000
    assert abs(server.monotonic_at(wall_ms() + 1_000) - monotonic() - 1) < 5


def test_time_goes_on_from_what_was_told() -> None:
    """Between answers the server's time is counted by this process's own clock."""
    server = ServerClock()
    server.told(SERVER_MS, at=100.0)
    assert server.known
    assert server.now_ms(at=100.0) == SERVER_MS
    assert server.now_ms(at=101.5) == SERVER_MS + 1_500
    assert server.monotonic_at(SERVER_MS + 1_500) == 101.5
    assert server.monotonic_at(SERVER_MS - 1_000) == 99.0


def test_an_arrival_is_now_unless_told_otherwise() -> None:
    """An answer counts from the moment it is told."""
    server = ServerClock()
    server.told(SERVER_MS)
    assert 0 <= server.now_ms() - SERVER_MS < 5_000


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_step_of_the_servers_clock_is_followed(step_ms: float) -> None:
    """The newest answer counts, back as well as forward."""
    server = ServerClock()
    server.told(SERVER_MS, at=100.0)
    server.told(SERVER_MS + step_ms, at=101.0)
    assert server.now_ms(at=102.0) == SERVER_MS + step_ms + 1_000


@given(
    st.lists(st.tuples(st.floats(0.001, 100), st.floats(0, 2)), min_size=1, max_size=30),
    st.floats(0, 100),
)
def test_the_estimate_is_never_ahead_of_the_server(
    answers: list[tuple[float, float]], later: float
) -> None:
    """Whatever the answers took to arrive, a start that waits for the estimate is not early."""
    server, at = ServerClock(), 0.0
    for wait, took in answers:
        at += wait + took
        # The server read its clock before the answer travelled.
        server.told(SERVER_MS + (at - took) * 1000, at=at)
        true_ms = SERVER_MS + (at + later) * 1000
        assert server.now_ms(at=at + later) <= true_ms + 0.01
        assert true_ms - server.now_ms(at=at + later) <= took * 1000 + 0.01


async def test_monotonic_is_the_clock_of_the_event_loop() -> None:
    """Instants of one can be used with the other."""
    assert abs(monotonic() - asyncio.get_running_loop().time()) < 5


def test_wall_ms_is_the_hosts_time() -> None:
    """In ms since the epoch."""
    assert abs(wall_ms() - time.time() * 1000) < 5_000
