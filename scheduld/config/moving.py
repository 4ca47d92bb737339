"""Which next times of schedules another config moves, whatever setting it was that did it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.calendar.preview import local_text
from scheduld.config.compare import Change, Side
from scheduld.config.faults import show_path
from scheduld.timezones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.config.settings import Config
    from scheduld.schedule import Schedule


def moves(old: Config, new: Config, now_ms: int) -> Iterator[Change]:
    """Yield schedules whose next tick after `now_ms` is another one, or the first of a new one."""
    for name, schedule in new.schedules.items():
        before = old.schedules.get(name)
        place = show_path(("schedules", name))
        after_ms = _next_ms(schedule, now_ms)
        if before is None:
            yield Change("added", place, "next", new=_side(schedule, after_ms))
            continue
        before_ms = _next_ms(before, now_ms)
        if before_ms != after_ms:
            sides = _side(before, before_ms), _side(schedule, after_ms)
            yield Change("changed", place, "next", *sides)


def _next_ms(schedule: Schedule, now_ms: int) -> int | None:
    return rule_of_schedule(schedule).after(now_ms) if schedule.enabled else None


def _side(schedule: Schedule, ms: int | None) -> Side:
    return Side(None if ms is None else local_text(ms, load_zone(schedule.timezone)))
