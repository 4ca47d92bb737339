"""Ends the occurrences of periodic tasks: asks the predicate, and says what comes next."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from scheduld import payload as codec
from scheduld.engine.isolation import Execution, Inline, Isolation, Stop, Threads, run_of, task_ref
from scheduld.engine.processes import START_S
from scheduld.engine.reschedule import of_what_is_over, with_next
from scheduld.errors import InvalidInput
from scheduld.model import Claim, Verdict, iso
from scheduld.observe import masking
from scheduld.policies.endings import (
    Ending,
    GivenBack,
    Raised,
    TimedOut,
    error_dict,
    masked_error,
)
from scheduld.policies.reschedule import GOES_ON, Answer, answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.clock import ServerClock
    from scheduld.engine.duty import Duty
    from scheduld.engine.watchdog import Pulse

log = structlog.get_logger("scheduld.run")
_MOST_THREADS = 10


@dataclass(slots=True)
class _Question:
    """An occurrence that has ended, while its predicate is asked."""

    result: Verdict
    timer: asyncio.TimerHandle | None = None


class Series:
    """Turns the last verdict of an occurrence into one that says what follows.

    A predicate is called where the type's handler is: `processes` is that place, if it is apart
    from the daemon. In the daemon an `async def` is awaited, and a `def` is called in a thread,
    so that one that hangs keeps nobody else waiting. Its answer counts if it comes within
    reschedule_timeout; a thread that goes on after that is let be.
    """

    def __init__(
        self,
        duty: Duty,
        server: ServerClock,
        pulse: Pulse,
        on_verdict: Callable[[Verdict], None],
        processes: Isolation | None,
    ) -> None:
        self._duty = duty
        self._server = server
        self._pulse = pulse
        self._on_verdict = on_verdict
        self._isolation = processes
        self._owned: Isolation | None = None
        self._timeout_ms = duty.kind.reschedule_timeout_ms
        is_in_loop = processes is None and duty.predicate is not None and duty.predicate.is_async
        self._blocks_ms = self._timeout_ms if is_in_loop else 0
        self._asked: dict[Execution, _Question] = {}
        self.late: set[Execution] = set()
        """Calls of predicates that nobody waits for any more, and that have not ended."""

    def end(self, claim: Claim, result: Verdict) -> None:
        """Tell, now or later, the verdict of an occurrence with what comes after it."""
        if self._duty.predicate is None or claim.over not in ("", "interrupted"):
            self._decide(claim, result, GOES_ON)
            return
        try:
            self._ask(claim, result)
        except InvalidInput:
            # There is no payload that it could be asked about, which the verdict says.
            self._decide(claim, result, GOES_ON)
        except Exception as error:  # noqa: BLE001 - such as no more threads; never a stuck task
            self._decide(claim, result, self._read(Raised(error)))

    def end_of_what_is_over(self, claim: Claim) -> None:
        """The same for a claim of an occurrence that has ended before, and is not to be run."""
        result = of_what_is_over(claim)
        if claim.interruptions > self._duty.kind.max_interruptions:
            # It may be its predicate that ends whoever asks it.
            self._decide(claim, result, GOES_ON)
        else:
            self.end(claim, result)

    def abandon(self) -> None:
        """Wait for no answer any more: the process is about to end."""
        for execution in list(self._asked):
            self._answered(execution, GivenBack())

    def close(self) -> None:
        """Let idle threads go."""
        if self._owned is not None:
            self._owned.close()

    # --- the predicate

    def _ask(self, claim: Claim, result: Verdict) -> None:
        predicate = self._duty.predicate
        assert predicate is not None  # noqa: S101 - asked by `end` alone
        payload = codec.decode(claim.payload)
        run = run_of(claim, predicate.options, None)
        arguments = (payload, run) if predicate.takes_run else (payload,)
        execution = Execution(
            claim, arguments, run if predicate.takes_run else None, 0.0, is_asked=True
        )
        question = _Question(result)
        self._asked[execution] = question
        self._pulse.began(self._blocks_ms)
        try:
            self._place().begin(execution)
        except BaseException:
            self._forget(execution)
            raise
        # One that waits for its worker to start has its time from then on.
        is_called = execution.has_begun or self._duty.isolation != "process"
        self._watch(execution, question, 0 if is_called else START_S)

    def _place(self) -> Isolation:
        if self._isolation is None:
            predicate = self._duty.predicate
            assert predicate is not None  # noqa: S101 - asked by `_ask` alone
            if predicate.is_async:
                self._isolation = Inline(predicate, self.ended)
            else:
                count = min(self._duty.concurrency, _MOST_THREADS)
                name = f"scheduld-{self._duty.name}-reschedule"
                self._isolation = Threads(predicate, self.ended, count, name)
            self._owned = self._isolation
        return self._isolation

    def began(self, execution: Execution) -> None:
        """Count the time of a call from now on: it had to wait for its worker."""
        question = self._asked.get(execution)
        if question is not None:
            self._watch(execution, question, 0)

    def ended(self, execution: Execution, ending: Ending) -> None:
        """Take how a call has ended, if anybody still waits for that."""
        self.late.discard(execution)
        if execution in self._asked:
            self._answered(execution, ending)

    def _watch(self, execution: Execution, question: _Question, more_s: float) -> None:
        if question.timer is not None:
            question.timer.cancel()
        seconds = self._timeout_ms / 1000 + more_s
        loop = asyncio.get_running_loop()
        question.timer = loop.call_later(seconds, self._time_out, execution)

    def _time_out(self, execution: Execution) -> None:
        execution.stopped = Stop.TIMEOUT
        if execution.run is not None:
            execution.run.cancel()
        self.late.add(execution)
        self._answered(execution, TimedOut(self._timeout_ms))
        self._place().interrupt(execution)

    def _answered(self, execution: Execution, ending: Ending) -> None:
        question = self._forget(execution)
        self._decide(execution.claim, question.result, self._read(ending))

    def _forget(self, execution: Execution) -> _Question:
        question = self._asked.pop(execution)
        if question.timer is not None:
            question.timer.cancel()
        self._pulse.ended(self._blocks_ms)
        return question

    def _read(self, ending: Ending) -> Answer:
        return answer(ending, self._server.now_ms())

    # --- what follows

    def _decide(self, claim: Claim, result: Verdict, said: Answer) -> None:
        mask = masking.current().values
        try:
            final = self._with_next(claim, result, said)
        except Exception as error:  # noqa: BLE001 - an end without what follows would be the last
            log.error("what comes next could not be told", task=task_ref(claim), error=repr(error))
            final = self._with_next(claim, result, Answer(error=error_dict(error)))
        if said.error is not None:
            log.error(
                "the reschedule predicate could not be followed",
                task=task_ref(claim),
                error=masked_error(said.error, mask)["message"],
                hint="the series goes on with its old payload",
            )
        log.debug("occurrence ended", task=task_ref(claim), due=iso(claim.due_ms))
        self._on_verdict(final)

    def _with_next(self, claim: Claim, result: Verdict, said: Answer) -> Verdict:
        return with_next(
            claim,
            result,
            said,
            now_ms=self._server.now_ms(),
            max_payload=self._duty.max_payload,
            mask=masking.current().values,
        )
