"""The tables of a schedule: `[schedules.NAME]` and the one below it.

Defaults come from `scheduld.schedule.Schedule`, descriptions are printed in the settings
table of the docs.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from scheduld.config import values
from scheduld.config.schedule_values import Flag, Payload, Period, TimeOrDate
from scheduld.config.table import Table
from scheduld.config.values import DAY, Choice, Duration, Name, Text, Whole
from scheduld.model import Keep
from scheduld.schedule import CatchUp, CronDialect, DstGap, DstOverlap, Overlap, Schedule

_SCHEDULE = Schedule(name="", type="")
_MANY = 1_000_000_000
SCHEDULE_NAME = Name("schedule")


class KeepHistoryTable(Table):
    """`[schedules.NAME.keep_history]`."""

    count: Annotated[int, BeforeValidator(Whole(1, _MANY))] = Field(
        default=_SCHEDULE.keep_history.count,
        description="records kept of what became of its ticks, the newest",
    )
    age: Annotated[int, BeforeValidator(Duration(1))] = Field(
        default=_SCHEDULE.keep_history.age_ms,
        description="records are kept no longer",
    )

    def keep(self) -> Keep:
        """Return the rule this table describes."""
        return Keep(count=self.count, age_ms=self.age)


class ScheduleTable(Table):
    """`[schedules.NAME]`."""

    type: Annotated[str, BeforeValidator(Text())] = Field(
        description="name of the task type its tasks are of"
    )
    cron: Annotated[str | None, BeforeValidator(Text())] = Field(
        default=_SCHEDULE.cron,
        description='when it fires: five fields as in a crontab, or `"@daily"` and the like; '
        "either this or `every`",
    )
    every: Annotated[str | None, BeforeValidator(Period())] = Field(
        default=_SCHEDULE.every,
        description="how often it fires, on a grid that begins at `starts_at`, else at midnight "
        "of 1970-01-01 in the zone; `d w mo y` keep the time of day",
    )
    cron_dialect: Annotated[CronDialect, BeforeValidator(Choice(("vixie", "extended")))] = Field(
        default=_SCHEDULE.cron_dialect,
        description="`extended`: six fields, seconds first, and `L`, `5L`, `5#2` as days",
    )
    timezone: Annotated[str | None, BeforeValidator(values.ZONE)] = Field(
        default=None,
        description="zone of the rule; by default the one of `[scheduld]`, else UTC",
    )
    payload: Annotated[Mapping[str, Any], BeforeValidator(Payload())] = Field(
        default_factory=dict, description="payload of each of its tasks"
    )
    catch_up: Annotated[CatchUp, BeforeValidator(Choice(("none", "latest", "all")))] = Field(
        default=_SCHEDULE.catch_up,
        description="what is made up for of the ticks that were missed: nothing, the newest, or "
        "all (at most 100)",
    )
    catch_up_window: Annotated[int, BeforeValidator(Duration(0))] = Field(
        default=_SCHEDULE.catch_up_window_ms,
        description="a tick missed longer ago than this is not made up for",
    )
    overlap: Annotated[Overlap, BeforeValidator(Choice(("skip", "queue", "cancel", "allow")))] = (
        Field(
            default=_SCHEDULE.overlap,
            description="what a tick does while the task of an earlier one is unfinished",
        )
    )
    max_unfinished: Annotated[int, BeforeValidator(Whole(1, 10_000))] = Field(
        default=_SCHEDULE.max_unfinished,
        description='most unfinished tasks of it with `overlap = "allow"`',
    )
    starts_at: Annotated[str | dt.datetime | dt.date | None, BeforeValidator(TimeOrDate())] = Field(
        default=None, description="no tick before it; a date means its beginning in the zone"
    )
    ends_at: Annotated[str | dt.datetime | dt.date | None, BeforeValidator(TimeOrDate())] = Field(
        default=None, description="no tick after it; a date means its end in the zone"
    )
    max_runs: Annotated[int | None, BeforeValidator(Whole(1, _MANY))] = Field(
        default=_SCHEDULE.max_runs, description="ticks that become tasks; then it has ended"
    )
    jitter: Annotated[int, BeforeValidator(Duration(0, DAY))] = Field(
        default=_SCHEDULE.jitter_ms,
        description="its tasks are due up to this much after the tick, always the same for the "
        "same tick; shorter than the time to the next one",
    )
    enabled: Annotated[bool, BeforeValidator(Flag())] = Field(
        default=_SCHEDULE.enabled, description="`false`: it is kept, and does not fire"
    )
    dst_gap: Annotated[DstGap, BeforeValidator(Choice(("shift", "skip")))] = Field(
        default=_SCHEDULE.dst_gap,
        description="a time that a clock change skips: fires right after the change, or not",
    )
    dst_overlap: Annotated[DstOverlap, BeforeValidator(Choice(("first", "second", "both")))] = (
        Field(
            default=_SCHEDULE.dst_overlap,
            description="which one of a time that a clock change repeats fires",
        )
    )
    keep_history: KeepHistoryTable = Field(
        default_factory=KeepHistoryTable,
        description="when records of its ticks are removed",
    )
