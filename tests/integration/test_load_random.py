"""Any sequence of calls with priorities, keys, limits, unique tasks: nothing lost or doubled."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.model import Rate
from scheduld.store.answers import Added
from scheduld.store.keys import encode_id
from tests.support.store import LEASE, Store
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from scheduld.model import Claim

STEPS = 250
MOST_RUNNING, MOST_OF_KEY = 5, 2
LIVE = ("due", "leased")


class Storm:
    """Random calls against one type that has every limit, and what must hold after each."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.claims: list[Claim] = []
        self.keys: dict[str, str] = {}
        self.made = 0
        self.accepted: set[str] = set()
        store.kind = replace(
            store.kind,
            max_running=MOST_RUNNING,
            rate_limit=Rate(40, 5_000),
            max_running_per_key=MOST_OF_KEY,
            rate_limit_per_key=Rate(10, 5_000),
            max_interruptions=1_000,
        )

    def step(self) -> None:
        """Do one thing."""
        choices = [self.add] * 3 + [self.claim] * 3 + [self.end] * 3
        choices += [self.cancel, self.run_now, self.requeue, self.plain, self.lose, self.wait]
        choices += [self.edit, self.purge, self.confirm, self.change_limits, self.pause]
        self.random.choice(choices)()

    def any_id(self) -> str:
        """An id that was added, or one that never was."""
        return self.random.choice([*sorted(self.accepted), "never"])

    def add(self) -> None:
        """Add a task that says anything about load, under a new id or one that is there."""
        self.made += 1
        draw = self.random.random
        lines = []
        if draw() < 0.6:
            lines.append(f"priority={self.random.choice([-100, -1, 1, 100])}")
        if draw() < 0.6:
            lines.append(f"key={self.random.choice('xy')}")
        if draw() < 0.1:
            lines.append(f"expires_after={self.random.choice([1, 1_000])}")
        if draw() < 0.4:
            lines.append(f"unique={self.random.choice('abc')}")
            if draw() < 0.3:
                lines.append("debounce=50")
        task_id = f"t{self.made}" if draw() < 0.8 else self.any_id()
        at = self.store.time + self.random.choice([-90_000, 0, 0, 30, 2_000])
        word = self.random.choice(["error", "keep", "replace", "rerun"])
        added = self.store.add(task_id, at, load="\n".join(lines), on_conflict=word)  # type: ignore[arg-type]
        if added.code in (Added.CREATED, Added.SUCCESSOR):
            self.accepted.add((added.raw_id or encode_id(task_id)).decode())

    def claim(self) -> None:
        """Claim as one of two replicas."""
        answer = self.store.claim(
            self.random.choice([1, 3, 100]), node=self.random.choice("pq"), early_ms=50
        )
        self.claims += answer.claims

    def end(self) -> None:
        """Store the end of any claim, maybe late, maybe twice."""
        if self.claims:
            claim = self.random.choice(self.claims[-12:])
            kind = self.random.choice(["done", "done", "retry", "dead", "release", "snooze"])
            when = {"at_ms": self.store.time + 30} if kind == "snooze" else {"delay_ms": 20}
            self.store.finish(claim, kind, detail="" if kind == "done" else "{}", **when)

    def cancel(self) -> None:
        """Cancel a task."""
        self.store.cancel(self.any_id())

    def run_now(self) -> None:
        """Make a task due now."""
        self.store.run_now(self.any_id())

    def edit(self) -> None:
        """Move a task that waits, or give it another payload."""
        at_ms = self.store.time + self.random.choice([-1_000, 30, 9_000])
        change: dict[str, Any] = self.random.choice([{"at_ms": at_ms}, {"payload": b"{}"}])
        self.store.edit(self.any_id(), **change)

    def purge(self) -> None:
        """Remove the first task that waits."""
        first: Any = self.store.redis.zrange(self.store.type.due, 0, 0)
        if first and self.store.purge("scheduled", limit=1).removed:
            self.accepted.discard(first[0].decode())

    def confirm(self) -> None:
        """Start what was claimed early, or learn that it cannot."""
        if self.claims:
            self.store.start(self.random.choice(self.claims[-12:]))

    def change_limits(self) -> None:
        """Another config is loaded."""
        most = self.random.choice([1, MOST_OF_KEY])
        self.store.kind = replace(self.store.kind, max_running_per_key=most)

    def pause(self) -> None:
        """Pause the type, or let it go on."""
        if not self.store.resume():
            self.store.pause()

    def requeue(self) -> None:
        """Schedule an ended task again."""
        self.store.requeue(self.any_id())

    def plain(self) -> None:
        """Schedule an id as another program does."""
        task_id = self.any_id()
        self.accepted.add(task_id)
        self.store.plain(task_id, self.store.time + 10)

    def lose(self) -> None:
        """Let all leases run out, and most be given back."""
        self.store.pass_ms(LEASE + 1)
        self.store.recover(limit=3)

    def wait(self) -> None:
        """Let some time pass."""
        self.store.pass_ms(self.random.choice([1, 40, 700, 6_000, 70_000]))

    def check(self) -> None:
        """Limits hold for what is leased, and every id is somewhere."""
        leased: Any = self.store.redis.zrange(self.store.type.leased, 0, -1)
        assert len(leased) <= MOST_RUNNING
        keys = Counter(self.store.fields(raw_id.decode()).get("key") for raw_id in leased)
        assert all(count <= MOST_OF_KEY for key, count in keys.items() if key)

    def drain(self) -> None:
        """Run all that there is to its end, as fast as the limits let it."""
        self.store.resume()
        for _ in range(600):
            answer = self.store.claim(100)
            for claim in answer.claims:
                self.store.finish(claim)
            self.store.recover()
            if not any(self.store.redis.zcard(key) for key in self.store.type.indexes()[:2]):
                return
            self.store.pass_ms(1_500)
        pytest.fail("not everything ends")


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_and_no_limit_broken(fast_store: Store, seed: int) -> None:
    """After any calls each accepted task comes to its end, and no helper key is left."""
    storm = Storm(fast_store, seed)
    for _ in range(STEPS):
        storm.step()
        storm.check()
    storm.drain()
    for task_id in storm.accepted:
        (index,) = fast_store.indexes(task_id)
        assert index in ("done", "dead"), task_id
    left = {key.decode().removeprefix(fast_store.type.root) for key in fast_store.all_keys()}
    root = fast_store.type.root
    helpers = {name.partition(":")[0] for name in left if fast_store.redis.ttl(root + name) < 0}
    assert helpers <= {"task", "done", "dead", "meta", "events"}
