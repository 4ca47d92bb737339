"""A schedule from what a program says of it: each value checked, and all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from scheduld import payload as codec
from scheduld.calendar.bounds import bound_ms
from scheduld.calendar.checking import Fault, faults
from scheduld.calendar.every import parse_every
from scheduld.client.adding import check_type
from scheduld.duration import UNITS_MS, format_ms, parse_duration_ms
from scheduld.errors import CronError, InvalidInput, ScheduldError, WhenError
from scheduld.model import Keep
from scheduld.names import check_name, printable
from scheduld.schedule import CatchUp, CronDialect, DstGap, DstOverlap, Overlap, Schedule
from scheduld.timezones import load_zone

if TYPE_CHECKING:
    from datetime import date, timedelta

    from scheduld.config.settings import ClientSettings

_MOST = 1_000_000_000
_LONGEST_JITTER_MS = UNITS_MS["d"]
_CHOICES: dict[str, tuple[str, ...]] = {
    "cron_dialect": get_args(CronDialect),
    "catch_up": get_args(CatchUp),
    "overlap": get_args(Overlap),
    "dst_gap": get_args(DstGap),
    "dst_overlap": get_args(DstOverlap),
}


class ScheduleOptions(TypedDict, total=False):
    """The settings of a schedule that is added at run time; docs/schedules.md."""

    cron: str | None
    """When it fires: five fields, or "@daily" and the like. Either this or `every`."""
    every: str | timedelta | float | None
    """How often: a period such as "15m" or "1mo", or seconds."""
    cron_dialect: CronDialect
    """"extended": six fields, seconds first, and L, 5L, 5#2."""
    timezone: str | tzinfo | None
    """Zone of the rule; by default the client's, else UTC."""
    payload: Mapping[str, Any] | None
    """Payload of each of its tasks."""
    catch_up: CatchUp
    """What is made up for of ticks that were missed."""
    catch_up_window: str | timedelta | float
    """A tick missed longer ago is not made up for."""
    overlap: Overlap
    """What a tick does while the task of an earlier one is unfinished."""
    max_unfinished: int
    """Most unfinished tasks of it with overlap "allow"."""
    starts_at: str | date | None
    """No tick before it: WHEN text or datetime; a date means its beginning."""
    ends_at: str | date | None
    """No tick after it; a date means its end."""
    max_runs: int | None
    """Ticks that become tasks; then it has ended."""
    jitter: str | timedelta | float
    """Its tasks are due up to this much after the tick."""
    enabled: bool
    """False: it is kept, and does not fire."""
    dst_gap: DstGap
    """What becomes of a time that a clock change skips."""
    dst_overlap: DstOverlap
    """Which one of a time that a clock change repeats fires."""
    keep_history: Mapping[str, Any] | None
    """`count` and `age` of the records that are kept of its ticks."""


def draft(
    name: object, type_name: object, given: Mapping[str, Any], settings: ClientSettings
) -> Schedule:
    """Make a schedule; raises InvalidInput for the first thing that is wrong with it."""
    _check_keys(given)
    values = {key: value for key, value in given.items() if value is not None}
    zone = zone_name(values.get("timezone"), settings.timezone)
    kept = {
        field: parse(key, values[key]) for key, (field, parse) in _PARSERS.items() if key in values
    }
    for key in ("starts_at", "ends_at"):
        if key in values:
            kept[f"{key}_ms"] = bound_ms(values[key], zone, is_end=key == "ends_at")
    # As the tasks will have it: tuples are arrays.
    _, payload = codec.snapshot(values.get("payload", {}), max_bytes=settings.max_payload)
    schedule = Schedule(
        name=check_schedule(name),
        type=check_type(type_name),
        timezone=zone,
        payload=payload,
        **kept,
    )
    for fault in faults(schedule):
        raise _error(fault)
    return schedule


def check_schedule(name: object) -> str:
    """Return a schedule's name; raises InvalidInput for what cannot be one."""
    return check_name("schedule", name)


def zone_name(given: object, default: str | None = None) -> str:
    """Return the name of a zone, which can be stored; raises WhenError for what has none."""
    if given is None:
        return default or "UTC"
    # A zone of pytz has its name in `zone`, one of zoneinfo in `key`.
    name = given
    if isinstance(given, tzinfo):
        name = getattr(given, "key", None) or getattr(given, "zone", None)
        if name is None and str(given) == "UTC":
            name = "UTC"
    if not isinstance(name, str):
        raise WhenError(
            "the zone of a schedule needs a name", hint='such as "Europe/Madrid", or a ZoneInfo'
        )
    load_zone(name)
    return name


def _error(fault: Fault) -> ScheduldError:
    if fault.is_whole:
        return InvalidInput(f"a schedule {fault.message}", hint=fault.hint)
    kind = CronError if fault.keys[0] == "cron" else InvalidInput
    return kind(fault.message, hint=fault.hint)


def _check_keys(given: Mapping[str, Any]) -> None:
    known = ScheduleOptions.__annotations__
    for key in given:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise InvalidInput(f"a schedule has no setting {key!r:.60}", hint=hint)


def _choice(key: str, value: object) -> str:
    words = _CHOICES[key]
    if value not in words:
        told = printable(str(value)[:40])
        raise InvalidInput(f"{key} is {', '.join(words[:-1])} or {words[-1]}, not {told!r}")
    return str(value)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{key} is a text, not {type(value).__name__}")
    return value.strip(" \t")


def _period(key: str, value: Any) -> str:
    return str(parse_every(value, what=key))


def _duration(key: str, value: Any) -> int:
    return parse_duration_ms(value, what=key)


def _jitter(key: str, value: Any) -> int:
    ms = parse_duration_ms(value, what=key)
    if ms > _LONGEST_JITTER_MS:
        raise InvalidInput(f"{key} is at most {format_ms(_LONGEST_JITTER_MS)}")
    return ms


def _unfinished(key: str, value: object) -> int:
    return _whole(key, value, 10_000)


def _whole(key: str, value: object, most: int = _MOST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidInput(f"{key} is a whole number from 1 to {most}")
    return value


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{key} is True or False, not {value!r:.40}")
    return value


def _keep(key: str, value: object) -> Keep:
    default = Schedule(name="", type="").keep_history
    if not isinstance(value, Mapping) or not value.keys() <= {"count", "age"}:
        raise InvalidInput(f"{key} has count and age", hint='such as {"count": 100}')
    age = value.get("age")
    age_ms = default.age_ms if age is None else parse_duration_ms(age, what=f"{key}.age")
    if not age_ms:
        raise InvalidInput(f"{key}.age is above 0")
    return Keep(count=_whole(f"{key}.count", value.get("count", default.count)), age_ms=age_ms)


_PARSERS: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "cron": ("cron", _text),
    "every": ("every", _period),
    "catch_up_window": ("catch_up_window_ms", _duration),
    "max_unfinished": ("max_unfinished", _unfinished),
    "max_runs": ("max_runs", _whole),
    "jitter": ("jitter_ms", _jitter),
    "enabled": ("enabled", _flag),
    "keep_history": ("keep_history", _keep),
    **{key: (key, _choice) for key in _CHOICES},
}
"""Each setting that stands for itself: the field that it becomes, and how its value is read."""
