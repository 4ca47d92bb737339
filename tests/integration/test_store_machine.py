"""No accepted task is lost: any sequence of calls against a model of the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from scheduld.model import Keep
from scheduld.store import calls, usercalls
from tests.support.store import ENDED, LEASE, Store, verdict
from tests.support.task_model import Model, Record

if TYPE_CHECKING:
    from scheduld.model import Claim
    from scheduld.store.answers import RawTask
    from tests.support.servers import RunningServer

Draw = Callable[["st.SearchStrategy[Any]"], Any]
IDS = ["a", "b"]
OFFSETS = [-2_000, 0, 20, 45, 400]
ids = st.sampled_from(IDS)
conflicts = st.sampled_from(["error", "keep", "replace", "replace"])
kinds = st.sampled_from(["done", "retry", "dead", "snooze", "release"])


class Conservation(RuleBasedStateMachine):
    """Calls in any order, at any time; after each the stored tasks are those of the model.

    One rule draws what to do from what has work: with a rule for each call most steps would
    meet nothing to do, and a run that fails, is lost, replaced and ends late would be rare.
    """

    server: RunningServer

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(self.server)
        self.model = Model(self.store.kind.max_interruptions)
        self.claims: list[Claim] = []
        self.made = 0

    def teardown(self) -> None:
        """Check what is left, and remove it."""
        self.store.twice = set(IDS)
        try:
            self.store.check_leaks()
        finally:
            self.store.close()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Do one thing."""
        of_claims = [self.finish] * 4 + [self.finish_some, self.start, self.renew]
        choices = [self.add, self.plain, self.cancel, self.pass_ms, self.pass_ms]
        choices += [self.edit, self.run_now, self.resume if self.model.is_paused else self.pause]
        choices += [self.claim] * 4 if self.is_any_due() else []
        choices += [self.recover] * 3 if self.is_any_lost() else []
        choices += [self.requeue, self.prune, self.purge] if self.is_any_ended() else []
        choices += of_claims if self.claims else []
        names = [choice.__name__ for choice in choices]
        getattr(self, data.draw(st.sampled_from(names)))(data.draw)

    def is_any_due(self) -> bool:
        """Whether a claim has something to look at."""
        near = self.store.time + calls.EARLY_MS
        return any((task.due() or near + 1) <= near for task in self.model.tasks.values())

    def is_any_lost(self) -> bool:
        """Whether a lease has ended."""
        held = [task for task in self.model.tasks.values() if "leased" in task.indexes()]
        return any(task.lease_end <= self.store.time for task in held)

    def is_any_ended(self) -> bool:
        """Whether a task is done, cancelled or dead."""
        return any(task.state in ENDED for task in self.model.tasks.values())

    def new(self, draw: Draw) -> tuple[int, bytes]:
        """Return a due time around now, and a payload that was never used before."""
        self.made += 1
        return self.store.time + draw(st.sampled_from(OFFSETS)), b'{"n":%d}' % self.made

    def any_claim(self, draw: Draw) -> Claim:
        """Return any claim there ever was, of the last ones more often than of old ones."""
        newest = list(reversed(self.claims))
        claim: Claim = draw(st.sampled_from(newest[:3]) | st.sampled_from(newest))
        return claim

    def add(self, draw: Draw) -> None:
        """Add a task."""
        task_id, on_conflict = draw(ids), draw(conflicts)
        at, payload = self.new(draw)
        expected = self.model.add(task_id, at, payload, on_conflict)
        added = self.store.add(task_id, at, payload=payload, on_conflict=on_conflict)
        assert added.code is expected

    def plain(self, draw: Draw) -> None:
        """Add a task by HSET and ZADD."""
        task_id = draw(ids)
        at, payload = self.new(draw)
        self.model.plain(task_id, at, payload)
        self.store.plain(task_id, at, payload)

    def claim(self, draw: Draw) -> None:
        """Claim what is due."""
        want, early_ms = draw(st.sampled_from([1, 9])), draw(st.sampled_from([0, calls.EARLY_MS]))
        expected = self.model.claim(self.store.time, want, early_ms)
        claims = self.store.claim(want, early_ms=early_ms).claims
        assert [claim.id for claim in claims] == expected
        for claim in claims:
            task = self.model.tasks[claim.id]
            assert claim.early == (task.state == "early")
            assert (claim.payload, claim.due_ms) == (task.payload, task.nominal)
            assert task.fence is None or claim.fence > task.fence
            task.fence = claim.fence
        self.claims += claims

    def finish(self, draw: Draw) -> None:
        """Store the end of any claim, also again."""
        claim, kind, wait = self.any_claim(draw), draw(kinds), draw(st.sampled_from([0, 300]))
        now = self.store.time
        options = {"at_ms": now + wait} if kind == "snooze" else {"delay_ms": wait}
        expected = self.model.finish(now, claim.id, claim.fence, kind, wait)
        assert self.store.finish(claim, kind, **options) is expected

    def finish_some(self, draw: Draw) -> None:
        """Store that some runs are done, in one call, maybe of one claim twice."""
        claims = [self.any_claim(draw) for _ in range(draw(st.integers(2, 4)))]
        now = self.store.time
        expected = [self.model.finish(now, claim.id, claim.fence, "done", 0) for claim in claims]
        assert self.store.finish_all(*map(verdict, claims)) == expected

    def start(self, draw: Draw) -> None:
        """Confirm any claim."""
        claim = self.any_claim(draw)
        expected = self.model.start(self.store.time, claim.id, claim.fence)
        assert self.store.start(claim) == [expected]

    def renew(self, draw: Draw) -> None:
        """Renew any claim."""
        claim = self.any_claim(draw)
        expected = self.model.renew(self.store.time, claim.id, claim.fence)
        assert self.store.renew(claim) == [expected]

    def recover(self, draw: Draw) -> None:
        """Give expired leases back."""
        limit = draw(st.sampled_from([1, 9]))
        assert self.store.recover(limit=limit) == self.model.recover(self.store.time, limit)

    def cancel(self, draw: Draw) -> None:
        """Cancel a task."""
        task_id = draw(ids)
        assert self.store.cancel(task_id).code == self.model.cancel(task_id)

    def requeue(self, draw: Draw) -> None:
        """Schedule an ended task again."""
        task_id = draw(ids)
        assert self.store.requeue(task_id).code == self.model.requeue(self.store.time, task_id)

    def edit(self, draw: Draw) -> None:
        """Change the payload of a task, its due time, or both."""
        task_id, (at, payload) = draw(ids), self.new(draw)
        what = draw(st.sampled_from(["payload", "due", "both"]))
        at_ms, new_payload = (
            None if what == "payload" else at,
            None if what == "due" else payload,
        )
        expected = self.model.edit(task_id, at_ms, new_payload)
        assert self.store.edit(task_id, at_ms=at_ms, payload=new_payload).code == expected

    def run_now(self, draw: Draw) -> None:
        """Make a task that waits due now."""
        task_id = draw(ids)
        assert self.store.run_now(task_id).code == self.model.run_now(self.store.time, task_id)

    def pause(self, draw: Draw) -> None:
        """Pause the type."""
        self.store.pause()
        self.model.is_paused = True

    def resume(self, draw: Draw) -> None:
        """Resume the type."""
        assert self.store.resume()
        self.model.is_paused = False

    def purge(self, draw: Draw) -> None:
        """Remove all tasks of one state."""
        state = draw(st.sampled_from(["done", "cancelled", "dead", "scheduled"]))
        assert self.store.purge(state).removed == self.model.purge(state)

    def prune(self, draw: Draw) -> None:
        """Remove all records of ended tasks, of one kind."""
        state = draw(st.sampled_from(["done", "dead"]))
        keep, gone = Keep(1_000, 10**12), Keep(0, 0)
        pruned = self.store.prune(*((gone, keep) if state == "done" else (keep, gone)))
        assert pruned == self.model.prune(state)

    def pass_ms(self, draw: Draw) -> None:
        """Let the clock go on."""
        self.store.pass_ms(draw(st.sampled_from([1, 40, 500, LEASE + 1])))

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every accepted id is where the model says, with its payload and its counters."""
        call = usercalls.read(self.store.caller(), self.store.type, [i.encode() for i in IDS])
        found = self.store.run(call)
        for task_id, raw in zip(IDS, found, strict=True):
            task = self.model.tasks.get(task_id)
            if task is None:
                assert (raw.key_type, _indexes(raw)) == ("none", set())
            else:
                _compare(raw, task)


def _indexes(raw: RawTask) -> set[str]:
    scores = {
        "due": raw.due_ms,
        "leased": raw.lease_end_ms,
        "done": raw.finished_ms,
        "dead": raw.died_ms,
    }
    return {name for name, score in scores.items() if score is not None}


def _compare(raw: RawTask, task: Record) -> None:
    fields = raw.fields
    assert _indexes(raw) == task.indexes()
    assert raw.due_ms == task.due()
    assert fields["payload"] == task.payload
    for name in ("failed", "releases", "interruptions"):
        assert int(fields.get(name, b"0")) == getattr(task, name)
    assert ("early" in fields) == (task.state == "early")
    assert ("cancel" in fields) == task.cancel
    kept = (int(fields["next"]), fields["next_payload"]) if "next" in fields else None
    assert kept == task.successor
    if task.state in ("early", "running"):
        assert raw.lease_end_ms == task.lease_end


def test_accepted_means_kept(valkey_server: RunningServer) -> None:
    """Whatever is called in whatever order, each accepted task is in one place, counted right."""

    class OnServer(Conservation):
        server = valkey_server

    run_state_machine_as_test(
        OnServer,
        settings=settings(
            max_examples=50,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
