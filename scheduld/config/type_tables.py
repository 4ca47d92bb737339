"""The tables of a task type: `[types.NAME]` and those below it.

Defaults come from `scheduld.model.TaskType`, descriptions are printed in the settings table
of the docs.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from scheduld import payload
from scheduld.config.faults import BadValue, KeyPath, wrong_type
from scheduld.config.series import OFFSETS, PAYLOAD_KEY, lonely
from scheduld.config.table import Table
from scheduld.config.values import (
    DAY,
    GB,
    MB,
    Choice,
    Duration,
    Durations,
    Fraction,
    RateLimit,
    Size,
    Text,
    Whole,
)
from scheduld.errors import InvalidInput
from scheduld.model import Backoff, Isolation, Keep, Rate, RetryPolicy, TaskType

_TYPE = TaskType(name="", handler="")
_RETRY = _TYPE.retry
_MANY = 1_000_000
_KEEP_MANY = 1_000_000_000


class RetryTable(Table):
    """`[types.NAME.retry]`."""

    attempts: Annotated[int, BeforeValidator(Whole(1, _MANY))] = Field(
        default=_RETRY.attempts,
        description="failed runs allowed, the first included; then it is dead",
    )
    backoff: Annotated[
        Backoff, BeforeValidator(Choice(("exponential", "quadratic", "fixed", "list")))
    ] = Field(
        default=_RETRY.backoff,
        description="how the wait grows: `delay * 2^(n-1)`, `delay * n^2`, `delay`, or one entry "
        "of `delay` after the other",
    )
    delay: Annotated[int | tuple[int, ...], BeforeValidator(Durations(Duration(0, 366 * DAY)))] = (
        Field(
            default=_RETRY.delays_ms[0],
            description="wait before the first retry; with `list` an array, its last entry repeats",
        )
    )
    max_delay: Annotated[int, BeforeValidator(Duration(0, 366 * DAY))] = Field(
        default=_RETRY.max_delay_ms,
        description="longest wait before jitter",
    )
    jitter: Annotated[float, BeforeValidator(Fraction(0, 1))] = Field(
        default=_RETRY.jitter,
        description="each wait is made longer by a random part of up to this much",
    )

    def policy(self) -> RetryPolicy:
        """Return the policy this table describes."""
        delays = self.delay if isinstance(self.delay, tuple) else (self.delay,)
        return RetryPolicy(
            attempts=self.attempts,
            backoff=self.backoff,
            delays_ms=delays,
            max_delay_ms=self.max_delay,
            jitter=self.jitter,
        )


class KeepDoneTable(Table):
    """`[types.NAME.keep_done]`."""

    count: Annotated[int, BeforeValidator(Whole(1, _KEEP_MANY))] = Field(
        default=_TYPE.keep_done.count,
        description="ended tasks kept of the type, the newest",
    )
    age: Annotated[int, BeforeValidator(Duration(1))] = Field(
        default=_TYPE.keep_done.age_ms,
        description="ended tasks are kept no longer; also how long a repeated add is recognised",
    )

    def keep(self) -> Keep:
        """Return the rule this table describes."""
        return Keep(count=self.count, age_ms=self.age)


class KeepDeadTable(KeepDoneTable):
    """`[types.NAME.keep_dead]`."""

    count: Annotated[int, BeforeValidator(Whole(1, _KEEP_MANY))] = Field(
        default=_TYPE.keep_dead.count,
        description="dead tasks kept of the type, the newest",
    )
    age: Annotated[int, BeforeValidator(Duration(1))] = Field(
        default=_TYPE.keep_dead.age_ms,
        description="dead tasks are kept no longer",
    )


def _any_table(value: object) -> object:
    if not isinstance(value, dict):
        raise wrong_type("a table", value)
    return value


def _payload(value: object) -> object:
    _any_table(value)
    try:
        payload.encode(value)
    except InvalidInput as exc:
        raise BadValue(exc.message) from None
    return value


class TypeTable(Table):
    """`[types.NAME]`."""

    handler: Annotated[str, BeforeValidator(Text())] = Field(
        description='what runs: a built-in or plug-in name, or `"package.module:callable"`'
    )
    poll_timeout: Annotated[int, BeforeValidator(Duration(0, DAY))] = Field(
        default=_TYPE.poll_timeout_ms,
        description="pause from one claim to the next while work is due; above 0 a claim takes "
        "`poll_batch` tasks",
    )
    poll_batch: Annotated[int, BeforeValidator(Whole(1, 500))] = Field(
        default=_TYPE.poll_batch,
        description="tasks per claim if `poll_timeout` is above 0",
    )
    empty_poll_timeout: Annotated[int, BeforeValidator(Duration(10, DAY))] = Field(
        default=_TYPE.empty_poll_timeout_ms,
        description="longest wait before looking again when nothing is due; at least "
        "`poll_timeout`",
    )
    run_timeout: Annotated[int, BeforeValidator(Duration(1))] = Field(
        default=_TYPE.run_timeout_ms,
        description="a run that takes longer is stopped, and fails",
    )
    concurrency: Annotated[int | None, BeforeValidator(Whole(1, 10_000))] = Field(
        default=_TYPE.concurrency,
        description="runs at once per replica; by default 100 inline, 10 in threads, one a core in "
        "processes",
    )
    isolation: Annotated[
        Isolation | None, BeforeValidator(Choice(("inline", "thread", "process")))
    ] = Field(
        default=_TYPE.isolation,
        description="where runs take place; by default `inline` for `async def`, `thread` for "
        "`def`",
    )
    max_memory: Annotated[int | None, BeforeValidator(Size(32 * MB, 1024 * GB))] = Field(
        default=_TYPE.max_memory,
        description='address space of a run; only with `isolation = "process"`',
    )
    max_cpu: Annotated[int | None, BeforeValidator(Duration(1_000, DAY))] = Field(
        default=_TYPE.max_cpu_ms,
        description='processor time of a run, in whole seconds; only with `isolation = "process"`',
    )
    max_files: Annotated[int | None, BeforeValidator(Whole(16, _MANY))] = Field(
        default=_TYPE.max_files,
        description='open files of a run; only with `isolation = "process"`',
    )
    recycle_after: Annotated[int, BeforeValidator(Whole(1, _MANY))] = Field(
        default=_TYPE.recycle_after,
        description="runs of a worker process before a new one takes its place",
    )
    max_running: Annotated[int | None, BeforeValidator(Whole(1, _MANY))] = Field(
        default=_TYPE.max_running,
        description="runs at once across all replicas",
    )
    rate_limit: Annotated[Rate | None, BeforeValidator(RateLimit())] = Field(
        default=_TYPE.rate_limit,
        description="most starts in any period of that length, across all replicas",
    )
    max_running_per_key: Annotated[int | None, BeforeValidator(Whole(1, 1_000))] = Field(
        default=_TYPE.max_running_per_key,
        description="runs at once of tasks with the same `key`, across all replicas",
    )
    rate_limit_per_key: Annotated[Rate | None, BeforeValidator(RateLimit())] = Field(
        default=_TYPE.rate_limit_per_key,
        description="most starts of tasks with the same `key`, across all replicas",
    )
    retry: RetryTable = Field(default_factory=RetryTable, description="what follows a failed run")
    max_interruptions: Annotated[int, BeforeValidator(Whole(1, _MANY))] = Field(
        default=_TYPE.max_interruptions,
        description="a task whose runs were lost this often, by crashes, is dead",
    )
    keep_done: KeepDoneTable = Field(
        default_factory=KeepDoneTable, description="when done and cancelled tasks are removed"
    )
    keep_dead: KeepDeadTable = Field(
        default_factory=KeepDeadTable, description="when dead tasks are removed"
    )
    at_start: Annotated[Mapping[str, Any] | None, BeforeValidator(_payload)] = Field(
        default=_TYPE.at_start,
        description="payload of a task that each replica adds when it starts",
    )
    reschedule_if: Annotated[str | None, BeforeValidator(Text())] = Field(
        default=_TYPE.reschedule_if,
        description='`"package.module:callable"` that is asked after each occurrence of a periodic '
        "task whether there is to be another",
    )
    reschedule_timeout: Annotated[int, BeforeValidator(Duration(1, DAY))] = Field(
        default=_TYPE.reschedule_timeout_ms,
        description="longest wait for its answer; then the series goes on as it is",
    )
    series: Annotated[tuple[str, ...] | None, BeforeValidator(OFFSETS)] = Field(
        default=_TYPE.series,
        description="when a task without a time of its own is due: offsets around an instant in "
        "its payload",
    )
    anchor: Annotated[str | None, BeforeValidator(PAYLOAD_KEY)] = Field(
        default=_TYPE.anchor,
        description="key of the payload under which that instant stands",
    )
    options: Annotated[dict[str, Any], BeforeValidator(_any_table)] = Field(
        default_factory=dict, description="handed to the handler, which checks them at start"
    )

    def task_type(self, name: str) -> TaskType:
        """Return the task type this table describes."""
        return TaskType(
            name=name,
            handler=self.handler,
            poll_timeout_ms=self.poll_timeout,
            poll_batch=self.poll_batch,
            empty_poll_timeout_ms=self.empty_poll_timeout,
            run_timeout_ms=self.run_timeout,
            concurrency=self.concurrency,
            isolation=self.isolation,
            max_memory=self.max_memory,
            max_cpu_ms=self.max_cpu,
            max_files=self.max_files,
            recycle_after=self.recycle_after,
            max_running=self.max_running,
            rate_limit=self.rate_limit,
            max_running_per_key=self.max_running_per_key,
            rate_limit_per_key=self.rate_limit_per_key,
            retry=self.retry.policy(),
            max_interruptions=self.max_interruptions,
            keep_done=self.keep_done.keep(),
            keep_dead=self.keep_dead.keep(),
            at_start=self.at_start,
            reschedule_if=self.reschedule_if,
            reschedule_timeout_ms=self.reschedule_timeout,
            series=self.series,
            anchor=self.anchor,
            options=self.options,
        )


def type_conflicts(table: TypeTable) -> Iterator[tuple[tuple[str, ...], KeyPath, BadValue]]:
    """Yield settings of a type that contradict each other: keys involved, place, fault."""
    if table.empty_poll_timeout < table.poll_timeout:
        keys = ("empty_poll_timeout", "poll_timeout")
        yield keys, keys[:1], BadValue("must be at least poll_timeout")
    for key in ("max_memory", "max_cpu", "max_files"):
        if getattr(table, key) is not None and table.isolation != "process":
            fault = BadValue('needs isolation = "process"', hint="only a process can be limited")
            yield (key, "isolation"), (key,), fault
    for key, fault in lonely(table.series, table.anchor):
        yield ("series", "anchor"), (key,), fault
    retry = table.retry
    is_list = isinstance(retry.delay, tuple)
    if is_list and retry.backoff != "list":
        yield ("retry",), ("retry", "delay"), BadValue('is an array only with backoff = "list"')
    if retry.backoff == "list" and not is_list:
        fault = BadValue("needs an array of waits in delay", hint='such as ["1s", "1m", "1h"]')
        yield ("retry",), ("retry", "backoff"), fault
    if max(retry.policy().delays_ms) > retry.max_delay:
        yield ("retry",), ("retry", "max_delay"), BadValue("must be at least retry.delay")
