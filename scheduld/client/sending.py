"""The verb that adds tasks: in how many calls, and what their answers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld.client.verbs import (
    READ_AT_ONCE,
    Ahead,
    Commands,
    Confirmed,
    admit_type,
    read_tasks,
)
from scheduld.errors import (
    Conflict,
    NotFound,
    OutcomeUnknown,
    ScheduldError,
    TaskExists,
    Unreachable,
)
from scheduld.model import OnConflict, State, Task
from scheduld.names import printable
from scheduld.store import calls, durable
from scheduld.store.answers import Added, AddedTask
from scheduld.store.calls import Call
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.client.adding import Addition, Pending
    from scheduld.client.verbs import Scope, Verb
    from scheduld.store.durable import Confirm
    from scheduld.store.keys import TypeKeys

_CREATED = Added.CREATED


class ToRead(NamedTuple):
    """A task that must be read: for which position, and whether this add stored it."""

    place: int
    created: bool
    raw_id: bytes
    is_others: bool
    """Another task than the one to add, unique in the same."""


class Add(NamedTuple):
    """Where tasks go, and how: what adds must have in common to be sent as one."""

    type: str
    on_conflict: OnConflict
    allow_unknown: bool = False


def schedule(scope: Scope, how: Add, addition: Addition) -> Verb[list[Task | ScheduldError]]:
    """Add the tasks that are open; a result a task, in order: the task, or why it was refused.

    Raises what refused a call as a whole; what is stored then stands in `addition`.
    """
    yield from admit_type(scope, how.type, allow_unknown=how.allow_unknown)
    if how.type in scope.series:
        from scheduld.client.following import follow  # the calendar is large

        follow(addition, scope.series[how.type])
    open_ = [index for index, result in enumerate(addition.results) if result is None]
    keys = scope.type(how.type)
    chunks = list(_chunks(addition.tasks, open_))
    steps = (_add(scope, keys, how, addition, chunk) for chunk in chunks)
    if scope.confirm is not None:
        answers = yield from _confirmed(scope, scope.confirm, list(steps), addition, chunks)
    else:
        answers = [(yield next(steps))] if len(chunks) == 1 else (yield Ahead(steps))
    errors = [answer for answer in answers if isinstance(answer, ScheduldError)]
    for error in errors:
        if isinstance(error, OutcomeUnknown):
            raise error
    if errors:
        raise errors[0]
    to_read = [pair for pairs in answers for pair in pairs]
    if to_read:
        yield from _read_kept(scope, how.type, addition, to_read)
    return addition.all_results()


def _confirmed(
    scope: Scope,
    confirm: Confirm,
    steps: list[Call[Any]],
    addition: Addition,
    chunks: list[list[int]],
) -> Verb[list[Any]]:
    """Add chunk by chunk, each confirmed before the next; a doubted one is open again."""
    if confirm.where == "disk" and not scope.is_disk_known:
        try:
            yield Commands((durable.PROBE,))
        except (Unreachable, OutcomeUnknown):
            raise
        except ScheduldError as error:
            raise durable.refusal(error) from None
        scope.is_disk_known = True
    answers: list[Any] = []
    pairs = yield Confirmed(steps, confirm)
    for chunk, (answer, doubt) in zip(chunks, pairs, strict=False):
        answers.append(answer)
        if doubt is None:
            continue
        # What was refused or kept has nothing to confirm.
        stored = [index for index in chunk if isinstance(addition.results[index], Task)]
        if stored or any(asked.created for asked in answer):
            for index in stored:
                addition.results[index] = None
            raise doubt
    return answers


def _chunks(tasks: list[Pending], open_: list[int]) -> Iterator[list[int]]:
    """Split the positions of tasks into what one call may carry."""
    chunk: list[int] = []
    size = 0
    is_shaped = any(tasks[index].shape is not None for index in open_)
    most = calls.MAX_SHAPED if is_shaped else calls.MAX_IDS
    for index in open_:
        bytes_ = len(tasks[index].new.payload)
        if chunk and (len(chunk) >= most or size + bytes_ > calls.MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(index)
        size += bytes_
    if chunk:
        yield chunk


def _add(
    scope: Scope, keys: TypeKeys, how: Add, addition: Addition, chunk: list[int]
) -> Call[list[ToRead]]:
    """Make the call for some tasks. Its answer is taken while the server does the next one.

    The result is what must still be read.
    """
    tasks = addition.tasks
    new = [tasks[index].new for index in chunk]
    call = calls.add(scope.caller, keys, new, on_conflict=how.on_conflict)
    read_answer = call.parse

    def parse(answer: list[Any]) -> list[ToRead]:
        to_read = []
        for index, added in zip(chunk, read_answer(answer), strict=True):
            task = tasks[index]
            if added.code is _CREATED and added.raw_id is None:
                addition.results[index] = created = Task.scheduled(
                    how.type, task.id, added.due_ms, task.added_ms, task.payload
                )
                if task.shape is not None:
                    created.__dict__.update(task.shape.task_fields(added.due_ms))
            elif added.code in (Added.EXISTS, Added.BROKEN):
                addition.results[index] = _refusal(how.type, task.id, added)
            else:
                is_new = added.code not in (Added.KEPT, Added.PUT_OFF)
                raw_id = added.raw_id or task.new.raw_id
                to_read.append(ToRead(index, is_new, raw_id, added.raw_id is not None))
        return to_read

    return Call(call.script, call.keys, call.args, parse)


_KEEP_OR_REPLACE = '"keep" answers with the kept one, "replace" takes its place (on_conflict)'


def _refusal(type_name: str, task_id: str, added: AddedTask) -> ScheduldError:
    if added.code is Added.BROKEN:
        return Conflict(f"the key of {type_name}/{printable(task_id)} does not hold a hash")
    # What a replica holds early is shown as scheduled, everywhere.
    state = "scheduled" if added.state == "early" else added.state
    message = f"{type_name}/{printable(task_id)} exists in state {state}"
    if added.raw_id is not None:
        ref = f"{type_name}/{printable(decode_id(added.raw_id))}"
        message = f"{ref}, in state {state}, is the same by what is to be unique"
        if state == "none":
            message = f"{ref}, which has ended, was the same by what is to be unique"
    return TaskExists(message, state=state, hint=_KEEP_OR_REPLACE)


def _read_kept(
    scope: Scope, type_name: str, addition: Addition, to_read: list[ToRead]
) -> Verb[None]:
    """Fill in the tasks that an add found, or stored beside a running one."""
    for start in range(0, len(to_read), READ_AT_ONCE):
        page = to_read[start : start + READ_AT_ONCE]
        raw_ids = [asked.raw_id for asked in page]
        found = {task.id: task for task in (yield from read_tasks(scope, type_name, raw_ids))}
        for asked in page:
            task_id = decode_id(asked.raw_id)
            task = found.get(task_id)
            if task is None and asked.is_others and not asked.created:
                # It is what the period of `unique` or `throttle` began with: that goes on.
                task = Task(type_name, task_id, State.DONE)
            gone = f"{type_name}/{printable(task_id)} was stored, and has ended since"
            addition.results[asked.place] = (
                task.with_created(asked.created) if task else NotFound(gone)
            )
