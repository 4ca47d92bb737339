"""Lists over many pages: nothing is missed, nothing comes twice, and the limit holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduld.client import listing
from scheduld.model import State
from tests.support.replicas import Site
from tests.support.tasks import Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import RunningServer


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A fresh namespace."""
    async with Site(valkey_server.url) as site:
        yield site


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read three tasks a call, and look at two times four ended ones at once."""
    monkeypatch.setattr(listing, "_PAGE", 3)
    monkeypatch.setattr(listing, "_LOOKED_AT", 4)
    monkeypatch.setattr(listing, "_CALLS_AT_ONCE", 2)


@pytest.mark.usefixtures("small_pages")
async def test_done_and_cancelled_are_told_apart(site: Site) -> None:
    """Twenty done and seven cancelled share an index: each list has its own, up to its limit."""
    cancelled, done = [], []
    for number in range(27):
        if number % 4 == 1:
            cancelled.append(await site.add("a", in_s=60))
            await site.client.cancel("a", cancelled[-1])
        else:
            done.append(await site.add("a"))
    await site.start(duty("a", Journal().inline()))
    for task_id in done:
        await site.ended("a", task_id)
    for state, ids in ((State.DONE, done), (State.CANCELLED, cancelled)):
        found = await site.client.list("a", state=state)
        assert sorted(task.id for task in found) == sorted(ids)
        assert {task.state for task in found} == {state}
        some = await site.client.list("a", state=state, limit=5)
        assert [task.id for task in some] == [task.id for task in found[:5]]
    everything = await site.client.list("a")
    assert sorted(task.id for task in everything) == sorted(done + cancelled)


@pytest.mark.usefixtures("small_pages")
async def test_scheduled_ones_come_in_order(site: Site) -> None:
    """Ten scheduled ones, some due at one instant, come by due and id, each once."""
    when = [50, 10, 30, 30, 30, 30, 30, 20, 40, 59]
    ids = [f"t{n}" for n in range(len(when))]
    for task_id, second in zip(ids, when, strict=True):
        at = f"2099-01-01T00:00:{second:02}Z"
        await site.client.schedule("a", id=task_id, at=at, allow_unknown=True)
    expected = [task_id for _, task_id in sorted(zip(when, ids, strict=True))]
    for limit in (1, 3, 4, 10, 100):
        found = await site.client.list("a", state="scheduled", limit=limit)
        assert [task.id for task in found] == expected[:limit]


async def test_a_filter_that_nothing_fits(site: Site) -> None:
    """No cancelled one among done ones is an empty list."""
    task_id = await site.add("a")
    await site.start(duty("a", Journal().inline()))
    await site.ended("a", task_id)
    assert await site.client.list("a", state=State.CANCELLED) == []
