"""The links by themselves: lending, deadlines, cancellation, and servers that say odd things."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from contextlib import asynccontextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable
from scheduld.store import calls
from scheduld.store.calls import Caller, NewTask
from scheduld.store.keys import Keys
from scheduld.store.link import AsyncLink
from scheduld.store.synclink import SyncLink
from scheduld.store.trouble import Interrupted
from tests.integration.test_client import fresh_namespace
from tests.support.proxy import Proxy
from tests.support.replicas import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scheduld.store.calls import Call
    from tests.support.servers import RunningServer


def adding(task_id: str, namespace: str) -> Call[Any]:
    """A call that adds one task."""
    keys = Keys(namespace)
    task = NewTask(task_id.encode(), b"{}", "", None, 3_600_000)
    return calls.add(Caller(keys, "n"), keys.type("t"), [task], on_conflict="error")


@asynccontextmanager
async def odd_server(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[str]:
    """A server that answers each piece of a request by a function; None ends the connection."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while data := await reader.read(65536):
            # What redis-py asks before it hands a connection out.
            said = b"+OK\r\n" * data.count(b"SETINFO") if b"SETINFO" in data else answer(data)
            if said is None:
                break
            writer.write(said)
        writer.close()

    with TemporaryDirectory(prefix="scheduld-") as folder:
        server = await asyncio.start_unix_server(serve, f"{folder}/s.sock")
        yield f"unix://{folder}/s.sock"
        server.close()
        for writer in writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_more_exchanges_than_connections_take_turns(valkey_server: RunningServer) -> None:
    """A hundred at once over two connections: all are answered, and no third is opened."""
    link = AsyncLink(valkey_server.url, max_connections=2)
    answers = await asyncio.gather(*(link.commands(("ECHO", n)) for n in range(100)))
    assert answers == [[b"%d" % n] for n in range(100)]
    assert len(link._lines._open) == len(link._lines._idle) == 2
    await link.aclose()
    assert not link._lines._open


async def test_a_call_is_sent_before_its_caller_first_waits(valkey_server: RunningServer) -> None:
    """With a free connection the bytes go out in the caller's turn: the server works meanwhile."""
    link = AsyncLink(valkey_server.url)
    await link.commands(("PING",))
    exchange = link.commands(("SET", key := fresh_namespace(), "1"))
    exchange.send(None)  # up to its first wait, and no turn of the loop
    with valkey_server.client() as raw:
        assert raw.get(key) == "1"
    exchange.close()
    await link.aclose()


async def test_a_turn_that_never_comes_is_unreachable(valkey_server: RunningServer) -> None:
    """Who waits for a connection longer than the deadline has sent nothing."""
    async with Proxy(valkey_server.url) as proxy:
        link = AsyncLink(proxy.url, max_connections=1, timeout_s=0.4)
        await link.commands(("PING",))
        await proxy.become("blackhole")
        first = asyncio.create_task(link.commands(("SET", "x", "1"), writes=True))
        await until(lambda: not link._lines._idle, "the only connection is lent")
        with pytest.raises(Interrupted) as stop:
            await link._lines.lend(asyncio.get_running_loop().time() + 0.05)
        assert not stop.value.sent
        with pytest.raises(OutcomeUnknown):
            await first
        await proxy.become("refuse")
        with pytest.raises(Unreachable):
            await link.commands(("SET", "x", "1"), writes=True)
        await link.aclose()


async def test_a_cancelled_turn_goes_to_the_next(valkey_server: RunningServer) -> None:
    """Cancelling those who wait for a connection, at any moment, loses no connection."""
    link = AsyncLink(valkey_server.url, max_connections=2)
    for round_number in range(30):
        asked = [asyncio.create_task(link.commands(("ECHO", n))) for n in range(20)]
        for _ in range(round_number % 6):
            await asyncio.sleep(0)
        for task in asked[::3]:
            task.cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for n, answer in enumerate(answers):
            assert answer == [b"%d" % n] or isinstance(answer, asyncio.CancelledError)
        assert len(link._lines._open) <= 2
    assert await asyncio.wait_for(link.commands(("PING",)), 2) == [b"PONG"]
    assert not link._lines._waiting
    assert link._lines._opening == 0
    await link.aclose()


async def test_a_cancelled_exchange_drops_its_connection(valkey_server: RunningServer) -> None:
    """Its answer would be taken for the next one's; the next exchange has its own connection."""
    async with Proxy(valkey_server.url) as proxy:
        link = AsyncLink(proxy.url, max_connections=1)
        await link.commands(("ECHO", "a"))
        await proxy.become("half")
        slow = asyncio.create_task(link.commands(("ECHO", "b")))
        await until(lambda: proxy.dropped, "an answer was held back")
        slow.cancel()
        await proxy.become("pass")
        assert await link.commands(("ECHO", "c")) == [b"c"]
        await link.aclose()


@pytest.mark.parametrize("earlier_s", [0.1, 30.0])
async def test_the_deadline_of_each_exchange_holds(
    valkey_server: RunningServer, earlier_s: float
) -> None:
    """Also of one that begins while the timer of an earlier one runs, shorter or longer."""
    async with Proxy(valkey_server.url) as proxy:
        link = AsyncLink(proxy.url, timeout_s=earlier_s)
        await link.commands(("PING",))
        link.timeout_s = 0.5
        await proxy.become("blackhole")
        began = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await link.run(adding("x", fresh_namespace()))
        assert 0.45 < time.monotonic() - began < 2
        await link.aclose()


@pytest.mark.parametrize("said", [b"+OK\r\n:1\r\n", b"?what\r\n", b"HTTP/1.1 400 Bad\r\n\r\n"])
async def test_bytes_that_are_no_answer_end_the_connection(said: bytes) -> None:
    """More than was asked for, or what is not Redis at all: never taken for a later answer."""
    async with odd_server(lambda _: said) as url:
        link = AsyncLink(url, max_connections=1)
        if said.startswith(b"+"):
            assert await link.commands(("PING",)) == [b"OK"]
        else:
            with pytest.raises(Unreachable):
                await link.commands(("PING",))
        assert not link._lines._open
        blocking = SyncLink(url, max_connections=1)
        for _ in range(2):
            try:
                assert await asyncio.to_thread(blocking.commands, ("PING",)) == [b"OK"]
            except Unreachable:
                assert not said.startswith(b"+")
        blocking.close()


async def test_a_server_that_hangs_up_is_noticed_while_idle() -> None:
    """The connection it has closed is not used again: a write over it would be in doubt."""
    async with odd_server(lambda data: None if b"QUIT" in data else b"+OK\r\n") as url:
        link, blocking = AsyncLink(url), SyncLink(url)
        await link.commands(("PING",))
        await asyncio.to_thread(blocking.commands, ("PING",))
        for line in link._lines._idle:
            line._transport.write(b"QUIT\r\n")
        for quiet in blocking._lines._idle:
            quiet._socket.sendall(b"QUIT\r\n")
        idle = blocking._lines._idle
        await until(lambda: not any(line.is_quiet() for line in idle), "the end has come")
        await until(lambda: not link._lines._open, "the end was heard")
        assert await link.commands(("PING",), writes=True) == [b"OK"]
        assert await asyncio.to_thread(lambda: blocking.commands(("PING",), writes=True)) == [b"OK"]
        blocking.close()
        await link.aclose()


def test_threads_take_turns(valkey_server: RunningServer) -> None:
    """Thirty threads over two connections: each hears its own answers, no third is opened."""
    link = SyncLink(valkey_server.url, max_connections=2)
    heard: list[bool] = []

    def talk(name: int) -> None:
        heard.extend(link.commands(("ECHO", name)) == [b"%d" % name] for _ in range(30))

    threads = [threading.Thread(target=talk, args=(name,)) for name in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [True] * 900
    assert len(link._lines._open) == 2
    link.close()


def test_a_thread_that_waits_too_long_has_sent_nothing(valkey_server: RunningServer) -> None:
    """With the only connection lent, the next is refused after the timeout."""
    link = SyncLink(valkey_server.url, max_connections=1, timeout_s=0.2)
    line = link._lines.lend()
    with pytest.raises(Unreachable, match="No connection"):
        link.commands(("SET", "x", "1"), writes=True)
    link._lines.give_back(line)
    assert link.commands(("PING",)) == [b"PONG"]
    link.close()


async def test_calls_ahead_keep_their_order(valkey_server: RunningServer) -> None:
    """Also when the server does not know the script yet: a result a call, the first add wins."""
    namespace = fresh_namespace()
    with valkey_server.client() as raw:
        raw.script_flush()
    names = [f"i{n % 7}" for n in range(21)]
    link = AsyncLink(valkey_server.url)
    results = await link.run_ahead(adding(name, namespace) for name in names)
    assert [row.code.name for (row,) in results] == ["CREATED"] * 7 + ["EXISTS"] * 14
    await link.aclose()
    with valkey_server.client() as raw:
        raw.script_flush()
    blocking = SyncLink(valkey_server.url)
    results = await asyncio.to_thread(
        blocking.run_ahead, (adding(name, namespace + "b") for name in names)
    )
    assert [row.code.name for (row,) in results] == ["CREATED"] * 7 + ["EXISTS"] * 14
    blocking.close()


async def test_calls_ahead_end_at_a_refusal(valkey_server: RunningServer) -> None:
    """What was under way is heard, the rest is not sent; the connection goes on to be used."""
    namespace = fresh_namespace()
    with valkey_server.client() as raw:
        raw.set(f"{namespace}b:{{t}}:due", "no zset")
    spaces = [namespace, f"{namespace}b", namespace, namespace, namespace]
    link, blocking = AsyncLink(valkey_server.url, max_connections=1), SyncLink(valkey_server.url)
    await link.run(adding("first", namespace))
    series = [adding(f"i{n}", space) for n, space in enumerate(spaces)]
    told = await link.run_ahead(iter(series))
    again = await asyncio.to_thread(blocking.run_ahead, iter(series))
    for results in (told, again):
        assert [isinstance(result, ScheduldError) for result in results] == [False, True, False]
    assert await link.commands(("PING",)) == [b"PONG"]
    await link.aclose()
    blocking.close()


@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
async def test_calls_ahead_whose_answers_are_lost(valkey_server: RunningServer, kind: str) -> None:
    """The result of the first without an answer is OutcomeUnknown, and the last result."""
    namespace = fresh_namespace()
    async with Proxy(valkey_server.url) as proxy:
        link, blocking = AsyncLink(proxy.url, timeout_s=0.5), SyncLink(proxy.url, timeout_s=0.5)

        async def ahead(*names: str) -> list[Any]:
            series = (adding(name, namespace) for name in names)
            if kind == "asyncio":
                return await link.run_ahead(series)
            return await asyncio.to_thread(blocking.run_ahead, series)

        assert len(await ahead("a", "b", "c")) == 3
        await proxy.become("half")
        results = await ahead("d", "e", "f")
        assert len(results) == 1
        assert isinstance(results[0], OutcomeUnknown)
        await proxy.become("refuse")
        with pytest.raises(Unreachable):
            await ahead("g", "h")
        await link.aclose()
        blocking.close()
    gc.collect()  # no future of the lost answers may complain that nobody looked at it


def test_a_fork_does_not_use_its_parents_connections(valkey_server: RunningServer) -> None:
    """A link that was left idle in the parent stays whole when a child process ends."""
    link = SyncLink(valkey_server.url)
    assert link.commands(("PING",)) == [b"PONG"]
    pid = _fork_and_close(link)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert link.commands(("PING",)) == [b"PONG"]
    link.close()


def _fork_and_close(link: SyncLink) -> int:
    pid = os.fork()
    if pid == 0:
        link.close()
        os._exit(0)
    return pid
