"""The verbs that change one task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld import payload as codec
from scheduld.client.verbs import not_found, read_tasks
from scheduld.errors import Conflict, InvalidInput, ScheduldError
from scheduld.model import State, Task
from scheduld.names import printable
from scheduld.policies.merge import merge
from scheduld.store import usercalls
from scheduld.store.keys import encode_id
from scheduld.store.records import state_of

if TYPE_CHECKING:
    from scheduld.client.replanning import Replan
    from scheduld.client.verbs import Scope, Verb
    from scheduld.store.answers import RawTask
    from scheduld.store.usercalls import Edit

STOPPING = 2
REFUSED = 3
_CHANGED = 4
_MERGE_TRIES = 20
_REQUEUE = "requeue it to run it again"
_REPLACE = 'to follow it with another task, add that with on_conflict "replace"'
CANCEL_HINTS = {"done": _REQUEUE, "dead": _REQUEUE}
_AGAIN = {"scheduled": "it is scheduled already", "early": "it is scheduled already"}
_WAITING = {"running": _REPLACE, "done": _REQUEUE, "dead": _REQUEUE, "cancelled": _REQUEUE}


def cancel(scope: Scope, type_name: str, task_id: str) -> Verb[Task]:
    """Cancel a task, or ask its run to stop; raises NotFound or Conflict."""
    decision = yield usercalls.cancel(scope.caller, scope.type(type_name), encode_id(task_id))
    if decision.code == REFUSED:
        why = "cancelled: it has ended"
        raise (yield from refused(scope, type_name, task_id, decision.state, why, CANCEL_HINTS))
    state = State.RUNNING if decision.code == STOPPING else State.CANCELLED
    return (yield from changed(scope, type_name, task_id, state))


def requeue(scope: Scope, type_name: str, task_id: str) -> Verb[Task]:
    """Schedule an ended task again, due now; raises NotFound or Conflict."""
    call = usercalls.requeue(scope.caller, scope.type(type_name), [encode_id(task_id)])
    (decision,) = yield call
    if decision.code == REFUSED:
        why, hints = "requeued: it has not ended", {**_AGAIN, "running": "it runs now"}
        raise (yield from refused(scope, type_name, task_id, decision.state, why, hints))
    return (yield from changed(scope, type_name, task_id, State.SCHEDULED))


def run_now(scope: Scope, type_name: str, task_id: str) -> Verb[Task]:
    """Make a task that waits due now; raises NotFound or Conflict."""
    decision = yield usercalls.run_now(scope.caller, scope.type(type_name), encode_id(task_id))
    if decision.code == REFUSED:
        why = f"run now: it {_now(decision.state)}"
        raise (yield from refused(scope, type_name, task_id, decision.state, why, _WAITING))
    return (yield from changed(scope, type_name, task_id, State.SCHEDULED))


@dataclass(frozen=True, slots=True)
class Change:
    """What an edit does, checked: `edit.payload` replaces the payload, `patch` is merged.

    `replan` is what it says about coming again.
    """

    edit: Edit
    patch: dict[str, Any] | None
    max_payload: int
    replan: Replan | None = None

    @property
    def is_of_stored(self) -> bool:
        """Whether what it stores depends on what is there."""
        return self.patch is not None or self.edit.payload is not None or self.replan is not None


def edit(scope: Scope, type_name: str, task_id: str, change: Change) -> Verb[Task]:
    """Change a task that has not begun, or what follows the run of a periodic one.

    A patch is made into a payload here, and stored only if nobody changed the task meanwhile;
    else it is made anew. So is what depends on the period. Raises NotFound or Conflict.
    """
    keys, raw_id = scope.type(type_name), encode_id(task_id)
    wanted = change.edit.if_revision
    for _ in range(_MERGE_TRIES):
        step = change.edit
        if change.is_of_stored:
            step = yield from _made(scope, type_name, task_id, change)
        edited = yield usercalls.edit(scope.caller, keys, raw_id, step)
        if edited.code == REFUSED:
            why = f"edited: it {_now(edited.state)}"
            raise (yield from refused(scope, type_name, task_id, edited.state, why, _WAITING))
        if edited.code != _CHANGED:
            return (yield from changed(scope, type_name, task_id, State.SCHEDULED))
        if wanted is not None and edited.revision != wanted:
            raise Conflict(
                f"{_ref(type_name, task_id)} has revision {edited.revision}, not {wanted}",
                hint="somebody has changed it: look at it, then edit what is there now",
            )
    raise Conflict(f"{_ref(type_name, task_id)} is changed by others all the time")


def _made(scope: Scope, type_name: str, task_id: str, change: Change) -> Verb[Edit]:
    """Read the task, and make the edit of it as it is."""
    raw_id = encode_id(task_id)
    (raw,) = yield usercalls.read(scope.caller, scope.type(type_name), [raw_id])
    step = change.edit if change.patch is None else _merged(raw, type_name, task_id, change)
    is_kept = state_of(raw) in (State.SCHEDULED, State.RUNNING)
    if is_kept and (change.replan is not None or "series" in raw.fields):
        from scheduld.client.replanning import Replanning  # the calendar is large

        return Replanning(_ref(type_name, task_id), raw, step).edit(change.replan)
    return step


def _merged(raw: RawTask, type_name: str, task_id: str, change: Change) -> Edit:
    """Make the edit that stores the payload of a task with the patch in it."""
    old = raw.fields.get("payload")
    try:
        current = codec.decode(old)
    except InvalidInput as error:
        raise Conflict(
            f"nothing can be merged into {_ref(type_name, task_id)}: {error.message}",
            hint="give it a whole new payload",
        ) from None
    payload = codec.encode(merge(current, change.patch), max_bytes=change.max_payload)
    return change.edit.of_payload(payload, b"" if old is None else old)


def changed(scope: Scope, type_name: str, task_id: str, state: State) -> Verb[Task]:
    """Read a task that was changed just now.

    It may be gone by now, ended and pruned: then it is told as the change left it.
    """
    found = yield from read_tasks(scope, type_name, [encode_id(task_id)])
    return found[0] if found else Task(type_name, task_id, state)


def _ref(type_name: str, task_id: str) -> str:
    return f"{type_name}/{printable(task_id)}"


def refused(
    scope: Scope, type_name: str, task_id: str, state: str, why: str, hints: dict[str, str]
) -> Verb[ScheduldError]:
    """Make the error of a verb that the task's state does not allow."""
    ref = _ref(type_name, task_id)
    if state == "none":
        return (yield from not_found(scope, type_name, task_id))
    if state == "broken":
        return Conflict(
            f"the key of {ref} does not hold a hash",
            hint="find out what wrote it; DEL it, and add the task again",
        )
    shown = "scheduled" if state == "early" else state
    return Conflict(f"{ref} is {shown} and cannot be {why}", hint=hints.get(state))


def _now(state: str) -> str:
    return "has begun" if state == "running" else "has ended"
