"""Replicas that fire schedules, and agree about which definitions run."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from scheduld.engine import schedules as schedules_module
from scheduld.errors import RuleBroken
from scheduld.schedule import Schedule, tick_id
from scheduld.store import croncalls
from tests.support.engine_crons import (
    add_at_run_time,
    fired,
    has_fired,
    history,
    remove,
    schedule,
    serves,
    stored,
)
from tests.support.replicas import Site, until
from tests.support.tasks import Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tests.support.servers import RunningServer

YEARLY = "0 0 1 1 *"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas look at what is stored more often than they do for users."""
    monkeypatch.setattr(schedules_module, "EVERY_S", 0.1)


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


async def test_each_instant_is_fired_once_by_three_replicas(site: Site) -> None:
    """Every instant of the grid has one task, which runs once, and not before its instant."""
    journal, begun = Journal(), {}

    async def note(payload: Any, run: Any) -> None:
        begun[run.id] = await site.now_ms()

    one = schedule(payload={"kind": "daily"})
    for _ in range(3):
        await site.start(duty("a", journal.inline(note)), schedules=[one])
    await has_fired(site, 8)
    ticks = await fired(site)
    assert {after - before for before, after in pairwise(ticks)} == {200}
    firsts = {tick_id("report", tick, is_fine=True): tick for tick in ticks[:8]}
    await until(lambda: firsts.keys() <= begun.keys(), "their runs")
    assert len(journal.ids) == len(set(journal.ids))
    assert journal.starts[0].id in firsts
    assert journal.starts[0].payload == {"kind": "daily"}
    assert all(begun[task_id] >= tick for task_id, tick in firsts.items())


async def test_a_new_schedule_does_not_fire_for_the_past(site: Site) -> None:
    """A schedule that is seen for the first time begins now, and so after a restart of all."""
    journal = Journal()
    member = await site.start(duty("a", journal.inline()), schedules=[schedule(cron=YEARLY)])
    await until(lambda: serves(member), "the schedule is served")
    await member.stop()
    member = await site.start(duty("a", journal.inline()), schedules=[schedule(cron=YEARLY)])
    await until(lambda: serves(member), "the schedule is served again")
    assert not journal.ids
    assert not await history(site)


async def test_what_was_missed_is_fired_once_after_a_restart(site: Site) -> None:
    """The newest missed instant runs, the others are one record that counts them."""
    journal = Journal()
    one = schedule(every="1s")
    member = await site.start(duty("a", journal.inline()), schedules=[one])
    await has_fired(site, 1)
    await member.stop()
    # As if all had been away for an hour.
    key = site.keys.type("a").cron("report")
    mark = int(await site.redis.hget(key, "mark")) - 3_600_000
    await site.redis.hset(key, "mark", mark)
    before = len(await fired(site))
    await site.start(duty("a", journal.inline()), schedules=[one])
    await has_fired(site, before + 2)
    (gap,) = [record for record in await history(site) if record.outcome == "gap"]
    assert gap.from_ms == mark + 1_000
    assert gap.count == 1_000
    ticks = (await fired(site))[before:]
    assert ticks[0] > mark + 3_590_000


async def accepted(site: Site, digest: str) -> None:
    """Wait until a definition is the accepted one."""

    async def is_so() -> bool:
        record = await stored(site)
        return record is not None and record.digest == digest

    await until(is_so, "the definition is accepted")


async def test_replicas_catch_up_at_the_pace_of_one(site: Site) -> None:
    """However many there are, what was missed is released ten times a second at most."""
    journal, one = Journal(), schedule(every="1s", catch_up="all")
    member = await site.start(duty("a", journal.inline()), schedules=[one])
    await has_fired(site, 1)
    await member.stop()
    now = int(await site.now_ms())
    await site.redis.hset(site.keys.type("a").cron("report"), "mark", now - 30_000)
    for _ in range(3):
        await site.start(duty("a", journal.inline()), schedules=[one])
    await has_fired(site, 30)
    missed = [one for one in await history(site) if one.to_ms is None and one.at_ms > now]
    missed = [one for one in missed if (one.tick_ms or 0) < now - 1_000]
    assert len(missed) > 25
    # Some come at once: a replica that was started, or connected anew, tries without waiting.
    assert missed[-1].at_ms - missed[0].at_ms > len(missed) * 60


async def test_the_newest_config_wins_while_a_deploy_rolls(site: Site) -> None:
    """The new definition fires as soon as one replica has it, the old replicas say so and stand
    back; when the last one with the new config is gone, the old one is taken again."""
    journal = Journal()
    old, new = schedule(payload={"v": 1}), schedule(payload={"v": 2})
    first = await site.start(duty("a", journal.inline()), schedules=[old])
    await has_fired(site, 2)
    with capture_logs() as logs:
        second = await site.start(duty("a", journal.inline()), schedules=[new])
        await accepted(site, new.digest)
        await until(lambda: serves(first) is None, "the old config stands back")
        await until(lambda: {"v": 2} in payloads(journal), "the new one runs")
    told = [log for log in logs if "another replica's config" in log["event"]]
    assert [log["schedules"] for log in told] == ["report"]
    begun = len(journal.starts)
    await has_fired(site, len(await fired(site)) + 3)
    assert {"v": 1} not in payloads(journal)[begun:]
    await second.stop()
    await until(lambda: serves(first) == old.digest, "the old config is back")
    begun = len(journal.starts)
    await until(lambda: {"v": 1} in payloads(journal)[begun:], "the old one runs")
    ticks = await fired(site)
    assert len(ticks) == len(set(ticks))


def payloads(journal: Journal) -> list[Any]:
    """The payloads of the runs so far."""
    return [start.payload for start in journal.starts]


async def test_a_replica_that_is_ending_holds_up_no_rollback(site: Site) -> None:
    """It fires nothing any more while its last runs end, and lets those of the old config go on."""
    journal, may_end = Journal(), asyncio.Event()
    old, new = schedule(payload={"v": 1}), schedule(payload={"v": 2})
    member = await site.start(duty("a", journal.inline()), schedules=[old])
    await accepted(site, old.digest)

    async def long(payload: Any, run: Any) -> None:
        await may_end.wait()

    kinds = duty("a", journal.inline()), duty("b", journal.inline(long))
    ending = await site.start(*kinds, grace_s=30, schedules=[new])
    await accepted(site, new.digest)
    await site.add("b")
    await until(lambda: ending.replica.busy, "it runs")
    stopping = asyncio.create_task(ending.stop())
    await until(lambda: serves(member) == old.digest, "the old one fires")
    assert not stopping.done()
    may_end.set()
    await stopping


async def test_a_payload_edit_misses_no_tick(site: Site) -> None:
    """A restart with another payload leaves the watermark alone."""
    journal = Journal()
    member = await site.start(
        duty("a", journal.inline()), schedules=[schedule(every="1s", payload={"v": 1})]
    )
    await has_fired(site, 1)
    await member.stop()
    await site.start(
        duty("a", journal.inline()), schedules=[schedule(every="1s", payload={"v": 2})]
    )
    await has_fired(site, 3)
    ticks = await fired(site)
    assert {after - before for before, after in pairwise(ticks)} == {1_000}


async def test_a_schedule_moves_to_another_type(site: Site) -> None:
    """It fires in its new type from now on, and is gone from the old one."""
    journal, other = Journal(), Journal()
    duties = duty("a", journal.inline()), duty("b", other.inline())
    member = await site.start(*duties, schedules=[schedule()])
    await has_fired(site, 2)
    await member.stop()
    await site.start(*duties, schedules=[schedule(type="b")])
    await has_fired(site, 2, type_name="b")
    assert await stored(site) is None
    begun = len(journal.ids)
    await has_fired(site, 5, type_name="b")
    assert len(journal.ids) == begun
    assert await site.redis.hget(site.keys.crons, "report") == (
        f"b config {schedule(type='b').digest}".encode()
    )


async def test_a_paused_schedule_moves_paused(site: Site) -> None:
    """A deploy that gives it another type does not start what somebody has stopped."""
    journal = Journal()
    duties = duty("a", journal.inline()), duty("b", journal.inline())
    member = await site.start(*duties, schedules=[schedule()])
    await has_fired(site, 1)
    await site.client.schedules.pause("report", reason="broken")
    await member.stop()
    moved, other = schedule(type="b"), schedule("other", type="b")
    member = await site.start(*duties, schedules=[moved, other])
    await has_fired(site, 5, "other", "b")
    assert serves(member) == moved.digest
    assert not await fired(site, type_name="b")
    paused = (await site.client.schedules.get("report")).pause
    assert paused
    assert paused.reason == "broken"
    await site.client.schedules.resume("report")
    await has_fired(site, 2, type_name="b")


async def test_one_that_is_lost_goes_on_where_it_was(site: Site) -> None:
    """The tick at which a replica finds its schedules gone is fired all the same."""
    journal = Journal()
    await site.start(duty("a", journal.inline()), schedules=[schedule(every="1s")])
    await has_fired(site, 2)
    before = await fired(site)
    await site.redis.delete(*[key async for key in site.redis.scan_iter(f"{site.namespace}:*")])
    await has_fired(site, 3)
    ticks = before + await fired(site)
    assert {after - before for before, after in pairwise(ticks)} == {1_000}


async def test_one_that_is_not_enabled_is_kept_and_does_not_fire(site: Site) -> None:
    """It is stored, so that it can be seen; enabled again it begins then."""
    journal = Journal()
    member = await site.start(duty("a", journal.inline()), schedules=[schedule(enabled=False)])
    await accepted(site, schedule(enabled=False).digest)
    assert serves(member) is None
    await member.stop()
    await site.start(duty("a", journal.inline()), schedules=[schedule()])
    await has_fired(site, 1)
    assert not [record for record in await history(site) if record.outcome == "gap"]


async def test_schedules_that_are_added_and_removed_at_run_time(site: Site) -> None:
    """One is fired by every replica of its type as soon as it is added, and no more when gone."""
    journal = Journal()
    members = [await site.start(duty("a", journal.inline())) for _ in range(2)]
    other = await site.start(duty("b", journal.inline()))
    one = schedule("adhoc")
    await add_at_run_time(site, one)
    await has_fired(site, 3, "adhoc")
    assert [serves(member, "adhoc") for member in (*members, other)] == [one.digest] * 2 + [None]
    await remove(site, "adhoc")
    await until(lambda: not any(serves(member, "adhoc") for member in members), "it is dropped")
    count = len(journal.ids)
    await add_at_run_time(site, schedule("later", cron=YEARLY))
    await until(lambda: all(serves(member, "later") for member in members), "another one")
    assert len(journal.ids) == count


async def test_a_name_that_was_lost_is_given_again(site: Site) -> None:
    """The index is in another slot: what is lost with it was not removed."""
    journal = Journal()
    member = await site.start(duty("a", journal.inline()))
    for name in ("one", "two"):
        await add_at_run_time(site, schedule(name))
        await has_fired(site, 1, name)
    await site.redis.delete(site.keys.crons)
    for name in ("one", "two"):
        await has_fired(site, len(await fired(site, name)) + 5, name)
    await site.redis.hdel(site.keys.crons, "one")
    member.replica._timekeeping.look("one")
    await until(lambda: site.redis.hget(site.keys.crons, "one"), "it has its name again")
    await site.client.schedules.remove("one")
    await until(lambda: serves(member, "one") is None, "it is dropped")
    assert await site.redis.hkeys(site.keys.crons) == [b"two"]


async def test_one_added_at_run_time_keeps_its_name(site: Site) -> None:
    """A config entry of the same name is reported, and does not run."""
    journal = Journal()
    await add_at_run_time(site, schedule(payload={"from": "run time"}))
    with capture_logs() as logs:
        member = await site.start(
            duty("a", journal.inline()), schedules=[schedule(payload={"from": "config"})]
        )
        await until(lambda: len(journal.ids) > 1, "it fires")
    assert {start.payload["from"] for start in journal.starts} == {"run time"}
    told = [log["schedules"] for log in logs if "taken at run time" in log["event"]]
    assert told == ["report"]
    assert serves(member) == schedule(payload={"from": "run time"}).digest


async def test_a_pause_holds_and_a_resume_is_heard(site: Site) -> None:
    """No tick while it is paused; after the resume the next instant fires."""
    journal = Journal()
    await site.start(duty("a", journal.inline()), schedules=[schedule()])
    await has_fired(site, 1)
    keys = site.keys.type("a")
    await site.link.run(croncalls.pause(site.caller(), keys, "report", reason="x", who="me"))
    count = len(await fired(site))
    began = await site.now_ms()
    await until(lambda: _is_past(site, began + 700), "a few instants")
    assert len(await fired(site)) == count
    await site.link.run(croncalls.resume(site.caller(), keys, "report"))
    resumed = await site.now_ms()
    await has_fired(site, count + 2)
    ticks = await fired(site)
    assert resumed - 200 < ticks[count] < resumed + 1_000


async def _is_past(site: Site, ms: float) -> bool:
    return await site.now_ms() > ms


async def test_a_watermark_that_was_set_back_is_raised(site: Site) -> None:
    """What a failover made the store forget is not fired again, and is told."""
    journal = Journal()
    member = await site.start(duty("a", journal.inline()), schedules=[schedule(every="1s")])
    await has_fired(site, 2)
    key = site.keys.type("a").cron("report")
    with capture_logs() as logs:
        mark = int(await site.redis.hget(key, "mark"))
        await site.redis.hset(key, "mark", mark - 600_000)
        member.replica._timekeeping.look()
        await until(lambda: [log for log in logs if "set back" in log["event"]], "it is told")
    assert int(await site.redis.hget(key, "mark")) >= mark
    ticks = await fired(site)
    await has_fired(site, len(ticks) + 2)
    ticks = await fired(site)
    assert {after - before for before, after in pairwise(ticks)} == {1_000}
    assert not [record for record in await history(site) if record.outcome == "gap"]


async def test_a_resume_may_set_the_watermark_back_from_the_future(site: Site) -> None:
    """After a clock that was years ahead is right again, pause and resume let it go on."""
    journal = Journal()
    with capture_logs() as logs:
        await site.start(duty("a", journal.inline()), schedules=[schedule()])
        await has_fired(site, 1)
        key = site.keys.type("a").cron("report")
        await site.redis.hset(key, "mark", int(await site.now_ms()) + 10**11)
        await until(lambda: [log for log in logs if "yet to come" in log["event"]], "told")
    count = len(await fired(site))
    keys = site.keys.type("a")
    await site.link.run(croncalls.pause(site.caller(), keys, "report", reason="x", who="me"))
    await site.link.run(croncalls.resume(site.caller(), keys, "report"))
    await has_fired(site, count + 2)


async def test_one_broken_schedule_does_not_stop_the_others(site: Site) -> None:
    """A key of a wrong type, a rule that breaks and one that nobody can read are told and
    left out; what is parked shows why."""
    journal = Journal()
    names = ["good", "wrongtype", "breaks", "later"]
    await site.redis.set(site.keys.type("a").live("wrongtype"), "text")
    with capture_logs() as logs:
        member = await site.start(
            duty("a", journal.inline()), schedules=[schedule(name) for name in names]
        )
        await until(lambda: serves(member, "breaks"), "it is served")
        entry = member.replica._timekeeping.ticker._table.get("breaks")
        assert entry is not None
        entry.rule = Broken()
        await add_at_run_time(site, schedule("nonsense", cron="99 * * * *"))
        await site.redis.hset(site.keys.crons, "strange", "a runtime 00")
        await site.redis.set(site.keys.type("a").cron("strange"), "text")
        await until(lambda: len({log.get("schedule") for log in logs}) > 4, "all are told")
        await has_fired(site, 5, "good")
        await has_fired(site, 5, "later")
    told = [log for log in logs if log["log_level"] == "error"]
    assert len(told) == 4, told
    parked = await stored(site, "breaks")
    assert parked is not None
    assert "no progress" in parked.parked
    parked = await stored(site, "nonsense")
    assert parked is not None
    assert "99" in parked.parked
    await member.stop()
    await site.start(duty("a", journal.inline()), schedules=[schedule(name) for name in names])
    await has_fired(site, 2, "breaks")
    whole = await stored(site, "breaks")
    assert whole is not None
    assert not whole.parked


@pytest.mark.parametrize(
    "values",
    [
        {"type": "b"},
        {"every": ["1s"]},
        {"every": "0s"},
        {"every": None},
        {"timezone": "Mars/Olympus"},
        {"starts_at_ms": "soon"},
        {"jitter_ms": "5"},
        {"keep_history": 5},
    ],
)
async def test_stored_nonsense_stops_nothing(site: Site, values: dict[str, Any]) -> None:
    """A definition that another program has spoilt is told and left out; others go on."""
    journal = Journal()
    await add_at_run_time(site, schedule("spoilt"))
    key = site.keys.type("a").cron("spoilt")
    definition = json.loads(await site.redis.hget(key, "definition"))
    await site.redis.hset(key, "definition", json.dumps({**definition, **values}))
    with capture_logs() as logs:
        await site.start(duty("a", journal.inline()), schedules=[schedule("good")])
        await until(lambda: [log for log in logs if log["log_level"] == "error"], "it is told")
        await has_fired(site, 3, "good")
    assert len([log for log in logs if log["log_level"] == "error"]) == 1, logs
    assert not [log for log in logs if "loop paused" in log["event"]]


@pytest.mark.parametrize("key", ["crons", "defs", "nodes"])
async def test_common_keys_of_a_wrong_type(site: Site, key: str) -> None:
    """While such a key holds something else that is told, tasks run, and what fires goes on."""
    journal = Journal()
    await site.start(duty("a", journal.inline()), schedules=[schedule()])
    await has_fired(site, 1)
    name = getattr(site.keys, key)
    await site.redis.delete(name)
    await site.redis.set(name, "text")
    count = len(await fired(site))
    await has_fired(site, count + 5)
    task_id = await site.add("a")
    await site.ended("a", task_id)


class Broken:
    """A rule that finds out that it does not go forward."""

    def after(self, ms: int) -> int | None:
        """Raise."""
        raise RuleBroken("no progress")

    def newest(self, after_ms: int, until_ms: int, count: int = 1) -> list[int]:
        """Raise."""
        raise RuleBroken("no progress")

    def count(self, after_ms: int, until_ms: int, most: int = 1_000) -> int:
        """Raise."""
        raise RuleBroken("no progress")


async def test_schedules_without_an_owner_are_removed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is in no live replica's config any more is not fired; after a while it is removed,
    with the tasks of it that wait. One of a replica that lives is not."""
    journal = Journal()
    gone, kept = schedule("gone", jitter_ms=199), schedule("kept", type="b")
    late = schedule("late", every="1s", jitter_ms=999)
    owner = await site.start(duty("a", journal.inline()), schedules=[gone, late])
    await has_fired(site, 1, "gone")
    await has_fired(site, 1, "late")
    await owner.stop()
    await site.start(duty("b", journal.inline()), schedules=[kept])
    member = await site.start(duty("a", journal.inline()))
    orphans = member.replica._timekeeping.schedules._orphans
    monkeypatch.setattr(orphans, "_sure_s", 0.3)
    monkeypatch.setattr(orphans, "_after_ms", 2_000)

    async def is_removed() -> bool:
        names = set(await site.redis.hkeys(site.keys.crons))
        return names == {b"kept"}

    with capture_logs() as logs:
        await until(is_removed, "it is removed")
        await until(lambda: removed(logs) == {"gone", "late"}, "it is told")
    assert await stored(site, "gone") is None
    assert not await site.client.list("a", state="scheduled")
    await has_fired(site, 3, "kept", "b")


def removed(logs: Sequence[Mapping[str, Any]]) -> set[str]:
    """The schedules that were removed, as the log tells."""
    lines = [log["schedules"] for log in logs if "schedules removed" in log["event"]]
    return set(" ".join(lines).split())


async def test_nothing_is_fired_once_a_stop_begins(site: Site) -> None:
    """The stop of the only replica leaves what comes due to the next one."""
    journal = Journal()
    member = await site.start(duty("a", journal.inline()), schedules=[schedule()])
    await has_fired(site, 2)
    await member.stop()
    count = len(await fired(site))
    began = await site.now_ms()
    await until(lambda: _is_past(site, began + 500), "a few instants")
    assert len(await fired(site)) == count


@pytest.mark.parametrize(
    ("values", "count"), [({"max_runs": 2}, 2), ({"ends": 500}, 2), ({"starts": 10_000}, 0)]
)
async def test_limits_of_a_schedule(site: Site, values: dict[str, int], count: int) -> None:
    """`max_runs`, `ends_at` and `starts_at` end and begin it exactly."""
    journal = Journal()
    grid = int(await site.now_ms()) // 200 * 200 + 1_000
    bounds: dict[str, Any] = {}
    if "max_runs" in values:
        bounds["max_runs"] = values["max_runs"]
    if "ends" in values:
        bounds |= {"starts_at_ms": grid, "ends_at_ms": grid + 200}
    if "starts" in values:
        bounds["starts_at_ms"] = grid + values["starts"]
    await site.start(duty("a", journal.inline()), schedules=[schedule(**bounds)])
    await has_fired(site, count)
    await until(lambda: _is_past(site, grid + 1_000), "it would fire again")
    assert len(await fired(site)) == count


async def test_a_tick_with_jitter_is_due_later_and_the_same_everywhere(site: Site) -> None:
    """Its task keeps the nominal instant in its id, and starts within the jitter."""
    journal = Journal()
    one = schedule(every="1s", jitter_ms=500)
    for _ in range(2):
        await site.start(duty("a", journal.inline()), schedules=[one])
    await has_fired(site, 3)
    await until(lambda: len(journal.ids) >= 2, "two runs")
    task = await site.task("a", journal.ids[0])
    assert task.due_ms is not None
    tick = (await fired(site))[0]
    assert tick <= task.due_ms <= tick + 500


async def test_many_at_one_instant_do_not_block_the_loop(site: Site) -> None:
    """While hundreds of schedules fire, the loop takes other turns all along."""
    journal = Journal()
    every = [schedule(f"s{number}", every="2s") for number in range(600)]
    member = await site.start(duty("a", journal.inline(), concurrency=50), schedules=every)
    await until(lambda: serves(member, "s599"), "all are served")
    longest, last = 0.0, time.thread_time()

    async def watch() -> None:
        nonlocal longest, last
        while len(journal.ids) < 600:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    await asyncio.wait_for(watch(), 20)
    assert longest < 0.15, "seconds of this thread's CPU, whatever else the machine does"
    assert len(set(journal.ids)) == len(journal.ids)


async def test_a_midnight_takes_one_call_a_type(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their order, so that those of many types are not late, and lost, for each other."""
    types = [f"t{number}" for number in range(10)]
    begin = {"every": "1d", "starts_at_ms": int(await site.now_ms()) + 2_500, "catch_up": "none"}
    many = [schedule(f"s{n}", type=types[n % 10], **begin) for n in range(400)]
    duties = [duty(name, Journal().inline()) for name in types]
    member = await site.start(*duties, schedules=many)
    ticker, sizes = member.replica._timekeeping.ticker, []
    await until(lambda: ticker.count == 400, "all are served")
    send = ticker._send

    async def counted(type_name: str, planned: Sequence[Any]) -> None:
        sizes.append(len(planned))
        await send(type_name, planned)

    monkeypatch.setattr(ticker, "_send", counted)
    await until(lambda: sum(sizes) >= 400, "all are fired")
    assert sizes == [40] * 10


def test_helpers() -> None:
    """The schedule of these tests is one that a config could have."""
    assert Schedule.from_json("report", schedule().to_json()) == schedule()


async def test_a_paused_type_collects_no_more_than_allowed(site: Site) -> None:
    """Ticks go on while nothing is run of them; what waits stays within `max_unfinished`."""
    journal = Journal()
    await site.start(duty("a", journal.inline()), schedules=[schedule(max_unfinished=3)])
    await has_fired(site, 1)
    await site.client.pause("a", reason="a test")

    async def backlog() -> bool:
        return [one.outcome for one in await history(site)].count("backlog") >= 4

    await until(backlog, "ticks beyond the limit")
    assert len(await site.client.list("a", state="scheduled")) <= 3
    count = len(await fired(site))
    await site.client.resume("a")
    await has_fired(site, count + 2)
    await until(lambda: len(set(journal.ids)) >= count, "what waited has run")
