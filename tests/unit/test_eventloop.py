"""The event loop's selector: waits as long as it is told, sees what happens meanwhile."""

from __future__ import annotations

import asyncio
import os
import resource
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from scheduld.engine import eventloop
from scheduld.engine.eventloop import FineSelector, new_event_loop, new_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two sockets that are connected."""
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.fixture
def selector(pair: Pair) -> Iterator[selectors.BaseSelector]:
    """A selector that watches the first of them for reading."""
    with new_selector() as made:
        made.register(pair[0], selectors.EVENT_READ, "the data")
        yield made


@pytest.mark.parametrize("seconds", [0.0001, 0.0009, 0.0021, 0.0105])
def test_a_wait_never_ends_early(selector: selectors.BaseSelector, seconds: float) -> None:
    """Neither part of the wait makes it shorter."""
    for _ in range(20):
        began = time.monotonic()
        assert selector.select(seconds) == []
        assert time.monotonic() - began >= seconds


@pytest.mark.parametrize("timeout", [None, 30.0, 0.0015, 0.0, -1.0])
def test_what_is_ready_is_told(
    selector: selectors.BaseSelector, pair: Pair, timeout: float | None
) -> None:
    """With what it was registered with, whichever part of the wait sees it."""
    pair[1].send(b"x")
    ((key, events),) = selector.select(timeout)
    assert (key.fileobj, key.data, events) == (pair[0], "the data", selectors.EVENT_READ)


@pytest.mark.parametrize(("seconds", "after"), [(30.0, 0.05), (0.9, 0.8985)])
def test_what_happens_during_the_wait_ends_it(
    selector: selectors.BaseSelector, pair: Pair, seconds: float, after: float
) -> None:
    """In the long part as in the short one."""
    waker = threading.Timer(after, pair[1].send, [b"x"])
    waker.start()
    ready = selector.select(seconds) or selector.select(30.0)
    assert [key.fileobj for key, _ in ready] == [pair[0]]
    waker.join()


def test_nothing_is_ready_at_once(selector: selectors.BaseSelector) -> None:
    """A look without a wait returns nothing and does not block."""
    assert selector.select(0) == []


def test_no_timer_of_the_loop_fires_early() -> None:
    """By the clock that the loop and the starts of tasks share."""

    async def sleeps() -> list[float]:
        loop = asyncio.get_running_loop()
        early = []
        for number in range(60):
            at = time.monotonic() + 0.0007 * (number % 9)
            fired: asyncio.Future[None] = loop.create_future()
            loop.call_at(at, fired.set_result, None)
            await fired
            early.append(at - time.monotonic())
        return early

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert isinstance(runner.get_loop(), asyncio.SelectorEventLoop)
        assert max(runner.run(sleeps())) <= 0


def test_a_process_with_many_files_gets_a_coarser_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    """select(2) knows 1,024 file descriptors; whatever is beyond would corrupt memory."""
    monkeypatch.setattr(eventloop, "_SELECT_FDS", 3)
    with new_selector() as made:
        assert not isinstance(made, FineSelector)
        assert made.select(0.001) == []


def test_files_beyond_1024_can_be_watched_all_the_same() -> None:
    """Only the number of the selector's own descriptor is limited."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_100:
        pytest.skip("no more than 1,024 files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_100), hard))
    try:
        with new_selector() as made, socket.socket() as low:
            high = os.dup2(low.fileno(), 1_050)
            made.register(high, selectors.EVENT_WRITE)
            assert [key.fd for key, _ in made.select(0.0005)] == [high]
            made.unregister(high)
            os.close(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
