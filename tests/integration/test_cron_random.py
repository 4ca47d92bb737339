"""Schedules under random use: what must hold after every step, whatever came before."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.store.cronanswers import Ticked
from tests.support.crons import Crons, daily
from tests.support.store import LEASE, NOW, Store, verdict
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.model import Claim
    from scheduld.schedule import Overlap

STEPS = 150


class Life:
    """Random steps in the life of one schedule, and its invariants."""

    def __init__(self, store: Store, overlap: Overlap, seed: int) -> None:
        self.store = store
        self.overlap = overlap
        self.random = random.Random(seed)
        self.crons = Crons(store)
        self.crons.define(daily(overlap=overlap, max_unfinished=3))
        self.claims: list[Claim] = []
        self.marks = [NOW]
        self.number = 0
        self.is_lonely = True
        """Whether nothing but ticks and triggers has made a task unfinished."""

    def steps(self) -> list[Callable[[], Any]]:
        """All that can happen; some of it more often."""
        usual = [self.tick, self.claim, self.finish]
        return [
            *(usual * 4),
            *(self.finish_late, self.lose, self.cancel, self.requeue, self.replace, self.plain),
            *(self.purge, self.pause, self.resume, self.edit, self.trigger, self.backfill),
            *(self.anew, self.start_anew),
        ]

    def tick(self) -> None:
        """The next instant, sometimes after a gap, or twice."""
        self.store.pass_ms(self.random.choice([1, 1000, 60_000]))
        tick = self.crons.a_tick()
        told = self.crons.fire(tick)[0]
        again = self.crons.fire(tick)[0].code
        assert again in (Ticked.OTHER_MARK, Ticked.PAUSED)
        if told.code.is_told:
            assert told.mark_ms == self.store.time
            self.marks.append(self.store.time)

    def claim(self) -> None:
        """Take a few."""
        self.claims += self.store.claim(self.random.randint(1, 3)).claims

    def finish(self, kinds: tuple[str, ...] = ("done", "done", "retry", "dead", "release")) -> None:
        """End a run in some way, or find that it is too late for that."""
        if self.claims:
            claim = self.claims.pop(self.random.randrange(len(self.claims)))
            kind = self.random.choice(kinds)
            self.store.finish(claim, kind, detail="" if kind == "done" else "{}", delay_ms=500)

    def finish_late(self) -> None:
        """End one in the call that claims the next."""
        if self.claims:
            ended = verdict(self.claims.pop(0), detail=self.random.choice(["", "1"]))
            self.claims += self.store.claim(2, verdicts=[ended]).claims

    def lose(self) -> None:
        """The worker of all runs dies."""
        self.store.pass_ms(LEASE + 1)
        self.store.recover()

    def cancel(self) -> None:
        """Cancel a task."""
        self.store.cancel(self.some_id())

    def requeue(self) -> None:
        """Run an ended one again."""
        self.is_lonely = self.store.requeue(self.some_id()).code != 1 and self.is_lonely

    def replace(self) -> None:
        """Replace one that has not ended."""
        task_id = self.some_id()
        if self.store.state(task_id) in ("scheduled", "running"):
            self.store.add(task_id, on_conflict="replace")

    def plain(self) -> None:
        """Write one as any other language would."""
        self.store.plain(self.some_id(), self.store.time)

    def purge(self) -> None:
        """Remove what waits."""
        self.store.purge("scheduled", limit=self.random.randint(1, 3))

    def pause(self) -> None:
        """Pause it."""
        self.crons.pause()

    def resume(self) -> None:
        """Resume it, from now or with what was missed."""
        self.crons.resume(catch_up=self.random.random() < 0.5)

    def edit(self) -> None:
        """Another payload, or another rule."""
        self.number += 1
        changed: dict[str, Any] = {"payload": {"n": self.number}}
        if self.random.random() < 0.3:
            changed["cron"] = f"{self.number % 60} * * * *"
        self.crons.define(daily(overlap=self.overlap, max_unfinished=3, **changed))

    def trigger(self) -> None:
        """Make one by hand."""
        self.number += 1
        self.crons.trigger(number=self.number)

    def backfill(self) -> None:
        """Make one of the past."""
        self.number += 1
        self.crons.backfill(NOW - 1000 * self.number)

    def anew(self) -> None:
        """Remove the schedule and define it again, while its tasks run."""
        if self.random.random() < 0.3:
            self.crons.remove()
            self.crons.define(daily(overlap=self.overlap, max_unfinished=3))
            self.marks = [self.crons.record().mark_ms]

    def start_anew(self) -> None:
        """Claim all there is, and end it."""
        self.claims += self.store.claim().claims
        while self.claims:
            self.finish(("done",))

    def some_id(self) -> str:
        """An id that was seen, or none."""
        seen = [entry.task_id for entry in self.crons.history() if entry.task_id]
        return self.random.choice(seen or ["none"])

    def unfinished(self) -> set[str]:
        """Tasks of the schedule that have not ended, those of a backfill left out."""
        found = set()
        store = self.store
        for index in (store.type.due, store.type.leased):
            members: Any = store.redis.zrange(index, 0, -1)
            for raw_id in members:
                raw = store.read(raw_id.decode())
                is_ended = raw.finished_ms is not None or raw.died_ms is not None
                if raw.fields.get("schedule") == b"daily" and not is_ended:
                    found.add(raw_id.decode())
        scores: Any = store.redis.zrange(store.type.live("daily"), 0, -1, withscores=True)
        return found - {raw_id.decode() for raw_id, score in scores if score < 0}

    def check(self, step: str) -> None:
        """Fail for what must never be."""
        record, unfinished = self.crons.record(), self.unfinished()
        live: Any = self.store.redis.zrange(self.store.type.live("daily"), 0, -1, withscores=True)
        counted = {raw_id.decode() for raw_id, score in live if score >= 0}
        assert counted == unfinished, step
        assert record.unfinished == len(unfinished), step
        if record.is_queued and record.paused_ms is None:
            assert unfinished, f"after {step} a tick waits for nothing"
        if self.is_lonely and self.overlap != "allow":
            assert len(unfinished) <= 1, step
        fired = [entry.tick_ms for entry in self.crons.history() if entry.outcome == "fired"]
        fired = [tick for tick in fired if tick is not None]
        assert len(fired) == len(set(fired)), f"after {step} an instant has fired twice"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel", "allow"])
def test_random_lives(fast_store: Store, overlap: Overlap, seed: int) -> None:
    """`live` is what is unfinished, no tick waits for nothing, and no instant fires twice."""
    life = Life(fast_store, overlap, seed)
    steps = life.steps()
    for _ in range(STEPS):
        step = life.random.choice(steps)
        step()
        life.check(step.__name__)
    life.resume()
    for _ in range(50):
        life.start_anew()
        fast_store.pass_ms(LEASE + 1)
        fast_store.recover()
    assert life.crons.record().unfinished == 0
    assert not life.crons.record().is_queued
