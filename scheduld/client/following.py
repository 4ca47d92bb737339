"""Tasks of a type whose series the client does not know from a config, but from its daemons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.calendar.period import Series
from scheduld.client.adding import TaskSpec
from scheduld.client.shaping import Shape
from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from scheduld.client.adding import Addition, Pending


def follow(addition: Addition, told: bytes) -> None:
    """Put those tasks that say no time onto the series; what cannot be is refused, each alone."""
    try:
        series = Series.parse(told.decode(errors="replace"))
    except InvalidInput:  # something else has written there
        return
    for index, task in enumerate(addition.tasks):
        if task.zone is not False and addition.results[index] is None:
            try:
                addition.tasks[index] = _on_series(task, series)
            except InvalidInput as refusal:
                addition.results[index] = refusal


def _on_series(task: Pending, series: Series) -> Pending:
    from scheduld.client.periods import recurrence_of

    assert task.zone is not False  # noqa: S101 - of one that says no time
    spec, shape = TaskSpec(payload=task.payload), task.shape or Shape()
    found = recurrence_of(spec, task.payload, (None, 0), timezone=task.zone, series=series)
    assert found is not None  # noqa: S101 - it follows the series
    shape.recur(found)
    at_ms, delay_ms = found.due
    new = task.new._replace(at_ms=at_ms, delay_ms=delay_ms, load=shape.packed)
    return task._replace(new=new, shape=shape, zone=False)
