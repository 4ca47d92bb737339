"""What a schedule will do, for people: its next ticks with their notes, and its rule in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld.calendar.expression import parse
from scheduld.calendar.marks import marked
from scheduld.calendar.of_schedule import rule_of_schedule
from scheduld.calendar.wording import explain
from scheduld.calendar.zones import in_zone
from scheduld.model import instant, iso
from scheduld.timezones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from scheduld.calendar.rule import Rule
    from scheduld.schedule import Schedule

ASKED = "skipped: somebody asked for it"


@dataclass(frozen=True, slots=True)
class NextTick:
    """An instant (ms since the epoch) at which a schedule fires, or one that does not.

    `ms` is None for what a clock change takes away. `local` is the instant in the zone of the
    rule. `note` tells what a clock change does to it, or that it `is_skipped` as somebody asked
    for that; else it is empty.
    """

    ms: int | None
    local: str | None
    note: str = ""
    is_skipped: bool = False

    @property
    def at(self) -> datetime | None:
        """The instant, aware, in UTC."""
        return None if self.ms is None else instant(self.ms)

    def to_dict(self) -> dict[str, Any]:
        """The tick as `--json` prints it."""
        return {"utc": iso(self.ms), "local": self.local, "note": self.note or None}


def upcoming(
    schedule: Schedule,
    after_ms: int,
    *,
    skips: Sequence[tuple[int, int]] = (),
    runs: int = 0,
) -> Iterator[NextTick]:
    """Tell the ticks later than `after_ms`, one after the other, maybe for ever.

    `skips`: ranges (first and last ms) that are left out. `runs`: ticks that have counted
    towards `max_runs`. Raises CronError or WhenError for a rule that is none.
    """
    rule, zone = rule_of_schedule(schedule), load_zone(schedule.timezone)
    left = None if schedule.max_runs is None else schedule.max_runs - runs
    for ms, note in marked(rule, after_ms):
        if left is not None and left <= 0:
            return
        if ms is None:
            yield NextTick(None, None, note)
            continue
        is_skipped = any(first <= ms <= last for first, last in skips)
        if is_skipped:
            note = f"{ASKED}; {note}" if note else ASKED
        elif left is not None:
            left -= 1
        yield NextTick(ms, local_text(ms, zone), note, is_skipped)


def next_ms(rule: Rule, after_ms: int, skips: Sequence[tuple[int, int]] = ()) -> int | None:
    """The first instant of a rule later than `after_ms` that is in none of the ranges."""
    at = rule.after(after_ms)
    while at is not None:
        last = max((last for first, last in skips if first <= at <= last), default=None)
        if last is None:
            return at
        at = rule.after(last)
    return None


def local_text(ms: int, zone: Any) -> str:
    """Write an instant in a zone, with its offset there."""
    moment = in_zone(ms, zone)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def in_words(schedule: Schedule) -> str:
    """Say in one line when a schedule fires, and in which zone."""
    if schedule.cron is not None:
        return f"{explain(parse(schedule.cron, schedule.cron_dialect))} ({schedule.timezone})"
    origin = "midnight of 1970-01-01"
    if schedule.starts_at_ms is not None:
        origin = local_text(schedule.starts_at_ms, load_zone(schedule.timezone))
    return f"fires every {schedule.every}, counted from {origin} ({schedule.timezone})"
