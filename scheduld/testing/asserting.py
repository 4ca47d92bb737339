"""The assertions of a test's scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from scheduld.clock import wall_ms
from scheduld.model import State
from scheduld.testing.expecting import Clock, Expected, Found, fault, nothing
from scheduld.when import instant_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, tzinfo

    from scheduld.model import Task
    from scheduld.testing.worker import RunRecord

T = TypeVar("T")


class Assertions:
    """What a test can say must be so. Each raises AssertionError, telling what is there instead.

    `payload` must be equal, key by key; `unittest.mock.ANY` stands for any value in it. `times`:
    how many there must be, None: at least one.
    """

    @property
    def timezone(self) -> str | None:
        """Time zone of times without one."""
        raise NotImplementedError

    @property
    def runs(self) -> list[RunRecord]:
        """All runs, oldest first."""
        raise NotImplementedError

    def tasks(
        self,
        type: str | None = None,  # noqa: A002 - the public word
        state: State | str | None = None,
    ) -> list[Task]:
        """The tasks that are kept."""
        raise NotImplementedError

    def assert_ran(
        self,
        type: str,  # noqa: A002 - the public word
        payload: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the public word
        outcome: str | None = None,
        times: int | None = None,
    ) -> RunRecord:
        """A handler ran; returns the first such run, if there must be one.

        Each attempt is a run; `outcome` says what it came to ("done", "retry", "dead", "snooze",
        "cancelled").
        """
        __tracebackhide__ = True
        expected = Expected(type, id, payload, outcome=outcome)
        runs, show = self.runs, self._show()
        found = [Found.run(run) for run in runs]
        if told := fault(expected, found, times, "ran", show):
            raise AssertionError(told)
        right = (not expected.differences(one, show) for one in found)
        return _first(runs, right)

    def assert_scheduled(
        self,
        type: str,  # noqa: A002 - the public word
        payload: Mapping[str, Any] | None = None,
        *,
        at: str | datetime | None = None,
        timezone: str | tzinfo | None = None,
        id: str | None = None,  # noqa: A002 - the public word
        times: int | None = None,
    ) -> Task:
        """A task waits for its time (also for a retry, or snoozed); returns the first such one.

        `at`: WHEN text or datetime, to the millisecond; read in `timezone`, else in the test's.
        """
        __tracebackhide__ = True
        zone = timezone or self.timezone
        at_ms = None if at is None else instant_ms(at, timezone=zone, allow_past=True)
        expected = Expected(type, id, payload, at_ms=at_ms)
        return self._kept(expected, State.SCHEDULED, times, "is scheduled")

    def assert_dead(
        self,
        type: str,  # noqa: A002 - the public word
        payload: Mapping[str, Any] | None = None,
        *,
        reason: str | None = None,
        id: str | None = None,  # noqa: A002 - the public word
        times: int | None = None,
    ) -> Task:
        """A task is dead; returns the first such one. `reason`: a part of its error's text."""
        __tracebackhide__ = True
        expected = Expected(type, id, payload, reason=reason)
        return self._kept(expected, State.DEAD, times, "is dead")

    def assert_nothing_ran(self, type: str | None = None) -> None:  # noqa: A002
        """No handler ran, or none of that type."""
        __tracebackhide__ = True
        runs = [Found.run(run) for run in self.runs if type in (None, run.type)]
        if told := nothing(runs, "run", self._show()):
            raise AssertionError(told)

    def assert_nothing_scheduled(self, type: str | None = None) -> None:  # noqa: A002
        """No task waits for its time, or none of that type."""
        __tracebackhide__ = True
        tasks = [Found.task(task) for task in self.tasks(type, State.SCHEDULED)]
        if told := nothing(tasks, "been scheduled", self._show()):
            raise AssertionError(told)

    def _kept(self, expected: Expected, state: State, times: int | None, is_: str) -> Task:
        __tracebackhide__ = True
        tasks, show = self.tasks(state=state), self._show()
        found = [Found.task(task) for task in tasks]
        if told := fault(expected, found, times, is_, show):
            raise AssertionError(told)
        right = (not expected.differences(one, show) for one in found)
        return _first(tasks, right)

    def _show(self) -> Clock:
        return Clock(self.timezone, wall_ms())


def _first(items: Sequence[T], right: Iterable[bool]) -> T:
    """The first right one; with `times=0` there is none, and nobody to ask for it."""
    pairs = zip(items, right, strict=True)
    return next((item for item, is_right in pairs if is_right), None)  # type: ignore[return-value]
