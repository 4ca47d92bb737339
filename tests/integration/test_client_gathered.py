"""Adds of one turn of the event loop: sent as one call, answered one by one."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import AsyncClient, State, Task
from scheduld.errors import (
    InvalidInput,
    OutcomeUnknown,
    ScheduldError,
    TaskExists,
    Unreachable,
)
from scheduld.store import calls
from tests.integration.test_client import fresh_namespace
from tests.support.proxy import Proxy
from tests.support.replicas import until
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.support.servers import RunningServer

LATER = "2090-01-01 00:00 UTC"


@pytest.fixture
async def client(valkey_server: RunningServer) -> AsyncIterator[AsyncClient]:
    """A client that has opened a connection and knows the type `t`."""
    async with AsyncClient(valkey_server.url, namespace=fresh_namespace()) as client:
        await client.schedule("t", {"n": -1}, id="first", delay="1h", allow_unknown=True)
        yield client


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The ids of each add call that is made."""
    made: list[list[bytes]] = []
    add = calls.add

    def noted(caller: Any, keys: Any, tasks: Sequence[calls.NewTask], **how: Any) -> Any:
        made.append([task.raw_id for task in tasks])
        return add(caller, keys, tasks, **how)

    monkeypatch.setattr(calls, "add", noted)
    return made


async def test_adds_of_one_turn_are_one_call(client: AsyncClient, sent: list[list[bytes]]) -> None:
    """In the order they were made; each caller gets its own task."""
    ids = [f"i{n}" for n in range(100)]
    tasks = await asyncio.gather(
        *(client.schedule("t", {"n": n}, id=task_id, delay="1h") for n, task_id in enumerate(ids))
    )
    assert sent == [[task_id.encode() for task_id in ids]]
    assert [(task.id, task.payload, task.created) for task in tasks] == [
        (task_id, {"n": n}, True) for n, task_id in enumerate(ids)
    ]
    stored = {task.id: task for task in await client.list("t", limit=200)}
    assert all(stored[task.id].due_ms == task.due_ms for task in tasks)


async def test_the_last_of_one_id_wins(client: AsyncClient) -> None:
    """With `replace` the order of the calls is the order on the server."""
    adds = (
        client.schedule("t", {"n": n}, id="x", delay="1h", on_conflict="replace") for n in range(9)
    )
    assert all(task.created for task in await asyncio.gather(*adds))
    assert (await client.get("t", "x")).payload == {"n": 8}


async def test_a_lone_add_goes_out_at_once(client: AsyncClient, sent: list[list[bytes]]) -> None:
    """Nothing waits for others: a turn after it was asked for, the call is made."""
    adding = asyncio.create_task(client.schedule("t", id="x", delay="1h"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sent == [[b"x"]]
    assert (await adding).created


async def test_where_nobody_else_runs_not_even_a_turn_is_waited(
    client: AsyncClient, sent: list[list[bytes]]
) -> None:
    """The call is made before the caller first waits; a loop that cannot tell waits a turn."""
    add = client.schedule("t", id="x", delay="1h")
    add.send(None)
    assert sent == [[b"x"]]
    add.close()


async def test_a_loop_that_does_not_tell_who_runs(
    client: AsyncClient, sent: list[list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adds are joined just the same, and a lone one goes out after one turn."""
    monkeypatch.setattr("scheduld.client.gathering._is_last_of_turn", lambda: False)
    assert (await client.schedule("t", delay="1h")).created
    tasks = await asyncio.gather(*(client.schedule("t", delay="1h") for _ in range(3)))
    assert all(task.created for task in tasks)
    assert [len(ids) for ids in sent] == [1, 3]


async def test_errors_are_each_callers_own(client: AsyncClient) -> None:
    """What exists is refused to who asked for it; what cannot be right is not sent at all."""
    results = await asyncio.gather(
        client.schedule("t", {"n": 0}, delay="1h"),
        client.schedule("t", id="first"),
        client.schedule("t", {"n": 1}, delay="1h"),
        client.schedule("t", id="a b"),
        client.schedule("t", id="first"),
        return_exceptions=True,
    )
    kinds = [type(result) for result in results]
    assert kinds == [Task, TaskExists, Task, InvalidInput, TaskExists]
    assert results[1] is not results[4]


async def test_only_adds_of_one_kind_are_joined(
    client: AsyncClient, sent: list[list[bytes]]
) -> None:
    """Types and ways to treat conflicts are kept apart; each gets its own answer."""
    results = await asyncio.gather(
        client.schedule("t", id="a", delay="1h"),
        client.schedule("other", id="a", delay="1h", allow_unknown=True),
        client.schedule("t", id="first", on_conflict="keep"),
        client.schedule("t", id="b", delay="1h"),
        client.schedule("nowhere", id="a"),
        client.schedule("nowhere", id="b"),
        client.schedule("t", id="first", on_conflict="keep"),
        return_exceptions=True,
    )
    assert sorted(sent) == [[b"a"], [b"a", b"b"], [b"first", b"first"]]
    refs = [result.ref for result in results if isinstance(result, Task)]
    assert refs == ["t/a", "other/a", "t/first", "t/b", "t/first"]
    assert [result.created for result in results if isinstance(result, Task)].count(False) == 2
    unknown = [result for result in results if isinstance(result, InvalidInput)]
    assert len(unknown) == 2
    assert unknown[0] is not unknown[1]


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("victim", [0, 1, 4])
async def test_a_cancelled_caller_harms_nobody(
    client: AsyncClient, turns: int, victim: int
) -> None:
    """Whoever is cancelled, the first included, and whenever: the others are answered."""
    adds = [asyncio.create_task(client.schedule("t", {"n": n}, delay="1h")) for n in range(5)]
    for _ in range(turns):
        await asyncio.sleep(0)
    adds[victim].cancel()
    results = await asyncio.gather(*adds, return_exceptions=True)
    assert isinstance(results.pop(victim), asyncio.CancelledError)
    assert all(isinstance(result, Task) and result.created for result in results)
    assert (await client.schedule("t", {"n": 9}, delay="1h")).created


async def test_all_callers_cancelled_in_the_first_turn_send_nothing(
    client: AsyncClient, sent: list[list[bytes]]
) -> None:
    """What nobody waits for any more is not added."""
    adds = [asyncio.create_task(client.schedule("t", delay="1h")) for _ in range(3)]
    await asyncio.sleep(0)
    for add in adds:
        add.cancel()
    await asyncio.gather(*adds, return_exceptions=True)
    await asyncio.sleep(0)
    assert sent == []


async def test_a_crowd_is_sent_in_several_calls(tmp_path: Path, sent: list[list[bytes]]) -> None:
    """No call carries more than it may, by number or by size."""
    with start_server("valkey", tmp_path) as server:
        async with AsyncClient(server.url, namespace="crowd") as client:
            await client.schedule("t", delay="1h", allow_unknown=True)
            sent.clear()
            number = calls.MAX_IDS * 2 + 1
            crowd = [client.schedule("t", {"n": n}, delay="1h") for n in range(number)]
            big = {"x": "y" * 250_000}
            large = [client.schedule("t", big, at=LATER, on_conflict="keep") for _ in range(20)]
            tasks = await asyncio.gather(*crowd, *large)
    assert {task.state for task in tasks} == {State.SCHEDULED}
    assert sorted(map(len, sent)) == [1, 4, 16, calls.MAX_IDS, calls.MAX_IDS]


async def test_an_unknown_outcome_names_each_callers_own_task(
    valkey_server: RunningServer,
) -> None:
    """The answer of a joined call is lost: every caller can repeat its own add safely."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=0.1) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become("half")
        adds = [client.schedule("t", {"n": n}, delay="1h") for n in range(3)]
        adds.append(client.schedule("t", {"n": 3}, id="mine", token="T", delay="1h"))
        errors = await asyncio.gather(*adds, return_exceptions=True)
        await proxy.become("pass")
        unknown = [error for error in errors if isinstance(error, OutcomeUnknown)]
        assert len({(error.task_id, error.token) for error in unknown}) == 4
        assert (unknown[3].task_id, unknown[3].token) == ("mine", "T")
        assert not any("stored" in error.message for error in unknown)
        for n, error in enumerate(unknown):
            again = await client.schedule(
                "t", {"n": n}, id=error.task_id, token=error.token, delay="1h"
            )
            assert again.created
        (stats,) = await client.stats("t")
        assert stats.scheduled == 5


async def test_joined_adds_wait_while_the_server_is_away(valkey_server: RunningServer) -> None:
    """Answers are dropped, then come again: all callers are answered, nothing is stored twice."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=20) as client,
    ):
        await client.schedule("t", delay="1h", allow_unknown=True)
        await proxy.become("half")
        adds = [asyncio.create_task(client.schedule("t", {"n": n}, delay="1h")) for n in range(10)]
        await until(lambda: proxy.dropped, "an answer was dropped")
        await proxy.become("pass")
        assert all(task.created for task in await asyncio.gather(*adds))
        (stats,) = await client.stats("t")
        assert stats.scheduled == 11


async def test_a_full_server_refuses_all_that_were_joined(tmp_path: Path) -> None:
    """Each caller hears that nothing was stored."""
    with start_server("redis7", tmp_path) as server:
        async with AsyncClient(server.url, namespace=fresh_namespace(), wait_s=0.1) as client:
            await client.schedule("t", delay="1h", allow_unknown=True)
            with server.client() as raw:
                raw.config_set("maxmemory", "1mb")
            results = await asyncio.gather(
                *(client.schedule("t", delay="1h") for _ in range(3)), return_exceptions=True
            )
            assert [type(result) for result in results] == [Unreachable] * 3
            assert all("memory" in str(result) for result in results)


async def test_a_client_that_is_dropped_with_its_loop_leaves_no_complaint(
    valkey_server: RunningServer,
) -> None:
    """A program that ends in the middle of joined adds: they are cancelled, quietly."""

    def program() -> None:
        async def end_early() -> None:
            async with Proxy(valkey_server.url) as proxy:
                client = AsyncClient(proxy.url, namespace=fresh_namespace())
                await client.schedule("t", delay="1h", allow_unknown=True)
                await proxy.become("half")
                adds = [asyncio.create_task(client.schedule("t")) for _ in range(3)]
                await until(lambda: proxy.dropped, "an answer was dropped")
                for add in adds:
                    add.cancel()
                await asyncio.gather(*adds, return_exceptions=True)
                await client.aclose()

        asyncio.run(end_early())

    await asyncio.to_thread(program)
    gc.collect()


@pytest.mark.parametrize("error", [ScheduldError("x"), Unreachable("x", hint="y")])
def test_an_error_for_all_is_copied_whole(error: ScheduldError) -> None:
    """Message, hint and kind are those of the original."""
    from scheduld.client.adding import TaskSpec, prepare
    from scheduld.client.gathering import _own

    task = prepare(TaskSpec(), timezone=None, allow_past=False, max_payload=10)
    copy = _own(error, task)
    assert copy is not error
    assert isinstance(copy, ScheduldError)
    assert (type(copy), str(copy), copy.message, copy.hint) == (
        type(error),
        str(error),
        error.message,
        error.hint,
    )


@pytest.mark.parametrize("how", ["all gone", "closed"])
async def test_nothing_is_sent_for_callers_who_have_gone(
    valkey_server: RunningServer, how: str
) -> None:
    """While Redis is away the last of them leaves, or the client is closed: the add is given up."""
    async with (
        Proxy(valkey_server.url) as proxy,
        AsyncClient(proxy.url, namespace=fresh_namespace(), wait_s=30) as client,
    ):
        await client.schedule("t", {"n": -1}, id="first", delay="1h", allow_unknown=True)
        await proxy.become("refuse")
        adds = [asyncio.create_task(client.schedule("t", {"n": n}, delay="1h")) for n in range(2)]
        await until(lambda: client._gathering._sending, "joined")
        if how == "closed":
            await client.aclose()
        else:
            for add in adds:
                add.cancel()
        await asyncio.wait(adds)
        assert all(add.cancelled() for add in adds)
        await until(lambda: not client._gathering._sending, "given up")
        await proxy.become("pass")
        assert [task.id for task in await client.list("t")] == ["first"]
