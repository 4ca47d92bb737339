"""Handler calls in processes of their own: a crash, a hog or an endless loop ends one run only."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from scheduld.clock import monotonic
from scheduld.engine import messages
from scheduld.engine.duty import cores
from scheduld.engine.isolation import Execution, Stop, task_ref
from scheduld.engine.workers import Death, WorkerProcess
from scheduld.notes import LINE_LIMIT, PROGRESS_LIMIT
from scheduld.policies.endings import Ending, Failed, GivenBack, error_of
from scheduld.worker import ends
from scheduld.worker.frames import BadFrame

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.engine.duty import Duty
    from scheduld.handlers.contract import Notes

log = structlog.get_logger("scheduld.run")
_stdlib_log = logging.getLogger("scheduld.run")
GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when a run is to stop ..."""
STOP_GRACE_S = 0.5
"""... and when the daemon is: its shutdown_grace has passed already."""
IDLE_S = 300.0
"""A worker that has had nothing to do for so long is ended."""
START_S = 60.0
"""A worker must have imported its handler within this time."""
MOST_STARTING = max(2, cores())
"""So many workers of a type are started at the same time."""
_AGAIN_MS = 1_000
_RETIRE_S = 2.0
_CLOSE_S = 0.5
_MOST_LOGGERS = 200
_MOST_A_SECOND = 3_000
"""What runs and libraries tell is held down in the worker, to much less."""


class _Worker:
    """A worker process, and what it is doing."""

    __slots__ = (
        "ending",
        "execution",
        "idle_since",
        "is_ready",
        "process",
        "runs",
        "timer",
        "told",
        "told_since",
        "was_idle",
    )

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process
        self.execution: Execution | None = None
        self.ending: Ending | None = None
        self.is_ready = False
        self.was_idle = False
        self.runs = 0
        self.idle_since = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.told = 0
        self.told_since = 0.0

    def tells_too_much(self) -> bool:
        """Count a message that is no end."""
        now = monotonic()
        if now - self.told_since > 1:
            self.told, self.told_since = 0, now
        self.told += 1
        return self.told > _MOST_A_SECOND


class Processes:
    """Calls in worker processes, one at a time in each; started when needed, then kept.

    `began(execution)` is called when a call had to wait for its worker's start and begins now.
    """

    def __init__(
        self,
        duty: Duty,
        ended: Callable[[Execution, Ending], None],
        began: Callable[[Execution], None],
        notes: Notes | None,
    ) -> None:
        self._duty = duty
        self._ended = ended
        self._began = began
        self._notes = notes
        self._hello = messages.hello(duty)
        self._workers: dict[WorkerProcess, _Worker] = {}
        self._at: dict[Execution, _Worker] = {}
        self._waiting: dict[Execution, None] = {}
        self._idle: list[_Worker] = []
        self._is_planned = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._loggers: set[str] = set()

    def begin(self, execution: Execution) -> None:
        """Begin in an idle worker, or in the first one that is free or was started."""
        if self._waiting or not self._call_idle(execution):
            # Its time counts from when it is called.
            execution.deadline = math.inf
            self._waiting[execution] = None
            self._plan()

    def interrupt(self, execution: Execution) -> None:
        """SIGTERM, and SIGKILL after a grace; at once if the handler was not called yet."""
        worker = self._at.get(execution)
        if worker is None:
            if execution in self._waiting:
                del self._waiting[execution]
                asyncio.get_running_loop().call_soon(self._ended, execution, GivenBack())
        elif not execution.has_begun:
            worker.process.kill()
        else:
            stopping = execution.stopped is Stop.STOPPING
            worker.process.ask_to_stop(STOP_GRACE_S if stopping else GRACE_S)

    def close(self) -> None:
        """End all workers, and wait for that: those that are idle by themselves, if they do."""
        self._waiting.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        processes = list(self._workers)
        for process in processes:
            if self._workers[process].execution is None:
                process.retire(_CLOSE_S)
            else:
                process.kill()
        deadline = monotonic() + _CLOSE_S
        for process in processes:
            process.wait(max(deadline - monotonic(), 0.01))

    # --- workers

    def _call_idle(self, execution: Execution) -> bool:
        call = messages.call(execution)
        while self._idle:
            worker = self._idle.pop()
            worker.process.output.forget()
            try:
                worker.process.send(call)
            except OSError:
                # It has died while it was idle: no run is to blame.
                worker.process.kill()
                continue
            worker.execution = execution
            worker.was_idle = execution.has_begun = True
            self._at[execution] = worker
            return True
        return False

    def _plan(self) -> None:
        if self._waiting and not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Call idle workers for runs that wait, and start one more if that is not enough.

        One a turn of the loop, as a start blocks it for some ms; and few at once, or they would
        share the processors until none was ready in time, nor anything else of the daemon.
        """
        self._is_planned = False
        while self._waiting and self._call_idle(next(iter(self._waiting))):
            self._began(self._next_waiting())
        starting = sum(not worker.is_ready for worker in self._workers.values())
        if self._waiting and starting < MOST_STARTING:
            self._start_for(self._next_waiting())
            self._plan()

    def _next_waiting(self) -> Execution:
        execution = next(iter(self._waiting))
        del self._waiting[execution]
        return execution

    def _start_for(self, execution: Execution) -> None:
        try:
            self._at[execution] = self._start(execution)
        except Exception as error:  # noqa: BLE001 - such as too many processes; never a lost run
            task = task_ref(execution.claim)
            log.error("a worker process could not be started", task=task, error=repr(error))
            self._ended(execution, GivenBack(_AGAIN_MS))

    def _start(self, execution: Execution) -> _Worker:
        process = WorkerProcess(self._duty.name, on_message=self._told, on_end=self._died)
        worker = _Worker(process)
        worker.execution = execution
        self._workers[process] = worker
        worker.timer = asyncio.get_running_loop().call_later(START_S, self._start_late, worker)
        with suppress(OSError):  # dead at once: its end will tell
            process.send(self._hello)
            process.send(messages.call(execution))
        return worker

    def _start_late(self, worker: _Worker) -> None:
        worker.process.kill(f"had not imported the handler after {START_S:g} s, and was killed")

    def _rest(self, worker: _Worker) -> None:
        """Keep a worker for the next run, unless it has had its time."""
        worker.execution = None
        worker.runs += 1
        if worker.runs >= self._duty.kind.recycle_after:
            worker.process.retire(_RETIRE_S)
        else:
            worker.idle_since = monotonic()
            self._idle.append(worker)
            if self._sweeper is None:
                self._sweeper = asyncio.get_running_loop().call_later(IDLE_S / 2, self._sweep)
        self._plan()

    def _sweep(self) -> None:
        self._sweeper = None
        before = monotonic() - IDLE_S
        for worker in [worker for worker in self._idle if worker.idle_since < before]:
            self._idle.remove(worker)
            worker.process.retire(_RETIRE_S)
        if self._idle:
            self._sweeper = asyncio.get_running_loop().call_later(IDLE_S / 2, self._sweep)

    # --- what workers tell

    def _told(self, process: WorkerProcess, message: dict[str, Any]) -> None:
        worker = self._workers[process]
        if "end" in message:
            self._told_end(worker, message)
        elif worker.tells_too_much():
            raise BadFrame(f"more than {_MOST_A_SECOND} messages in a second")
        elif "notes" in message:
            self._told_notes(worker.execution, message["notes"])
        elif "ready" in message:
            self._told_ready(worker)
        elif "record" in message:
            self._told_record(worker.execution, message["record"])
        elif "unusable" in message:
            text = str(message["unusable"])
            worker.ending = Failed(error_of("handler", f"the worker cannot use it: {text}"))
        else:
            raise BadFrame("a message of an unknown kind")

    def _told_ready(self, worker: _Worker) -> None:
        if worker.is_ready:
            raise BadFrame("twice that it is ready")
        worker.is_ready = True
        if worker.timer is not None:
            worker.timer.cancel()
        execution = worker.execution
        if execution is not None and execution.stopped is None:
            execution.has_begun = True
            self._began(execution)
        self._plan()

    def _told_end(self, worker: _Worker, message: dict[str, Any]) -> None:
        execution = worker.execution
        if execution is None or worker.ending is not None:
            raise BadFrame("an end of no run")
        if message["end"] != execution.claim.fence:
            raise BadFrame("an end of another run")
        ending = ends.read(message)
        if execution.stopped is not None:
            # Its group was asked to end: only when that is gone the run is over.
            worker.ending = ending
            worker.process.kill()
            return
        if message.get("spent"):
            worker.runs = self._duty.kind.recycle_after
        self._rest(worker)
        self._over(worker, execution, ending)

    def _told_notes(self, execution: Execution | None, told: Any) -> None:
        if execution is None or execution.run is None or self._notes is None:
            return
        try:
            if (text := told["progress"]) is not None:
                self._notes.progress(execution.run, str(text)[:PROGRESS_LIMIT])
            for age_ms, text in told["log"]:
                self._notes.log(execution.run, str(text)[: LINE_LIMIT + 3], float(age_ms))
        except (KeyError, TypeError, ValueError):
            raise BadFrame("notes that cannot be read") from None

    def _told_record(self, execution: Execution | None, told: Any) -> None:
        try:
            name, level, text = told
            task = None if execution is None else task_ref(execution.claim)
            # Levels between the usual ones are the user's own: structlog knows none.
            rounded = min(max(int(level) // 10, 1), 5) * 10
            logger = structlog.get_logger(self._logger_name(str(name)))
            logger.log(rounded, str(text), type=self._duty.name, task=task)
        except (TypeError, ValueError, OverflowError):
            raise BadFrame("a log record that cannot be read") from None

    def _logger_name(self, name: str) -> str:
        """Name a logger of a worker; a logger is kept for ever, and a handler may make many."""
        if name not in self._loggers and len(self._loggers) >= _MOST_LOGGERS:
            return "scheduld.worker"
        self._loggers.add(name)
        return name

    def _died(self, process: WorkerProcess, death: Death) -> None:
        worker = self._workers.pop(process)
        if worker.timer is not None:
            worker.timer.cancel()
        with suppress(ValueError):
            self._idle.remove(worker)
        execution = worker.execution
        if execution is not None:
            if worker.was_idle and process.is_unread and execution.stopped is None:
                # It was dying when it was called, and has not heard of it: no run is to blame.
                del self._at[execution]
                execution.has_begun = False
                self.begin(execution)
            else:
                self._over(worker, execution, worker.ending or self._meaning(execution, death))
        self._plan()

    def _meaning(self, execution: Execution, death: Death) -> Ending:
        if execution.stopped is not None:
            return GivenBack()
        max_cpu_ms = self._duty.kind.max_cpu_ms
        return Failed(messages.death_error(death, max_cpu_ms, has_begun=execution.has_begun))

    def _over(self, worker: _Worker, execution: Execution, ending: Ending) -> None:
        self._at.pop(execution, None)
        execution.output = worker.process.output.take()
        if execution.output and _stdlib_log.isEnabledFor(logging.DEBUG):
            task = task_ref(execution.claim)
            log.debug("output of a run", task=task, output=execution.output)
        self._ended(execution, ending)
