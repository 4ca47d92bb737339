"""What the verbs that change one task answer when it has ended and is gone by then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduld.client import changing
from scheduld.client.verbs import Scope
from scheduld.model import State, Task
from scheduld.store.usercalls import Edit
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.client.verbs import Verb
    from tests.support.store import Store


def edited(scope: Scope, type_name: str, task_id: str) -> Verb[Task]:
    """Move the due time."""
    change = changing.Change(Edit(token="e", at_ms=1), None, 1_000)
    return changing.edit(scope, type_name, task_id, change)


VERBS: tuple[tuple[Callable[..., Verb[Task]], str, State], ...] = (
    (changing.cancel, "scheduled", State.CANCELLED),
    (changing.cancel, "running", State.RUNNING),
    (changing.run_now, "scheduled", State.SCHEDULED),
    (changing.requeue, "dead", State.SCHEDULED),
    (edited, "scheduled", State.SCHEDULED),
)


@pytest.mark.parametrize(("verb", "before", "after"), VERBS)
def test_a_change_is_told_of_what_is_gone(
    fast_store: Store, verb: Callable[..., Verb[Task]], before: str, after: State
) -> None:
    """It was made, so it is no NotFound: the task is told as the change left it."""
    store = fast_store
    store.into(before, "x")
    steps = verb(Scope(store.caller()), store.type.type, "x")
    answer: Any = store.run(next(steps))  # type: ignore[arg-type]
    for key in store.redis.scan_iter(f"{store.namespace}:*"):
        store.redis.delete(key)
    (read,) = steps.send(answer)  # type: ignore[misc]
    with pytest.raises(StopIteration) as stop:
        steps.send([store.run(read)])
    assert stop.value.value == Task(store.type.type, "x", after)
