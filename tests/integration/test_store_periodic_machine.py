"""A series never breaks and never doubles: any sequence of calls on one periodic task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from scheduld.client.skipping import _skip
from scheduld.engine.reschedule import of_what_is_over
from scheduld.store import calls
from scheduld.store.answers import Settled
from scheduld.store.records import to_task
from tests.support.store import LEASE, NOW, Store

if TYPE_CHECKING:
    from scheduld.model import Claim, Task
    from tests.support.servers import RunningServer

EVERY = 1_000
waits = st.sampled_from(["retry", "snooze", "release"])


class OneSeries(RuleBasedStateMachine):
    """Ends, losses, edits and cancels of one task in any order, late and repeated ones among them.

    What must hold after each step: the task is in one place; it is over only if somebody has
    ended it; each end that was stored counts once; its payload is the newest that was given; and
    what nobody has moved is due on the grid.
    """

    server: RunningServer

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(self.server)
        self.store.add("x", NOW, payload=b'{"n":0}', load=f"every={EVERY}ms")
        self.claims: list[tuple[Claim, int]] = []
        self.stored: set[int] = set()
        self.runs = self.number = self.revision = self.payload_edits = 0
        self.payload = {"n": 0}
        self.is_ended = self.is_moved = False

    def teardown(self) -> None:
        """Check what is left, and remove it."""
        try:
            self.store.check_leaks()
        finally:
            self.store.close()

    @property
    def task(self) -> Task:
        """The series as it is stored."""
        task = to_task("job", self.store.read("x"))
        assert task, "it is in no index"
        return task

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Do one thing."""
        choices = [self.claim] * 4 + [self.pass_ms] * 3 + [self.recover]
        choices += [self.edit_payload, self.edit_due, self.skip, self.run_now]
        choices += [self.occur] * 5 + [self.wait] * 2 if self.claims else []
        choices += [self.requeue] * 4 if self.is_ended else [self.cancel]
        names = [choice.__name__ for choice in choices]
        getattr(self, data.draw(st.sampled_from(names)))(data.draw)

    def claim(self, draw: Any) -> None:
        """Claim it, maybe a little before its due; plan at once what is over."""
        early_ms = draw(st.sampled_from([0, calls.EARLY_MS]))
        for claim in self.store.claim(early_ms=early_ms).claims:
            if claim.over:
                self.plan(claim)
            else:
                assert self.is_moved or (claim.due_ms - NOW) % EVERY == 0
                self.claims.append((claim, self.payload_edits))

    def plan(self, claim: Claim) -> None:
        """End what was lost too often; of all else only the next occurrence is to be found."""
        before = self.store.fields("x")
        result = self.store.final(claim, of_what_is_over(claim))
        assert self.store.finish_all(result) == [Settled.STORED]
        self.runs += claim.over == "interrupted"
        self.is_moved = "next_at" in before
        assert self.is_moved or (self.task.due_ms or 0) > self.store.time

    def occur(self, draw: Any) -> None:
        """Store the end of the occurrence of any claim, mostly of the newest."""
        claim, payload_edits = draw(st.sampled_from(self.claims[-2:]))
        before = self.store.fields("x")
        self.number += 1
        kind, patch = draw(st.sampled_from(["done", "done", "dead"])), {"n": self.number}
        settled = self.store.occur(claim, kind, patch=patch)
        is_newest = before.get("fence") == str(claim.fence).encode()
        if is_newest and "early" in before:
            self.stored.add(claim.fence)  # given back, as it had not begun
            return
        if settled is not Settled.STORED:
            assert not is_newest or claim.fence in self.stored or self.is_ended
            return
        assert is_newest
        assert claim.fence not in self.stored, "one end was stored twice"
        self.stored.add(claim.fence)
        if "this_run" in before:
            return
        if "cancel" in before:
            self.is_ended = True
            return
        self.runs += 1
        self.is_moved = "next_at" in before
        if payload_edits == self.payload_edits:
            self.payload = patch

    def wait(self, draw: Any) -> None:
        """Store that a run is to go on later."""
        claim, _ = draw(st.sampled_from(self.claims[-2:]))
        fields = self.store.fields("x")
        options = {"at_ms": self.store.time + 300, "detail": '{"kind":"E"}'}
        settled = self.store.finish(claim, draw(waits), **options)
        if settled is Settled.STORED:
            assert claim.fence not in self.stored
            self.stored.add(claim.fence)
            if "early" not in fields and "cancel" in fields and "this_run" not in fields:
                self.is_ended = True

    def recover(self, draw: Any) -> None:
        """Give back what was lost."""
        fields = self.store.fields("x")
        if self.store.recover() and "cancel" in fields and "this_run" not in fields:
            self.is_ended = "early" not in fields

    def edit_payload(self, draw: Any) -> None:
        """Give it another payload, also while it runs."""
        self.number += 1
        if self.store.edit("x", payload=b'{"n":%d}' % self.number).code == 1:
            self.payload = {"n": self.number}
            self.revision += 1
            self.payload_edits += 1

    def edit_due(self, draw: Any) -> None:
        """Move an occurrence."""
        at = self.store.time + draw(st.sampled_from([-700, 20, 2_300]))
        if self.store.edit("x", at_ms=at).code == 1:
            self.is_moved = True
            self.revision += 1

    def run_now(self, draw: Any) -> None:
        """Let the next occurrence run before its time; it stands for the same instant."""
        self.store.run_now("x")

    def skip(self, draw: Any) -> None:
        """Cancel an occurrence."""
        if self.is_ended:
            return
        decision = self.store.cancel("x", _skip("job", "x", self.store.read("x")))
        assert decision.code in (1, 2)
        self.is_moved = self.is_moved and decision.code == 2

    def cancel(self, draw: Any) -> None:
        """Cancel the series."""
        self.is_ended = self.store.cancel("x").code == 1

    def requeue(self, draw: Any) -> None:
        """Begin again what was cancelled."""
        assert self.store.requeue("x").code == 1
        self.is_ended, self.is_moved = False, True
        self.runs = self.revision = 0
        self.claims.clear()

    def pass_ms(self, draw: Any) -> None:
        """Let the clock go on."""
        self.store.pass_ms(draw(st.sampled_from([1, 45, 400, EVERY, 5 * EVERY, LEASE + 1])))

    @invariant()
    def the_series_is_whole(self) -> None:
        """It is where it should be, and has counted each occurrence once."""
        task = self.task
        assert len(self.store.indexes("x")) == 1
        assert (task.state == "cancelled") == self.is_ended
        assert task.state in ("scheduled", "running", "cancelled")
        assert (task.runs, task.payload) == (self.runs, self.payload)
        assert (task.every, task.revision) == (f"{EVERY}ms", self.revision)


def test_a_series_is_whole_whatever_is_called(valkey_server: RunningServer) -> None:
    """Each occurrence ends once, and the next one follows it, until somebody ends the series."""

    class OnServer(OneSeries):
        server = valkey_server

    run_state_machine_as_test(
        OnServer,
        settings=settings(
            max_examples=30,
            stateful_step_count=40,
            deadline=None,
            report_multiple_bugs=False,
            phases=[Phase.reuse, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
