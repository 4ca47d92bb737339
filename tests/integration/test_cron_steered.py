"""What people do with schedules: pause, resume, skip, trigger, backfill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduld.store import croncalls
from scheduld.store.cronanswers import Steered, Ticked
from scheduld.store.croncalls import Gap
from scheduld.store.keys import encode_id
from tests.support.crons import MINUTE, Crons, daily
from tests.support.store import NOW, Store
from tests.support.store import any_store as any_store

FIRST = "daily@2026-09-21T14:14:20Z"
SECOND = "daily@2026-09-21T14:15:20Z"


def defined(store: Store, **values: Any) -> Crons:
    """A schedule, a minute after it was defined."""
    crons = Crons(store)
    crons.define(daily(**values))
    store.pass_ms(MINUTE)
    return crons


# --- pause and resume


def test_a_trigger_lets_no_tick_of_a_paused_one_go(store: Store) -> None:
    """What waits comes with the resume, even if nothing holds it up any more."""
    crons = defined(store, overlap="queue")
    crons.tick()
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.QUEUED
    crons.pause()
    store.finish(store.take(FIRST))
    assert crons.trigger() is Ticked.FIRED
    assert (store.state(SECOND), crons.record().is_queued) == ("none", True)
    store.finish(store.take("daily@manual-1"))
    crons.resume()
    assert store.state(SECOND) == "scheduled"


def test_resume_begins_now_and_tells_the_gap(store: Store) -> None:
    """What was passed over is one record; the next instant fires, in the same definition."""
    crons = defined(store)
    with store.wakeups() as heard:
        assert crons.pause(reason="holidays") == (Steered.DONE, store.time)
    record = crons.record()
    assert (record.paused_ms, record.pause_reason) == (store.time, "holidays")
    assert record.pause_who == "ana@host"
    store.pass_ms(3 * MINUTE)
    gap = Gap(NOW + MINUTE, store.time, 4, "paused")
    with store.wakeups() as heard_of_resume:
        assert crons.resume(gap=gap) == (Steered.DONE, store.time)
    assert heard == heard_of_resume == ["job cron daily"]
    (entry,) = crons.history()
    assert (entry.outcome, entry.why, entry.count) == ("gap", "paused", 4)
    record = crons.record()
    assert (record.paused_ms, record.pause_reason, record.pause_who) == (None, "", "")
    assert (record.mark_ms, store.claim().claims) == (store.time, [])
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED


def test_resume_with_catch_up_leaves_the_watermark(store: Store) -> None:
    """So the rule of catch-up decides about the time between."""
    crons = defined(store)
    crons.pause()
    store.pass_ms(3 * MINUTE)
    assert crons.resume(catch_up=True) == (Steered.DONE, NOW)
    assert crons.tick(NOW + MINUTE) is Ticked.FIRED


def test_a_second_pause_goes_on_with_a_new_reason(store: Store) -> None:
    """It is paused since the first; resume ends it once."""
    crons = defined(store)
    since = crons.pause(reason="one").at_ms
    store.pass_ms(MINUTE)
    assert crons.pause(reason="two") == (Steered.DONE, since)
    assert crons.record().pause_reason == "two"
    assert [crons.resume().code, crons.resume().code] == [Steered.DONE, Steered.UNNEEDED]
    assert crons.record().mark_ms == store.time


def test_a_pause_lasts_through_edits(store: Store) -> None:
    """Another payload or rule, or the same definition again, does not resume it."""
    crons = defined(store)
    crons.pause()
    crons.define(daily(payload={"n": 2}))
    crons.define(daily(cron="0 8 * * *"))
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.PAUSED


def test_a_pause_keeps_what_waits(store: Store) -> None:
    """A task that ends meanwhile lets no tick through; the resume does."""
    crons = defined(store, overlap="queue")
    crons.tick()
    claim = store.take(FIRST)
    store.pass_ms(MINUTE)
    crons.tick()
    crons.pause()
    store.finish(claim)
    assert (store.state(SECOND), crons.record().is_queued) == ("none", True)
    store.pass_ms(MINUTE)
    with store.wakeups() as heard:
        crons.resume()
    assert (store.state(SECOND), crons.record().is_queued) == ("scheduled", False)
    assert heard == [f"job {store.due(SECOND)}", "job cron daily"]


def test_a_resume_during_a_run_keeps_what_waits(store: Store) -> None:
    """Until the end of that run."""
    crons = defined(store, overlap="queue")
    crons.tick()
    claim = store.take(FIRST)
    store.pass_ms(MINUTE)
    crons.tick()
    crons.pause()
    crons.resume()
    assert store.state(SECOND) == "none"
    store.finish(claim)
    assert store.state(SECOND) == "scheduled"


@pytest.mark.parametrize("verb", ["pause", "resume", "skips", "trigger", "backfill", "orphan"])
@pytest.mark.parametrize(("kind", "code"), [("none", 15), ("string", 17)])
def test_what_is_not_there_cannot_be_steered(store: Store, verb: str, kind: str, code: int) -> None:
    """Each verb says whether the schedule is gone or its key broken, and writes nothing."""
    crons = Crons(store)
    if kind == "string":
        store.redis.set(store.type.cron("daily"), "foreign", px=60_000)
    before = store.dump()
    told = getattr(crons, verb)()
    assert (told if isinstance(told, Ticked) else told.code) == code
    assert store.dump() == before


# --- skips


def test_ranges_to_skip_are_joined_and_cut(store: Store) -> None:
    """Those that touch become one, an undo cuts a part out, in any order."""
    crons = defined(store)
    t = store.time
    assert crons.skips(add=[(t + 50, t + 60), (t + 10, t + 20)]).ranges == (
        (t + 10, t + 20),
        (t + 50, t + 60),
    )
    assert crons.skips(add=[(t + 20, t + 50)]).ranges == ((t + 10, t + 60),)
    assert crons.skips(remove=[(t + 30, t + 40)]).ranges == ((t + 10, t + 29), (t + 41, t + 60))
    assert crons.skips(remove=[(t, t + 99)], add=[(t + 5, t + 5)]).ranges == ((t + 5, t + 5),)
    assert crons.skips(remove=[(t + 5, t + 5)]).ranges == ()
    assert crons.record().skips == ()


def test_ranges_behind_us_are_dropped(store: Store) -> None:
    """Those that nothing can fire in any more; one that is not dealt with yet stays."""
    crons = defined(store, overlap="allow")
    crons.skips(add=[(NOW + 1, store.time - 1), (store.time, store.time + 5)])
    assert crons.record().skips == ((NOW + 1, store.time - 1), (store.time, store.time + 5))
    crons.tick()
    store.pass_ms(10)
    crons.tick()
    assert crons.skips().ranges == ()


def test_too_many_ranges_are_refused(store: Store) -> None:
    """Four hundred are kept, one more is not, and nothing is changed."""
    crons = defined(store)
    t = store.time
    many = [(t + 10 * number, t + 10 * number + 5) for number in range(1, 401)]
    assert crons.skips(add=many).code is Steered.DONE
    assert crons.skips(add=[(t + 1, t + 2)]).code is Steered.TOO_MANY
    assert len(crons.record().skips) == 400


# --- trigger


def test_a_trigger_makes_a_task_of_no_tick(store: Store) -> None:
    """Due now, with the schedule's payload or its own; watermark and runs stay."""
    crons = defined(store, overlap="allow", payload={"n": 1}, max_runs=1)
    with store.wakeups() as heard:
        assert crons.trigger() is Ticked.FIRED
    assert heard == [f"job {store.time}"]
    assert crons.trigger(number=2, payload=b'{"n":2}') is Ticked.FIRED
    claims = {claim.id: claim.payload for claim in store.claim().claims}
    assert claims == {"daily@manual-1": b'{"n":1}', "daily@manual-2": b'{"n":2}'}
    assert "tick" not in store.fields("daily@manual-1")
    assert store.fields("daily@manual-1")["schedule"] == b"daily"
    record = crons.record()
    assert (record.mark_ms, record.runs, record.last) == (NOW, 0, None)
    assert crons.outcomes() == ["fired manual", "fired manual"]
    assert crons.history()[0].task_id == "daily@manual-1"
    assert crons.tick() is Ticked.FIRED


def test_a_repeated_trigger_makes_one_task(store: Store) -> None:
    """After a lost answer the same call says that it was done."""
    crons = defined(store)
    crons.trigger()
    before = store.dump()
    assert crons.trigger() is Ticked.EXISTS
    assert store.dump() == before


def test_overlap_applies_to_a_trigger(store: Store) -> None:
    """A tick is held up by it, and it by a task of a tick."""
    crons = defined(store)
    crons.trigger()
    assert crons.tick() is Ticked.OVERLAP
    assert crons.trigger(number=2) is Ticked.OVERLAP
    store.finish(store.take("daily@manual-1"))
    assert crons.trigger(number=2) is Ticked.FIRED
    assert crons.outcomes() == [
        "fired manual",
        "skipped overlap",
        "skipped overlap",
        "fired manual",
    ]


def test_a_trigger_waits_as_a_tick_does(store: Store) -> None:
    """One waits, with its own payload; a repeat says so, another one is coalesced."""
    crons = defined(store, overlap="queue")
    crons.tick()
    claim = store.take(FIRST)
    assert crons.trigger(payload=b'{"a b":[]}') is Ticked.QUEUED
    assert crons.trigger(payload=b'{"a b":[]}') is Ticked.QUEUED
    assert crons.trigger(number=2) is Ticked.COALESCED
    record = crons.record()
    assert (record.queued_ms, record.is_queued) == (None, True)
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.COALESCED
    store.finish(claim)
    assert store.take("daily@manual-1").payload == b'{"a b":[]}'
    assert crons.outcomes()[-1] == "fired manual"
    assert crons.record().runs == 1


def test_a_trigger_of_cancel_stops_what_runs(store: Store) -> None:
    """As a tick would."""
    crons = defined(store, overlap="cancel")
    crons.tick()
    claim = store.take(FIRST)
    with store.wakeups() as heard:
        assert crons.trigger() is Ticked.QUEUED
    assert heard == [f"job cancel {FIRST}"]
    store.finish(claim)
    assert (store.state(FIRST), store.state("daily@manual-1")) == ("cancelled", "scheduled")


def test_a_paused_schedule_can_be_triggered(store: Store) -> None:
    """A pause stops the clock, not the hand."""
    crons = defined(store)
    crons.pause()
    assert crons.trigger() is Ticked.FIRED


# --- backfill


def test_backfill_makes_what_is_missing(store: Store) -> None:
    """Tasks of past ticks at their own pace; those that exist stay, and a repeat makes nothing."""
    crons = defined(store, payload={"n": 1}, max_runs=1)
    crons.tick()
    past = [store.time - 2 * MINUTE, store.time - MINUTE, store.time, store.time + 1]
    told = crons.backfill(*past, due_ms=store.time + 100)
    assert [code.name for code in told.ticks] == ["FIRED", "FIRED", "EXISTS", "EARLY"]
    before = store.dump()
    told = crons.backfill(*past, due_ms=store.time + 100)
    assert [code.name for code in told.ticks] == ["EXISTS", "EXISTS", "EXISTS", "EARLY"]
    assert store.dump() == before
    first = "daily@2026-09-21T14:12:20Z"
    assert store.fields(first)["tick"] == str(past[0]).encode()
    assert store.due(first) == store.time + 100
    record = crons.record()
    assert (record.mark_ms, record.runs) == (store.time, 1)
    assert crons.outcomes() == ["fired", "backfilled", "backfilled"]


def test_backfill_holds_up_no_tick(store: Store) -> None:
    """Its tasks do not count as unfinished, whatever overlap says, and make no tick come."""
    crons = defined(store, overlap="queue")
    crons.backfill(NOW - MINUTE)
    assert crons.record().unfinished == 0
    assert crons.tick() is Ticked.FIRED
    claims = {claim.id: claim for claim in store.claim().claims}
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.QUEUED
    store.finish(claims["daily@2026-09-21T14:12:20Z"])
    assert store.state(SECOND) == "none"
    store.finish(claims[FIRST])
    assert store.state(SECOND) == "scheduled"


def test_backfill_of_many(store: Store) -> None:
    """As many as a call may carry."""
    crons = defined(store)
    told = crons.backfill(*(NOW - 1000 * number for number in range(200)))
    assert told.ticks == [Ticked.FIRED] * 200
    with pytest.raises(ValueError, match="at most 200"):
        crons.backfill(*range(201))
    assert crons.remove().cancelled == 200


# --- the history


def test_a_history_of_foreign_entries_can_be_read(store: Store) -> None:
    """What others wrote into the stream is passed over field by field."""
    crons = defined(store)
    store.redis.xadd(store.type.ticks("daily"), {"o": b"\xff", "t": "x", "n": "inf"})
    (entry,) = crons.history()
    assert (entry.outcome, entry.tick_ms, entry.count) == ("\udcff", None, None)


def test_ids_of_any_bytes_are_kept(store: Store) -> None:
    """A trigger's id comes back as it was given."""
    crons = defined(store, overlap="allow")
    for number, task_id in enumerate(("daily@é", "daily@'\"\\", "x" * 200)):
        raw_id = encode_id(task_id)
        call = croncalls.trigger(store.caller(), store.type, "daily", raw_id=raw_id)
        assert store.run(call) is Ticked.FIRED
        assert crons.history()[number].task_id == task_id


def test_a_fine_grid_has_ids_of_its_own(store: Store) -> None:
    """Several ticks within a second are several tasks."""
    crons = defined(store, overlap="allow")
    first = crons.a_tick(store.time - 900)
    second = replace(crons.a_tick(store.time - 400), mark_ms=store.time - 900)
    assert [one.code for one in crons.fire(first, second)] == [Ticked.FIRED] * 2
    assert store.redis.zcard(store.type.due) == 2
