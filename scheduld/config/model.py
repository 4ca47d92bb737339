"""The tables of a config file as pydantic models: keys, parsers, defaults, descriptions.

Defaults come from the frozen dataclasses that the models are turned into, descriptions are
printed in the settings table of the docs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from scheduld import payload
from scheduld.config import values
from scheduld.config.faults import BadValue, KeyPath, wrong_type
from scheduld.config.keys import RETRY, TYPE, unknown_key
from scheduld.config.settings import DEFAULTS, Appendfsync
from scheduld.config.values import DAY, Choice, Duration, Durations, Fraction, Text, Whole
from scheduld.errors import InvalidInput
from scheduld.model import Backoff, Isolation, Keep, RetryPolicy, TaskType

T = TypeVar("T", bound=BaseModel)
_TYPE = TaskType(name="", handler="")
_RETRY = _TYPE.retry
_MANY = 1_000_000
_KEEP_MANY = 1_000_000_000


class Table(BaseModel):
    """A table of the file: no key too many, no value of another type, nothing quoted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )


class ScheduldTable(Table):
    """`[scheduld]`."""

    redis_url: Annotated[str, BeforeValidator(values.REDIS_URL)] = Field(
        default=DEFAULTS.redis_url,
        description="where the tasks are: `redis://`, `rediss://`, `unix://`, or `embedded` for "
        "a server of its own in `state_dir`; `--redis-url` and `$SCHEDULD_REDIS_URL` go before",
    )
    redis_timeout: Annotated[int, BeforeValidator(values.REDIS_TIMEOUT)] = Field(
        default=DEFAULTS.redis_timeout_ms,
        description="deadline of each call to Redis; at most lease/6, and by default no more",
    )
    namespace: Annotated[str, BeforeValidator(values.NAMESPACE)] = Field(
        default=DEFAULTS.namespace,
        description="first part of all keys; several may share one Redis",
    )
    timezone: Annotated[str | None, BeforeValidator(values.ZONE)] = Field(
        default=DEFAULTS.timezone,
        description="zone of times that have no offset; without it such times are refused",
    )
    state_dir: Annotated[Path | None, BeforeValidator(values.STATE_DIR)] = Field(
        default=None,
        description="data of the embedded server; by default `$STATE_DIRECTORY`, else "
        "`$XDG_STATE_HOME/scheduld`, else `~/.local/state/scheduld`",
    )
    concurrency: Annotated[int, BeforeValidator(Whole(1, 10_000))] = Field(
        default=DEFAULTS.concurrency,
        description="runs at once in this replica; at least the number of types",
    )
    lease: Annotated[int, BeforeValidator(values.LEASE)] = Field(
        default=DEFAULTS.lease_ms,
        description="how long a replica may be silent before others take over its tasks; "
        "renewed every third of it",
    )
    shutdown_grace: Annotated[int, BeforeValidator(Duration(0, DAY))] = Field(
        default=DEFAULTS.shutdown_grace_ms,
        description="how long a stop waits for running tasks before it gives them back",
    )
    max_payload: Annotated[int, BeforeValidator(values.MAX_PAYLOAD)] = Field(
        default=DEFAULTS.max_payload,
        description="largest payload of a task, as JSON",
    )


class EmbeddedTable(Table):
    """`[embedded]`."""

    appendfsync: Annotated[Appendfsync, BeforeValidator(values.APPENDFSYNC)] = Field(
        default=DEFAULTS.appendfsync,
        description="how often the embedded server writes to disk: a power cut loses up to two "
        "seconds, or nothing",
    )


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
        description="runs at once per replica; by default 100 inline, 10 in threads",
    )
    isolation: Annotated[
        Isolation | None, BeforeValidator(Choice(("inline", "thread"), later=("process",)))
    ] = Field(
        default=_TYPE.isolation,
        description="where runs take place; by default `inline` for `async def`, `thread` for "
        "`def`",
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
            retry=self.retry.policy(),
            max_interruptions=self.max_interruptions,
            keep_done=self.keep_done.keep(),
            keep_dead=self.keep_dead.keep(),
            at_start=self.at_start,
            options=self.options,
        )


MODELS: dict[str, type[Table]] = {
    "scheduld": ScheduldTable,
    "embedded": EmbeddedTable,
    TYPE: TypeTable,
    RETRY: RetryTable,
    f"{TYPE}.keep_done": KeepDoneTable,
    f"{TYPE}.keep_dead": KeepDeadTable,
}
"""The model of each table, by its name in the docs."""


@dataclass(frozen=True, slots=True)
class Checked(Generic[T]):
    """A table after its check: what is usable of it, and what is not.

    `table` has the defaults in place of the keys in `bad`; it is None if one of those has no
    default. The paths of `faults` start at the table.
    """

    table: T | None
    faults: list[tuple[KeyPath, BadValue]]
    bad: frozenset[str]


def check(model: type[T], name: str, data: Mapping[str, Any]) -> Checked[T]:
    """Check the data of one table, called `name` in messages about misplaced keys."""
    try:
        return Checked(model.model_validate(data), [], frozenset())
    except ValidationError as exc:
        errors = exc.errors(include_input=False, include_url=False)
    faults = [(error["loc"], _fault(name, error, data)) for error in errors]
    bad = frozenset(str(path[0]) for path, _ in faults)
    rest = {key: value for key, value in data.items() if key not in bad}
    try:
        return Checked(model.model_validate(rest), faults, bad)
    except ValidationError:  # a key without a default is bad or missing
        return Checked(None, faults, bad)


def _fault(name: str, error: ErrorDetails, data: Mapping[str, Any]) -> BadValue:
    *around, key = error["loc"]
    kind = error["type"]
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, BadValue):
        return cause
    if kind == "missing":
        return BadValue("is missing", hint='such as handler = "log"')
    value: Any = data
    for part in error["loc"]:
        value = value[part]
    if kind == "extra_forbidden":
        return unknown_key(".".join([name, *map(str, around)]), str(key), value)
    if kind in {"model_type", "dict_type"}:
        return wrong_type("a table", value)
    return BadValue(error["msg"])


def type_conflicts(table: TypeTable) -> Iterator[tuple[tuple[str, ...], KeyPath, BadValue]]:
    """Yield settings of a type that contradict each other: keys involved, place, fault."""
    if table.empty_poll_timeout < table.poll_timeout:
        keys = ("empty_poll_timeout", "poll_timeout")
        yield keys, keys[:1], BadValue("must be at least poll_timeout")
    retry = table.retry
    is_list = isinstance(retry.delay, tuple)
    if is_list and retry.backoff != "list":
        yield ("retry",), ("retry", "delay"), BadValue('is an array only with backoff = "list"')
    if retry.backoff == "list" and not is_list:
        fault = BadValue("needs an array of waits in delay", hint='such as ["1s", "1m", "1h"]')
        yield ("retry",), ("retry", "backoff"), fault
    if max(retry.policy().delays_ms) > retry.max_delay:
        yield ("retry",), ("retry", "max_delay"), BadValue("must be at least retry.delay")
