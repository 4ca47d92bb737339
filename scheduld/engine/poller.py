"""Answers for one task type: claims due tasks, starts them on time, reports how they ended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduld.clock import monotonic
from scheduld.engine.early import Early
from scheduld.engine.loop import wait_for
from scheduld.engine.notebook import Notebook
from scheduld.engine.plan import LEAD_S, Plan
from scheduld.engine.reporter import MANY, Reporter
from scheduld.engine.runner import Runner
from scheduld.engine.turns import Turns
from scheduld.errors import OutcomeUnknown, Unreachable
from scheduld.model import Verdict, VerdictKind
from scheduld.store import calls
from scheduld.store.answers import Started
from scheduld.store.calls import EARLY_MS
from scheduld.store.wire import Stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.engine.duty import Duty
    from scheduld.engine.isolation import Stop
    from scheduld.engine.shared import Shared
    from scheduld.model import Claim
    from scheduld.store.answers import ClaimAnswer
    from scheduld.store.calls import ClaimRequest

_MOST_UNSTORED = 400
"""With more verdicts than that waiting nothing is claimed: slots are free, memory is not."""


class Poller:
    """The loop of one type. One claim of it is under way at a time.

    `phase`: see Plan.
    """

    def __init__(self, duty: Duty, shared: Shared, phase: float | None = None) -> None:
        self.name = f"poller of {duty.name}"
        self.duty = duty
        self.notebook = Notebook(duty.name, shared, self._ended)
        self.runner = Runner(duty, shared.link.server, shared.pulse, self._end, self.notebook)
        self._shared = shared
        self._keys = shared.caller.keys.type(duty.name)
        self._plan = Plan(duty.kind, shared.lease_ms, phase=phase)
        limits = (duty.kind.max_running, duty.kind.max_running_per_key)
        self._ends_make_room = any(limit is not None for limit in limits)
        # Runs that end together are followed by as many that begin together: no more than half
        # of them do, so that neither the server nor the loop waits for the other.
        self._part = max(MANY, -(-duty.concurrency // 2))
        self._early = Early()
        self._turns = Turns(self._start_all)
        self._asked_to_stop: set[bytes] = set()
        self._sequence = 0
        self._unanswered: ClaimRequest | None = None
        self._was_sent = False
        self._wake = asyncio.Event()
        self.reporter = Reporter(duty.name, shared, on_change=self._wake.set)
        self._outbox = self.reporter.outbox
        self._stopping = False
        self._is_starved = False
        self.last_claim_at = 0.0
        self.busy = 0
        """How many claims are to run, or run, and have not come to their verdict."""

    # --- what others tell it

    def look(self, due_ms: int | None = None) -> None:
        """Look when `due_ms` comes, or now: a task may be due earlier than planned."""
        at = monotonic()
        if due_ms is not None:
            at = max(at, self._shared.link.server.monotonic_at(due_ms) - LEAD_S)
        if self._plan.look_at(at):
            self._wake.set()

    def slot_freed(self) -> None:
        """Take note that another type of the replica has given a slot back."""
        if self._is_starved or self._plan.next_at <= monotonic():
            self._wake.set()

    def cancel(self, raw_id: bytes, why: Stop, fence: int | None = None) -> None:
        """Ask a run to stop; with `fence` only that of this claim."""
        if self.runner.stop(raw_id, why, fence):
            return
        if self._unanswered or self.busy > self.runner.running:
            # It may be on its way: claimed there, and not begun here.
            self._asked_to_stop.add(raw_id)

    def begin_stop(self) -> None:
        """Claim nothing more, give back what has not started; runs and verdicts go on."""
        self._stopping = True
        for claim in self._early.clear():
            self._give_back(claim)
        self._wake.set()

    def is_over(self) -> bool:
        """Whether, after a stop, everything has ended and is stored."""
        return self._stopping and not self.busy and self._outbox.is_empty and not self._unanswered

    def abandon(self) -> None:
        """Give back the runs that did not stop: the process ends before they do."""
        self.runner.abandon()
        self._wake.set()

    # --- the loop

    async def run_once(self) -> None:
        """Wait for something to do, and do it: confirm, report, claim."""
        await self._wait()
        if self._early.is_due(monotonic()):
            await self._confirm()
        elif self._unanswered or self._may_claim():
            await self._claim()
        elif self._outbox:
            await self.reporter.report()

    async def _wait(self) -> None:
        while not (self._outbox or self._may_claim() or self._unanswered or self.is_over()):
            until = self._early.confirm_at
            self._is_starved = not self._free()
            if not (self._is_starved or self._stopping):
                until = min(until, self._plan.next_at)
            if until <= monotonic():
                return
            self._wake.clear()
            await wait_for(self._wake, until - monotonic())

    def _free(self) -> int:
        return self._plan.want(min(self._shared.slots.free(self.duty.name), self._part))

    def _may_claim(self) -> bool:
        if self._stopping or len(self._outbox) > _MOST_UNSTORED:
            return False
        return self._plan.next_at <= monotonic() and self._free() > 0

    async def _claim(self) -> None:
        request = self._request()
        self._unanswered = request
        call = calls.claim(
            self._shared.caller, self._keys, self.duty.kind, request, lease_ms=self._shared.lease_ms
        )
        sent_at = monotonic()
        self._plan.sent()
        try:
            answer = await self._shared.link.run(call)
        except OutcomeUnknown:
            self._was_sent = True
            raise
        except (Unreachable, Stale):
            if not self._was_sent:
                # Nothing was carried out: the verdicts wait in the outbox, the slots are free.
                self._forget(request)
            raise
        except BaseException:
            self._was_sent = True  # as far as anybody knows
            raise
        if monotonic() - sent_at > self._shared.link.timeout_s:
            # The loop was blocked, maybe for longer than the leases of this claim: asked again,
            # the server answers what is still ours.
            self._was_sent = True
            return
        self._unanswered = None
        self._was_sent = False
        self._answered(request, answer, sent_at)

    def _forget(self, request: ClaimRequest) -> None:
        self._unanswered = None
        self._outbox.put_back(request.verdicts)
        self._shared.slots.give(self.duty.name, request.want)

    def _request(self) -> ClaimRequest:
        """Make the next claim, or repeat one whose answer was lost: the number says which."""
        if self._unanswered is not None:
            if self._stopping:
                # Carried out before, it answers its tasks, to be given back; if not, none.
                return replace(self._unanswered, want=0)
            return self._unanswered
        self._sequence += 1
        if self.busy <= self.runner.running:
            self._asked_to_stop.clear()  # nothing is on its way: it was a task of others
        want = self._free()
        self._shared.slots.take(self.duty.name, want)
        return calls.ClaimRequest(
            sequence=self._sequence,
            want=want,
            verdicts=self._outbox.take(),
            bound_ms=self._shared.bound.value_ms(monotonic()),
            early_ms=self._plan.early_ms,
        )

    def _answered(self, request: ClaimRequest, answer: ClaimAnswer, sent_at: float) -> None:
        now = monotonic()
        self.last_claim_at = now
        self._shared.outage.fine()
        self._shared.bound.told(answer.now_ms, now)
        self._plan.answered(answer, self._shared.link.server, sent_at=sent_at, now=now)
        spare = request.want - answer.count
        self._shared.slots.give(self.duty.name, spare)
        if spare:
            self._shared.slot_freed()
        self._outbox.stored(request.verdicts)
        self.busy += answer.count
        if answer.count >= MANY and (self._outbox or self._may_claim()):
            # The next call goes out first: the server works while this is done.
            asyncio.get_running_loop().call_soon(self._take, request, answer)
        else:
            self._take(request, answer)

    def _take(self, request: ClaimRequest, answer: ClaimAnswer) -> None:
        """Let the leases go whose verdicts are stored, and start what was claimed."""
        self.reporter.let_go(request.verdicts, answer.refused)
        self._shared.holds.add(self.duty.name, answer.claims)
        ready = []
        for claim in answer.claims:
            if self._stopping:
                self._start(claim)  # that is, give it back
            elif claim.early:
                self.busy -= 1
                self._early.add(claim, self._shared.link.server.monotonic_at(claim.start_ms))
            else:
                ready.append(claim)
        self._turns.begin(ready)

    async def _confirm(self) -> None:
        claims = self._early.due(monotonic())
        pairs = [(claim.raw_id, claim.fence) for claim in claims]
        started = await self._shared.link.run(calls.start(self._shared.caller, self._keys, pairs))
        ready = []
        for claim, code in zip(claims, started, strict=True):
            if not self._early.remove(claim):
                continue  # a stop gave it back while the call was under way
            if code is Started.GO:
                ready.append(claim)
            else:
                self._shared.holds.remove(claim.type, [claim])
                self._free_slot()
                self._plan.look_at(monotonic())
        self.busy += len(ready)
        self._turns.begin(ready)

    # --- runs

    def _start_all(self, claims: Sequence[Claim]) -> None:
        server = self._shared.link.server
        now_ms = server.now_ms()
        if not self._stopping:
            self.runner.times.began(claims, now_ms)
        for claim in claims:
            # Never early by the server's clock: `server` is a lower bound of it.
            if claim.start_ms <= now_ms:
                self._start(claim)
            else:
                # A server clock that was set back since the claim must not make it wait for that.
                at = min(server.monotonic_at(claim.start_ms), monotonic() + EARLY_MS / 1000)
                asyncio.get_running_loop().call_at(at, self._start_at_due, claim)

    def _start_at_due(self, claim: Claim) -> None:
        if not self._stopping:
            now_ms = self._shared.link.server.now_ms()
            self.runner.times.began([claim], max(now_ms, claim.start_ms))
        self._start(claim)

    def _start(self, claim: Claim) -> None:
        if self._stopping:
            self.busy -= 1
            self._give_back(claim)
        else:
            self.runner.start(claim)
            if claim.raw_id in self._asked_to_stop:
                # What was heard may be of an earlier life of the id: the store knows.
                self._asked_to_stop.discard(claim.raw_id)
                self._shared.renew_soon()

    def _end(self, verdict: Verdict) -> None:
        """Take the verdict of a run, or leave it with the run's notes until they are stored."""
        if not self.notebook.hold(verdict):
            self._ended(verdict)

    def _ended(self, verdict: Verdict) -> None:
        self.busy -= 1
        self._outbox.put(verdict)
        if self._ends_make_room:
            # Tasks may wait for this end, however late the next one is due: claim with it.
            self._plan.look_at(monotonic())
        self._free_slot()
        if self._unanswered and len(self._outbox) >= MANY:
            self.reporter.hurry()

    def _give_back(self, claim: Claim) -> None:
        """Release a claim that has not begun."""
        self._outbox.put(Verdict(claim.raw_id, claim.fence, VerdictKind.RELEASE))
        self._free_slot()

    def _free_slot(self) -> None:
        self._shared.free_slot(self.duty.name)
        self._wake.set()
