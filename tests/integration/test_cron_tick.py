"""Ticks of schedules: each fires once, and what is refused changes nothing."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import Keep
from scheduld.schedule import tick_id
from scheduld.store import croncalls
from scheduld.store.cronanswers import Ticked, TickedAs, tick_records
from scheduld.store.croncalls import Definition, Gap
from scheduld.store.keys import encode_id
from scheduld.store.synclink import SyncLink
from tests.support.crons import MINUTE, Crons, daily
from tests.support.store import NOW, Store
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from scheduld.schedule import Overlap

FIRST = "daily@2026-09-21T14:14:20Z"


def defined(store: Store, **values: Any) -> Crons:
    """A schedule, a minute after it was defined."""
    crons = Crons(store)
    crons.define(daily(**values))
    store.pass_ms(MINUTE)
    return crons


def test_a_tick_makes_a_task(store: Store) -> None:
    """Task, watermark, history and wake-up come in one step."""
    crons = defined(store, payload={"n": 1})
    tick = store.time
    store.pass_ms(7)
    with store.wakeups() as heard:
        told = crons.fire(crons.a_tick(tick))
    assert told == [TickedAs(Ticked.FIRED, tick, "")]
    assert heard == [f"job {tick}"]
    assert store.fields(FIRST) == {
        "payload": b'{"n":1}',
        "schedule": b"daily",
        "tick": str(tick).encode(),
    }
    assert (store.state(FIRST), store.due(FIRST)) == ("scheduled", tick)
    assert store.last_event() == {"e": "fired", "ids": FIRST, "node": "ticker"}
    record = crons.record()
    assert (record.mark_ms, record.runs, record.unfinished) == (tick, 1, 1)
    assert record.last == (tick, store.time, "fired")
    (entry,) = crons.history()
    assert (entry.outcome, entry.tick_ms, entry.late_ms, entry.task_id) == ("fired", tick, 7, FIRST)
    assert (entry.at_ms, entry.why, entry.from_ms) == (store.time, "", None)


def test_jitter_moves_the_task_and_not_the_tick(store: Store) -> None:
    """The task is due later; its id and the watermark are those of the instant."""
    crons = defined(store)
    crons.tick(due_ms=store.time + 500)
    assert store.due(FIRST) == store.time + 500
    assert store.claim().claims == []
    assert crons.record().mark_ms == store.time
    store.pass_ms(500)
    assert store.take(FIRST).due_ms == store.time


def test_the_same_tick_fires_once(store: Store) -> None:
    """Who comes second is told the watermark, and nothing changes."""
    crons = defined(store)
    tick = crons.a_tick()
    crons.fire(tick)
    before = store.dump()
    assert crons.fire(tick) == [TickedAs(Ticked.OTHER_MARK, store.time, "")]
    assert crons.fire(tick, tick)[1].code is Ticked.OTHER_MARK
    assert store.dump() == before


def test_a_tick_behind_the_watermark_is_refused(store: Store) -> None:
    """Even with the right watermark: an instant is never fired after a later one."""
    crons = defined(store)
    crons.tick()
    for tick in (store.time, store.time - 1):
        assert crons.tick(tick) is Ticked.OTHER_MARK


def test_a_stale_definition_cannot_fire(store: Store) -> None:
    """The answer is the digest that counts."""
    crons = defined(store)
    other = daily(payload={"n": 2})
    tick = crons.a_tick()
    crons.define(other)
    before = store.dump()
    assert crons.fire(tick) == [TickedAs(Ticked.OTHER_DIGEST, NOW, other.digest)]
    assert store.dump() == before


def test_no_tick_before_its_instant(store: Store) -> None:
    """By the server's clock, whatever the caller's says."""
    crons = defined(store)
    tick = crons.a_tick(store.time + 1)
    before = store.dump()
    assert crons.fire(tick)[0].code is Ticked.EARLY
    gap = crons.a_tick(tick_ms=None, gap=Gap(NOW + 1, store.time + 1, 1, "x"))
    assert crons.fire(gap)[0].code is Ticked.EARLY
    assert store.dump() == before
    store.pass_ms(1)
    assert crons.fire(tick)[0].code is Ticked.FIRED


def test_a_backward_step_of_the_clock_fires_nothing_again(store: Store) -> None:
    """The watermark stays; the next instant is fired when the clock has reached it again."""
    crons = defined(store)
    crons.tick()
    store.pass_ms(-30_000)
    assert crons.tick(store.time) is Ticked.OTHER_MARK
    assert crons.tick(store.time + 90_000) is Ticked.EARLY
    store.pass_ms(90_000)
    store.claim()
    assert crons.tick() is Ticked.OVERLAP
    assert [one.tick_ms for one in crons.history()] == [NOW + MINUTE, store.time]


def test_history_goes_on_after_a_backward_step(store: Store) -> None:
    """Entries keep their order where the clock does not."""
    crons = defined(store)
    crons.tick()
    store.pass_ms(-30_000)
    crons.trigger()
    assert crons.outcomes() == ["fired", "skipped overlap"]


def test_paused_ones_do_not_fire(store: Store) -> None:
    """Nothing moves, so that the resume can say what becomes of the time between."""
    crons = defined(store)
    tick = crons.a_tick()
    crons.pause()
    before = store.dump()
    assert crons.fire(tick) == [TickedAs(Ticked.PAUSED, NOW, "")]
    assert crons.gap(NOW + 1, store.time) is Ticked.PAUSED
    assert store.dump() == before


def test_one_that_is_gone_does_not_fire(store: Store) -> None:
    """A replica that has not heard of the removal makes nothing."""
    crons = defined(store)
    tick = crons.a_tick()
    crons.remove()
    before = store.dump()
    assert crons.fire(tick) == [TickedAs(Ticked.GONE, None, "")]
    assert store.dump() == before


def test_max_runs_ends_it(store: Store) -> None:
    """Ticks that made no task do not count; a higher number lets it go on."""
    crons = defined(store, max_runs=2)
    assert [crons.tick()] == [Ticked.FIRED]
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.OVERLAP
    store.finish(store.take(FIRST))
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED
    store.pass_ms(MINUTE)
    before = store.dump()
    assert crons.tick() is Ticked.ENDED
    assert store.dump() == before
    crons.define(daily(max_runs=3))
    store.finish(store.claim().claims[0])
    assert crons.tick() is Ticked.FIRED


def test_max_runs_holds_for_what_waits(store: Store) -> None:
    """A queued tick counts when it becomes a task; lowered meanwhile, it does not become one."""
    crons = defined(store, max_runs=2, overlap="queue")
    crons.tick()
    claim = store.take(FIRST)
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.QUEUED
    crons.define(daily(max_runs=1, overlap="queue"))
    store.finish(claim)
    assert (crons.record().runs, crons.record().is_queued) == (1, False)
    assert crons.outcomes()[-1] == "skipped max_runs"


@pytest.mark.parametrize("state", ["scheduled", "running", "done", "dead", "cancelled"])
def test_an_id_that_exists_makes_nothing(store: Store, state: str) -> None:
    """A user's task, or one from before a restore: it stays, and the watermark moves."""
    crons = defined(store, overlap="cancel")
    store.into(state, FIRST)
    before = store.dump()[store.task_key(FIRST)]
    assert crons.tick() is Ticked.EXISTS
    assert store.dump()[store.task_key(FIRST)] == before
    record = crons.record()
    assert (record.mark_ms, record.runs, record.unfinished) == (store.time, 0, 0)
    assert crons.outcomes() == ["exists"]


def test_a_tick_restored_into_the_past_leaves_its_task_alone(store: Store) -> None:
    """A watermark set back: the task of the very tick is neither cancelled nor doubled."""
    crons = defined(store, overlap="cancel")
    crons.tick()
    claim = store.take(FIRST)
    store.redis.hset(store.type.cron("daily"), "mark", NOW)
    tick = replace(crons.a_tick(), mark_ms=NOW)
    assert crons.fire(tick)[0].code is Ticked.EXISTS
    assert "cancel" not in store.fields(FIRST)
    store.finish(claim)
    assert crons.outcomes() == ["fired", "exists"]


@pytest.mark.parametrize("what", ["string", "index"])
def test_a_broken_task_in_its_place(store: Store, what: str) -> None:
    """A foreign key, or an index entry without a hash, under the id: nothing is made."""
    crons = defined(store)
    if what == "string":
        store.redis.set(store.task_key(FIRST), "foreign", px=60_000)
    else:
        store.redis.zadd(store.type.dead, {FIRST: 1})
    assert crons.tick() is Ticked.EXISTS
    assert crons.live() == []


def test_what_was_asked_to_be_skipped(store: Store) -> None:
    """Both ends of a range count; the watermark moves, with the reason in the history."""
    crons = defined(store, overlap="allow")
    crons.skips(add=[(store.time, store.time + MINUTE)])
    for expected in (Ticked.ASKED, Ticked.ASKED, Ticked.FIRED):
        assert crons.tick() is expected
        store.pass_ms(MINUTE)
    assert crons.outcomes() == ["skipped asked", "skipped asked", "fired"]


def test_a_gap_alone(store: Store) -> None:
    """One record, whatever lies in it; the watermark becomes its last instant."""
    crons = defined(store)
    assert crons.gap(NOW + 1, NOW + 9, 1000) is Ticked.GAP
    (entry,) = crons.history()
    assert (entry.outcome, entry.from_ms, entry.to_ms) == ("gap", NOW + 1, NOW + 9)
    assert (entry.count, entry.why, entry.tick_ms, entry.task_id) == (1000, "missed", None, "")
    assert (crons.record().mark_ms, crons.record().last) == (NOW + 9, None)
    assert store.claim().claims == []
    assert crons.gap(NOW + 1, NOW + 9) is Ticked.OTHER_MARK


def test_a_gap_before_a_tick(store: Store) -> None:
    """Both in one step, in their order; of a refused tick neither."""
    crons = defined(store)
    gap = Gap(NOW + 1, NOW + 9, 3, "missed")
    tick = crons.a_tick(gap=gap)
    assert crons.fire(tick)[0].code is Ticked.FIRED
    assert crons.outcomes() == ["gap missed", "fired"]
    assert crons.fire(tick)[0].code is Ticked.OTHER_MARK
    assert len(crons.history()) == 2


def test_neither_tick_nor_gap(store: Store) -> None:
    """A call with nothing in it changes nothing, and stops no other."""
    crons = defined(store)
    told = crons.fire(crons.a_tick(tick_ms=None), crons.a_tick())
    assert [one.code.name for one in told] == ["OTHER_MARK", "FIRED"]


def test_several_ticks_of_one_schedule_in_one_call(store: Store) -> None:
    """Each names the one before as its watermark; behind a refused one none is fired."""
    crons = defined(store, overlap="allow")
    times = [NOW + 1000 * number for number in range(1, 5)]
    marks = [NOW, *times]
    ticks = [crons.a_tick(at, mark_ms=mark) for at, mark in zip(times, marks, strict=False)]
    told = crons.fire(*ticks[:2], replace(ticks[2], digest="other"), ticks[3])
    assert [one.code.name for one in told] == ["FIRED", "FIRED", "OTHER_DIGEST", "OTHER_MARK"]
    assert crons.record().mark_ms == times[1]
    assert store.redis.zcard(store.type.due) == 2


def test_one_broken_schedule_stops_no_other(store: Store) -> None:
    """Foreign keys beside good ones: each has its own answer, and all else is fired."""
    names = [f"s{number}" for number in range(200)]
    crons = Crons(store)
    for name in names:
        crons.known[name] = (daily(name), NOW)
    many = [Definition(daily(name), "config") for name in names]
    store.run(croncalls.define(store.caller(), store.type, many))
    store.redis.delete(store.type.cron("s3"))
    for key in (store.type.cron("s3"), store.type.live("s100"), store.type.ticks("s150")):
        store.redis.set(key, "foreign", px=60_000)
    store.pass_ms(MINUTE)
    told = crons.fire(*(crons.a_tick(name=name) for name in names))
    broken = {name for name, one in zip(names, told, strict=True) if one.code is Ticked.BROKEN}
    assert broken == {"s3", "s100", "s150"}
    assert sum(one.code is Ticked.FIRED for one in told) == 197
    assert store.redis.zcard(store.type.due) == 197
    assert store.read("s3@2026-09-21T14:14:20Z").key_type == "none"
    with pytest.raises(ValueError, match="at most 200 schedules"):
        croncalls.tick(store.caller(), store.type, [crons.a_tick(name="s1")] * 201)


def test_two_callers_race(store: Store) -> None:
    """Two replicas fire the same hundred ticks at once: each instant has one task."""
    crons = defined(store, overlap="allow", max_unfinished=1000)
    schedule = daily(overlap="allow", max_unfinished=1000)
    codes: list[list[Ticked]] = [[], []]

    def replica(number: int) -> None:
        link = SyncLink(store.server.url, timeout_s=10.0)
        for second in range(1, 101):
            at = NOW + second * 100
            raw_id = encode_id(tick_id("daily", at, is_fine=True))
            tick = croncalls.Tick("daily", schedule.digest, at - 100, at, at, raw_id)
            (told,) = link.run(croncalls.tick(store.caller(f"r{number}"), store.type, [tick]))
            codes[number].append(told.code)
        link.close()

    threads = [threading.Thread(target=replica, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    fired = [[code is Ticked.FIRED for code in some] for some in codes]
    assert [one + other for one, other in zip(*fired, strict=True)] == [1] * 100
    assert store.redis.zcard(store.type.due) == crons.record().runs == 100
    assert len(crons.history()) == 100


def test_marks_are_raised_and_never_lowered(store: Store) -> None:
    """After a failover a replica that remembers more says so; nothing is fired."""
    crons = defined(store)
    marks = [("daily", NOW + 30), ("daily", NOW + 20), ("gone", NOW), ("broken", NOW)]
    store.redis.set(store.type.cron("broken"), "x", px=60_000)
    told = store.run(croncalls.raise_marks(store.caller(), store.type, marks))
    assert [(one.code.name, one.mark_ms) for one in told] == [
        ("DONE", NOW + 30),
        ("UNNEEDED", NOW + 30),
        ("GONE", None),
        ("BROKEN", None),
    ]
    assert store.claim().claims == []
    assert crons.tick(NOW + 25, mark_ms=NOW + 30) is Ticked.OTHER_MARK
    assert crons.tick(NOW + 40, mark_ms=NOW + 30) is Ticked.FIRED


def test_history_is_kept_by_number(store: Store) -> None:
    """About as many entries as the definition says; a page is read from its cursor on."""
    crons = defined(store, overlap="allow", keep_history=Keep(count=10, age_ms=10**12))
    for number in range(350):
        crons.tick(NOW + 1 + number)
    entries = crons.history()
    assert 10 <= len(entries) < 250
    newest = [entry.tick_ms for entry in entries[::-1]]
    command = croncalls.history(store.type, "daily", limit=3)
    page = tick_records(store.link.commands(command)[0])
    assert [entry.tick_ms for entry in page] == newest[:3]
    command = croncalls.history(store.type, "daily", limit=3, before=page[-1].cursor)
    page = tick_records(store.link.commands(command)[0])
    assert [entry.tick_ms for entry in page] == newest[3:6]


def test_history_is_kept_by_age(store: Store) -> None:
    """What is older goes, a block at a time."""
    crons = defined(store, overlap="allow", keep_history=Keep(count=10**6, age_ms=1000))
    for number in range(300):
        crons.tick(NOW + 1 + number)
    store.pass_ms(5000)
    crons.tick()
    assert len(crons.history()) < 150


@pytest.mark.parametrize("overlap", ["queue", "allow"])
def test_200_ticks_cost_little(fast_store: Store, overlap: Overlap) -> None:
    """At most sixteen commands a tick: 200 keep a quiet server for less than ten milliseconds."""
    crons = Crons(fast_store)
    names = [f"s{number}" for number in range(200)]
    many = [Definition(daily(name, overlap=overlap), "config") for name in names]
    fast_store.run(croncalls.define(fast_store.caller(), fast_store.type, many))
    for name in names:
        crons.known[name] = (daily(name, overlap=overlap), NOW)
    for _ in range(2):
        fast_store.pass_ms(MINUTE)
        before = commands_of(fast_store)
        crons.fire(*(crons.a_tick(name=name) for name in names))
        assert (commands_of(fast_store) - before) / 200 < 17


def commands_of(store: Store) -> int:
    """How many commands the server has carried out, those of scripts included."""
    stats = store.redis.info("commandstats").values()
    return sum(entry["calls"] for entry in stats)
