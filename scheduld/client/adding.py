"""What an add is made of, checked before anything is sent, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from scheduld import payload as codec
from scheduld.clock import wall_ms
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput, OutcomeUnknown, ScheduldError
from scheduld.model import OnConflict, Task, instant
from scheduld.names import check_id, check_name, id_fault, id_time_ms, new_id, new_ids, printable
from scheduld.store.calls import NewTask
from scheduld.store.keys import encode_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date, datetime, timedelta, tzinfo

    from scheduld.calendar.period import Series
    from scheduld.client.shaping import Shape

_CONFLICTS = ("error", "keep", "replace", "rerun")
_TOKEN_LIMIT = 64
_PLAIN_FIELDS = 5
LOAD_OPTIONS = (
    "priority",
    "key",
    "expires",
    "unique",
    "unique_for",
    "debounce",
    "debounce_max",
    "throttle",
)
PERIOD_OPTIONS = ("every", "until", "max_runs")


def check_options(options: Mapping[str, object]) -> None:
    """Raise TypeError for a keyword that is no option of a task, with the one that was meant."""
    known = (*LOAD_OPTIONS, *PERIOD_OPTIONS)
    for name in options:
        if name in known:
            continue
        if name in ("cron", "catch_up", "overlap", "starts_at", "ends_at"):
            hint = "schedules have: client.schedules.add"
        else:
            import difflib

            near = difflib.get_close_matches(
                name, (*known, "payload", "at", "delay", "timezone"), 1
            )
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise TypeError(f"a task has no option {name!r} ({hint})")


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One task to schedule.

    `at`: WHEN text or datetime. `delay`: timedelta, duration text or seconds from the server's
    now. Neither: now. `id`: made if None. `token`: names this add; a repeat with the same id
    and token answers like the first time and stores nothing. `every`, `until`, `max_runs`: see
    `PeriodOptions`; the rest controls load: see `LoadOptions`.
    """

    payload: Mapping[str, Any] | None = None
    at: str | datetime | None = None
    delay: timedelta | str | float | None = None
    id: str | None = None
    token: str | None = None
    priority: int = 0
    key: str | None = None
    expires: str | datetime | timedelta | float | None = None
    unique: bool | str | Sequence[str] | None = None
    unique_for: str | timedelta | float | None = None
    debounce: str | timedelta | float | None = None
    debounce_max: str | timedelta | float | None = None
    throttle: str | timedelta | float | None = None
    every: str | timedelta | float | None = None
    until: str | date | None = None
    max_runs: int | None = None

    @classmethod
    def plain(
        cls,
        payload: Mapping[str, Any] | None,
        at: str | datetime | None,
        delay: timedelta | str | float | None,
        id: str | None,  # noqa: A002
        token: str | None,
    ) -> TaskSpec:
        """A task that says no more: most do not, and this is a third of `__init__`."""
        spec = object.__new__(cls)
        spec.__dict__.update(payload=payload, at=at, delay=delay, id=id, token=token)
        return spec

    @property
    def is_shaped(self) -> bool:
        """Whether it may say something about load, or come again."""
        return len(self.__dict__) > _PLAIN_FIELDS

    def load(self) -> dict[str, Any]:
        """Return what it says about load and coming again, as `schedule` takes it."""
        if not self.is_shaped:
            return {}
        values = {name: getattr(self, name) for name in (*LOAD_OPTIONS, *PERIOD_OPTIONS)}
        return {name: value for name, value in values.items() if value != getattr(TaskSpec, name)}

    def named(self) -> TaskSpec:
        """The same with id and token filled in, so that repeating it is safe."""
        task_id = self.id if self.id is not None else new_id(wall_ms())
        token = self.token
        if token is None:
            # A generated id is unique by itself: it is its own token, and costs no memory.
            token = task_id if self.id is None else new_id(wall_ms())
        return replace(self, id=task_id, token=token)


class Terms(NamedTuple):
    """What the adds of one call have in common; `default_zone` holds where `timezone` is None."""

    timezone: str | tzinfo | None
    default_zone: str | None
    allow_past: bool
    max_payload: int
    on_conflict: str
    series: Series | None


class Pending(NamedTuple):
    """One task to add, and what its `Task` will say. A tuple, as many are made at once."""

    id: str
    new: NewTask
    added_ms: int | None
    payload: dict[str, Any]
    shape: Shape | None = None
    zone: tzinfo | str | Literal[False] | None = False
    """Of a task that says no time: the zone in which one in its payload would be read."""

    @property
    def missed(self) -> int:
        """How many instants of its series had passed when it was made."""
        recurrence = None if self.shape is None else self.shape.recurrence
        return 0 if recurrence is None else recurrence.missed


class Addition:
    """The tasks of one add. `results` outlives attempts: a repeat sends only what is open."""

    def __init__(self, tasks: list[Pending]) -> None:
        self.tasks = tasks
        self.results: list[Task | ScheduldError | None] = [None] * len(tasks)

    def all_results(self) -> list[Task | ScheduldError]:
        """What became of each, in order; to be called when nothing is open."""
        return [result for result in self.results if result is not None]

    def explain(self, error: ScheduldError) -> None:
        """Complete an error that ended the add: the first open task, and how many are stored."""
        if isinstance(error, OutcomeUnknown) and None in self.results:
            task = self.tasks[self.results.index(None)]
            error.task_id, error.token = task.id, task.new.token
        stored = sum(isinstance(result, Task) for result in self.results)
        if stored:
            error.message += f"; {stored} of the {len(self.results)} tasks are stored"
            error.args = (error.message,)


def prepare_all(
    specs: Iterable[TaskSpec | Mapping[str, Any]],
    *,
    timezone: str | tzinfo | None,
    allow_past: bool,
    max_payload: int,
    on_conflict: str = "error",
    default_zone: str | None = None,
    series: Series | None = None,
) -> list[Pending]:
    """Check tasks, each a TaskSpec or a payload, and make what the store takes.

    `default_zone` is the config's, `series` the ladder of the type. Raises InvalidInput or
    WhenError for the first that cannot be right.
    """
    terms = Terms(timezone, default_zone, allow_past, max_payload, on_conflict, series)
    given, added_ms = list(specs), wall_ms()
    names = new_ids(added_ms, len(given))
    pending = []
    for spec, name in zip(given, names, strict=True):
        if isinstance(spec, TaskSpec):
            task = _pending(spec, name, added_ms, terms)
        elif series is not None and isinstance(spec, Mapping):
            task = _pending(TaskSpec(payload=spec), name, added_ms, terms)
        elif isinstance(spec, Mapping):
            data, payload = codec.snapshot(spec, max_bytes=max_payload)
            zone = default_zone if timezone is None else timezone
            task = Pending(name, NewTask(name.encode(), data, name), added_ms, payload, None, zone)
        else:
            raise InvalidInput(f"a task is a TaskSpec or a payload, not {type(spec).__name__}")
        pending.append(task)
    return pending


def prepare(
    spec: TaskSpec,
    *,
    timezone: str | tzinfo | None,
    allow_past: bool,
    max_payload: int,
    on_conflict: str = "error",
    default_zone: str | None = None,
    series: Series | None = None,
) -> Pending:
    """Check one task; arguments and errors as of `prepare_all`."""
    now_ms = wall_ms()
    terms = Terms(timezone, default_zone, allow_past, max_payload, on_conflict, series)
    return _pending(spec, new_id(now_ms), now_ms, terms)


def _pending(spec: TaskSpec, name: str, name_ms: int, terms: Terms) -> Pending:
    timezone, default_zone, allow_past, max_payload, on_conflict, series = terms
    # What `named` does: a generated id is its own token, another id gets a generated one.
    task_id = name if spec.id is None else check_id(spec.id)
    token = name if spec.token is None else _token(spec.token)
    data, payload = codec.snapshot(
        {} if spec.payload is None else spec.payload, max_bytes=max_payload
    )
    if timezone is None:
        timezone = default_zone if spec.every is None else _zone_of(spec.at) or default_zone
    at_ms, delay_ms = due_of(spec, timezone, allow_past)
    added_ms: int | None = name_ms
    if token is not name:
        added_ms = id_time_ms(token) or id_time_ms(task_id)
    new = NewTask(encode_id(task_id), data, token, at_ms, delay_ms)
    if series is None and not spec.is_shaped:
        is_timed = spec.at is not None or spec.delay is not None
        return Pending(task_id, new, added_ms, payload, None, False if is_timed else timezone)
    from scheduld.client.shaping import shape_of  # most adds need none of it

    shape = shape_of(
        spec,
        payload,
        (at_ms, delay_ms),
        timezone=timezone,
        on_conflict=on_conflict,
        series=series,
    )
    at_ms, delay_ms = shape.due
    new = new._replace(at_ms=at_ms, delay_ms=delay_ms, load=shape.packed)
    is_timed = series is not None or spec.at is not None or spec.delay is not None
    is_timed = is_timed or spec.every is not None or spec.debounce is not None
    return Pending(task_id, new, added_ms, payload, shape, False if is_timed else timezone)


def _zone_of(at: object) -> tzinfo | None:
    """The zone of a datetime that has one: it says by which clock "every day" is meant."""
    zone: tzinfo | None = getattr(at, "tzinfo", None)
    return zone if getattr(zone, "key", None) else None


def check_type(name: object) -> str:
    """Return a type's name; raises InvalidInput for what cannot be one."""
    return check_name("type", name)


def check_conflict(value: object) -> OnConflict:
    """Return an on_conflict; raises InvalidInput naming those there are."""
    for known in _CONFLICTS:
        if value == known:
            return known  # type: ignore[return-value]
    raise InvalidInput(
        f"on_conflict is error, keep, replace or rerun, not {printable(repr(value)[:60])}"
    )


def due_of(
    spec: TaskSpec, timezone: str | tzinfo | None, allow_past: bool
) -> tuple[int | None, int]:
    """Read when a task is due: an instant, or None and ms from now. Raises WhenError."""
    if spec.at is not None and spec.delay is not None:
        raise InvalidInput("at and delay cannot be given both", hint="give one of them")
    if spec.delay is not None:
        return None, _delay_ms(spec.delay)
    if spec.at is None:
        return None, 0
    from scheduld.when import instant_ms  # most adds need none of it, and it is large

    if not isinstance(spec.at, str):
        return instant_ms(spec.at, timezone=timezone, allow_past=allow_past), 0
    now_ms = wall_ms()
    at_ms = instant_ms(spec.at, timezone=timezone, now=instant(now_ms), allow_past=allow_past)
    if spec.at.strip().startswith("+"):
        # "+5m" counts on the server's clock, like a delay: this host's may be off.
        return None, at_ms - now_ms
    return at_ms, 0


def _delay_ms(delay: timedelta | str | float) -> int:
    try:
        return _known_delay_ms(delay)
    except TypeError:  # nothing that can be looked up: not a length of time either
        return parse_duration_ms(delay, what="delay")


# Most programs have a few delays that they use again and again. 1 and True are told apart.
@lru_cache(maxsize=256, typed=True)
def _known_delay_ms(delay: timedelta | str | float) -> int:
    return parse_duration_ms(delay, what="delay")


def _token(token: object) -> str:
    if not isinstance(token, str) or len(token) > _TOKEN_LIMIT or id_fault(token):
        raise InvalidInput(
            f"token {printable(str(token)[:60])!r} cannot be used",
            hint=f"1 to {_TOKEN_LIMIT} characters without spaces",
        )
    return token
