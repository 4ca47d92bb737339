"""What contradicts itself in a schedule, or can never be: for config files and clients alike."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from scheduld.calendar.every import parse_every
from scheduld.calendar.expression import parse
from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.duration import format_ms
from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.calendar.expression import CronSpec
    from scheduld.schedule import Schedule

_OF_CRON = {"cron_dialect": "vixie", "dst_gap": "shift", "dst_overlap": "first"}
"""Settings that nothing but cron has, and what they are unless somebody sets them."""
_RULE_HINT = 'such as cron = "0 7 * * mon-fri" or every = "15m"'

_EVERY_HINT = (
    "in days, what the clock skips runs after the gap and what it repeats the first time; "
    "in hours every is elapsed time"
)


class Fault(NamedTuple):
    """What is wrong: the settings involved, and the words.

    `is_quoting`: whether the words show a value, which may have come from a secret place.
    `is_whole`: no single setting is wrong; else the first of `keys` is.
    """

    keys: tuple[str, ...]
    message: str
    hint: str | None = None
    is_quoting: bool = False
    is_whole: bool = False


def faults(schedule: Schedule) -> Iterator[Fault]:
    """Yield what is wrong with a schedule whose settings are right one by one."""
    yield from _of_rule(schedule)
    if schedule.catch_up == "all" and schedule.overlap == "skip":
        yield Fault(
            ("catch_up", "overlap"),
            'catch_up "all" cannot be with overlap "skip", which would skip them',
            'use overlap = "queue" or "allow"',
        )
    starts_ms, ends_ms = schedule.starts_at_ms, schedule.ends_at_ms
    if starts_ms is not None and ends_ms is not None and ends_ms < starts_ms:
        yield Fault(("ends_at", "starts_at"), "ends_at is before starts_at")


def _of_rule(schedule: Schedule) -> Iterator[Fault]:
    if schedule.cron is not None and schedule.every is not None:
        yield Fault(("every", "cron"), "cron and every exclude each other", "keep one of them")
        return
    if schedule.cron is None and schedule.every is None:
        yield Fault(("cron", "every"), "needs cron or every", _RULE_HINT, is_whole=True)
        return
    key = "cron" if schedule.cron is not None else "every"
    spec = None
    try:
        if schedule.cron is not None:
            spec = parse(schedule.cron, schedule.cron_dialect)
        rule = rule_of_schedule(schedule)
    except InvalidInput as exc:
        keys = (key, "cron_dialect") if key == "cron" else (key, "starts_at", "timezone")
        yield Fault(keys, exc.message, exc.hint, is_quoting=True)
        return
    if schedule.every is not None:
        for name, default in _OF_CRON.items():
            if getattr(schedule, name) != default:
                hint = _EVERY_HINT if name.startswith("dst_") else None
                yield Fault((name, "every"), f"{name} is for cron, not for every", hint)
    shortest_ms = _shortest_ms(schedule, spec)
    if shortest_ms is not None and schedule.jitter_ms >= shortest_ms:
        yield Fault(
            ("jitter", key),
            f"jitter must be shorter than the time from one tick to the next, "
            f"{format_ms(shortest_ms)}",
        )
    starts_ms, ends_ms = schedule.starts_at_ms, schedule.ends_at_ms
    is_order = starts_ms is None or ends_ms is None or starts_ms <= ends_ms
    if is_order and (starts_ms, ends_ms) != (None, None):
        first = rule.after(-1 if starts_ms is None else starts_ms - 1)
        if first is None:
            where = ("ends_at", "starts_at") if ends_ms is not None else ("starts_at",)
            yield Fault((*where, key, "timezone"), "it never fires within starts_at and ends_at")


def _shortest_ms(schedule: Schedule, spec: CronSpec | None) -> int | None:
    """The shortest time between two ticks of a day; None if there may be only one a day."""
    if schedule.every is not None:
        return parse_every(schedule.every).ms or None
    if spec is None:
        return None
    shortest: list[int] = []
    first = last = 0
    for numbers, unit_s in ((spec.seconds, 1), (spec.minutes, 60), (spec.hours, 3_600)):
        # From the last time within one of a unit to the first within the next.
        shortest += [(after - at) * unit_s + first - last for at, after in pairwise(numbers)]
        first, last = first + numbers[0] * unit_s, last + numbers[-1] * unit_s
    return min(shortest) * 1_000 if shortest else None
