"""The verb that cancels one occurrence of a periodic task, and leaves its series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld import payload as codec
from scheduld.calendar.period import Period, rule_of
from scheduld.client.changing import CANCEL_HINTS, REFUSED, STOPPING, changed, refused
from scheduld.errors import Conflict, InvalidInput
from scheduld.model import State, Task
from scheduld.names import printable
from scheduld.store import usercalls
from scheduld.store.keys import encode_id
from scheduld.store.records import state_of, to_task
from scheduld.store.usercalls import Skip

if TYPE_CHECKING:
    from scheduld.client.verbs import Scope, Verb
    from scheduld.store.answers import RawTask

_TRIES = 20
_CHANGED = 4


def cancel_run(scope: Scope, type_name: str, task_id: str) -> Verb[Task]:
    """Ask the run of a periodic task to stop, or leave its next occurrence out.

    The instant that follows is found here, and holds only if the task is still as it was read;
    else it is found anew. Raises NotFound or Conflict.
    """
    keys, raw_id = scope.type(type_name), encode_id(task_id)
    for _ in range(_TRIES):
        (raw,) = yield usercalls.read(scope.caller, keys, [raw_id])
        skip = _skip(type_name, task_id, raw)
        decision = yield usercalls.cancel(scope.caller, keys, raw_id, skip)
        if decision.code == _CHANGED:
            continue
        if decision.code == REFUSED:
            why = "cancelled: it has ended"
            state = decision.state
            raise (yield from refused(scope, type_name, task_id, state, why, CANCEL_HINTS))
        if decision.code == STOPPING:
            return (yield from changed(scope, type_name, task_id, State.RUNNING))
        state_after = State.CANCELLED if skip.next_ms is None else State.SCHEDULED
        return (yield from changed(scope, type_name, task_id, state_after))
    raise Conflict(f"{type_name}/{printable(task_id)} is changed by others all the time")


def _skip(type_name: str, task_id: str, raw: RawTask) -> Skip:
    """Find what follows the next occurrence; of one that runs, its end will say that."""
    state = state_of(raw)
    if state not in (State.SCHEDULED, State.RUNNING):
        return Skip(0, 0, None)
    task, ref = to_task(type_name, raw), f"{type_name}/{printable(task_id)}"
    if task is None or task.runs is None:
        hint = "cancel it without --this-run"
        raise Conflict(f"{ref} is not periodic: it has one run only", hint=hint)
    if state is State.RUNNING:
        return Skip(0, 0, None)
    fields, due_ms = raw.fields, task.due_ms or 0
    try:
        period = Period.read(fields)
        assert period is not None  # noqa: S101 - a task with runs has one
        grid_ms = _number(fields, "grid") or _number(fields, "due") or due_ms
        rule = rule_of(period.begun_at(grid_ms), codec.decode(fields.get("payload")))
        next_ms = rule.after(max(grid_ms, int(raw.now_ms)))
    except InvalidInput as exc:
        hint = "edit what is wrong, or cancel the whole series"
        raise Conflict(
            f"{ref}: nobody can tell what would follow: {exc.message}", hint=hint
        ) from None
    return Skip(grid_ms, task.revision, next_ms)


def _number(fields: dict[str, bytes], name: str) -> int:
    raw = fields.get(name, b"")
    return int(raw) if raw.isdigit() and len(raw) <= 15 else 0
