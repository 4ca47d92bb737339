"""The verb that schedules many dead tasks again, after one of them as a trial if asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduld.client.dead import matches, read_errors
from scheduld.client.verbs import Commands, Sleep, get, must_be_known
from scheduld.clock import monotonic
from scheduld.errors import Conflict, NotFound, OutcomeUnknown, ScheduldError
from scheduld.model import State, Task
from scheduld.names import printable
from scheduld.store import usercalls
from scheduld.store.answers import server_ms, to_ms
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb
    from scheduld.store.answers import Decision

_PAGE = 100
"""How many tasks are scheduled again in one call."""
_POLL_S = 0.2
_GONE = "it was removed as soon as it ended (keep_done, keep_dead)"


@dataclass(frozen=True, slots=True)
class Requeued:
    """What a bulk requeue did: how many tasks, and the one that went first, if one did."""

    requeued: int
    canary: Task | None


@dataclass(slots=True)
class Revival:
    """One bulk requeue. It outlives attempts: after a lost answer it goes on where it was.

    `limit`: most tasks, None for all. `canary_wait_s`: None for no canary.
    """

    type: str
    error: str | None
    limit: int | None
    canary_wait_s: float | None
    requeued: int = 0
    steps: int = 0
    """How often it has come further."""
    _canary_id: str | None = None
    _canary: Task | None = None
    _deadline: float = 0.0
    _before_ms: int | None = None
    _left: int = 0
    _offset: int = 0
    _page: list[bytes] = field(default_factory=list)
    _is_sent: bool = False

    def verb(self, scope: Scope) -> Verb[Requeued]:
        """Schedule dead tasks again, the oldest first; those that die meanwhile stay dead."""
        if self._before_ms is None:
            time, total = yield Commands((("TIME",), ("ZCARD", scope.type(self.type).dead)))
            if not total:
                yield from must_be_known(scope, self.type)
            self._before_ms, self._left = server_ms(time), total
        if self.canary_wait_s is not None and self._canary is None:
            yield from self._try_canary(scope, self.canary_wait_s)
        while self.limit is None or self.requeued < self.limit:
            if not self._page:
                self._page = yield from self._next(scope, self.limit and self.limit - self.requeued)
            if not self._page:
                break
            yield from self._requeue(scope)
        return Requeued(self.requeued, self._canary)

    def explain(self, error: ScheduldError) -> None:
        """Complete an error that ended the requeue."""
        if self.requeued and not isinstance(error, Conflict):
            error.message += f"; {self.requeued} dead tasks are scheduled again so far"
            error.args = (error.message,)

    def _next(self, scope: Scope, most: int | None) -> Verb[list[bytes]]:
        """Find the next dead tasks with the error, at most a page, behind those to stay."""
        keys = scope.type(self.type)
        while self._left > 0:
            size = min(_PAGE, self._left)
            page = ("ZRANGE", keys.dead, self._offset, self._offset + size - 1, "WITHSCORES")
            (flat,) = yield Commands((page,))
            raw_ids = [
                raw_id
                for raw_id, score in zip(flat[::2], flat[1::2], strict=True)
                if (to_ms(score) or 0) <= (self._before_ms or 0)
            ]
            if not raw_ids:
                break
            errors = [""] * len(raw_ids)
            if self.error is not None:
                errors = yield from read_errors(scope, self.type, raw_ids)
            found: list[bytes] = []
            for raw_id, error in zip(raw_ids, errors, strict=True):
                if len(found) == most:
                    break
                self._left -= 1
                if matches(error, self.error):
                    found.append(raw_id)
                else:
                    self._offset += 1
            if found:
                return found
        return []

    def _requeue(self, scope: Scope) -> Verb[list[Decision]]:
        """Schedule the page again, and count it."""
        keys = scope.type(self.type)
        try:
            decisions: list[Decision]
            decisions = yield usercalls.requeue(scope.caller, keys, self._page, wanted="dead")
        except OutcomeUnknown:
            self._is_sent = True
            raise
        for decision in decisions:
            # After a lost answer: what is not dead any more was scheduled by that call.
            self.requeued += decision.code == 1 or (self._is_sent and decision.state != "broken")
            self._offset += decision.state == "broken"
        self._page, self._is_sent = [], False
        self.steps += 1
        return decisions

    def _try_canary(self, scope: Scope, wait_s: float) -> Verb[None]:
        """Schedule one task again, and wait for its success; raises Conflict for another end."""
        if self._canary_id is None:
            self._page = self._page or (yield from self._next(scope, 1))
            if not self._page:
                return
            yield from self._must_run(scope)
            (raw_id,) = self._page
            (decision,) = yield from self._requeue(scope)
            if not self.requeued:
                raise Conflict(f"{self._ref(decode_id(raw_id))} is {decision.state} by now")
            self._canary_id, self._deadline = decode_id(raw_id), monotonic() + wait_s
        ref = self._ref(self._canary_id)
        while True:
            try:
                task = yield from get(scope, self.type, self._canary_id)
            except NotFound:
                raise _stop(ref, f"cannot be judged: {_GONE}") from None
            self.steps += 1
            if task.state is State.DONE:
                self._canary = task
                return
            if task.state in (State.DEAD, State.CANCELLED):
                raise _stop(ref, f"is {task.state.value} again{_why(task)}")
            if monotonic() >= self._deadline:
                raise _stop(ref, f"is {task.state.value} after {wait_s:g} s{_why(task)}")
            yield Sleep(min(_POLL_S, max(0.0, self._deadline - monotonic())))

    def _must_run(self, scope: Scope) -> Verb[None]:
        (is_paused,) = yield Commands((("HEXISTS", scope.type(self.type).meta, "paused"),))
        if is_paused:
            raise Conflict(
                f"{self.type} is paused: a canary would not run", hint="resume it, or leave it out"
            )

    def _ref(self, task_id: str) -> str:
        return f"{self.type}/{printable(task_id)}"


def _stop(ref: str, what: str) -> Conflict:
    return Conflict(f"the canary {ref} {what}", hint="nothing else was scheduled again")


def _why(task: Task) -> str:
    error = task.error or {}
    words = [str(error[name]) for name in ("kind", "message") if error.get(name)]
    return f" ({printable(' '.join(': '.join(words).split()))[:200]})" if words else ""
