"""Turns a claim into a verdict: reads the task, runs its handler, decides what comes next."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import structlog

from scheduld import payload as codec
from scheduld.engine.isolation import Execution, Stop
from scheduld.errors import InvalidInput
from scheduld.handlers.contract import Run
from scheduld.model import Claim, Verdict, VerdictKind, instant, iso
from scheduld.names import id_fault, printable
from scheduld.policies.endings import Ending, GivenBack, Unreadable, verdict

if TYPE_CHECKING:
    from scheduld.clock import ServerClock
    from scheduld.engine.duty import Duty
    from scheduld.engine.watchdog import Pulse

log = structlog.get_logger("scheduld.run")
_THREAD_RELEASE_MS = 500
"""A thread cannot be ended: its task waits this long, until the process surely has."""


class Runner:
    """Runs the tasks of one type. Knows what is running, and can ask it to stop."""

    def __init__(self, duty: Duty, server: ServerClock, pulse: Pulse) -> None:
        self.duty = duty
        self._pulse = pulse
        self._server = server
        self._executor: ThreadPoolExecutor | None = None
        if duty.isolation == "thread":
            self._executor = ThreadPoolExecutor(duty.concurrency, f"scheduld-{duty.name}")
        self._running: dict[bytes, tuple[Claim, Execution]] = {}

    @property
    def running(self) -> int:
        """How many handler calls are under way."""
        return len(self._running)

    async def run(self, claim: Claim) -> Verdict:
        """Run one claimed task to its verdict; raises nothing."""
        try:
            payload = self._read(claim)
        except InvalidInput as exc:
            return self.decide(claim, Unreadable("unreadable", exc.message))
        run = Run(
            type=claim.type,
            id=claim.id,
            attempt=claim.attempt,
            fence=claim.fence,
            due=instant(claim.due_ms),
            options=self.duty.handler.options,
        )
        execution = Execution(
            self.duty.handler,
            payload,
            run,
            timeout_ms=self.duty.kind.run_timeout_ms,
            executor=self._executor,
            on_overdue=lambda why: self._overdue(claim, why),
        )
        # An older run of the same task has lost its lease, if nobody has told it yet.
        self.stop(claim.raw_id, Stop.LOST)
        self._running[claim.raw_id] = (claim, execution)
        blocks_ms = self.duty.kind.run_timeout_ms if self._executor is None else 0
        self._pulse.began(blocks_ms)
        try:
            return self.decide(claim, await execution.result())
        finally:
            self._pulse.ended(blocks_ms)
            is_newest = self._running.get(claim.raw_id, (None,))[0] is claim
            if is_newest and not execution.is_under_way:
                del self._running[claim.raw_id]

    def decide(self, claim: Claim, ending: Ending) -> Verdict:
        """Turn an ending into the verdict, and say so if the task failed."""
        result = verdict(
            claim,
            ending,
            policy=self.duty.kind.retry,
            now_ms=self._server.now_ms(),
            fraction=random.random(),  # noqa: S311 - spreads retries, guards nothing
        )
        self._tell(claim, result)
        return result

    def stop(self, raw_id: bytes, why: Stop) -> None:
        """Ask one run to stop, if it is here."""
        if raw_id in self._running:
            self._running[raw_id][1].stop(why)

    def stop_all(self, why: Stop) -> None:
        """Ask all runs to stop."""
        for _, execution in list(self._running.values()):
            execution.stop(why)

    def abandon(self) -> list[Verdict]:
        """Give back what does not stop, as the process is about to end; its end is not awaited."""
        delay_ms = _THREAD_RELEASE_MS if self._executor else 0
        return [self.decide(claim, GivenBack(delay_ms)) for claim, _ in self._running.values()]

    def close(self) -> None:
        """Let idle threads go; those that still run a handler end with the process."""
        if self._executor:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _read(self, claim: Claim) -> dict[str, Any]:
        fault = id_fault(claim.id)
        if fault:
            raise InvalidInput(f"the id {fault}")
        return codec.decode(claim.payload)

    def _overdue(self, claim: Claim, why: Stop) -> None:
        log.warning(
            "run goes on although it was asked to stop",
            task=_ref(claim),
            why=why.value,
            hint="its slot and its lease stay taken until it returns",
        )

    def _tell(self, claim: Claim, result: Verdict) -> None:
        if result.kind is VerdictKind.RETRY:
            log.warning(
                "run failed, will be tried again",
                task=_ref(claim),
                attempt=claim.attempt,
                error=result.reason,
                wait_ms=result.delay_ms,
            )
        elif result.kind is VerdictKind.DEAD:
            log.error("task is dead", task=_ref(claim), attempt=claim.attempt, error=result.reason)
        elif result.kind is VerdictKind.SNOOZE:
            log.info("task is snoozed", task=_ref(claim), until=iso(result.at_ms))
        else:
            log.debug("run ended", task=_ref(claim), verdict=result.kind.value)


def _ref(claim: Claim) -> str:
    return f"{claim.type}/{printable(claim.id)}"
