"""A replica whose types are paused, and whose tasks are changed, while it works."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduld import Conflict
from tests.integration.test_engine_claims import claim_unanswered, rarely
from tests.integration.test_engine_claims import proxy as proxy
from tests.integration.test_engine_claims import site as site
from tests.support.replicas import until
from tests.support.tasks import Gate, Journal

if TYPE_CHECKING:
    import pytest

    from scheduld.store.calls import Call
    from tests.support.proxy import Proxy
    from tests.support.replicas import Member, Site


def counted(member: Member, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the calls of a replica, from now on."""
    sent: list[str] = []
    run = member.replica.link.run

    async def noted(call: Call[Any]) -> Any:
        sent.append(call.script.name)
        return await run(call)

    monkeypatch.setattr(member.replica.link, "run", noted)
    return sent


async def test_a_pause_stops_starts_and_nothing_else(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs ends; what is due waits, without being asked for again and again; after the
    resume all of it runs at once, though the next look would be an hour away."""
    gate, journal = Gate(), Journal()
    member = await site.start(rarely(journal.inline(gate.inline)))
    first = await site.add("a")
    await until(lambda: journal.has_started(1), "the first runs")
    await site.client.pause("a", reason="a test")
    sent = counted(member, monkeypatch)
    others = [await site.add("a", in_s=wait) for wait in (0, 0, 0.03, 0.06)]
    gate.open()
    await site.ended("a", first)
    for _ in range(20):  # as many round trips as a spinning poller would use, and more
        assert (await site.client.paused("a"))[0].reason == "a test"
    last = await site.task("a", others[-1])
    await until(lambda: _is_past(site, last.due_ms), "all are due")
    assert journal.has_started(1)
    assert len(sent) <= 8, "a claim a wake-up, and the verdict"
    assert await site.client.resume("a")
    for task_id in others:
        task = await site.ended("a", task_id)
        assert (task.failed, task.interruptions) == (0, 0)


async def _is_past(site: Site, due_ms: int | None) -> bool:
    return await site.now_ms() > (due_ms or 0)


async def hold(site: Site, member: Member) -> str:
    """Add a task that the replica claims before its due; its id."""
    while True:
        task_id = await site.add("a", in_s=0.045)
        key = site.keys.type("a").task(task_id.encode())
        member.poller("a").look()
        while (await site.task("a", task_id)).state == "scheduled":
            if await site.redis.hexists(key, "early"):
                return task_id


async def test_a_task_held_early_does_not_start_while_paused(site: Site) -> None:
    """A pause between its claim and its due is in time, and gives it back."""
    journal = Journal()
    member = await site.start(rarely(journal.inline()))
    in_time = 0
    while in_time < 3:
        task_id = await hold(site, member)
        await site.client.pause("a")
        task = await site.task("a", task_id)
        if task.state == "scheduled":
            in_time += 1
            due = site.keys.type("a").due
            await until(partial(site.redis.zscore, due, task_id), "it is given back")
            await until(partial(_is_past, site, task.due_ms), "it is due")
            assert task_id not in journal.ids
        await site.client.resume("a")
        await site.ended("a", task_id)


async def test_a_claim_without_answer_is_not_begun_while_paused(site: Site, proxy: Proxy) -> None:
    """The replica asks again, and gets nothing: the tasks are back, and run after the resume."""
    journal = Journal()
    member = await site.start(rarely(journal.inline()), url=proxy.url)
    ids = await claim_unanswered(site, proxy, member, 3)
    await site.client.pause("a")
    await proxy.become("pass")
    await until(lambda: not member.poller("a")._unanswered, "answered")
    assert journal.has_started(0)
    assert {(await site.task("a", task_id)).state for task_id in ids} == {"scheduled"}
    await site.client.resume("a")
    tasks = [await site.ended("a", task_id) for task_id in ids]
    assert {(task.interruptions, task.releases) for task in tasks} == {(0, 0)}
    assert sorted(journal.ids) == sorted(ids)


async def test_changes_are_heard(site: Site) -> None:
    """A task of next hour that is run now, or moved to now, runs at once; with its new payload."""
    journal = Journal()
    await site.start(rarely(journal.inline()))
    one, other = [await site.add("a", {"n": 1}, in_s=3600) for _ in range(2)]
    await site.client.run_now("a", one)
    await site.ended("a", one)
    await site.client.edit("a", other, merge={"m": 2}, delay=0)
    await site.ended("a", other)
    assert [start.payload for start in journal.starts] == [{"n": 1}, {"n": 1, "m": 2}]


async def test_a_task_held_early_is_moved(site: Site) -> None:
    """An edit between its early claim and its due is in time: it does not run before the new
    due."""
    journal = Journal()
    member = await site.start(rarely(journal.inline()))
    moved: set[str] = set()
    while len(moved) < 3:
        task_id = await hold(site, member)
        with suppress(Conflict):  # it has begun
            await site.client.edit("a", task_id, delay="1h")
            moved.add(task_id)
    await site.ended("a", await site.add("a", in_s=0.06))
    assert not moved & set(journal.ids)
