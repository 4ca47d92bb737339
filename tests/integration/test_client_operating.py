"""The verbs of operation, asked of both clients alike, on a real server."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import (
    AsyncClient,
    Client,
    Conflict,
    InvalidInput,
    NotFound,
    Requeued,
    State,
    TypePause,
    WhenError,
)
from scheduld.model import Keep
from scheduld.store import usercalls
from tests.integration.test_client import fresh_namespace
from tests.support.store import valkey_store as valkey_store
from tests.support.store import verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.store import Store

NEVER = "1h"


class Asker:
    """Asks verbs of one kind of client in the namespace of a store, and answers as if blocking."""

    def __init__(self, kind: str, store: Store) -> None:
        self.kind = kind
        self.store = store
        store.now = None
        self._options: dict[str, Any] = {
            "namespace": store.namespace,
            "timezone": "UTC",
            "wait_s": 5,
        }
        store.redis.sadd(store.keys.types, "job")
        store.redis.set(store.keys.format, 1)

    def __call__(self, verb: str, *args: Any, take: int | None = None, **options: Any) -> Any:
        """Ask a verb; of an iterator take so many, or all."""
        url = self.store.server.url
        if self.kind == "blocking":
            with Client(url, **self._options) as client:
                answer = getattr(client, verb)(*args, **options)
                if verb in ("export", "follow"):
                    return list(itertools.islice(answer, take))
                return answer

        async def run() -> Any:
            async with AsyncClient(url, **self._options) as client:
                answer = getattr(client, verb)(*args, **options)
                if verb not in ("export", "follow"):
                    return await answer
                found: list[Any] = []
                async for item in answer:
                    found.append(item)
                    if len(found) == take:
                        break
                return found

        return asyncio.run(run())


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, fast_store: Store) -> Asker:
    """One client of each kind; every test that asks runs with both."""
    return Asker(request.param, fast_store)


def into(store: Store, state: str, task_id: str) -> None:
    """Bring a new task into a state, by the server's clock."""
    if state == "scheduled":
        store.add(task_id, 4_102_444_800_000)
    else:
        store.into(state, task_id)


def die(store: Store, task_id: str, kind: str, message: str) -> None:
    """Let a new task die of an error."""
    store.add(task_id)
    detail = f'{{"kind":"{kind}","message":"{message}"}}'
    store.finish(store.take(task_id), "dead", detail=detail)


# --- one task


def test_an_edit_changes_payload_and_due(ask: Asker) -> None:
    """A new payload, a merge and a new due time, each a revision."""
    ask("schedule", "job", {"to": "a", "more": {"x": 1, "y": 2}}, id="x", delay=NEVER)
    task = ask("edit", "job", "x", merge={"more": {"y": None, "z": [3]}, "to": "b"})
    assert (task.payload, task.revision) == ({"to": "b", "more": {"x": 1, "z": [3]}}, 1)
    task = ask("edit", "job", "x", payload={"to": "c"}, at="2100-01-02 03:04", if_revision=1)
    assert (task.payload, task.revision) == ({"to": "c"}, 2)
    assert task.due == datetime(2100, 1, 2, 3, 4, tzinfo=UTC)
    assert ask("edit", "job", "x", delay=0).state == "scheduled"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, InvalidInput, "there is nothing to edit"),
        ({"payload": {}, "merge": {}}, InvalidInput, "cannot be given both"),
        ({"at": "2100-01-01", "delay": 1}, InvalidInput, "cannot be given both"),
        ({"payload": [1]}, InvalidInput, "must be a JSON object, not an array"),
        ({"merge": [1]}, InvalidInput, "merge must be a JSON object"),
        ({"merge": {"a": float("nan")}}, InvalidInput, "JSON cannot hold"),
        ({"merge": {"a": "x" * 300_000}}, InvalidInput, "max_payload"),
        ({"payload": {"a": "x" * 300_000}}, InvalidInput, "max_payload"),
        ({"at": "01/02/2026"}, WhenError, "01/02/2026"),
        ({"at": "2020-01-01 00:00"}, WhenError, "past"),
        ({"delay": 1, "if_revision": "2"}, InvalidInput, "if_revision is a whole number"),
        ({"delay": 1, "if_revision": 7}, Conflict, "has revision 0, not 7"),
        ({"merge": {}, "if_revision": 7}, Conflict, "has revision 0, not 7"),
    ],
)
def test_what_an_edit_refuses(ask: Asker, options: Any, error: type, words: str) -> None:
    """What cannot be right is told in one line, and the task is left alone."""
    ask("schedule", "job", {"a": 1}, id="x", delay=NEVER)
    before = ask.store.dump()
    with pytest.raises(error, match=words):
        ask("edit", "job", "x", **options)
    assert ask.store.dump() == before


@pytest.mark.parametrize("state", ["running", "done", "cancelled", "dead"])
def test_what_has_begun_is_not_edited(ask: Asker, state: str) -> None:
    """The error names the state, and the hint what to do instead."""
    into(ask.store, state, "x")
    for verb, options in (("edit", {"merge": {"a": 1}}), ("edit", {"delay": 5}), ("run_now", {})):
        with pytest.raises(Conflict, match=f"job/x is {state} and cannot be") as caught:
            ask(verb, "job", "x", **options)
        hint = caught.value.hint or ""
        assert ("replace" if state == "running" else "requeue") in hint


@pytest.mark.parametrize("verb", ["edit", "run_now", "cancel", "requeue", "get"])
def test_a_task_that_is_not_there(ask: Asker, verb: str) -> None:
    """It is told as such; for a type that nobody knows, with the nearest one."""
    options = {"delay": 5} if verb == "edit" else {}
    with pytest.raises(NotFound, match="there is no task job/x") as caught:
        ask(verb, "job", "x", **options)
    assert caught.value.hint is None
    with pytest.raises(NotFound, match="there is no task jbo/x") as caught:
        ask(verb, "jbo", "x", **options)
    assert "did you mean job?" in str(caught.value.hint)


@pytest.mark.parametrize("verb", ["edit", "run_now", "cancel", "requeue"])
def test_a_key_that_holds_no_hash(ask: Asker, verb: str) -> None:
    """The key is named as broken, in every verb, and nothing is changed."""
    store = ask.store
    store.redis.set(store.task_key("x"), "foreign")
    store.redis.zadd(store.type.due, {"x": 4_102_444_800_000})
    with pytest.raises(Conflict, match="the key of job/x does not hold a hash"):
        ask(verb, "job", "x", **({"delay": 5} if verb == "edit" else {}))


def test_a_merge_into_a_broken_payload(ask: Asker) -> None:
    """It is refused with what to do; a whole new payload mends the task."""
    ask.store.plain("x", 4_102_444_800_000, b"[1, 2")
    with pytest.raises(Conflict, match="nothing can be merged into job/x") as caught:
        ask("edit", "job", "x", merge={"a": 1})
    assert caught.value.hint == "give it a whole new payload"
    assert ask("edit", "job", "x", payload={"a": 1}).payload == {"a": 1}


def test_a_merge_meets_a_change_of_others(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is edited, or written over, between the reading and the storing is read again:
    neither change is lost."""
    store = ask.store
    ask("schedule", "job", {"a": 1}, id="x", delay=NEVER)
    changes: list[Callable[[], Any]] = [
        lambda: store.edit("x", payload=b'{"a":2}'),
        lambda: store.redis.hset(store.task_key("x"), "payload", '{"a":3,"c":4}'),
    ]
    real = usercalls.edit

    def edit(*args: Any) -> Any:
        if changes:
            change = changes.pop(0)
            monkeypatch.setattr(usercalls, "edit", real)
            change()
            monkeypatch.setattr(usercalls, "edit", edit)
        return real(*args)

    monkeypatch.setattr(usercalls, "edit", edit)
    task = ask("edit", "job", "x", merge={"b": 9})
    assert (task.payload, task.revision) == ({"a": 3, "b": 9, "c": 4}, 2)


def test_run_now(ask: Asker) -> None:
    """What waits is due at once."""
    task = ask("schedule", "job", id="x", delay=NEVER)
    assert ask("run_now", "job", "x").due_ms < task.due_ms - 3_000_000
    assert ask.store.take("x").due_ms == task.due_ms


# --- whole types


def test_pause_and_resume(ask: Asker) -> None:
    """A pause has a reason, who and since when; stats show it; resume tells if there was one."""
    assert ask("paused") == []
    first = ask("pause", "job", reason="smtp is down")
    assert (first.type, first.reason) == ("job", "smtp is down")
    assert "@" in first.who
    again = ask("pause", "job")
    assert (again.since_ms, again.reason) == (first.since_ms, "")
    ask.store.redis.sadd(ask.store.keys.types, "other", "broken")
    ask.store.redis.set(f"{ask.store.namespace}:{{broken}}:meta", "x", px=60_000)
    assert ask("paused") == ask("paused", "job") == [again]
    assert isinstance(again, TypePause)
    ask.store.redis.srem(ask.store.keys.types, "broken")
    assert {found.type: found.paused for found in ask("stats")} == {"job": True, "other": False}
    assert [ask("resume", "job"), ask("resume", "job")] == [True, False]
    assert ask("paused", "job") == []


@pytest.mark.parametrize("reason", ["two\nlines", "x" * 501, 7, "\x1b[31m"])
def test_a_reason_is_one_line(ask: Asker, reason: Any) -> None:
    """What could forge a line is refused."""
    with pytest.raises(InvalidInput, match="reason is"):
        ask("pause", "job", reason=reason)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("pause", {}),
        ("resume", {}),
        ("paused", {}),
        ("dead", {}),
        ("dead_groups", {}),
        ("requeue_dead", {}),
        ("purge", {"state": "done"}),
        ("purge", {"state": "dead", "dry_run": True}),
        ("events", {}),
        ("follow", {"take": 1}),
        ("export", {}),
    ],
)
def test_a_type_that_nobody_knows(ask: Asker, verb: str, options: Any) -> None:
    """Each verb on a type names the nearest, and makes nothing of its own."""
    before = ask.store.dump()
    with pytest.raises(InvalidInput, match="there is no task type 'jbo'") as caught:
        ask(verb, "jbo", **options)
    assert caught.value.hint == "did you mean job?"
    assert ask.store.dump() == before


@pytest.mark.parametrize("state", ["done", "cancelled", "dead", "scheduled"])
def test_purge_counts_first(ask: Asker, state: str) -> None:
    """A dry run tells the number that the purge then removes, over many pages; the rest stays."""
    store = ask.store
    for number in range(3):
        for other in ("done", "cancelled", "dead", "scheduled", "running"):
            into(store, other, f"{other}{number}")
    assert ask("purge", "job", state=state, older_than="1h") == 0
    assert ask("purge", "job", state=state, dry_run=True) == 3
    assert ask("purge", "job", state=State(state)) == 3
    assert ask("purge", "job", state=state) == 0
    left = {task.id for task in ask("list", "job")}
    assert len(left) == 12
    assert f"{state}0" not in left


def test_purge_of_many(ask: Asker) -> None:
    """More than one call removes, of two states that share an index."""
    store = ask.store
    store.kind = replace(store.kind, keep_done=Keep(9_999, 10**12))
    ask("schedule_many", "job", [{}] * 1300)
    found = ask("list", "job", limit=2000)
    for task in found[::2]:
        store.cancel(task.id)
    while claims := store.claim(100).claims:
        store.finish_all(*map(verdict, claims))
    assert ask("purge", "job", state="cancelled", dry_run=True) == 650
    assert ask("purge", "job", state="cancelled") == 650
    assert ask("purge", "job", state="done") == 650
    assert store.redis.zcard(store.type.done) == 0


@pytest.mark.parametrize(
    "options",
    [{"state": "running"}, {"state": "gone"}, {"state": None}, {"state": "done", "older_than": -1}],
)
def test_what_purge_refuses(ask: Asker, options: Any) -> None:
    """What runs is never purged; the state must be said."""
    with pytest.raises(InvalidInput):
        ask("purge", "job", **options)


def test_older_than_is_when_it_ended(ask: Asker) -> None:
    """Only what ended so long ago goes; of scheduled tasks what was due so long ago."""
    store = ask.store
    for state in ("done", "scheduled"):
        into(store, state, state)
    store.redis.zadd(store.type.done, {"old": 1_000_000_000_000})
    store.plain("late", 1_600_000_000_000)
    assert ask("purge", "job", state="done", older_than="1d", dry_run=True) == 1
    assert ask("purge", "job", state="done", older_than="1d") == 1
    assert ask("purge", "job", state="scheduled", older_than="1d") == 1
    assert {task.id for task in ask("list", "job")} == {"done", "scheduled"}


def test_nodes(ask: Asker) -> None:
    """Daemons with a sign of life within a minute; what has left, or is broken, is not told."""
    store, keys = ask.store, ask.store.keys
    assert ask("nodes") == []
    now = int(store.redis.time()[0]) * 1000
    for name, seen in (("a1", now), ("b2", now - 30_000), ("old", now - 61_000), ("gone", now)):
        store.redis.zadd(keys.nodes, {name: seen})
        if name != "gone":
            for field, value in (("host", name), ("pid", "7"), ("types", "job b")):
                store.redis.hset(keys.node(name), field, value)
            store.redis.expire(keys.node(name), 60)
    store.redis.expire(keys.nodes, 60)
    found = ask("nodes")
    assert [(node.id, node.pid, node.types) for node in found] == [
        ("a1", 7, ("b", "job")),
        ("b2", 7, ("b", "job")),
    ]
    assert found[0].seen_ms == now


# --- what died


def test_dead_are_listed_newest_first(ask: Asker) -> None:
    """All or those with a text in their error, in any case."""
    store = ask.store
    for number in range(3):
        die(store, f"a{number}", "Timeout", f"after {number} s")
    die(store, "b", "SMTPError", "550 No Such Mailbox")
    assert [task.id for task in ask("dead", limit=2)] == ["b", "a2"]
    assert [task.id for task in ask("dead", "job", error="timeout: AFTER")] == ["a2", "a1", "a0"]
    assert [task.id for task in ask("dead", "job", error="after # s")] == ["a2", "a1", "a0"]
    assert ask("dead", "job", error="nothing like it") == []
    store.redis.zadd(store.type.dead, {"broken": 9_000_000_000_000})
    store.redis.set(store.task_key("broken"), "x")
    assert ask("dead", limit=1)[0].error["kind"] == "wrong_type"


def test_dead_groups(ask: Asker) -> None:
    """Errors that differ in numbers and ids only are one group; the largest comes first."""
    store = ask.store
    for number in range(3):
        die(store, f"a{number}", "Timeout", f"after {number} s")
    die(store, "b", "KeyError", "0123456789abcdef01234567")
    die(store, "c", "KeyError", "9f2c1b9e-5d0a-4c0e-8f57-1c2d3e4f5a6b")
    die(store, "d", "Multi", "two\\nlines")
    groups = ask("dead_groups")
    assert [(group.error, group.count, group.example_id) for group in groups] == [
        ("Timeout: after # s", 3, "a2"),
        ("KeyError: #", 2, "c"),
        ("Multi: two lines", 1, "d"),
    ]
    assert sum(group.count for group in ask("dead_groups", "job", limit=2)) == 2


def test_requeue_dead(ask: Asker) -> None:
    """The oldest first, those with the error, up to a limit; nothing else is touched."""
    store = ask.store
    for number in range(250):
        die(store, f"a{number}", "Timeout" if number % 2 else "Other", "x")
    into(store, "done", "fine")
    assert ask("requeue_dead", "job", error="timeout", limit=2) == Requeued(2, None)
    assert {task.id for task in ask("list", "job", state="scheduled")} == {"a1", "a3"}
    assert ask("requeue_dead", "job", error="timeout").requeued == 123
    assert ask("requeue_dead", "job").requeued == 125
    assert ask("requeue_dead", "job").requeued == 0
    assert store.state("fine") == "done"


def test_requeue_dead_leaves_what_dies_meanwhile(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that die again at once are not scheduled for ever."""
    store = ask.store
    for number in range(3):
        die(store, f"a{number}", "E", "x")
    real = usercalls.requeue

    def requeue(*args: Any, **options: Any) -> Any:
        die(store, f"b{len(store.events())}", "E", "x")
        return real(*args, **options)

    monkeypatch.setattr(usercalls, "requeue", requeue)
    assert ask("requeue_dead", "job").requeued == 3
    assert store.redis.zcard(store.type.dead) == 1


def test_requeue_dead_passes_broken_keys(ask: Asker) -> None:
    """A dead entry that holds no hash stays, and hinders nobody."""
    store = ask.store
    die(store, "a", "E", "x")
    die(store, "b", "E", "x")
    store.redis.delete(store.task_key("a"))
    store.redis.set(store.task_key("a"), "foreign")
    assert ask("requeue_dead", "job").requeued == 1
    assert store.indexes("a") == ["dead"]


class TestCanary:
    """One dead task goes first."""

    @pytest.fixture
    def served(self, ask: Asker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Three dead tasks, and a worker that ends runs as the list says, while a client waits."""
        store = ask.store
        for number in range(3):
            die(store, f"a{number}", "Timeout", "x")
        ends: list[str] = []
        real = usercalls.read

        def read(*args: Any, **options: Any) -> Any:
            for claim in store.claim().claims if ends else []:
                wait = {"delay_ms": 60_000} if ends[0] == "retry" else {}
                detail = "" if ends[0] == "done" else '{"kind":"Timeout","message":"again"}'
                store.finish(claim, ends.pop(0), detail=detail, **wait)
            return real(*args, **options)

        monkeypatch.setattr(usercalls, "read", read)
        return ends

    def test_its_success_lets_the_others_go(self, ask: Asker, served: list[str]) -> None:
        """All are scheduled, and the canary told."""
        served.append("done")
        answer = ask("requeue_dead", "job", canary=True)
        assert (answer.requeued, answer.canary.id, answer.canary.state) == (3, "a0", "done")
        assert ask("dead") == []

    @pytest.mark.parametrize(
        ("end", "words"),
        [
            ("dead", r"canary job/a0 is dead again \(Timeout: again\)"),
            ("retry", r"canary job/a0 is scheduled after 0\.3 s \(Timeout: again\)"),
            ("", r"canary job/a0 is scheduled after 0\.3 s"),
        ],
    )
    def test_another_end_stops(self, ask: Asker, served: list[str], end: str, words: str) -> None:
        """The others stay dead, and the error says why."""
        served += [end] if end else []
        with pytest.raises(Conflict, match=words) as caught:
            ask("requeue_dead", "job", canary=True, canary_wait_s=0.3)
        assert caught.value.hint == "nothing else was scheduled again"
        assert {task.id for task in ask("dead")} >= {"a1", "a2"}

    def test_a_paused_type_has_none(self, ask: Asker, served: list[str]) -> None:
        """Nothing would run: told before anything is changed."""
        assert served == []
        ask("pause", "job")
        with pytest.raises(Conflict, match="job is paused: a canary would not run"):
            ask("requeue_dead", "job", canary=True)
        assert len(ask("dead")) == 3

    def test_without_any_dead(self, ask: Asker) -> None:
        """There is nothing to try, and nothing to do."""
        assert ask("requeue_dead", "job", canary=True) == Requeued(0, None)


# --- what happened


def test_events_by_task_and_cursor(ask: Asker) -> None:
    """The newest without a start; behind a cursor, from a time or an age on the first ones."""
    store = ask.store
    for number in range(5):
        ask("schedule", "job", id=f"t{number}", delay=NEVER)
    store.cancel("t1")
    found = ask("events", "job")
    assert [(event.kind, event.ids) for event in found[-2:]] == [
        ("added", ("t4",)),
        ("cancelled", ("t1",)),
    ]
    assert [event.kind for event in ask("events", id="t1")] == ["added", "cancelled"]
    assert ask("events", "job", limit=2) == found[-2:]
    assert ask("events", "job", since=found[2].cursor) == found[3:]
    assert ask("events", since=found[2].cursor, limit=1) == found[3:4]
    assert ask("events", since="1h") == ask("events", since=datetime(2020, 1, 1, tzinfo=UTC))
    assert ask("events", since="2090-01-01 00:00") == []
    with pytest.raises(WhenError):
        ask("events", since="last week")


def test_follow_gives_what_comes(ask: Asker) -> None:
    """From a start on: first what is there, then what comes, in order."""
    for number in range(3):
        ask("schedule", "job", id=f"t{number}", delay=NEVER)
    found = ask("follow", since="1h", take=3)
    assert [event.ids for event in found] == [("t0",), ("t1",), ("t2",)]
    found = ask("follow", "job", id="t2", since=found[0].cursor, take=1)
    assert found[0].ids == ("t2",)


def test_export_gives_each_task_once(ask: Asker) -> None:
    """In every state, also an id that is in two indexes; by state too."""
    store = ask.store
    states = ["scheduled", "running", "done", "cancelled", "dead"]
    for state in states:
        into(store, state, state)
    store.plain("done", 4_102_444_800_000)
    store.twice.add("done")
    found = ask("export")
    assert sorted(task.id for task in found) == sorted(states)
    assert {task.id: task.state for task in found}["done"] == "scheduled"
    for state in states:
        expected = {"scheduled": {"scheduled", "done"}, "done": set()}.get(state, {state})
        assert {task.id for task in ask("export", "job", state=state)} == expected
    ask("schedule_many", "job", [{} for _ in range(450)])
    assert len({task.id for task in ask("export", "job")}) == 455


def test_export_gives_a_run_once_that_is_renewed(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal moves a run's lease ahead of the reader; it is told once all the same."""
    store = ask.store
    for number in range(4):
        store.add(f"r{number}")
    claims = store.claim().claims
    real, leases = usercalls.read, itertools.count(60_000, 1_000)

    def read(*args: Any) -> Any:
        store.renew(*claims, lease_ms=next(leases))
        return real(*args)

    monkeypatch.setattr(usercalls, "read", read)
    monkeypatch.setattr("scheduld.client.export.READ_AT_ONCE", 2)
    found = [task.id for task in ask("export", "job")]
    assert sorted(found) == ["r0", "r1", "r2", "r3"]


def test_namespaces_do_not_mix(ask: Asker) -> None:
    """What another namespace holds is neither told nor touched."""
    other = fresh_namespace()
    with Client(ask.store.server.url, namespace=other) as client:
        client.schedule("job", id="theirs", allow_unknown=True)
        client.cancel("job", "theirs")
        assert ask("purge", "job", state="cancelled") == 0
        assert ask("events") == ask("export") == []
        assert client.get("job", "theirs").state == "cancelled"
