"""Turns claims into verdicts: reads the task, has its handler called, decides what comes next."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from typing import TYPE_CHECKING

import structlog

from scheduld import payload as codec
from scheduld.clock import monotonic
from scheduld.engine.isolation import Execution, Inline, Isolation, Stop, Threads, run_of, task_ref
from scheduld.engine.processes import GRACE_S, Processes
from scheduld.engine.reschedule import ends_occurrence
from scheduld.engine.series import Series
from scheduld.engine.times import Times
from scheduld.errors import InvalidInput
from scheduld.model import Claim, Verdict, VerdictKind, iso
from scheduld.names import id_fault
from scheduld.observe import masking
from scheduld.outcomes import Outcome
from scheduld.policies.endings import (
    Ending,
    Failed,
    GivenBack,
    Raised,
    Returned,
    TimedOut,
    Unreadable,
    done,
    masked,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduld.clock import ServerClock
    from scheduld.engine.duty import Duty
    from scheduld.engine.watchdog import Pulse
    from scheduld.handlers.contract import Notes

log = structlog.get_logger("scheduld.run")
_stdlib_log = logging.getLogger("scheduld.run")
_RELEASE_MS = 500
"""A thread cannot be ended: its task waits this long, until the daemon surely has."""
_AGAIN_MS = 1_000
"""Wait before a task is claimed again whose run could not even begin."""
_SETTLE_S = 1.0
"""How long a run that was asked to stop may take before it is called overdue."""


class Runner:
    """Runs the tasks of one type, and can ask each to stop; tells every verdict to `on_verdict`.

    A run that goes on after it was asked to stop (a thread, or a coroutine that ignores its
    cancellation) keeps its slot and its lease until it returns, so that no second attempt runs
    beside it.
    """

    def __init__(
        self,
        duty: Duty,
        server: ServerClock,
        pulse: Pulse,
        on_verdict: Callable[[Verdict], None],
        notes: Notes | None = None,
    ) -> None:
        self.duty = duty
        self._notes = notes
        self.times = Times()
        self._pulse = pulse
        self._server = server
        self._on_verdict = on_verdict
        self._isolation = self._made_isolation()
        processes = self._isolation if duty.isolation == "process" else None
        self._series = Series(duty, server, pulse, on_verdict, processes)
        self._timeout_s = duty.kind.run_timeout_ms / 1000
        self._blocks_ms = duty.kind.run_timeout_ms if duty.isolation == "inline" else 0
        self._settle_s = _SETTLE_S + (GRACE_S if duty.isolation == "process" else 0)
        # In the order of their deadlines, as all have the same timeout.
        self._running: dict[bytes, Execution] = {}
        self._replaced: set[Execution] = set()
        self._is_busy = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> int:
        """How many handler calls are under way, those that nobody waits for any more included."""
        return len(self._running) + len(self._replaced)

    @property
    def is_stuck(self) -> bool:
        """Whether calls go on that nothing ends but the process."""
        return bool(self.running or self._series.late)

    def start(self, claim: Claim) -> None:
        """Run one claimed task to its verdict, which is told later; raises nothing."""
        execution: Execution | None = None
        if claim.fields is not None and claim.over:
            self._series.end_of_what_is_over(claim)
            return
        try:
            execution = self._execution(claim)
            self._enter(execution)
            self._isolation.begin(execution)
        except InvalidInput as exc:
            self._decide(claim, Unreadable("unreadable", exc.message))
        except Exception as error:  # noqa: BLE001 - such as no more threads; never a stuck task
            log.error(
                "a run could not be made",
                task=task_ref(claim),
                attempt=claim.attempt,
                error=repr(error),
            )
            if execution is None:
                self._decide(claim, GivenBack(_AGAIN_MS))
            else:
                # A pool may call it yet, when a thread of others is free: it must not run then.
                execution.stopped = Stop.STOPPING
                self._ended(execution, GivenBack(_AGAIN_MS))
                execution.is_given_up = True

    def stop(self, raw_id: bytes, why: Stop, fence: int | None = None) -> bool:
        """Ask one run to stop, if it is here: that of `fence`, or the newest; tells if it is."""
        execution = self._running.get(raw_id)
        if execution is None or fence not in (None, execution.claim.fence):
            return False
        self._stop(execution, why)
        return True

    def stop_all(self, why: Stop) -> None:
        """Ask all runs to stop."""
        for execution in list(self._running.values()):
            self._stop(execution, why)

    def abandon(self) -> None:
        """Give back what does not stop, as the process is about to end; its end is not awaited."""
        delay_ms = 0 if self.duty.isolation == "inline" else _RELEASE_MS
        for execution in [*self._running.values(), *self._replaced]:
            execution.is_given_up = True
            self._decide(execution.claim, GivenBack(delay_ms))
        self._series.abandon()

    def close(self) -> None:
        """Let idle threads go; those that still run a handler end with the process."""
        if self._timer is not None:
            self._timer.cancel()
        self._isolation.close()
        self._series.close()

    # --- one run

    def _made_isolation(self) -> Isolation:
        duty = self.duty
        if duty.isolation == "process":
            return Processes(duty, self._ended, self._began, self._notes)
        if duty.isolation == "thread":
            return Threads(duty.handler, self._ended, duty.concurrency, f"scheduld-{duty.name}")
        return Inline(duty.handler, self._ended)

    def _execution(self, claim: Claim) -> Execution:
        """Read a task and make its call; raises InvalidInput if it cannot be run as it is."""
        payload = codec.decode(claim.payload)
        _check_id(claim.id)
        deadline = monotonic() + self._timeout_s
        handler = self.duty.handler
        if not handler.takes_run:
            return Execution(claim, (payload,), None, deadline)
        run = run_of(claim, handler.options, self._notes)
        return Execution(claim, (payload, run), run, deadline)

    def _enter(self, execution: Execution) -> None:
        raw_id = execution.claim.raw_id
        older = self._running.pop(raw_id, None)
        if older is not None:
            # An older run of the same task has lost its lease, if nobody has told it yet.
            self._replaced.add(older)
            self._stop(older, Stop.LOST)
        self._running[raw_id] = execution
        if not self._is_busy:
            self._is_busy = True
            self._pulse.began(self._blocks_ms)
        if self._timer is None:
            self._watch(execution.deadline)

    def _stop(self, execution: Execution, why: Stop) -> None:
        """Ask one call to stop; the first reason is the one that counts."""
        if execution.stopped is not None:
            return
        execution.stopped = why
        if execution.run is not None:
            execution.run.cancel()
        self._isolation.interrupt(execution)
        asyncio.get_running_loop().call_later(self._settle_s, self._check_overdue, execution)

    def _began(self, execution: Execution) -> None:
        """Count the time of a run from now on: it had to wait for its worker."""
        if execution.is_asked:
            self._series.began(execution)
            return
        execution.deadline = monotonic() + self._timeout_s
        raw_id = execution.claim.raw_id
        if self._running.get(raw_id) is execution:
            self._running[raw_id] = self._running.pop(raw_id)
            if self._timer is None:
                self._watch(execution.deadline)

    def _ended(self, execution: Execution, ending: Ending) -> None:
        claim = execution.claim
        if execution.is_asked:
            self._series.ended(execution, ending)
            return
        if self._running.get(claim.raw_id) is execution:
            del self._running[claim.raw_id]
        else:
            self._replaced.discard(execution)
        if self._is_busy and not (self._running or self._replaced):
            self._is_busy = False
            self._pulse.ended(self._blocks_ms)
        began = execution.deadline - self._timeout_s
        if execution.has_begun:
            self.times.ran.append(monotonic() - began)
        if not execution.is_given_up:
            meaning = self._meaning(execution, ending)
            self._decide(claim, meaning, began if execution.has_begun else None, execution.output)

    def _meaning(self, execution: Execution, ending: Ending) -> Ending:
        """Read an ending as what it is after the run was asked to stop."""
        if execution.stopped is None or not execution.has_begun:
            return ending
        if execution.stopped is Stop.TIMEOUT:
            return TimedOut(self.duty.kind.run_timeout_ms)
        if isinstance(ending, Failed) or (
            isinstance(ending, Raised) and not isinstance(ending.error, Outcome)
        ):
            # Whatever it raises then is how it stopped, not a failure; an outcome is its choice.
            return GivenBack()
        return ending

    def _decide(
        self, claim: Claim, ending: Ending, began: float | None = None, output: str = ""
    ) -> None:
        """Turn an ending into the verdict, tell it, and say so if the task failed."""
        try:
            result = self._verdict(claim, ending, output)
        except Exception as error:  # noqa: BLE001 - a run without a verdict would never end
            log.error("the end of a run could not be read", task=task_ref(claim), error=repr(error))
            result = self._verdict(claim, Raised(error))
        if result.kind is not VerdictKind.DONE or _stdlib_log.isEnabledFor(logging.DEBUG):
            _tell(claim, result, {} if began is None else self._measured(claim, began))
        if claim.fields is not None and ends_occurrence(claim, result):
            self._series.end(claim, result)
        else:
            self._on_verdict(result)

    def _measured(self, claim: Claim, began: float) -> dict[str, float]:
        """How late the run of a claim began and how long it took, in ms, for the log."""
        late_ms = self._server.now_ms(at=began) - claim.start_ms
        took_ms = (monotonic() - began) * 1000
        return {"late_ms": round(max(late_ms, 0), 1), "took_ms": round(took_ms, 1)}

    def _verdict(self, claim: Claim, ending: Ending, output: str = "") -> Verdict:
        if isinstance(ending, Returned) and not isinstance(ending.value, Outcome):
            return done(claim, ending.value)
        result = verdict(
            claim,
            ending,
            policy=self.duty.kind.retry,
            now_ms=self._server.now_ms(),
            fraction=random.random(),  # noqa: S311 - spreads retries, guards nothing
            output=output,
        )
        return masked(result, masking.current().values)

    # --- time limits

    def _watch(self, deadline: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(deadline, self._look)

    def _look(self) -> None:
        """Stop what has taken too long; look again when the oldest of the others will have."""
        self._timer = None
        now = monotonic()
        for execution in list(self._running.values()):
            if execution.deadline == math.inf:
                continue  # it waits for its worker
            if execution.deadline > now:
                self._watch(execution.deadline)
                break
            self._stop(execution, Stop.TIMEOUT)

    def _check_overdue(self, execution: Execution) -> None:
        is_here = self._running.get(execution.claim.raw_id) is execution
        if is_here or execution in self._replaced:
            log.warning(
                "run goes on although it was asked to stop",
                task=task_ref(execution.claim),
                attempt=execution.claim.attempt,
                why=str(execution.stopped),
                hint="its slot and its lease stay taken until it returns",
            )


def _check_id(text: str) -> None:
    fault = id_fault(text)
    if fault:
        raise InvalidInput(f"the id {fault}")


def _tell(claim: Claim, result: Verdict, measured: Mapping[str, float]) -> None:
    about = {"task": task_ref(claim), "attempt": claim.attempt, **measured}
    if result.kind is VerdictKind.RETRY:
        wait_ms = result.delay_ms
        log.warning(
            "run failed, will be tried again", **about, error=result.reason, wait_ms=wait_ms
        )
    elif result.kind is VerdictKind.DEAD:
        log.error("task is dead", **about, error=result.reason)
    elif result.kind is VerdictKind.SNOOZE:
        log.info("task is snoozed", **about, until=iso(result.at_ms))
    else:
        log.debug("run ended", **about, verdict=result.kind.value)
