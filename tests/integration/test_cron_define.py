"""Definitions of schedules: stored by compare-and-set, moved, and read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduld.schedule import Schedule
from scheduld.store import croncalls
from scheduld.store.cronanswers import Defined, Steered, Ticked
from scheduld.store.croncalls import Definition
from tests.support.crons import MINUTE, Crons, daily
from tests.support.store import NOW, Store
from tests.support.store import any_store as any_store
from tests.support.store import valkey_store as valkey_store


def test_a_new_schedule_begins_now(store: Store) -> None:
    """Nothing before its definition is a missed tick."""
    crons = Crons(store)
    schedule = daily(payload={"to": "ana@b.c", "list": [], "big": 12345678901234567}, max_runs=3)
    told = crons.define(schedule)
    assert told == (Defined.NEW, NOW, schedule.digest)
    record = crons.record()
    assert record.schedule == schedule
    assert (record.mark_ms, record.runs, record.origin) == (NOW, 0, "config")
    assert (record.last, record.queued_ms, record.paused_ms, record.skips) == (None, None, None, ())
    store.pass_ms(MINUTE)
    crons.tick()
    assert store.take("daily@2026-09-21T14:14:20Z").payload == (
        b'{"to":"ana@b.c","list":[],"big":12345678901234567}'
    )


def test_the_same_again_changes_nothing(store: Store) -> None:
    """A repeat answers that it is stored, whatever it expected; the watermark stays."""
    crons = Crons(store)
    crons.define()
    before = store.dump()
    store.pass_ms(MINUTE)
    for expected in ("", "0123", None):
        assert crons.define(expected=expected) == (Defined.SAME, NOW, daily().digest)
    assert store.dump() == before


def test_another_payload_leaves_the_watermark(store: Store) -> None:
    """An edit of what does not decide the instants is no new begin."""
    crons = Crons(store)
    crons.define(daily(max_runs=5))
    store.pass_ms(MINUTE)
    assert crons.define(daily(payload={"n": 2})).code is Defined.CHANGED
    assert crons.record().mark_ms == NOW
    assert "max_runs" not in crons.record().fields


@pytest.mark.parametrize(
    "values",
    [{"cron": "0 8 * * *"}, {"timezone": "Europe/Madrid"}, {"starts_at_ms": NOW}],
    ids=lambda values: next(iter(values)),
)
def test_another_rule_begins_now(store: Store, values: dict[str, Any]) -> None:
    """A changed rule or zone never makes past instants missed ones."""
    crons = Crons(store)
    crons.define()
    store.pass_ms(MINUTE)
    assert crons.define(daily(**values)) == (
        Defined.RULE_CHANGED,
        store.time,
        daily(**values).digest,
    )
    assert crons.record().mark_ms == store.time


def test_a_definition_takes_the_place_of_the_expected_one_only(store: Store) -> None:
    """Who decided from an older definition is told the one that counts."""
    crons = Crons(store)
    crons.define()
    other = daily(payload={"n": 2})
    assert crons.define(other, expected="").code is Defined.OTHER_DIGEST
    assert crons.define(other, expected="0123").code is Defined.OTHER_DIGEST
    told = crons.define(other, expected=daily().digest)
    assert told.code is Defined.CHANGED
    late = crons.define(daily(payload={"n": 3}), expected=daily().digest)
    assert late == (Defined.OTHER_DIGEST, NOW, other.digest)
    assert crons.record().digest == other.digest
    gone = daily("gone")
    assert crons.define(gone, expected="0123") == (Defined.OTHER_DIGEST, 0, gone.digest)


def test_a_name_belongs_to_the_config_or_to_the_run_time(store: Store) -> None:
    """Neither takes the other's name, not even with the same definition."""
    crons = Crons(store)
    crons.define(daily("a"), origin="runtime")
    crons.define(daily("b"), origin="config")
    before = store.dump()
    assert crons.define(daily("a"), origin="config").code is Defined.OTHER_ORIGIN
    assert crons.define(daily("b"), origin="runtime").code is Defined.OTHER_ORIGIN
    assert store.dump() == before


def test_a_changed_definition_of_the_run_time_is_told(store: Store) -> None:
    """Replicas hear of it and look; of those of a config they know themselves."""
    crons = Crons(store)
    with store.wakeups() as heard:
        crons.define(daily("a"), origin="runtime")
        crons.define(daily("a"), origin="runtime")
        crons.define(daily("b"))
    assert heard == ["job cron a"]


def test_one_that_has_moved_fires_no_more(store: Store) -> None:
    """A replica that missed the move cannot fire it or bring it back; who knows of it can."""
    crons = Crons(store)
    crons.define()
    with store.wakeups() as heard:
        code = store.run(croncalls.move(store.caller(), store.type, "daily", to="other"))
    assert (code, heard) == (Steered.DONE, ["job cron daily"])
    store.pass_ms(MINUTE)
    (told,) = crons.fire(crons.a_tick())
    assert (told.code, told.detail) == (Ticked.MOVED, "other")
    assert crons.trigger() is Ticked.MOVED
    assert crons.backfill(NOW).code is Steered.MOVED
    assert {crons.pause().code, crons.resume().code, crons.skips().code} == {Steered.MOVED}
    assert crons.define().digest == "moved:other"
    assert (crons.record().moved, crons.record().digest) == ("other", "moved:other")
    assert crons.define(expected="moved:other") == (
        Defined.RULE_CHANGED,
        store.time,
        daily().digest,
    )
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED


def test_a_name_left_behind_by_a_move_is_free(store: Store) -> None:
    """A move that was cut short takes the name from nobody, wherever the next one comes from."""
    crons = Crons(store)
    crons.define(origin="runtime")
    store.run(croncalls.move(store.caller(), store.type, "daily", to="other"))
    assert crons.define(daily(payload={"n": 1}), expected="").digest == "moved:other"
    told = crons.define(daily(payload={"n": 1}), expected="moved:other")
    assert told.code is Defined.RULE_CHANGED
    assert crons.record().origin == "config"
    assert not crons.record().moved


def test_one_that_was_lost_goes_on_where_it_was(store: Store) -> None:
    """Who has fired it until now says how far it was; that counts only where nothing is stored."""
    crons = Crons(store)
    store.pass_ms(MINUTE)
    assert crons.define(carried={"mark": NOW}) == (Defined.NEW, NOW, daily().digest)
    assert crons.define(daily(payload={"n": 1}), carried={"mark": 5}).mark_ms == NOW
    assert crons.define(daily("b"), carried={"mark": NOW * 2}).mark_ms == store.time


def test_what_people_said_moves_along(store: Store) -> None:
    """Paused, with its skips and its count of runs, it is so in the other type."""
    crons = Crons(store)
    crons.define(daily(max_runs=3))
    store.pass_ms(MINUTE)
    crons.tick()
    crons.pause(reason="moving house = no mail")
    crons.skips(add=[(NOW * 2, NOW * 2)])
    before = crons.record()
    crons.remove()
    crons.define(daily(payload={"of": "other"}, max_runs=3), carried=before.carried)
    after = crons.record()
    assert (after.paused_ms, after.pause_reason, after.pause_who, after.skips, after.runs) == (
        before.paused_ms,
        "moving house = no mail",
        "ana@host",
        ((NOW * 2, NOW * 2),),
        1,
    )
    assert after.mark_ms == store.time


def test_many_definitions_go_in_one_call(store: Store) -> None:
    """Each with a code of its own, broken ones among them; more than 200 are refused."""
    names = [f"s{number}" for number in range(200)]
    store.redis.set(store.type.cron("s7"), "foreign", px=60_000)
    store.redis.set(store.type.live("s8"), "foreign", px=60_000)
    store.redis.set(store.type.ticks("s9"), "foreign", px=60_000)
    many = [Definition(daily(name), "config") for name in names]
    told = store.run(croncalls.define(store.caller(), store.type, many))
    broken = {name for name, one in zip(names, told, strict=True) if one.code is Defined.BROKEN}
    assert broken == {"s7", "s8", "s9"}
    assert sum(one.code is Defined.NEW for one in told) == 197
    records = store.run(croncalls.read(store.caller(), store.type, [*names[1:], "none"]))
    assert [record and record.key_type for record in records[4:9]] == [
        "hash",
        "hash",
        "string",
        None,
        None,
    ]
    assert records[-1] is None
    with pytest.raises(ValueError, match="at most 200 schedules, not 201"):
        croncalls.define(store.caller(), store.type, [*many, many[0]])


def test_a_foreign_hash_in_its_place_is_no_schedule(store: Store) -> None:
    """What has no digest was never defined; a definition takes its place as a whole."""
    store.redis.hset(store.type.cron("daily"), mapping={"paused": "1", "mark": "x"})
    crons = Crons(store)
    record = crons.record()
    assert (record.schedule, record.digest, record.mark_ms) == (None, "", 0)
    assert crons.pause().code is Steered.GONE
    assert crons.define().code is Defined.NEW
    assert crons.record().paused_ms is None


def test_stored_fields_may_be_anything(store: Store) -> None:
    """Numbers and texts that others wrote into the hash break no call and no reading."""
    crons = Crons(store)
    crons.define(daily(overlap="allow"))
    names = ("runs", "most", "keep", "skips", "queued", "last", "orphan", "max_runs")
    junk: Any = dict.fromkeys(names, b"\xff x")
    junk["keep"] = b"9" * 40 + b" " + b"9" * 40
    store.redis.hset(store.type.cron("daily"), mapping=junk)
    record = crons.record()
    assert (record.runs, record.skips, record.last, record.orphan_ms) == (0, (), None, None)
    assert (record.queued_ms, record.is_queued) == (None, True)
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED
    store.finish(store.take("daily@2026-09-21T14:14:20Z"))
    assert crons.skips(add=[(store.time, store.time + 9)]).ranges == ((store.time, store.time + 9),)
    store.redis.hset(store.type.cron("daily"), "mark", "never")
    assert crons.fire(crons.a_tick())[0] == (Ticked.OTHER_MARK, 0, "")
    store.redis.hset(store.type.cron("daily"), "definition", b"\xff{")
    assert crons.record().schedule is None


def test_a_definition_survives_its_round_trip(fast_store: Store) -> None:
    """Every field comes back as it went, from the hash and under its name."""
    schedule = replace(
        daily(catch_up="all", overlap="allow", max_runs=7, jitter_ms=5, ends_at_ms=NOW),
        cron=None,
        every="1mo",
        dst_gap="skip",
        payload={"é": ["ü", None, 1.5]},
    )
    crons = Crons(fast_store)
    crons.define(schedule)
    assert crons.record().schedule == schedule
    assert (
        Schedule.from_json("daily", crons.record().fields["definition"]).digest == schedule.digest
    )


def test_a_note_that_it_is_parked_goes_with_the_next_definition(store: Store) -> None:
    """Why one cannot be fired is kept with the definition it is about, and with no other."""
    crons = Crons(store)
    crons.define()

    def park(digest: str, name: str = "daily") -> Steered:
        call = croncalls.park(store.caller(), store.type, name, digest=digest, why="no zone")
        return store.run(call)

    assert park("0123") is Steered.UNNEEDED
    assert park(daily().digest, "unknown") is Steered.GONE
    assert not crons.record().parked
    assert park(daily().digest) is Steered.DONE
    assert crons.record().parked == "no zone"
    store.pass_ms(MINUTE)
    assert crons.tick() is Ticked.FIRED, "another replica may know the zone"
    assert not crons.record().parked
    assert park(daily().digest) is Steered.DONE
    assert crons.define().code is Defined.SAME
    assert not crons.record().parked
