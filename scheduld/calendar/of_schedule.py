"""The rule of a schedule: its cron line or period, in its zone, between its bounds."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scheduld.calendar.cron import CronRule
from scheduld.calendar.every import parse_every
from scheduld.calendar.expression import parse
from scheduld.calendar.grid import GridRule, epoch_anchor_ms
from scheduld.calendar.rule import Bounded
from scheduld.errors import CronError
from scheduld.schedule import tick_id
from scheduld.timezones import load_zone

if TYPE_CHECKING:
    from scheduld.calendar.rule import Rule
    from scheduld.schedule import CronDialect, DstGap, DstOverlap, Schedule


def rule_of_schedule(schedule: Schedule) -> Rule:
    """Make the rule; raises CronError or WhenError if the definition names no instants.

    Schedules with the same line in the same zone share a rule, which never changes.
    """
    starts_ms, ends_ms = schedule.starts_at_ms, schedule.ends_at_ms
    if schedule.cron is not None:
        rule = _cron(
            schedule.cron,
            schedule.cron_dialect,
            schedule.timezone,
            schedule.dst_gap,
            schedule.dst_overlap,
        )
    elif schedule.every is not None:
        rule = _grid(schedule.every, schedule.timezone, starts_ms)
    else:
        raise CronError("neither cron nor every is given", hint="give one of them")
    return rule if starts_ms is None and ends_ms is None else Bounded(rule, starts_ms, ends_ms)


@lru_cache(maxsize=4096)
def _cron(
    line: str, dialect: CronDialect, zone: str, dst_gap: DstGap, dst_overlap: DstOverlap
) -> Rule:
    return CronRule(parse(line, dialect), load_zone(zone), dst_gap, dst_overlap)


@lru_cache(maxsize=4096)
def _grid(every: str, zone_name: str, anchor_ms: int | None) -> Rule:
    zone = load_zone(zone_name)
    if anchor_ms is None:
        anchor_ms = epoch_anchor_ms(zone)
    return GridRule(parse_every(every), anchor_ms, zone)


def tick_id_of(schedule: Schedule, tick_ms: int) -> str:
    """Name the task of a tick; on grids finer than a second with milliseconds."""
    return tick_id(schedule.name, tick_ms, is_fine=_is_fine(schedule.every))


@lru_cache(maxsize=4096)
def _is_fine(every: str | None) -> bool:
    return every is not None and parse_every(every).ms % 1000 != 0
