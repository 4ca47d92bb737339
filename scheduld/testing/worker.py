"""What a replica does, one task at a time: claims by the real script, stores by the real one.

No loops, no leases to renew: time stands while a handler runs. Nothing here waits, so that one
implementation serves tests with and without an event loop; only calling a handler differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld import payload as codec
from scheduld.clock import moved_ms
from scheduld.engine.isolation import run_of
from scheduld.engine.reschedule import ends_occurrence, of_what_is_over, with_next
from scheduld.errors import InvalidInput, ScheduldError
from scheduld.model import Claim, State, Task, VerdictKind, instant
from scheduld.names import id_fault
from scheduld.payload import DEFAULT_MAX_BYTES
from scheduld.policies.endings import Ending, GivenBack, Raised, Unreadable, verdict
from scheduld.policies.reschedule import GOES_ON, answer
from scheduld.store import calls, usercalls
from scheduld.store.answers import to_ms
from scheduld.store.calls import Caller, ClaimRequest
from scheduld.store.notecalls import note
from scheduld.store.records import to_task
from scheduld.testing.calling import passes
from scheduld.testing.told import Told

if TYPE_CHECKING:
    from datetime import datetime

    from scheduld.handlers.contract import Handler
    from scheduld.model import TaskType, Verdict
    from scheduld.policies.reschedule import Answer
    from scheduld.store.answers import RawTask
    from scheduld.store.keys import Keys
    from scheduld.store.synclink import SyncLink
    from scheduld.testing.types import Type

_LEASE_MS = 30_000
_LAST_MS = 253_402_300_799_999


class TooManyRuns(ScheduldError):
    """A test ran as many tasks as it allows, and more are due: one may schedule itself again."""

    kind = "too_many_runs"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a handler in a test.

    `outcome` says what the run came to: "done", "retry", "dead", "snooze", or "cancelled" if the
    task was cancelled meanwhile. `at` is when it ran, `due` its nominal due time. `error` is what
    the handler raised. `task` is the task as it was kept right after the run, None if it was not.
    """

    type: str
    id: str
    payload: dict[str, Any]
    attempt: int
    due: datetime
    at: datetime
    outcome: str
    result: Any = None
    error: BaseException | None = None
    task: Task | None = None

    @property
    def ref(self) -> str:
        """`TYPE/ID`."""
        return f"{self.type}/{self.id}"


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed task, ready for its handler."""

    claim: Claim
    kind: TaskType
    handler: Handler
    arguments: tuple[Any, ...]
    limit_ms: int


class _Head(NamedTuple):
    """The first of what a type has scheduled, and how much there is."""

    due_ms: int | None
    raw_id: bytes | None
    size: int


class Worker:
    """Works on the types in `handlers`; everything at the time of the moved clock."""

    def __init__(self, link: SyncLink, keys: Keys) -> None:
        self._link = link
        self._caller = Caller(keys, "test")
        self._sequence = 0
        self._stuck: dict[str, tuple[_Head, int | None]] = {}
        self._told = Told(self._now_ms)
        self.handlers: dict[str, Type] = {}
        self.max_payload = DEFAULT_MAX_BYTES
        self.runs: list[RunRecord] = []

    def next_due_ms(self, after_ms: int) -> int | None:
        """The next instant later than `after_ms` at which there may be something to do."""
        times = [head.due_ms for head in self._heads().values() if head.due_ms is not None]
        times += [again for _, again in self._stuck.values() if again is not None]
        return min((time for time in times if time > after_ms), default=None)

    def claim(self, now_ms: int) -> Job | None:
        """Claim the task that is due first; None if none is that may run now."""
        while True:
            heads = self._heads()
            due = [
                (head.due_ms or 0, name)
                for name, head in heads.items()
                if _is_due(head, now_ms) and self._moves(name, head)
            ]
            if not due:
                return None
            _, name = min(due)
            claim = self._claim(name, heads[name])
            job = None if claim is None else self._job(claim)
            if job is not None:
                return job

    def look_anew(self) -> None:
        """Try again what could not be claimed: time has moved, or something else has changed."""
        self._stuck.clear()

    def question(self, job: Job, ending: Ending) -> Job | None:
        """What the predicate of a periodic task is to be asked after a run; None: nothing."""
        predicate = self.handlers[job.claim.type].predicate
        result = _read(job.claim, ending, job.kind, self._now_ms())
        if predicate is None or not ends_occurrence(job.claim, result):
            return None
        return self._made(job.claim, job.kind, predicate, job.kind.reschedule_timeout_ms)

    def settle(self, job: Job, ending: Ending, said: Ending | None = None) -> RunRecord:
        """Store the end of a run, and note it; `said` is how the call of its predicate ended."""
        error = getattr(ending, "error", None)
        if error is not None and passes(error) and isinstance(error, KeyboardInterrupt):
            self._store(job, GivenBack())
            raise error
        kind, task = self._store(job, ending, said)
        now_ms = self._now_ms()
        value = getattr(ending, "value", None)
        record = RunRecord(
            type=job.claim.type,
            id=job.claim.id,
            payload=codec.decode(job.claim.payload),
            attempt=job.claim.attempt,
            due=instant(job.claim.due_ms),
            at=instant(now_ms),
            outcome=kind,
            result=task.result if task and kind == VerdictKind.DONE else None,
            error=value if isinstance(value, BaseException) else error,
            task=task,
        )
        self.runs.append(record)
        self.look_anew()
        return record

    def give_back(self, job: Job) -> None:
        """Return a claim whose run came to no end: the test was interrupted."""
        self._store(job, GivenBack())

    def _heads(self) -> dict[str, _Head]:
        names = list(self.handlers)
        if not names:
            return {}
        keys = [self._caller.keys.type(name).due for name in names]
        asked = [("ZRANGE", key, 0, 0, "WITHSCORES") for key in keys]
        replies = self._link.commands(*asked, *(("ZCARD", key) for key in keys))
        firsts, counts = replies[: len(names)], replies[len(names) :]
        heads = {}
        for name, first, count in zip(names, firsts, counts, strict=True):
            due_ms = to_ms(first[1]) if first else None
            heads[name] = _Head(due_ms, first[0] if first else None, count)
        return heads

    def _moves(self, name: str, head: _Head) -> bool:
        """Whether a claim may find more than the last one, which found nothing."""
        stuck = self._stuck.get(name)
        return stuck is None or stuck[0] != head

    def _claim(self, name: str, head: _Head) -> Claim | None:
        kind = self.handlers[name].kind
        self._sequence += 1
        request = ClaimRequest(self._sequence, want=1, verdicts=(), bound_ms=0, early_ms=0)
        keys = self._caller.keys.type(name)
        call = calls.claim(self._caller, keys, kind, request, lease_ms=_LEASE_MS)
        answer = self._link.run(call)
        if answer.count:
            self._stuck.pop(name, None)
            return answer.claims[0]
        # A type that is paused or at its limit, or a broken task that is dead now: then there
        # is another head.
        due_ms, now_ms = answer.next_due_ms, self._now_ms()
        later = due_ms if due_ms is not None and due_ms > now_ms else None
        self._stuck[name] = (head, later)
        return None

    def _job(self, claim: Claim) -> Job | None:
        """Read a claimed task; None for one that cannot be run, whose end is stored then."""
        kind, handler, _ = self.handlers[claim.type]
        if claim.over:
            self._finish(claim, of_what_is_over(claim), GOES_ON)
            return None
        try:
            if fault := id_fault(claim.id):
                raise InvalidInput(f"the id {fault}")
            return self._made(claim, kind, handler, kind.run_timeout_ms)
        except InvalidInput as exc:
            self._store(Job(claim, kind, handler, (), 0), Unreadable("unreadable", exc.message))
            return None

    def _made(self, claim: Claim, kind: TaskType, handler: Handler, limit_ms: int) -> Job:
        """Make a call of a handler or predicate, with a payload of its own."""
        payload = codec.decode(claim.payload)
        if not handler.takes_run:
            return Job(claim, kind, handler, (payload,), limit_ms)
        run = run_of(claim, handler.options, self._told)
        return Job(claim, kind, handler, (payload, run), limit_ms)

    def _store(
        self, job: Job, ending: Ending, said: Ending | None = None
    ) -> tuple[str, Task | None]:
        # No jitter: a test wants to know when the next attempt is.
        now_ms = self._now_ms()
        result = _read(job.claim, ending, job.kind, now_ms)
        raw = self._finish(job.claim, result, GOES_ON if said is None else answer(said, now_ms))
        task = to_task(job.claim.type, raw)
        is_cancelled = task is not None and task.state is State.CANCELLED
        if is_cancelled or raw.fields.get("over") == b"cancelled":
            return str(State.CANCELLED), task
        return result.kind.value, task

    def _finish(self, claim: Claim, result: Verdict, said: Answer) -> RawTask:
        """Store a verdict, and what follows it; answers the task as it is kept then."""
        keys = self._caller.keys.type(claim.type)
        if ends_occurrence(claim, result):
            result = with_next(
                claim, result, said, now_ms=self._now_ms(), max_payload=self.max_payload
            )
        if told := self._told.take(claim):
            self._link.run(note(self._caller, keys, told))
        # Not in one exchange: a server that has to be sent the first script would read before.
        self._link.run(calls.finish(self._caller, keys, [result]))
        (raw,) = self._link.run(usercalls.read(self._caller, keys, [claim.raw_id]))
        return raw

    def _now_ms(self) -> int:
        now_ms = moved_ms()
        assert now_ms is not None  # noqa: S101 - the clock is moved while there is a worker
        return now_ms


def _is_due(head: _Head, now_ms: int) -> bool:
    # A claim makes dead what is due beyond all calendars.
    return head.due_ms is not None and (head.due_ms <= now_ms or head.due_ms > _LAST_MS)


def _read(claim: Claim, ending: Ending, kind: TaskType, now_ms: int) -> Verdict:
    try:
        return verdict(claim, ending, policy=kind.retry, now_ms=now_ms, fraction=0.0)
    except Exception as error:  # noqa: BLE001 - as the daemon: a run always has a verdict
        return verdict(claim, Raised(error), policy=kind.retry, now_ms=now_ms, fraction=0.0)
