"""Both links through every fault of the proxy, over sockets of both kinds: bounded, and honest."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable
from scheduld.store.link import AsyncLink
from scheduld.store.synclink import SyncLink
from tests.integration.test_client import fresh_namespace
from tests.integration.test_link import adding
from tests.support.proxy import MODES, Mode, Proxy
from tests.support.replicas import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.servers import RunningServer

TIMEOUT_S = 0.4
LATE_S = 0.6
"""What a loaded machine may add to a deadline."""
HARMLESS = ("pass", "lag", "jitter")
CARRIED_OUT = ("half", "torn", "stalled", "trickle", "hold")
"""Faults that let a request through, and not its whole answer."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_an_open_connection_in_each_fault(
    valkey_server: RunningServer, mode: Mode, tcp: bool
) -> None:
    """A write on an open connection ends by its deadline, and says what is known of its outcome.

    When the fault is over the next call works at once, on a new connection if need be.
    """
    namespace = fresh_namespace()
    async with Proxy(valkey_server.url, lag_s=0.05, tcp=tcp) as proxy:
        link = AsyncLink(proxy.url, timeout_s=TIMEOUT_S)
        blocking = SyncLink(proxy.url, timeout_s=TIMEOUT_S)
        runs: list[Callable[[Any], Awaitable[Any]]] = [
            link.run,
            lambda call: asyncio.to_thread(blocking.run, call),
        ]
        for number, run in enumerate(runs):
            await run(adding(f"before{number}", namespace))
            await proxy.become(mode)
            began = time.monotonic()
            outcome = await _outcome(run(adding(f"during{number}", namespace)))
            assert time.monotonic() - began < TIMEOUT_S + LATE_S
            assert outcome in _expected(mode), f"{kind_of(number)}: {outcome}"
            await proxy.become("pass")
            await _works_again(run, f"after{number}", namespace)
        stored = [await _is_stored(valkey_server, namespace, f"during{n}") for n in range(2)]
        if mode in (*HARMLESS, *CARRIED_OUT):
            assert stored == [True, True]
        elif mode in ("refuse", "closed", "reset", "blackhole"):
            assert stored == [False, False]
        await link.aclose()
        blocking.close()


def kind_of(number: int) -> str:
    """Name the link that a test tries."""
    return ("asyncio", "blocking")[number]


def _expected(mode: Mode) -> set[type | None]:
    if mode in HARMLESS:
        return {None}
    if mode in ("reset", "refuse", "closed"):
        # Whether the end of the connection was seen before the request was sent is chance.
        return {Unreachable, OutcomeUnknown}
    return {OutcomeUnknown}


async def _outcome(asked: Awaitable[Any]) -> type | None:
    try:
        await asked
    except ScheduldError as error:
        return type(error)
    return None


async def _works_again(run: Callable[[Any], Awaitable[Any]], task_id: str, namespace: str) -> None:
    # A connection whose end was not seen yet may cost one call.
    with suppress(Unreachable, OutcomeUnknown):
        await run(adding(f"first-{task_id}", namespace))
    await run(adding(task_id, namespace))


async def _is_stored(server: RunningServer, namespace: str, task_id: str) -> bool:
    with server.client() as raw:
        return raw.zscore(f"{namespace}:{{t}}:due", task_id) is not None


@pytest.mark.parametrize(
    "mode", ["reset", "refuse", "closed", "blackhole", "half", "stuck", "torn", "stalled"]
)
async def test_connecting_in_each_fault(valkey_server: RunningServer, mode: Mode) -> None:
    """Where the way is not free from the start it ends by its deadlines, and nothing is stored."""
    namespace = fresh_namespace()
    # A database of its own makes the greeting wait for an answer.
    async with Proxy(valkey_server.url, tcp=True) as proxy:
        url = proxy.url + "/1"
        await proxy.become(mode)
        link, blocking = AsyncLink(url, timeout_s=TIMEOUT_S), SyncLink(url, timeout_s=TIMEOUT_S)
        for number in range(2):
            call = adding(f"t{number}", namespace)
            began = time.monotonic()
            asked = link.run(call) if number == 0 else asyncio.to_thread(blocking.run, call)
            assert await _outcome(asked) is Unreachable, kind_of(number)
            assert time.monotonic() - began < 2 * TIMEOUT_S + LATE_S
        await proxy.become("pass")
        with valkey_server.client() as raw:
            assert not raw.keys(f"{namespace}:*")
        await link.run(adding("after", namespace))
        await asyncio.to_thread(blocking.run, adding("after2", namespace))
        await link.aclose()
        blocking.close()


async def test_a_reset_over_tcp_is_one(valkey_server: RunningServer) -> None:
    """The proxy ends TCP connections by RST, which is what the other tests rely on."""
    async with Proxy(valkey_server.url, tcp=True) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        plain = socket.create_connection(("127.0.0.1", port))
        await until(lambda: proxy.accepted, "it was accepted")
        await proxy.become("reset")
        with pytest.raises(ConnectionResetError):
            await asyncio.to_thread(plain.recv, 10)
        plain.close()


async def test_what_was_stuck_arrives_in_the_end(valkey_server: RunningServer) -> None:
    """A request that was stuck is delivered late, after its caller gave up: it changes nothing."""
    namespace = fresh_namespace()
    async with Proxy(valkey_server.url) as proxy:
        link = AsyncLink(proxy.url, timeout_s=TIMEOUT_S)
        await link.run(adding("before", namespace))
        await proxy.become("stuck")
        assert await _outcome(link.run(adding("during", namespace))) is OutcomeUnknown
        with valkey_server.client() as raw:
            seen = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
            # Past what a call may be late, by the server's clock.
            began = time.monotonic()
            await until(lambda: time.monotonic() - began > TIMEOUT_S, "it is too late")
            await proxy.become("pass")
            await until(
                lambda: raw.info("commandstats")["cmdstat_evalsha"]["calls"] > seen, "it arrives"
            )
        assert not await _is_stored(valkey_server, namespace, "during")
        await link.aclose()
