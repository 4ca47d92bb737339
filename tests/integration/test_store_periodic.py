"""The ends of occurrences of periodic tasks, in one step with what follows them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scheduld.store.answers import Decision, Edited, Renewed, Settled
from scheduld.store.records import to_task
from scheduld.store.usercalls import Skip
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from scheduld.model import Claim, Task

HOUR = 3_600_000
HOURLY = "every=1h"
STAMP = "2026-09-21T14:13:20Z"
NEW = b'{"n":2}'


def begin(store: Store, load: str = HOURLY, **options: str) -> Claim:
    """Add an hourly task that is due now, and claim it."""
    store.add("x", NOW, load=load, **options)  # type: ignore[arg-type]
    return store.take("x")


def task_of(store: Store, task_id: str = "x") -> Task:
    """The task as people read it."""
    task = to_task("job", store.read(task_id))
    assert task
    return task


def kinds(store: Store) -> list[str]:
    """All that happened, in order."""
    return [kind for event in store.events() for kind in event["e"].split()]


def test_a_claim_tells_what_it_is_a_part_of(store: Store) -> None:
    """Of periodic tasks and those of schedules it has the fields; of a one-off none."""
    claim = begin(store, "every=1h\nuntil=1790010000000\nmax_runs=3\nzone=Europe/Madrid")
    assert claim.fields == {
        "every": b"1h",
        "until": b"1790010000000",
        "max_runs": b"3",
        "zone": b"Europe/Madrid",
        "anchor": str(NOW).encode(),
    }
    assert (claim.is_periodic, claim.over, claim.schedule, claim.tick_ms) == (True, "", None, None)
    store.add("y", token="T")
    store.add("z", load="priority=3")
    store.add("s")
    store.redis.hset(store.task_key("s"), mapping={"schedule": "daily", "tick": str(NOW)})
    found = {claim.id: claim for claim in store.claim().claims}
    assert found["y"].fields is found["z"].fields is None
    assert (found["s"].schedule, found["s"].tick_ms) == ("daily", NOW)
    assert not found["s"].is_periodic


def test_an_answer_that_was_lost_tells_it_again(store: Store) -> None:
    """A repeated claim answers the same of a periodic task."""
    store.add("x", NOW, load=HOURLY)
    first = store.claim(sequence=5).claims
    assert store.claim(sequence=5).claims == first
    assert first[0].fields


def test_the_end_of_a_run_is_the_begin_of_a_wait(store: Store) -> None:
    """Done, counted, its result kept, and due at the next instant, in one step."""
    claim = begin(store)
    store.pass_ms(1_000)
    sent = store.final(claim, verdict(claim, detail="7"))
    assert store.finish_all(sent) == [Settled.STORED]
    task = task_of(store)
    assert (task.state, task.due_ms, task.runs, task.missed) == ("scheduled", NOW + HOUR, 1, 0)
    assert (task.result, task.every, task.payload) == (7, "1h", {"n": 1})
    assert kinds(store)[-2:] == ["done", "rescheduled"]
    store.pass_ms(HOUR)
    again = store.take("x")
    assert (again.due_ms, again.failed, again.payload) == (NOW + HOUR, 0, b'{"n":1}')
    assert store.occur(again) == Settled.STORED
    assert task_of(store).result is None


def test_a_repeated_end_counts_once(store: Store) -> None:
    """An answer that was lost, and a verdict of a claim that is not the newest, change nothing."""
    claim = begin(store)
    assert store.occur(claim, patch={"n": 2}) == Settled.STORED
    before = store.dump()
    assert store.occur(claim, patch={"n": 2}) == Settled.ALREADY
    assert store.renew(claim) == [Renewed.LOST]
    assert store.dump() == before
    store.pass_ms(HOUR)
    newer = store.take("x")
    assert store.occur(claim) == Settled.REFUSED
    assert store.occur(newer) == Settled.STORED
    assert task_of(store).runs == 2


@pytest.mark.parametrize("kind", ["done", "dead"])
def test_instants_that_were_passed_over_are_counted(store: Store, kind: str) -> None:
    """They are told in one event and never made up for, and the grid stays where it is."""
    claim = begin(store)
    store.pass_ms(3 * HOUR + 5)
    assert store.occur(claim, kind) == Settled.STORED
    task = task_of(store)
    assert (task.due_ms, task.missed, task.runs) == (NOW + 4 * HOUR, 3, 1)
    assert "missed: 3 of x" in store.last_event()["error"]


def test_a_patch_goes_into_the_payload(store: Store) -> None:
    """What it says of the next run is stored with the end of this one."""
    claim = begin(store)
    store.occur(claim, patch={"n": None, "m": {"a": 1}})
    assert store.fields("x")["payload"] == b'{"m":{"a":1}}'


@pytest.mark.parametrize("change", ["edit", "hset", "edit back"])
def test_an_edit_during_the_run_counts_more_than_the_patch(store: Store, change: str) -> None:
    """Whoever changed the task meanwhile keeps the payload; the patch is left out, and told."""
    claim = begin(store)
    if change == "hset":
        store.redis.hset(store.task_key("x"), "payload", NEW)
    else:
        assert store.edit("x", payload=NEW) == Edited(1, "running", 1)
    if change == "edit back":
        store.edit("x", payload=b'{"n":1}')
    store.occur(claim, patch={"n": 7})
    assert store.fields("x")["payload"] == (b'{"n":1}' if change == "edit back" else NEW)
    assert "patch_dropped" in store.last_event()["e"]
    assert task_of(store).state == "scheduled"


def test_a_time_given_during_the_run_is_the_next_ones(store: Store) -> None:
    """It moves one occurrence; the one after that is where it would have been."""
    claim = begin(store)
    store.edit("x", at_ms=NOW + 5_000)
    assert task_of(store).state == "running"
    store.occur(claim, patch={"n": 2})
    # Nobody has given it another payload.
    assert (task_of(store).due_ms, task_of(store).payload) == (NOW + 5_000, {"n": 2})
    store.pass_ms(5_000)
    moved = store.take("x")
    assert moved.due_ms == NOW + 5_000
    store.occur(moved)
    assert task_of(store).due_ms == NOW + 2 * HOUR
    assert task_of(store).missed == 0


@pytest.mark.parametrize("until", [NOW, NOW + 5_000])
def test_a_time_given_during_the_last_run_is_one_more(store: Store, until: int) -> None:
    """It was accepted, so that it is not lost."""
    claim = begin(store, f"{HOURLY}\nuntil={until}")
    assert store.edit("x", at_ms=NOW + 5_000).code == 1
    store.occur(claim)
    task = task_of(store)
    assert (task.state, task.due_ms, task.runs) == ("scheduled", NOW + 5_000, 1)
    store.pass_ms(5_000)
    store.occur(store.take("x"))
    assert (task_of(store).state, store.last_event()["error"]) == ("done", "finished: until")


def test_no_time_can_be_given_to_what_will_not_be(store: Store) -> None:
    """Nothing follows the last of `max_runs`, unless there are to be more of them."""
    claim = begin(store, f"{HOURLY}\nmax_runs=1")
    assert store.edit("x", at_ms=NOW + 5_000) == Edited(3, "running", 0)
    assert store.edit("x", payload=NEW).code == 1
    assert store.edit("x", at_ms=NOW + 5_000, period="max_runs=2").code == 1
    assert store.edit("x", at_ms=NOW + 6_000).code == 1
    store.occur(claim)
    store.plan("x")
    assert task_of(store).due_ms == NOW + 6_000


@pytest.mark.parametrize("at", [NOW + HOUR - 9_000, NOW + HOUR + 9_000])
def test_an_occurrence_that_is_moved_leaves_the_grid(store: Store, at: int) -> None:
    """Earlier or later than it was, it stands for the same instant."""
    store.occur(begin(store))
    assert store.edit("x", at_ms=at).code == 1
    store.now = at
    store.occur(store.take("x"))
    assert task_of(store).due_ms == NOW + 2 * HOUR


def test_again_leaves_the_grid(store: Store) -> None:
    """The predicate's own time is one occurrence; however often it asks for one, the instant of
    the grid that comes next is none the later."""
    store.occur(begin(store), at_ms=NOW + 60_000)
    for number in (1, 2, 3):
        store.pass_ms(60_000)
        claim = store.take("x")
        assert claim.due_ms == NOW + number * 60_000
        at_ms = None if number == 3 else store.time + 60_000
        store.occur(claim, at_ms=at_ms)
    assert task_of(store).due_ms == NOW + HOUR
    store.pass_ms(HOUR)
    store.occur(store.take("x"), at_ms=NOW + 3 * HOUR + 5)
    store.pass_ms(2 * HOUR)
    store.occur(store.take("x"))
    assert task_of(store).due_ms == NOW + 4 * HOUR


def test_run_now_leaves_the_grid(store: Store) -> None:
    """It runs before its time, and the next one is due as if it had not."""
    store.occur(begin(store))
    assert store.run_now("x") == Decision(1, "scheduled")
    claim = store.take("x")
    assert claim.due_ms == NOW + HOUR
    store.occur(claim)
    assert task_of(store).due_ms == NOW + 2 * HOUR


def test_another_period_given_during_the_run_is_computed_from_anew(store: Store) -> None:
    """What the run has computed does not hold any more: a claim that runs nothing computes it."""
    claim = begin(store)
    store.edit("x", period="every=10m")
    store.occur(claim, patch={"n": 9})
    assert kinds(store)[-1] == "done"
    assert task_of(store).payload == {"n": 9}
    planned = store.plan("x")
    assert planned.over == "planned"
    task = task_of(store)
    assert (task.due_ms, task.runs, task.every) == (NOW + 600_000, 1, "10m")
    assert b"over" not in b" ".join(name.encode() for name in store.fields("x"))


def test_a_period_for_one_that_waited_is_right_if_it_runs_by_now(store: Store) -> None:
    """A claim may come between the look of who edits and the edit: no instant is left out."""
    claim, at = begin(store), NOW + 3 * HOUR
    store.edit("x", at_ms=at, period=f"every=2h\nanchor={at}\ngrid={at}")
    store.occur(claim)
    store.plan("x")
    assert task_of(store).due_ms == at
    store.now = at
    store.occur(store.take("x"))
    assert task_of(store).due_ms == at + 2 * HOUR


@pytest.mark.parametrize("kind", ["done", "dead"])
def test_a_series_that_is_made_a_one_off_ends_with_its_run(store: Store, kind: str) -> None:
    """Nothing follows what is not periodic any more."""
    claim = begin(store)
    store.edit("x", period="every=")
    store.occur(claim, kind)
    assert task_of(store).state == kind
    assert store.last_event()["error"].splitlines()[-1] == "finished: no longer periodic"


ENDS = [
    ("max_runs=1", "max_runs"),
    (f"until={NOW + HOUR - 1}", "until"),
]


@pytest.mark.parametrize(("more", "why"), ENDS)
@pytest.mark.parametrize("kind", ["done", "dead"])
def test_a_series_has_an_end(store: Store, more: str, why: str, kind: str) -> None:
    """It is done under its own id, or dead if its last occurrence is; an event says why."""
    claim = begin(store, f"{HOURLY}\n{more}\nunique=abc")
    store.occur(claim, kind, patch={"n": 5})
    assert (store.indexes("x"), task_of(store).state) == ([kind], kind)
    assert f"finished: {why}" in store.last_event()["error"]
    assert task_of(store).ends == why
    assert store.fields("x")["payload"] == b'{"n":5}'
    assert store.occur(claim, kind) == Settled.ALREADY
    # What it was alone in is free.
    store.add("y", NOW, load="unique=abc")
    assert store.state("y") == "scheduled"


def test_until_is_inclusive(store: Store) -> None:
    """The last instant may be the very end."""
    store.occur(begin(store, f"{HOURLY}\nuntil={NOW + HOUR}"))
    assert task_of(store).due_ms == NOW + HOUR
    store.pass_ms(HOUR + 50_000_000)
    store.occur(store.take("x"))
    assert task_of(store).state == "done"


def test_a_dead_occurrence_is_kept_and_the_series_goes_on(store: Store) -> None:
    """Under its id and nominal instant, as a one-off that can be run again."""
    claim = begin(store, f"{HOURLY}\nmax_runs=9\nkey=k", token="T")
    store.occur(claim, "dead", patch={"n": 2})
    task, copy = task_of(store), task_of(store, f"x@{STAMP}")
    assert (task.state, task.payload, task.failed, task.error) == ("scheduled", {"n": 2}, 0, None)
    assert (copy.state, copy.payload, copy.failed, copy.every) == ("dead", {"n": 1}, 1, None)
    assert copy.error is not None
    assert copy.error["message"] == "m"
    assert store.events()[-1]["ids"].splitlines()[0] == f"x@{STAMP}"
    assert store.requeue(f"x@{STAMP}").code == 1
    again = store.take(f"x@{STAMP}")
    assert (again.payload, again.is_periodic, again.failed) == (b'{"n":1}', False, 0)
    store.finish(again)
    assert task_of(store, f"x@{STAMP}").state == "done"
    assert task_of(store).state == "scheduled"


def test_a_dead_occurrence_has_no_result_of_another(store: Store) -> None:
    """Neither what is kept of it nor the series tells what an earlier one has returned."""
    claim = begin(store)
    store.finish_all(store.final(claim, verdict(claim, detail="7")))
    store.pass_ms(HOUR)
    store.occur(store.take("x"), "dead")
    (kept,) = store.link.commands(("ZRANGE", store.type.dead, 0, -1))[0]
    assert task_of(store, kept.decode()).result is task_of(store).result is None


def test_what_is_over_waits_for_no_other_of_its_key(store: Store) -> None:
    """It runs nothing, and who waits would miss the next instant."""
    store.kind = replace(store.kind, max_running_per_key=1)
    claim = begin(store, f"{HOURLY}\nkey=k")
    store.add("y", NOW, load="key=k")
    store.cancel("x", Skip(0, 0, None))
    store.occur(claim)
    # Its place is y's by now.
    found = [(claim.id, claim.over) for claim in store.claim().claims]
    assert sorted(found) == [("x", "cancelled"), ("y", "")]


def test_a_dead_occurrence_takes_no_id_of_another_task(store: Store) -> None:
    """If there is a task of that id it stays as it is, and only the event tells of the failure."""
    store.add(f"x@{STAMP}", NOW + 9, payload=b'{"other":1}')
    store.occur(begin(store), "dead")
    assert store.fields(f"x@{STAMP}") == {"payload": b'{"other":1}'}
    assert task_of(store).state == "scheduled"
    assert store.last_event()["error"] == "E: m" or "dead" in store.last_event()["e"]


@pytest.mark.parametrize("length", [170, 179, 180, 200])
def test_the_id_of_a_dead_occurrence_is_not_too_long(store: Store, length: int) -> None:
    """A long id is cut, and stays one that can be told apart."""
    task_id = "ä" * ((length - 1) // 2) + "x" * (length - (length - 1) // 2 * 2)
    store.add(task_id, NOW, load=HOURLY)
    store.occur(store.take(task_id), "dead")
    (kept,) = store.link.commands(("ZRANGE", store.type.dead, 0, -1))[0]
    assert len(kept) <= 200
    assert kept.endswith(b"@" + STAMP.encode())
    assert store.requeue(kept.decode()).code == 1


def test_waits_within_an_occurrence_keep_its_instant(store: Store) -> None:
    """Retry, snooze and release end nothing: the grid is asked when the occurrence is over."""
    claim = begin(store)
    store.finish(claim, "retry", delay_ms=10, detail='{"kind":"E"}')
    store.pass_ms(10)
    claim = store.take("x")
    assert (claim.due_ms, claim.attempt) == (NOW, 2)
    store.finish(claim, "snooze", at_ms=store.time + 2 * HOUR)
    store.pass_ms(2 * HOUR)
    claim = store.take("x")
    assert (claim.due_ms, claim.attempt) == (NOW, 2)
    store.finish(claim, "release")
    claim = store.take("x")
    assert claim.due_ms == NOW
    store.occur(claim)
    task = task_of(store)
    assert (task.due_ms, task.missed, task.failed, task.releases) == (NOW + 3 * HOUR, 2, 0, 0)


def test_a_lost_run_is_run_again(store: Store) -> None:
    """Like any other, until it was lost too often: then the occurrence is dead, not the series."""
    store.add("x", NOW, load=HOURLY)
    for _ in range(2):
        claim = store.lose("x")
        assert task_of(store).state == "scheduled"
    lost = store.lose("x")
    assert (store.indexes("x"), task_of(store).interruptions) == (["due"], 3)
    claim = store.plan("x")
    assert (claim.over, claim.due_ms) == ("interrupted", NOW)
    assert store.occur(lost) == Settled.REFUSED
    copy, task = task_of(store, f"x@{STAMP}"), task_of(store)
    assert copy.error is not None
    assert copy.error["message"] == "the worker was lost in 3 runs"
    assert (copy.state, copy.interruptions, copy.failed) == ("dead", 3, 0)
    assert (task.state, task.due_ms, task.interruptions) == ("scheduled", NOW + HOUR, 0)


def test_a_late_verdict_of_a_lost_run_still_counts(store: Store) -> None:
    """As long as nobody has claimed the task again, even if it was lost too often."""
    store.add("x", NOW, load=HOURLY)
    for _ in range(3):
        claim = store.lose("x")
    assert store.occur(claim, patch={"n": 2}) == Settled.STORED
    task = task_of(store)
    assert (task.state, task.due_ms, task.payload) == ("scheduled", NOW + HOUR, {"n": 2})
    assert task.interruptions == 0
    store.pass_ms(HOUR)
    assert store.take("x").over == ""


def skip(store: Store, next_ms: int | None) -> Skip:
    """What a client passes that has seen the task as it is."""
    raw = store.read("x")
    assert raw.due_ms is not None
    return Skip(raw.due_ms, int(raw.fields.get("revision", b"0")), next_ms)


def test_one_occurrence_is_cancelled_before_its_time(store: Store) -> None:
    """It is left out, and is no run; the series goes on with the one after it."""
    store.occur(begin(store))
    stale = skip(store, NOW + 2 * HOUR)
    store.edit("x", payload=NEW)
    assert store.cancel("x", stale) == Decision(4, "scheduled")
    assert store.cancel("x", skip(store, NOW + 2 * HOUR)) == Decision(1, "scheduled")
    task = task_of(store)
    assert (task.state, task.due_ms, task.runs) == ("scheduled", NOW + 2 * HOUR, 1)
    assert store.last_event()["e"] == "run_cancelled rescheduled"
    assert store.cancel("x", skip(store, None)) == Decision(1, "scheduled")
    assert task_of(store).state == "cancelled"


@pytest.mark.parametrize("end", ["done", "dead", "retry", "release", "lost"])
def test_one_run_is_cancelled(store: Store, end: str) -> None:
    """It is asked to stop, its end is not used, and the series goes on."""
    claim = begin(store)
    assert store.cancel("x", Skip(0, 0, None)) == Decision(2, "running")
    assert store.renew(claim) == [Renewed.CANCELLED]
    if end == "lost":
        store.pass_ms(LEASE + 1)
        assert store.recover() == 1
        assert store.occur(claim) == Settled.REFUSED
    elif end in ("done", "dead"):
        assert store.occur(claim, end, patch={"n": 2}) == Settled.STORED
        assert store.occur(claim, end) == Settled.ALREADY
    else:
        store.finish(claim, end, detail='{"kind":"E"}')
    assert kinds(store)[-1] == "run_cancelled"
    assert store.plan("x").over == "cancelled"
    task = task_of(store)
    assert (task.state, task.due_ms, task.payload) == ("scheduled", NOW + HOUR, {"n": 1})
    assert (task.runs, task.failed, task.interruptions) == (0, 0, 0)


def test_the_last_run_that_is_cancelled_ends_the_series(store: Store) -> None:
    """Then the task is cancelled."""
    claim = begin(store, f"{HOURLY}\nuntil={NOW}")
    store.cancel("x", Skip(0, 0, None))
    store.occur(claim)
    store.plan("x")
    assert task_of(store).state == "cancelled"


@pytest.mark.parametrize("first", [False, True])
def test_a_cancel_of_the_series_counts_more_than_one_of_a_run(store: Store, first: bool) -> None:
    """Whichever came first, the series has ended."""
    claim = begin(store)
    for is_whole in (first, not first):
        store.cancel("x", None if is_whole else Skip(0, 0, None))
    store.occur(claim)
    assert task_of(store).state == "cancelled"


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_series_cancelled_while_it_ran_tells_of_no_next(store: Store, is_lost: bool) -> None:
    """What was to follow the run is gone with it."""
    claim = begin(store)
    store.edit("x", at_ms=NOW + 9, period="every=2h")
    store.cancel("x")
    if is_lost:
        store.pass_ms(LEASE + 1)
        store.recover()
    else:
        store.occur(claim)
    assert (task_of(store).state, task_of(store).next_ms) == ("cancelled", None)
    assert "replan" not in store.fields("x")


def test_only_a_periodic_task_has_occurrences(store: Store) -> None:
    """Of a one-off the script cancels none, and leaves the task as it is."""
    store.add("x", NOW + 5)
    before = store.dump()
    assert store.cancel("x", Skip(NOW + 5, 0, None)) == Decision(4, "scheduled")
    store.pass_ms(5)
    assert store.dump() == before
    store.take("x")
    assert store.cancel("x", Skip(NOW + 5, 0, None)) == Decision(4, "running")


def test_what_replaces_a_running_one_follows_it_alone(store: Store) -> None:
    """The run ends the old series, its successor begins as it was added."""
    claim = begin(store)
    store.add("x", NOW + 7, payload=NEW, load="every=2h", on_conflict="replace")
    assert store.edit("x", payload=b"{}") == Edited(3, "running", 0)
    assert store.occur(claim, patch={"n": 9}) == Settled.STORED
    task = task_of(store)
    assert (task.due_ms, task.payload, task.every, task.runs) == (NOW + 7, {"n": 2}, "2h", 0)
    store.pass_ms(7)
    store.occur(store.take("x"))
    assert task_of(store).due_ms == NOW + 7 + 2 * HOUR


def test_a_plain_add_of_a_running_one_is_a_new_life(store: Store) -> None:
    """Its run ends nothing of that, nor is the new task periodic."""
    claim = begin(store)
    store.plain("x", NOW + 9, NEW)
    assert store.occur(claim) == Settled.STORED
    task = task_of(store)
    assert (task.due_ms, task.every, task.payload) == (NOW + 9, None, {"n": 2})


@pytest.mark.parametrize("before", ["done", "dead", "cancelled"])
@pytest.mark.parametrize("is_edited", [False, True])
def test_a_plain_add_of_a_series_of_an_ended_id(store: Store, before: str, is_edited: bool) -> None:
    """Once the old hash is removed what is there is the new task, with its period."""
    store.into(before, "x")
    store.redis.delete(store.task_key("x"))
    fields = {"payload": "{}", "every": "1h", "anchor": str(NOW + 5)}
    store.redis.hset(store.task_key("x"), mapping=fields)  # type: ignore[arg-type]
    store.plain("x", NOW + 5, None)
    assert task_of(store).every == "1h"
    if is_edited:
        assert store.edit("x", payload=NEW).code == 1
    store.pass_ms(5)
    store.occur(store.take("x"))
    assert (task_of(store).due_ms, task_of(store).runs) == (NOW + HOUR + 5, 1)


@pytest.mark.parametrize("kind", ["done", "dead", "cancelled"])
def test_a_series_that_has_ended_is_begun_again(store: Store, kind: str) -> None:
    """Due now, with its counters at zero and its period as it was."""
    claim = begin(store, f"{HOURLY}\nmax_runs=1")
    if kind == "cancelled":
        store.cancel("x")
        store.occur(claim)
    else:
        store.occur(claim, kind)
    store.pass_ms(2 * HOUR + 1_800_000)
    assert store.requeue("x") == Decision(1, kind)
    claim = store.take("x")
    assert (claim.fields or {})["max_runs"] == b"1"
    store.edit("x", period="max_runs=5")
    store.occur(claim)
    store.plan("x")
    task = task_of(store)
    # The grid is still the one that it was added with.
    assert (task.due_ms, task.runs, task.max_runs) == (NOW + 3 * HOUR, 1, 5)


@pytest.mark.parametrize(
    ("field", "value"),
    [("every", "often"), ("every", "1mo"), ("until", "never"), ("zone", "Mars/Base")],
)
def test_a_period_that_cannot_be_read_is_dead_with_a_reason(
    store: Store, field: str, value: str
) -> None:
    """What others wrote there stops this series alone, and can be mended and requeued."""
    claim = begin(store, "every=1d\nzone=Europe/Madrid")
    store.redis.hset(store.task_key("x"), field, value)
    if value == "1mo":
        store.redis.hdel(store.task_key("x"), "zone")
    store.finish(claim, "release")
    claim = store.take("x")
    assert store.occur(claim) == Settled.STORED
    task = task_of(store)
    assert (task.state, task.failed) == ("dead", 0)
    assert task.error is not None
    assert task.error["kind"] == "period"
    assert "the series cannot go on: " in task.error["message"]


def test_counters_that_are_no_numbers_are_begun_anew(store: Store) -> None:
    """Other programs may have written anything there."""
    claim = begin(store)
    store.redis.hset(store.task_key("x"), mapping={"runs": "many", "missed": "few"})
    store.pass_ms(2 * HOUR)
    assert store.occur(claim) == Settled.STORED
    task = task_of(store)
    assert (task.runs, task.missed, task.due_ms) == (1, 2, NOW + 3 * HOUR)


def test_an_unreadable_payload_costs_an_occurrence(store: Store) -> None:
    """It is dead as it was found, and the series goes on, so that it can be mended."""
    claim = begin(store, payload=b'{"a":\n')  # type: ignore[arg-type]
    store.occur(claim, "dead")
    assert store.fields(f"x@{STAMP}")["payload"] == b'{"a": '
    assert task_of(store).state == "scheduled"


def test_line_breaks_in_a_payload_of_others_do_no_harm(store: Store) -> None:
    """A payload of other programs may be written over lines, and hold what looks like ours."""
    payload = b'{"n":\n1,"t":"at=5\\nends=until"}'
    claim = begin(store, payload=payload)  # type: ignore[arg-type]
    store.occur(claim, "dead", patch={"more": "payload=7\nends=no"})
    assert json.loads(store.fields("x")["payload"])["more"] == "payload=7\nends=no"
    assert json.loads(store.fields(f"x@{STAMP}")["payload"]) == json.loads(payload)
    assert task_of(store).due_ms == NOW + HOUR


def test_a_pause_of_the_type_costs_what_passed_meanwhile(store: Store) -> None:
    """After it one run, at once, and then the next instant; a pause during a run costs nothing."""
    claim = begin(store)
    store.pause()
    store.occur(claim)
    store.pass_ms(3 * HOUR + 1_800_000)
    assert store.claim().claims == []
    store.resume()
    claim = store.take("x")
    assert claim.due_ms == NOW + HOUR
    store.occur(claim)
    task = task_of(store)
    assert (task.due_ms, task.missed, task.runs) == (NOW + 4 * HOUR, 2, 2)
    assert store.claim().claims == []
