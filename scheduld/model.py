"""The nouns: task types with their policies, tasks, claims and verdicts. No I/O, no clock.

All instants are integer milliseconds since the Unix epoch on the Redis server's
clock, all durations integer milliseconds, unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

OnConflict = Literal["error", "keep", "replace", "rerun"]
Isolation = Literal["inline", "thread", "process"]
Durable = Literal["memory", "disk", "replica"]
Backoff = Literal["exponential", "quadratic", "fixed", "list"]


class State(StrEnum):
    """Where a task is. Membership in one of the indexes; `cancelled` is `done` by its outcome."""

    SCHEDULED = "scheduled"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a failed run is tried again, and how long to wait before.

    `attempts` counts failed runs allowed, the first included. `delays_ms` has one
    entry, or for `backoff = "list"` one per retry (the last one repeats).
    """

    attempts: int = 5
    backoff: Backoff = "exponential"
    delays_ms: tuple[int, ...] = (2_000,)
    max_delay_ms: int = 3_600_000
    jitter: float = 0.2


@dataclass(frozen=True, slots=True)
class Keep:
    """Retention of ended tasks: pruned when older than `age_ms` or beyond `count`."""

    count: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in any `period_ms`."""

    count: int
    period_ms: int


@dataclass(frozen=True, slots=True)
class TaskType:
    """One `[types.NAME]` entry, complete: every default is filled in."""

    name: str
    handler: str
    poll_timeout_ms: int = 0
    poll_batch: int = 1
    empty_poll_timeout_ms: int = 10_000
    run_timeout_ms: int = 60_000
    concurrency: int | None = None
    """Runs at once per replica; `None`: 100 inline, 10 in threads, one a core in processes."""
    isolation: Isolation | None = None
    """`None`: inline for `async def`, thread for `def`."""
    max_memory: int | None = None
    """Bytes of address space of a run in a process."""
    max_cpu_ms: int | None = None
    """Processor time of a run in a process."""
    max_files: int | None = None
    """File descriptors of a run in a process."""
    recycle_after: int = 1_000
    """Runs of a worker process before a new one takes its place."""
    max_running: int | None = None
    """Runs at once across all replicas."""
    rate_limit: Rate | None = None
    """Starts across all replicas."""
    max_running_per_key: int | None = None
    """Runs at once of the tasks of one key, across all replicas."""
    rate_limit_per_key: Rate | None = None
    """Starts of the tasks of one key, across all replicas."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_interruptions: int = 3
    keep_done: Keep = Keep(count=1_000, age_ms=86_400_000)
    keep_dead: Keep = Keep(count=100_000, age_ms=30 * 86_400_000)
    at_start: Mapping[str, Any] | None = None
    """Payload of a task that each replica adds when it starts."""
    reschedule_if: str | None = None
    """`module:callable` that says, after each occurrence of a periodic task, whether it goes on."""
    reschedule_timeout_ms: int = 10_000
    series: tuple[str, ...] | None = None
    """Offsets around the instant in the payload's `anchor`: when its tasks are due."""
    anchor: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Handed to the handler; may hold secrets."""

    @property
    def is_limited(self) -> bool:
        """Whether replicas together must keep to a limit."""
        return (
            self.max_running is not None
            or self.rate_limit is not None
            or self.max_running_per_key is not None
            or self.rate_limit_per_key is not None
        )


@dataclass(frozen=True)
class Task:
    """A task as `show`, `list` and the API tell it; absent things are `None`.

    The field names are stable and are the ones of `--json`.
    """

    type: str
    id: str
    state: State
    due_ms: int | None = None
    added_ms: int | None = None
    payload: Any = None
    attempt: int | None = None
    failed: int = 0
    releases: int = 0
    interruptions: int = 0
    fence: int | None = None
    revision: int = 0
    every: str | None = None
    until: str | None = None
    max_runs: int | None = None
    timezone: str | None = None
    schedule: str | None = None
    tick_ms: int | None = None
    runs: int | None = None
    """Occurrences of a periodic task that have ended, done or dead."""
    missed: int | None = None
    """Instants of its grid that were passed over, because it was not or still run then."""
    anchor_ms: int | None = None
    """Where the grid of `every` begins."""
    grid_ms: int | None = None
    """Of a periodic task that was moved: the instant of its grid that the due stands for."""
    next_ms: int | None = None
    """Of a periodic task that runs: when it is due then, if an edit has said so."""
    ends: str | None = None
    """Of a periodic task that came to its end: why, such as `until`, `max_runs`, `predicate`."""
    series: dict[str, Any] | None = None
    """`offsets` of a series, and the key of the payload that is its `anchor`."""
    owner: str | None = None
    started_ms: int | None = None
    cancelling: dict[str, Any] | None = None
    """Of a run that is asked to stop: since when, `at_ms`, and whether `this_run` only."""
    finished_ms: int | None = None
    outcome: str | None = None
    result: Any = None
    progress: Any = None
    log: list[dict[str, Any]] | None = None
    """Lines that runs kept with the task by `run.log`: `at_ms` and `text`, the oldest first."""
    successor: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    priority: int = 0
    key: str | None = None
    expires_ms: int | None = None
    waits_until_ms: int | None = None
    """Of a due task that waits for others, by its key or priority: when it is looked at again."""
    created: bool | None = None
    """Only in the answer of an add: whether this call stored the task."""

    @classmethod
    def scheduled(
        cls,
        type_name: str,
        task_id: str,
        due_ms: int | None,
        added_ms: int | None,
        payload: Any,
        created: bool | None = True,
    ) -> Task:
        """A task that was just added, or that nothing has happened to since.

        Without slots and by way of `__dict__` it costs a fifth of an `__init__` that sets all
        fields: the rest are the defaults, which the class holds.
        """
        task = object.__new__(cls)
        task.__dict__.update(
            type=type_name,
            id=task_id,
            state=State.SCHEDULED,
            due_ms=due_ms,
            added_ms=added_ms,
            payload=payload,
            created=created,
        )
        return task

    @property
    def ref(self) -> str:
        """`TYPE/ID`, as people write it."""
        return f"{self.type}/{self.id}"

    @property
    def due(self) -> datetime | None:
        """The due time as an aware datetime in UTC."""
        return None if self.due_ms is None else instant(self.due_ms)

    def with_created(self, created: bool) -> Task:
        """The same task as the answer of an add."""
        return replace(self, created=created)

    def to_dict(self) -> dict[str, Any]:
        """The task as `--json` prints it: all fields, absent ones None."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if values.pop("created") is not None:
            values["created"] = self.created
        head = {name: values.pop(name) for name in ("type", "id", "state")}
        return {**head, "due": iso(self.due_ms), **values}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ms: int) -> datetime:
    """Turn ms since the epoch into an aware datetime; what is beyond its range is clipped."""
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if ms > 0 else datetime.min.replace(tzinfo=UTC)


def iso(ms: int | None) -> str | None:
    """Write an instant as ISO 8601 in UTC with milliseconds."""
    if ms is None:
        return None
    return instant(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Claim(NamedTuple):
    """One claimed task: what a replica may run until its lease ends.

    A tuple, as Verdict is: many are made a second, and a frozen dataclass costs five times more.
    """

    type: str
    id: str
    raw_id: bytes
    payload: bytes | None
    fence: int
    due_ms: int
    """Nominal due: survives retries and snoozes."""
    start_ms: int
    """Not before this instant by the server's clock: what it was due at, its wait for a retry
    or snooze included."""
    early: bool = False
    """Held, but to be confirmed by `start` before it runs."""
    failed: int = 0
    releases: int = 0
    interruptions: int = 0
    fields: Mapping[str, bytes] | None = None
    """More of its hash, if it is periodic or was made by a schedule (lua/include/series.lua)."""

    @property
    def attempt(self) -> int:
        """Number of this run, from 1: failed runs before it, plus one."""
        return self.failed + 1

    @property
    def is_periodic(self) -> bool:
        """Whether the end of this run is that of an occurrence."""
        return self.fields is not None and not self.fields.keys().isdisjoint(_PERIODIC)

    @property
    def over(self) -> str:
        """Why there is nothing to run: the occurrence has ended, and the next one is not planned.

        `interrupted`, `cancelled` or `planned`; empty for all others.
        """
        return "" if self.fields is None else self.fields.get("over", b"").decode(errors="replace")

    @property
    def schedule(self) -> str | None:
        """The schedule that made the task."""
        name = None if self.fields is None else self.fields.get("schedule")
        return None if name is None else name.decode(errors="replace")

    @property
    def tick_ms(self) -> int | None:
        """The instant of the schedule that it was made for."""
        tick = b"" if self.fields is None else self.fields.get("tick", b"")
        return int(tick) if tick.isdigit() else None


_PERIODIC = frozenset(("every", "series", "over"))


class VerdictKind(StrEnum):
    """How a run ended, as the store knows it."""

    DONE = "done"
    RETRY = "retry"
    DEAD = "dead"
    SNOOZE = "snooze"
    RELEASE = "release"
    PLAN = "plan"
    """Nothing was run: an occurrence that had ended before gets its next one."""


class Verdict(NamedTuple):
    """The end of one claim, to be stored with its fence.

    `at_ms` is an instant (snooze), `delay_ms` a wait from the server's now (retry, release).
    `detail` is a JSON text: the result of a done run, the error of a failed one.
    """

    raw_id: bytes
    fence: int
    kind: VerdictKind
    delay_ms: int = 0
    at_ms: int = 0
    detail: str = ""
    reason: str = ""
    """One short line for the events: why it failed."""
    counted: bool = True
    """Whether a failed run counts as an attempt (a task that cannot be read does not)."""
    told: bytes = b""
    """Of a periodic task what comes after this occurrence, packed (lua/include/period.lua)."""
