"""note: progress and log lines of runs, kept with their tasks while the lease is held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from scheduld.notes import LOG_BYTES, LOG_LINES, line
from scheduld.store.notecalls import MOST_NOTES, Note, note
from scheduld.store.records import to_task
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from scheduld.model import Claim, Task
    from tests.support.store import Store


def told(store: Store, claim: Claim, *texts: str, first: int = 0, progress: str = "") -> bool:
    """Note lines of a run, each of its own millisecond."""
    lines = [line(first + number, text) for number, text in enumerate(texts)]
    one = Note(claim.raw_id, claim.fence, progress, first, lines)
    (kept,) = store.run(note(store.caller(), store.type, [one]))
    return kept


def task(store: Store, task_id: str) -> Task:
    """Read a task as users see it."""
    found = to_task("job", store.read(task_id))
    assert found is not None
    return found


def texts(store: Store, task_id: str) -> list[str]:
    """Read the texts of the log."""
    return [one["text"] for one in task(store, task_id).log or []]


def test_notes_are_kept_while_it_runs_and_after(store: Store) -> None:
    """The newest progress, and lines in their order; the end of the run keeps both."""
    store.add("x")
    claim = store.take("x")
    assert told(store, claim, "a\nb", "é\u2028", progress='{"at":[1.0]}')
    assert told(store, claim, "c", first=2, progress="[]")
    store.finish(claim)
    assert texts(store, "x") == ["a\nb", "é\u2028", "c"]
    found = task(store, "x")
    assert (found.state, found.progress) == ("done", [])
    assert found.log is not None
    assert found.log[0]["at_ms"] == 0


def test_a_repeat_adds_no_line(store: Store) -> None:
    """A call whose answer was lost is sent again, maybe with more lines: none is there twice."""
    store.add("x")
    claim = store.take("x")
    assert told(store, claim, "a", "b")
    assert told(store, claim, "a", "b")
    assert told(store, claim, "a", "b", "c")
    assert told(store, claim, "b", "c", "d", first=1)
    assert texts(store, "x") == ["a", "b", "c", "d"]


def test_the_lines_of_attempts_follow_each_other(store: Store) -> None:
    """A retry's log stands behind that of the attempt before it."""
    store.add("x")
    claim = store.take("x")
    told(store, claim, "a", "b", progress="1")
    store.finish(claim, "retry")
    claim = store.take("x")
    assert task(store, "x").progress == 1
    told(store, claim, "c")
    assert texts(store, "x") == ["a", "b", "c"]


def test_a_lost_run_tells_nothing_more(store: Store) -> None:
    """Notes are refused once the lease is lost, ended, or claimed again."""
    store.add("x")
    old = store.lose("x")
    assert not told(store, old, "late", progress="1")
    new = store.take("x", node="r2")
    assert not told(store, old, "late")
    assert told(store, new, "mine")
    store.finish(new)
    assert not told(store, new, "after the end")
    assert texts(store, "x") == ["mine"]
    store.redis.delete(store.task_key("x"))
    store.redis.zrem(store.type.done, "x")
    assert not told(store, new, "gone")
    assert not store.redis.exists(store.task_key("x"))


@pytest.mark.parametrize("begin", ["requeue", "replace", "plain"])
def test_a_new_life_begins_without_notes(store: Store, begin: str) -> None:
    """requeue, replace and a plain ZADD of an ended id drop what was told."""
    store.add("x")
    claim = store.take("x")
    told(store, claim, "old", progress="1")
    store.finish(claim)
    if begin == "requeue":
        store.requeue("x")
    elif begin == "replace":
        store.add("x", on_conflict="replace")
    else:
        store.redis.zadd(store.type.due, {"x": 0})
    store.take("x")
    found = task(store, "x")
    assert (found.progress, found.log) == (None, None)


def test_the_log_is_capped(store: Store) -> None:
    """The last 200 lines are kept, and never more than 16 KB, in one call or in many."""
    store.add("x")
    claim = store.take("x")
    for first in range(0, 300, 50):
        told(store, claim, *(str(first + number) for number in range(50)), first=first)
    assert texts(store, "x") == [str(number) for number in range(300 - LOG_LINES, 300)]
    for first in range(300, 340):
        told(store, claim, "y" * 1_900, first=first)
    stored = store.fields("x")["log"]
    assert len(stored) <= LOG_BYTES
    assert len(texts(store, "x")) == 8


def test_foreign_fields_do_no_harm(store: Store) -> None:
    """What other programs put into the fields is shown as far as it can be, and pushed out."""
    store.add("x")
    claim = store.take("x")
    store.redis.hset(
        store.task_key("x"),
        mapping={"log": b"\xff no json\n[1]\n" + b"z" * 100_000, "logged": "x", "progress": "{"},
    )
    found = task(store, "x")
    assert (found.progress, found.log) == (None, [])
    assert told(store, claim, "fine")
    assert texts(store, "x") == ["fine"]
    assert json.dumps(task(store, "x").to_dict())
    assert len(store.fields("x")["log"]) <= LOG_BYTES


def test_a_wrong_type_is_refused_alone(store: Store) -> None:
    """A key that is no hash refuses its own notes, and no others'."""
    store.add("x")
    store.add("y")
    claims = {claim.id: claim for claim in store.claim().claims}
    store.redis.delete(store.task_key("x"))
    store.redis.set(store.task_key("x"), "foreign")
    notes = [Note(claim.raw_id, claim.fence, "1", 0, ()) for claim in claims.values()]
    kept = store.run(note(store.caller(), store.type, notes))
    assert dict(zip(claims, kept, strict=True)) == {"x": False, "y": True}


def test_a_call_takes_so_many_runs(store: Store) -> None:
    """More are a programming error, told before anything is sent."""
    with pytest.raises(ValueError, match="at most 100 notes, not 101"):
        note(store.caller(), store.type, [Note(b"x", 1, "", 0, ())] * (MOST_NOTES + 1))
