"""A schedule from what a program says of it: each value checked, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from scheduld import payload as codec
from scheduld.calendar.bounds import bound_ms
from scheduld.calendar.checking import faults
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
    zone = zone_name(given.get("timezone"), settings.timezone)
    values = {key: value for key, value in given.items() if value is not None}
    kept: dict[str, Any] = {"timezone": zone}
    for key, words in _CHOICES.items():
        if key in values:
            kept[key] = _choice(key, values[key], words)
    if "cron" in values:
        kept["cron"] = _text("cron", values["cron"])
    if "every" in values:
        kept["every"] = str(parse_every(values["every"]))
    for key, least in (("max_unfinished", 1), ("max_runs", 1)):
        if key in values:
            kept[key] = _whole(
                key, values[key], least, 10_000 if key == "max_unfinished" else _MOST
            )
    for key in ("starts_at", "ends_at"):
        if key in values:
            kept[f"{key}_ms"] = bound_ms(values[key], zone, is_end=key == "ends_at")
    for key in ("catch_up_window", "jitter"):
        if key in values:
            kept[f"{key}_ms"] = parse_duration_ms(values[key], what=key)
    if kept.get("jitter_ms", 0) > _LONGEST_JITTER_MS:
        raise InvalidInput(f"jitter is at most {format_ms(_LONGEST_JITTER_MS)}")
    if "enabled" in values:
        kept["enabled"] = _flag("enabled", values["enabled"])
    if "keep_history" in values:
        kept["keep_history"] = _keep(values["keep_history"])
    kept["payload"] = _payload(values.get("payload", {}), settings.max_payload)
    schedule = Schedule(name=check_schedule(name), type=check_type(type_name), **kept)
    for fault in faults(schedule):
        raise _error(fault.message, fault.hint, fault.keys)
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


def _error(message: str, hint: str | None, keys: tuple[str, ...]) -> ScheduldError:
    is_cron = keys[0] == "cron" and not message.startswith("needs")
    if message.startswith("needs"):
        message = f"a schedule {message}"
    return (CronError if is_cron else InvalidInput)(message, hint=hint)


def _check_keys(given: Mapping[str, Any]) -> None:
    known = ScheduleOptions.__annotations__
    for key in given:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise InvalidInput(f"a schedule has no setting {key!r:.60}", hint=hint)


def _choice(key: str, value: object, words: tuple[str, ...]) -> str:
    if value not in words:
        told = printable(str(value)[:40])
        raise InvalidInput(f"{key} is {', '.join(words[:-1])} or {words[-1]}, not {told!r}")
    return str(value)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{key} is a text, not {type(value).__name__}")
    return value.strip(" \t")


def _whole(key: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{key} is a whole number from {least} to {most}")
    return value


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{key} is True or False, not {value!r:.40}")
    return value


def _keep(value: object) -> Keep:
    default = Schedule(name="", type="").keep_history
    if not isinstance(value, Mapping) or not value.keys() <= {"count", "age"}:
        raise InvalidInput("keep_history has count and age", hint='such as {"count": 100}')
    count = _whole("keep_history.count", value.get("count", default.count), 1, _MOST)
    age = value.get("age")
    age_ms = default.age_ms if age is None else parse_duration_ms(age, what="keep_history.age")
    if not age_ms:
        raise InvalidInput("keep_history.age is above 0")
    return Keep(count=count, age_ms=age_ms)


def _payload(value: object, most: int) -> dict[str, Any]:
    # As the tasks will have it: tuples are arrays.
    _, copy = codec.snapshot(value, max_bytes=most)
    return copy
