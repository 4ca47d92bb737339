"""Schedules in words: pure functions from what is stored to lines for people."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

from scheduld.calendar.bounds import range_text
from scheduld.cli.numbers import short_time
from scheduld.duration import format_ms, in_words
from scheduld.errors import InvalidInput
from scheduld.names import printable
from scheduld.timezones import load_zone
from scheduld.when import describe, describe_shortly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduld.calendar.preview import NextTick
    from scheduld.client.schedule_records import ScheduleInfo, Tick
    from scheduld.schedule import Schedule

LIST_HEAD = ("NAME", "TYPE", "RULE", "NEXT", "LAST", "WHAT")
HISTORY_HEAD = ("AT", "TICK", "OUTCOME", "LATE", "WHAT")
_LONGEST_RULE = 40
_WHY = {
    "overlap": "an earlier task was unfinished",
    "asked": "somebody asked for it",
    "manual": "by hand",
    "max_runs": "max_runs was reached",
}


def row(info: ScheduleInfo) -> tuple[str, ...]:
    """Tell a schedule in the cells of a list."""
    schedule = info.definition
    zone = schedule.timezone if schedule else None
    next_ms = _next_ms(info)
    coming = info.state if next_ms is None else describe_shortly(next_ms, zone)
    last = ""
    if info.last is not None and info.last.tick_ms is not None:
        last = f"{info.last.outcome} {in_words(info.last.tick_ms - info.now_ms)}"
    rule = rule_text(schedule) if schedule else "?"
    if len(rule) > _LONGEST_RULE:
        rule = rule[: _LONGEST_RULE - 3] + "..."
    return info.name, info.type, rule, coming, last, "; ".join(_facts(info))


def _next_ms(info: ScheduleInfo) -> int | None:
    # An orphaned one has a next tick too: when it would fire if a daemon took it up again.
    return None if info.state == "orphaned" else info.next_ms


def _facts(info: ScheduleInfo) -> Iterator[str]:
    if info.error:
        yield info.error
    if info.pause is not None:
        yield "paused" + (f": {info.pause.reason}" if info.pause.reason else "")
    if (next_ms := _next_ms(info)) is not None:
        yield in_words(next_ms - info.now_ms)
    if info.overdue_ms is not None:
        yield f"overdue: a tick was due {in_words(info.overdue_ms - info.now_ms)}"
    if info.unfinished:
        yield f"{info.unfinished} unfinished"
    if info.is_queued:
        yield "a tick waits"
    if info.skips:
        yield f"{len(info.skips)} skip" + ("s" if len(info.skips) > 1 else "")
    if info.state == "new":
        yield "no daemon has taken it up yet"
    elif info.state == "orphaned":
        yield "no daemon has it in its config any more"
    elif not info.is_served:
        yield "no daemon works on its type"
    if info.origin == "runtime":
        yield "added at run time"


def rule_text(schedule: Schedule) -> str:
    """Write the rule of a schedule as the config has it, with its zone."""
    rule = schedule.cron if schedule.cron is not None else f"every {schedule.every}"
    return f"{rule} {schedule.timezone}"


def story(info: ScheduleInfo) -> list[str]:
    """Tell all about a schedule; one line each, all escaped."""
    facts = [(label, text) for label, text in _story(info) if text]
    width = max((len(label) for label, _ in facts), default=0)
    lines = [f"{info.name} is {info.state}" + (f": {info.error}" if info.error else "")]
    lines += [f"  {label:{width}}  {text}" for label, text in facts]
    return [printable(line) for line in lines]


def _story(info: ScheduleInfo) -> Iterator[tuple[str, str]]:
    schedule = info.definition
    zone = schedule.timezone if schedule else None

    def moment(ms: int | None) -> str:
        return "" if ms is None else describe(ms, zone, info.now_ms)

    yield "type", info.type + ("" if info.is_served else ", on which no daemon works now")
    yield "origin", "a config file" if info.origin == "config" else "added at run time"
    if schedule is not None:
        yield "rule", rule_text(schedule)
        yield "", _words(schedule)
    yield "next", moment(_next_ms(info))
    if info.overdue_ms is not None:
        yield "overdue", f"{moment(info.overdue_ms)}: no daemon fires it"
    if info.last is not None and info.last.tick_ms is not None:
        yield "last", f"{info.last.outcome}, {moment(info.last.tick_ms)}"
    yield "runs", str(info.runs)
    yield "unfinished", str(info.unfinished) if info.unfinished else ""
    yield "queued", moment(info.queued_ms) or ("by hand" if info.is_queued else "")
    if info.pause is not None:
        why = f": {info.pause.reason}" if info.pause.reason else ""
        yield "paused", f"{moment(info.pause.since_ms)}, by {info.pause.who}{why}"
    for skip in info.skips:
        yield "skips", range_text(skip.from_ms, skip.to_ms, load_zone(zone or "UTC"))
    if info.orphan_ms is not None:
        yield "orphaned", f"no daemon has it in its config since {moment(info.orphan_ms)}"
    if schedule is not None:
        yield from _settings(schedule, moment)


def _settings(schedule: Schedule, moment: Callable[[int | None], str]) -> Iterator[tuple[str, str]]:
    yield "payload", json.dumps(dict(schedule.payload), ensure_ascii=False)
    yield "catch_up", f"{schedule.catch_up}, within {format_ms(schedule.catch_up_window_ms)}"
    most = f", up to {schedule.max_unfinished}" if schedule.overlap == "allow" else ""
    yield "overlap", schedule.overlap + most
    yield "starts_at", moment(schedule.starts_at_ms)
    yield "ends_at", moment(schedule.ends_at_ms)
    yield "max_runs", "" if schedule.max_runs is None else str(schedule.max_runs)
    yield "jitter", format_ms(schedule.jitter_ms) if schedule.jitter_ms else ""
    yield "dst_gap", schedule.dst_gap if schedule.dst_gap != "shift" else ""
    yield "dst_overlap", schedule.dst_overlap if schedule.dst_overlap != "first" else ""


def _words(schedule: Schedule) -> str:
    from scheduld.calendar.preview import in_words as words

    try:
        return words(schedule)
    except InvalidInput as exc:
        return exc.message


def history_row(tick: Tick, zone: str | None) -> tuple[str, ...]:
    """Tell a record of the history in the cells of a table."""
    at = describe_shortly(tick.at_ms, zone)
    late = "" if tick.late_ms is None else short_time(tick.late_ms)
    why = _WHY.get(tick.why, tick.why)
    if tick.from_ms is not None and tick.to_ms is not None:
        count = tick.count or 0
        many = f"{count}{' or more' if count >= 1000 else ''} tick{'' if count == 1 else 's'}"
        until = describe_shortly(tick.to_ms, zone)
        first = describe_shortly(tick.from_ms, zone)
        range_ = many if count == 1 else f"{many} to {until}"
        return at, first, tick.outcome, "", f"{range_}: {why}"
    moment = "" if tick.tick_ms is None else describe_shortly(tick.tick_ms, zone)
    told = [part for part in (tick.task_id, why) if part]
    return at, moment, tick.outcome, late, ": ".join(told)


def next_line(tick: NextTick, zone: str | None = None) -> str:
    """Tell a coming tick in one line: local time, UTC, and a note."""
    if tick.ms is None:
        return printable(f"-  {tick.note}")
    utc = describe_shortly(tick.ms, None)
    parts = [tick.local or describe_shortly(tick.ms, zone), utc, tick.note]
    return printable("  ".join(part for part in parts if part))


def outlook(schedule: Schedule, now_ms: int, count: int = 3) -> list[str]:
    """Tell when a schedule fires, and its next runs: what people check a rule by."""
    from scheduld.calendar.preview import upcoming

    lines = [printable(_words(schedule))]
    if not schedule.enabled:
        return [*lines, "it is not enabled, and does not fire"]
    ticks = list(islice(upcoming(schedule, now_ms), count))
    if not ticks:
        return [*lines, "it fires no more"]
    return lines + [f"next: {next_line(tick)}" for tick in ticks]
