"""Stored tasks as people read them: states, instants, counters, and broken records."""

from __future__ import annotations

import json
import pickle
from copy import copy
from dataclasses import FrozenInstanceError, asdict, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.model import State, Task
from scheduld.names import new_id
from scheduld.store.answers import RawTask, to_ms
from scheduld.store.records import state_of, to_task

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = 1_790_000_000_000
FENCE = NOW * 1000 + 7
INDEXES = ("due_ms", "lease_end_ms", "finished_ms", "died_ms")


def raw(
    fields: dict[str, bytes] | None = None,
    raw_id: bytes = b"x",
    key_type: str = "hash",
    **scores: Any,
) -> RawTask:
    """A stored task with the given scores."""
    at_each = {index: scores.get(index) for index in INDEXES}
    return RawTask(
        raw_id=raw_id,
        now_ms=NOW,
        fields={"payload": b"{}"} if fields is None else fields,
        key_type=key_type,
        **at_each,
    )


def told(fields: dict[str, bytes] | None = None, **options: Any) -> dict[str, Any]:
    """The task as JSON, without what is absent."""
    task = to_task("job", raw(fields, **options))
    assert task
    return {name: value for name, value in task.to_dict().items() if value is not None}


def at(indexes: Iterable[str]) -> dict[str, Any]:
    """The same score in each of the indexes."""
    return dict.fromkeys(indexes, NOW)


EMPTY = {"failed": 0, "priority": 0, "releases": 0, "interruptions": 0, "revision": 0}


def test_a_pending_task() -> None:
    """A task that waits has its payload, its due, and nothing else."""
    assert told({"payload": b'{"a":[]}'}, due_ms=NOW) == {
        "type": "job",
        "id": "x",
        "state": "scheduled",
        "due": "2026-09-21T14:13:20.000Z",
        "due_ms": NOW,
        "payload": {"a": []},
        **EMPTY,
    }


def test_a_running_task() -> None:
    """A run tells its nominal due, its attempt, its owner, and when it was claimed."""
    fields = {"payload": b"{}", "fence": b"%d" % FENCE, "owner": b"r1", "due": b"%d" % (NOW - 9)}
    task = told({**fields, "failed": b"2"}, lease_end_ms=NOW + 1)
    assert (task["state"], task["due_ms"], task["attempt"]) == ("running", NOW - 9, 3)
    assert (task["owner"], task["started_ms"], task["fence"]) == ("r1", NOW, FENCE)
    assert told({**fields, "started": b"%d" % (NOW + 5)}, lease_end_ms=1)["started_ms"] == NOW + 5


def test_a_run_that_is_asked_to_stop() -> None:
    """It tells since when, and whether only the run of a periodic task is meant."""
    fields = {"payload": b"{}", "fence": b"%d" % FENCE, "cancel": b"%d" % NOW}
    task = told(fields, lease_end_ms=NOW + 1)
    assert task["cancelling"] == {"at_ms": NOW, "this_run": False}
    task = told({**fields, "this_run": b"1"}, lease_end_ms=NOW + 1)
    assert task["cancelling"] == {"at_ms": NOW, "this_run": True}
    assert "cancelling" not in told(fields, due_ms=NOW)


def test_a_task_held_early_is_scheduled() -> None:
    """A claim ahead of the due does not show: no owner, no start, the due is the one it had."""
    fields = {"fence": b"%d" % FENCE, "owner": b"r1", "due": b"5", "early": b"%d" % (NOW + 40)}
    task = told(fields, lease_end_ms=NOW + 1)
    assert (task["state"], task["due_ms"]) == ("scheduled", NOW + 40)
    assert not {"owner", "started_ms", "attempt"} & set(task)


def test_a_retry_wait_is_scheduled() -> None:
    """Between attempts the task tells when it is next due, and how it failed."""
    error = b'{"kind":"E","message":"why"}'
    fields = {"due": b"%d" % NOW, "failed": b"1", "error": error, "owner": b"r1", "settled": b"1"}
    task = told(fields, due_ms=NOW + 500)
    assert (task["state"], task["due_ms"], task["failed"]) == ("scheduled", NOW + 500, 1)
    assert task["error"] == {"kind": "E", "message": "why", "traceback": None}
    assert "owner" not in task


def test_an_ended_task() -> None:
    """A success tells its result, its attempt and when it ended."""
    fields = {"result": b'{"sent":1}', "due": b"%d" % NOW, "failed": b"1"}
    task = told(fields, finished_ms=NOW + 9)
    assert (task["state"], task["outcome"], task["result"]) == ("done", "success", {"sent": 1})
    assert (task["finished_ms"], task["attempt"], task["due_ms"]) == (NOW + 9, 2, NOW)


def test_a_cancelled_task() -> None:
    """An outcome makes the difference between done and cancelled."""
    task = told({"outcome": b"cancelled"}, finished_ms=NOW)
    assert (task["state"], task["outcome"]) == ("cancelled", "cancelled")
    assert "attempt" not in task


@pytest.mark.parametrize(("failed", "attempt"), [(b"0", None), (b"3", 3)])
def test_a_dead_task(failed: bytes, attempt: int | None) -> None:
    """A dead task tells its last attempt, if it had one, and when it died."""
    fields = {"outcome": b"dead", "failed": failed, "error": b'{"kind":"E"}'}
    task = told(fields, died_ms=NOW)
    assert (task["state"], task.get("attempt"), task["finished_ms"]) == ("dead", attempt, NOW)


@pytest.mark.parametrize(
    ("scores", "state"),
    [
        (INDEXES, State.RUNNING),
        (("due_ms", "finished_ms", "died_ms"), State.SCHEDULED),
        (("finished_ms", "died_ms"), State.DEAD),
        (("finished_ms",), State.DONE),
        ((), None),
    ],
)
def test_one_state_where_an_id_is_in_two_indexes(
    scores: tuple[str, ...], state: State | None
) -> None:
    """For the moment in which a plain add meets an old record, the more active state counts."""
    assert state_of(raw(**at(scores))) is state


def test_what_is_in_no_index_is_no_task() -> None:
    """A hash alone is nothing to tell."""
    assert to_task("job", raw()) is None


def test_a_new_life_hides_the_old_record() -> None:
    """An ended id that a plain add scheduled again shows none of its old outcome."""
    fields = {"payload": b'{"n":2}', "outcome": b"dead", "failed": b"5", "error": b"{}"}
    task = told({**fields, "due": b"7", "fence": b"8"}, due_ms=NOW, died_ms=NOW - 5)
    assert task == {**told({"payload": b'{"n":2}'}, due_ms=NOW)}


def test_a_successor() -> None:
    """What comes after the run is shown beside it."""
    fields = {"next": b"%d" % (NOW + 9), "next_payload": b'{"n":2}', "next_token": b"T"}
    assert told(fields, lease_end_ms=NOW)["successor"] == {"due_ms": NOW + 9, "payload": {"n": 2}}
    assert told({"next": b"5"}, lease_end_ms=NOW)["successor"] == {"due_ms": 5, "payload": {}}


def test_when_a_task_was_added() -> None:
    """A generated id, or else the token of the add, tells when; another name does not."""
    made = new_id(NOW)
    assert told(raw_id=made.encode(), due_ms=NOW)["added_ms"] == NOW
    assert told({"token": made.encode()}, due_ms=NOW)["added_ms"] == NOW
    assert "added_ms" not in told({"token": b"mine"}, due_ms=NOW)


@pytest.mark.parametrize("payload", [b"{", b"[]", b"null", b"\xff", b"NaN", b'{"a":NaN}', b""])
def test_a_payload_that_cannot_be_read(payload: bytes) -> None:
    """A broken payload is told as an error of the task, and hides no other task."""
    task = told({"payload": payload}, due_ms=NOW)
    assert "payload" not in task
    assert task["error"]["kind"] == "payload"
    stored = told({"payload": payload, "error": b'{"kind":"E"}'}, died_ms=NOW)
    assert stored["error"]["kind"] == "E"


def test_no_payload_is_an_empty_one() -> None:
    """A hash without the field has the payload {}."""
    assert told({}, due_ms=NOW)["payload"] == {}


def test_a_key_of_another_type() -> None:
    """A dead entry whose key is no hash names what is there."""
    task = told({}, died_ms=NOW, key_type="list")
    assert task["error"]["message"] == "the key of the task holds a list, not a hash"


@pytest.mark.parametrize(
    ("score", "ms"),
    [
        (b"", None),
        (None, None),
        (b"inf", None),
        (b"-inf", None),
        (b"nan", None),
        (b"x", None),
        (b"1e400", None),
        (b"1790000000000.5", NOW),
        (b"1.79e12", NOW),
        (12, 12),
    ],
)
def test_scores(score: bytes | int | None, ms: int | None) -> None:
    """A score is an instant unless it is no finite number."""
    assert to_ms(score) == ms


COUNTERS = ["due", "failed", "releases", "interruptions", "fence", "early", "started", "next"]
TEXTS = ["payload", "owner", "outcome", "result", "error", "next_payload", "token", "cancel"]


@given(
    st.dictionaries(
        st.sampled_from([*COUNTERS, *TEXTS]),
        st.one_of(
            st.binary(max_size=12), st.sampled_from([b"-1", b"1e999", b"{}", b"[]", b"9" * 40])
        ),
    ),
    st.binary(max_size=8),
    st.sets(st.sampled_from(INDEXES)),
)
def test_any_record_can_be_told(fields: dict[str, bytes], raw_id: bytes, scores: set[str]) -> None:
    """Whatever other programs wrote into a hash, it can be shown and printed as JSON."""
    task = to_task("job", raw(fields, raw_id=raw_id, **at(scores)))
    assert (task is None) == (not scores)
    if task:
        assert json.dumps(task.to_dict())


@given(
    fields=st.sets(st.sampled_from(["payload", "token"])),
    payload=st.sampled_from([b"{}", b'{"n":[1]}', b"[1]", b"\xff"]),
    key_type=st.sampled_from(["hash", "none", "string"]),
    scores=st.sets(st.sampled_from(INDEXES), min_size=1),
)
def test_a_task_is_read_alike_with_a_field_that_says_nothing(
    fields: set[str], payload: bytes, key_type: str, scores: set[str]
) -> None:
    """What plain tasks are read by, a short way, gives what the long way gives."""
    values = {"payload": payload, "token": new_id(NOW).encode()}
    plain = {name: values[name] for name in fields}
    places = at(scores)
    short = to_task("t", raw(plain, key_type=key_type, **places))
    long = to_task("t", raw({**plain, "of_a_later_version": b"1"}, key_type=key_type, **places))
    assert short == long
    assert repr(short) == repr(long)


def test_an_added_task_is_like_any_other() -> None:
    """The short way to make one gives what the long way gives: equal, frozen, copied, told."""
    short = Task.scheduled("t", "x", 5, 4, {"n": 1})
    long = Task(
        type="t",
        id="x",
        state=State.SCHEDULED,
        due_ms=5,
        added_ms=4,
        payload={"n": 1},
        created=True,
    )
    assert short == long
    assert repr(short) == repr(long)
    assert short != replace(long, due_ms=6)
    assert asdict(short) == asdict(long)
    assert pickle.loads(pickle.dumps(short)) == copy(short) == replace(short) == long
    assert (short.ref, short.failed, short.error, short.created) == ("t/x", 0, None, True)
    with pytest.raises(FrozenInstanceError):
        short.id = "y"  # type: ignore[misc]
