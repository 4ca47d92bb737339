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


@pytest.mark.parametrize("step_ms", [-3_600_000, -20, 20, 3_600_000])
@pytest.mark.parametrize("took", [None, 0.01])
def test_a_step_of_the_servers_clock_is_followed(step_ms: float, took: float | None) -> None:
    """The newest answer counts, back as well as forward."""
    server = ServerClock()
    server.told(SERVER_MS, at=100.0, sent_at=took and 100.0 - took)
    server.told(SERVER_MS + step_ms + 1_000, at=101.0, sent_at=took and 101.0 - took)
    assert server.now_ms(at=102.0) == SERVER_MS + step_ms + 2_000


def test_a_quick_answer_is_relied_on_for_a_while() -> None:
    """A slower one after it tells a little less of the server's time."""
    server = ServerClock()
    server.told(SERVER_MS, at=100.0, sent_at=99.999)
    server.told(SERVER_MS + 99.6, at=100.1, sent_at=100.098)
    assert server.now_ms(at=100.1) == pytest.approx(SERVER_MS + 99.9, abs=0.01)
    assert server.monotonic_at(SERVER_MS + 99.9) == pytest.approx(100.1, abs=1e-5)


def test_a_quick_answer_is_not_believed_by_more_than_half_a_millisecond() -> None:
    """A server clock that was set back by less than a round trip must not make starts early."""
    server = ServerClock()
    server.told(SERVER_MS, at=100.0, sent_at=99.999)
    server.told(SERVER_MS + 80, at=100.1, sent_at=100.079)
    assert server.now_ms(at=100.1) == pytest.approx(SERVER_MS + 80.5, abs=0.01)
    assert server.monotonic_at(SERVER_MS + 80.5) == pytest.approx(100.1, abs=1e-5)
    # A day later it is the newest that counts: what a quick one told is outdated.
    assert server.now_ms(at=86_500.1) == pytest.approx(SERVER_MS + 86_400_080, abs=0.1)


def test_after_a_new_connection_nothing_old_counts() -> None:
    """Another server may answer, whose clock is behind by less than an answer takes."""
    server = ServerClock()
    server.told(SERVER_MS, at=100.0, sent_at=99.999)
    server.new_connection()
    assert server.now_ms(at=100.05) == SERVER_MS + 50
    server.told(SERVER_MS + 80, at=100.1, sent_at=100.05)
    assert server.now_ms(at=100.1) == SERVER_MS + 80


def test_without_the_time_of_asking_the_newest_answer_counts() -> None:
    """It may be slow, or the server's clock may have been set back: nobody knows."""
    server = ServerClock()
    server.told(SERVER_MS, at=100.0)
    server.told(SERVER_MS + 80, at=100.1)
    assert server.now_ms(at=100.1) == SERVER_MS + 80


ANSWERS = st.lists(
    st.tuples(st.floats(0.001, 100), st.floats(0, 2), st.floats(0, 1)), min_size=1, max_size=30
)


@given(ANSWERS, st.floats(0, 100), st.floats(-0.0005, 0.0005), st.booleans())
def test_the_estimate_is_never_ahead_of_the_server(
    answers: list[tuple[float, float, float]], later: float, pace: float, says_when: bool
) -> None:
    """Whatever the answers took, and whichever clock is slower, no start is early."""

    def true_ms(at: float) -> float:
        return SERVER_MS + at * 1000 * (1 + pace)

    server, at, took = ServerClock(), 0.0, 0.0
    for wait, travelled, part in answers:
        sent_at = at + wait
        at, took = sent_at + travelled, travelled * part
        # The server read its clock at some time between.
        told_ms = true_ms(at - took)
        server.told(told_ms, at=at, sent_at=sent_at if says_when else None)
        assert server.now_ms(at=at) <= true_ms(at) + 0.01
    assert true_ms(at) - server.now_ms(at=at) <= took * 1001 + 0.01
    due_ms = true_ms(at) + later
    assert server.now_ms(at=server.monotonic_at(due_ms)) == pytest.approx(due_ms, abs=0.01)
    # Between answers it counts by this process's own clock, which may have another pace.
    drift_ms = later * abs(pace) * 1000
    assert server.now_ms(at=at + later) <= true_ms(at + later) + drift_ms + 0.01


async def test_monotonic_is_the_clock_of_the_event_loop() -> None:
    """Instants of one can be used with the other."""
    assert abs(monotonic() - asyncio.get_running_loop().time()) < 5


def test_wall_ms_is_the_hosts_time() -> None:
    """In ms since the epoch."""
    assert abs(wall_ms() - time.time() * 1000) < 5_000
