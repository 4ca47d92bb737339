"""The clients: every verb, asked of `Client` and `AsyncClient` alike, on a real server."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pytest

import scheduld
from scheduld import AsyncClient, Client, State, Task, TaskSpec
from scheduld.client import default
from scheduld.errors import (
    ConfigError,
    Conflict,
    InvalidInput,
    NotFound,
    TaskExists,
    Unreachable,
    Unusable,
    WhenError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.servers import RunningServer

_numbers = itertools.count()


class Ask(Protocol):
    """Asks a verb of one of the clients."""

    async def __call__(self, verb: str, *args: Any, **options: Any) -> Any:
        """Ask it."""


def fresh_namespace() -> str:
    """A namespace that no other test has."""
    return f"c{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def namespace() -> str:
    """The namespace of this test's clients."""
    return fresh_namespace()


@pytest.fixture(params=["blocking", "asyncio"])
async def ask(
    request: pytest.FixtureRequest, valkey_server: RunningServer, namespace: str
) -> AsyncIterator[Ask]:
    """One client of each kind; every test that asks runs with both."""
    if request.param == "asyncio":
        async with AsyncClient(valkey_server.url, namespace=namespace) as client:

            async def ask_async(verb: str, *args: Any, **options: Any) -> Any:
                return await getattr(client, verb)(*args, **options)

            yield ask_async
        return
    with Client(valkey_server.url, namespace=namespace) as blocking:

        async def ask_blocking(verb: str, *args: Any, **options: Any) -> Any:
            method: Callable[..., Any] = getattr(blocking, verb)
            return await asyncio.to_thread(method, *args, **options)

        yield ask_blocking


async def test_a_scheduled_task_can_be_read_back(ask: Ask) -> None:
    """What was scheduled is read back by type and id, and by the id alone."""
    at = datetime(2090, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    added = await ask("schedule", "mail", {"to": "é"}, at=at, allow_unknown=True)
    assert added.created is True
    assert added.due == at
    read = await ask("get", "mail", added.id)
    assert (read.state, read.due_ms, read.payload) == (State.SCHEDULED, added.due_ms, {"to": "é"})
    assert read.added_ms == added.added_ms is not None
    assert (await ask("find", added.id)).ref == added.ref


async def test_without_a_time_a_task_is_due_now(ask: Ask) -> None:
    """Neither at nor delay means the server's now; a delay is added to it."""
    now = await ask("schedule", "t", allow_unknown=True)
    later = [await ask("schedule", "t", delay=delay) for delay in (60, "1m", timedelta(minutes=1))]
    for task in later:
        assert 59_000 < task.due_ms - now.due_ms < 70_000
    assert (await ask("schedule", "t", at="+1m")).due_ms >= later[0].due_ms


@pytest.mark.parametrize("conflict", ["error", "keep", "replace"])
async def test_an_id_that_is_kept_is_treated_as_asked(ask: Ask, conflict: Any) -> None:
    """`error` raises with the state, `keep` answers the kept one, `replace` takes its place."""
    first = await ask("schedule", "t", {"n": 1}, id="x", delay="1h", allow_unknown=True)
    again = ask("schedule", "t", {"n": 2}, id="x", delay="2h", on_conflict=conflict)
    if conflict == "error":
        with pytest.raises(TaskExists) as caught:
            await again
        assert caught.value.state == "scheduled"
        return
    answer = await again
    assert answer.created is (conflict == "replace")
    assert answer.payload == {"n": 1 if conflict == "keep" else 2}
    assert (answer.due_ms == first.due_ms) is (conflict == "keep")


async def test_the_same_token_answers_as_the_first_time(ask: Ask) -> None:
    """A repeat of an add with id and token stores nothing and answers that it was created."""
    options = {"id": "x", "token": "t1", "delay": "1h"}
    await ask("schedule", "t", {"n": 1}, allow_unknown=True, **options)
    again = await ask("schedule", "t", {"n": 2}, **options)
    assert (again.created, again.payload) == (True, {"n": 1})


async def test_many_are_answered_one_by_one(ask: Ask) -> None:
    """schedule_many answers in order; an id that exists spoils only its own place."""
    await ask("schedule", "t", id="b", delay="1h", allow_unknown=True)
    specs = [TaskSpec(id="a"), TaskSpec(id="b"), {"n": 3}]
    answers = await ask("schedule_many", "t", specs)
    assert [type(answer) for answer in answers] == [Task, TaskExists, Task]
    assert answers[2].payload == {"n": 3}


async def test_many_go_out_in_calls_of_bounded_size(ask: Ask) -> None:
    """More than 500 tasks, or 4 MB of them, are split and all stored."""
    answers = await ask("schedule_many", "t", [{} for _ in range(1_200)], allow_unknown=True)
    big = {"x": "y" * 200_000}
    answers += await ask("schedule_many", "t", [big] * 45)
    assert len({answer.id for answer in answers}) == 1_245
    (stats,) = await ask("stats", "t")
    assert (stats.scheduled, stats.counters["added"]) == (1_245, 1_245)


async def test_nothing_is_sent_if_one_of_many_is_wrong(ask: Ask) -> None:
    """All tasks are checked before the first is sent."""
    with pytest.raises(InvalidInput):
        await ask("schedule_many", "t", [{}, TaskSpec(id="a b")], allow_unknown=True)
    assert await ask("stats") == []


async def test_a_cancelled_task_can_be_requeued(ask: Ask) -> None:
    """cancel ends a scheduled task, twice alike; requeue schedules it again, due now."""
    task = await ask("schedule", "t", {"n": 1}, delay="1h", allow_unknown=True)
    for _ in range(2):
        ended = await ask("cancel", "t", task.id)
        assert (ended.state, ended.outcome) == (State.CANCELLED, "cancelled")
    again = await ask("requeue", "t", task.id)
    assert (again.state, again.payload) == (State.SCHEDULED, {"n": 1})
    assert again.due_ms < task.due_ms
    with pytest.raises(Conflict, match="is scheduled and cannot be requeued"):
        await ask("requeue", "t", task.id)


@pytest.mark.parametrize("verb", ["get", "cancel", "requeue"])
async def test_what_is_not_there_is_not_found(ask: Ask, verb: str) -> None:
    """Verbs on one task raise NotFound where there is none."""
    with pytest.raises(NotFound, match="t/none"):
        await ask(verb, "t", "none")
    with pytest.raises(NotFound, match="none"):
        await ask("find", "none")


async def test_an_id_in_two_types_must_be_told_apart(ask: Ask) -> None:
    """find refuses an id that several types have, and names them."""
    for name in ("t1", "t2"):
        await ask("schedule", name, id="x", delay="1h", allow_unknown=True)
    with pytest.raises(InvalidInput, match="t1/x, t2/x"):
        await ask("find", "x")


async def test_a_list_can_be_narrowed(ask: Ask) -> None:
    """list gives tasks of a type, of a state, and no more of each than asked."""
    for number in range(3):
        await ask("schedule", "t1", id=f"a{number}", delay=f"{number}h", allow_unknown=True)
    await ask("schedule", "t2", id="b", delay="1h", allow_unknown=True)
    await ask("cancel", "t1", "a1")
    names = [task.ref for task in await ask("list")]
    assert sorted(names) == ["t1/a0", "t1/a1", "t1/a2", "t2/b"]
    assert [task.id for task in await ask("list", "t1", state="scheduled")] == ["a0", "a2"]
    assert [task.id for task in await ask("list", state=State.CANCELLED)] == ["a1"]
    assert await ask("list", "t1", state="done") == []
    assert [task.id for task in await ask("list", "t1", state="scheduled", limit=1)] == ["a0"]


async def test_a_state_is_found_behind_many_others(ask: Ask) -> None:
    """A limit counts tasks of the state that was asked for, not those passed over."""
    answers = await ask("schedule_many", "t", [{}] * 120, allow_unknown=True)
    for answer in answers:
        await ask("cancel", "t", answer.id)
    assert len(await ask("list", "t", state="cancelled", limit=110)) == 110
    assert await ask("list", "t", state="done", limit=1) == []


async def test_an_unknown_type_is_refused_with_the_nearest(ask: Ask) -> None:
    """A type that nobody knows is refused, naming the nearest; allow_unknown lets it pass."""
    await ask("schedule", "email", allow_unknown=True)
    with pytest.raises(InvalidInput, match="no task type 'emial'") as caught:
        await ask("schedule", "emial")
    assert caught.value.hint == "did you mean email?"


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("schedule", (None,), {}),
    ("schedule", ("a{b}",), {}),
    ("schedule", ("t", [1]), {}),
    ("schedule", ("t", {"n": float("nan")}), {}),
    ("schedule", ("t", {1: 2}), {}),
    ("schedule", ("t", {"x": "y" * 300_000}), {}),
    ("schedule", ("t",), {"id": ""}),
    ("schedule", ("t",), {"id": "a b"}),
    ("schedule", ("t",), {"id": "x" * 201}),
    ("schedule", ("t",), {"id": 5}),
    ("schedule", ("t",), {"token": ""}),
    ("schedule", ("t",), {"token": "a\nb"}),
    ("schedule", ("t",), {"on_conflict": "maybe"}),
    ("schedule", ("t",), {"at": "2090-01-01T00:00Z", "delay": 5}),
    ("schedule", ("t",), {"delay": -1}),
    ("schedule", ("t",), {"delay": True}),
    ("schedule", ("t",), {"at": "tomorrow"}),
    ("schedule", ("t",), {"at": datetime(2090, 1, 1)}),  # noqa: DTZ001
    ("schedule", ("t",), {"at": 1e400}),
    ("schedule", ("t",), {"at": "2001-01-01T00:00Z"}),
    ("schedule_many", ("t", [5]), {}),
    ("get", ("t", None), {}),
    ("list", (), {"state": "sheduled"}),
    ("list", (), {"limit": 0}),
    ("list", (), {"limit": True}),
    ("stats", (5,), {}),
]


@pytest.mark.parametrize(("verb", "args", "options"), WRONG)
async def test_what_cannot_be_right_is_refused_before_it_is_sent(
    ask: Ask, verb: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Wrong arguments raise InvalidInput (or its kind WhenError), and leave nothing behind."""
    with pytest.raises(InvalidInput):
        await ask(verb, *args, **options)
    assert await ask("list") == []


async def test_a_time_in_the_past_needs_a_word(ask: Ask) -> None:
    """allow_past lets a past time pass: the task is due at once."""
    task = await ask("schedule", "t", at="2001-01-01T00:00Z", allow_past=True, allow_unknown=True)
    assert task.due_ms == 978_307_200_000


async def test_a_naive_time_is_read_in_the_zone(ask: Ask) -> None:
    """`timezone` gives a naive datetime and a text without offset their zone."""
    options = {"timezone": "Europe/Madrid", "allow_unknown": True}
    naive = datetime(2090, 7, 1, 9)  # noqa: DTZ001
    first = await ask("schedule", "t", at=naive, **options)
    second = await ask("schedule", "t", at="2090-07-01 09:00", **options)
    assert first.due == second.due == datetime(2090, 7, 1, 7, tzinfo=UTC)


def test_a_client_can_be_shared_by_threads(valkey_server: RunningServer, namespace: str) -> None:
    """Fifty threads with the same 20 ids: each id is created exactly once."""
    created: list[str] = []

    def add(client: Client) -> None:
        specs = [TaskSpec(id=f"i{number}", delay="1h") for number in range(20)]
        answers = client.schedule_many("t", specs, allow_unknown=True)
        created.extend(answer.id for answer in answers if isinstance(answer, Task))

    with Client(valkey_server.url, namespace=namespace) as client:
        threads = [threading.Thread(target=add, args=(client,)) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(created) == sorted(f"i{number}" for number in range(20))


async def test_one_client_serves_many_tasks_at_once(
    valkey_server: RunningServer, namespace: str
) -> None:
    """A hundred gathered adds over one asyncio client are all stored."""
    async with AsyncClient(valkey_server.url, namespace=namespace) as client:
        adds = (client.schedule("t", {"n": n}, allow_unknown=True) for n in range(100))
        tasks = await asyncio.gather(*adds)
        assert {task.payload["n"] for task in tasks} == set(range(100))
        (stats,) = await client.stats("t")
        assert stats.scheduled == 100


def test_newer_data_is_refused(valkey_server: RunningServer, namespace: str) -> None:
    """Data of a newer format is not touched: every verb raises Unusable."""
    with valkey_server.client() as raw:
        raw.set(f"{namespace}:format", "2")
    with (
        Client(valkey_server.url, namespace=namespace) as client,
        pytest.raises(Unusable, match="format 2"),
    ):
        client.stats()


def test_nothing_is_guessed_without_config_and_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a config file and a URL a client cannot be made."""
    monkeypatch.chdir(tmp_path)
    for variable in ("SCHEDULD_CONFIG", "SCHEDULD_REDIS_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match="no config file"):
        Client()


def test_a_zone_must_exist(valkey_server: RunningServer, namespace: str) -> None:
    """A time zone that does not exist is refused with the nearest."""
    with (
        Client(valkey_server.url, namespace=namespace) as client,
        pytest.raises(WhenError, match="Madrit"),
    ):
        client.schedule("t", at="2090-01-01 09:00", timezone="Europe/Madrit")


def test_schedule_task_uses_the_environment(
    valkey_server: RunningServer,
    tmp_path: Path,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """schedule_task finds server, namespace, zone and types in the config file."""
    config = tmp_path / "scheduld.toml"
    config.write_text(
        f'[scheduld]\nredis_url = "{valkey_server.url}"\nnamespace = "{namespace}"\n'
        'timezone = "Europe/Madrid"\n[types.mail]\nhandler = "log"\n'
    )
    monkeypatch.setenv("SCHEDULD_CONFIG", str(config))
    monkeypatch.delenv("SCHEDULD_REDIS_URL", raising=False)
    try:
        task = scheduld.schedule_task("mail", {"n": 1}, at="2090-07-01 09:00")
        assert task.due == datetime(2090, 7, 1, 7, tzinfo=UTC)
        again = scheduld.schedule_task("mail", id=task.id, on_conflict="keep")
        assert again.payload == {"n": 1}
    finally:
        default.close_all()


async def test_an_absent_server_is_waited_for_and_then_told() -> None:
    """A verb waits `wait_s` for a server, and raises Unreachable when it does not come."""
    async with AsyncClient("redis://127.0.0.1:1", wait_s=0.2) as client:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(Unreachable):
            await client.stats()
        assert loop.time() - begun < 5
    with (
        Client("redis://127.0.0.1:1", wait_s=0) as blocking,
        pytest.raises(Unreachable, match="cannot be reached"),
    ):
        await asyncio.to_thread(blocking.stats)


async def test_foreign_content_does_not_break_the_verbs(
    ask: Ask, valkey_server: RunningServer, namespace: str
) -> None:
    """What others put into the namespace is passed over, or told, never a crash."""
    task = await ask("schedule", "ok", {"n": 1}, delay="1h", allow_unknown=True)
    with valkey_server.client() as raw:
        raw.sadd(f"{namespace}:types", "My Type", "broken")
        raw.set(f"{namespace}:{{broken}}:due", "x")
        raw.hset(f"{namespace}:{{ok}}:meta", "n:done", "abc")
        raw.zadd(f"{namespace}:{{inf}}:due", {"x": float("inf")})
        raw.hset(f"{namespace}:{{ok}}:task:big", "payload", '{"a":1e400}')
        raw.zadd(f"{namespace}:{{ok}}:due", {"big": 4_000_000_000_000})
    assert (await ask("find", task.id)).ref == task.ref
    assert [stats.type for stats in await ask("stats", "ok")] == ["ok"]
    assert (await ask("stats", "inf"))[0].next_due_ms is None
    assert (await ask("get", "ok", "big")).payload is None
    with pytest.raises(Conflict):
        await ask("list", "broken")


@pytest.mark.parametrize("wait_s", [float("nan"), float("inf"), -1, "x"])
def test_a_wait_is_a_number_of_seconds(valkey_server: RunningServer, wait_s: Any) -> None:
    """What is no such number is refused, and waits for nothing."""
    with (
        Client(valkey_server.url, wait_s=wait_s) as client,
        pytest.raises(InvalidInput, match="wait_s"),
    ):
        client.stats()


def test_a_forked_child_has_locks_of_its_own(valkey_server: RunningServer, namespace: str) -> None:
    """A fork while another thread connects must not leave the child waiting for its lock."""
    with Client(valkey_server.url, namespace=namespace) as client:
        client.stats()
        with client._opening:
            pid = os.fork()
            if pid == 0:
                try:
                    client.schedule("t", allow_unknown=True)
                    os._exit(0)
                except BaseException:  # noqa: BLE001 - nothing of the child may go on as a test
                    os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert [stats.scheduled for stats in client.stats()] == [1]
