"""`cron next`: when a schedule fires, or a rule that is only being thought about."""

from __future__ import annotations

import json
import os
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import click

from scheduld.cli.common import COMMON, common, reading, session
from scheduld.cli.completing import schedule_names, zones
from scheduld.cli.cron_telling import next_line
from scheduld.cli.output import note, say, say_all
from scheduld.errors import Conflict, InvalidInput, NotFound
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.calendar.preview import NextTick
    from scheduld.client.schedule_records import ScheduleInfo
    from scheduld.schedule import CronDialect, DstGap, DstOverlap, Schedule

_MOST = 100_000
_EXAMPLES = """\b
Examples:
  scheduld cron next weekday-report
  scheduld cron next --cron "0 7 * * mon-fri" --timezone Europe/Madrid --count 3
  scheduld cron next --cron "30 2 * * *" --timezone Europe/Madrid --after 2026-03-28
  scheduld cron next --every 15m --json
"""


@click.command("next", epilog=_EXAMPLES)
@click.argument("name", required=False, shell_complete=schedule_names)
@click.option("--cron", metavar="EXPR", help="An expression, instead of a schedule.")
@click.option("--every", metavar="PERIOD", help="A period, such as 15m or 1mo.")
@click.option(
    "--dialect", type=click.Choice(["vixie", "extended"]), help="Of --cron; default: vixie."
)
@click.option(
    "--timezone",
    metavar="ZONE",
    shell_complete=zones,
    help="Zone of --cron or --every; default: the config's, else UTC.",
)
@click.option(
    "--dst-gap", type=click.Choice(["shift", "skip"]), help="Of --cron, times that do not exist."
)
@click.option(
    "--dst-overlap",
    type=click.Choice(["first", "second", "both"]),
    help="Of --cron, times that happen twice.",
)
@click.option("--after", metavar="WHEN", help="A time, or a date to begin with; default: now.")
@click.option("--count", type=int, default=10, metavar="N", help="How many; default 10.")
@COMMON
def next_command(name: str | None, after: str | None, count: int, **rule: str | None) -> None:
    """Tell when a schedule fires next.

    Of a schedule, or of a rule: then no server is needed. A note stands where a change of the
    clock moves, repeats or takes away a tick. With --json one object a line.
    """
    if not 0 < count <= _MOST:
        raise InvalidInput(f"--count is 1 to {_MOST}")
    given = {key: value for key, value in rule.items() if value is not None}
    if name is None and not ("cron" in given or "every" in given):
        raise InvalidInput("what is to fire?", hint="a schedule, --cron or --every")
    if name is not None and given:
        option = next(iter(given)).replace("_", "-")
        raise InvalidInput(f"a schedule has its own rule, and takes no --{option}")
    if name is None:
        schedule = _drafted(given)
        ticks = _ticks(schedule, _base(after, schedule, None))
    else:
        schedule, ticks = _of_schedule(name, after)
    _tell(schedule, ticks, count)


def _drafted(given: dict[str, str]) -> Schedule:
    """Make a schedule of a rule; raises InvalidInput, with what would be right."""
    from scheduld.calendar.checking import faults
    from scheduld.calendar.every import parse_every
    from scheduld.errors import CronError
    from scheduld.schedule import Schedule
    from scheduld.timezones import load_zone

    zone = given.get("timezone") or _config_zone() or "UTC"
    load_zone(zone)
    every = given.get("every")
    for key in ("dialect", "dst_gap", "dst_overlap"):
        if key in given and every is not None:
            option = key.replace("_", "-")
            raise InvalidInput(f"--{option} is of --cron, and says nothing about --every")
    schedule = Schedule(
        name="x",
        type="x",
        cron=given.get("cron"),
        every=None if every is None else str(parse_every(every)),
        cron_dialect=cast("CronDialect", given.get("dialect", "vixie")),
        timezone=zone,
        dst_gap=cast("DstGap", given.get("dst_gap", "shift")),
        dst_overlap=cast("DstOverlap", given.get("dst_overlap", "first")),
    )
    for fault in faults(schedule):
        raise CronError(fault.message, hint=fault.hint)
    return schedule


def _config_zone() -> str | None:
    """The zone of the config, if there is one."""
    from scheduld.config.light import client_settings
    from scheduld.config.source import search

    if search(common().config, os.environ).path is None:
        return None
    return client_settings(common().config, redis_url="embedded").timezone


def _of_schedule(name: str, after: str | None) -> tuple[Schedule, Iterator[NextTick]]:
    try:
        with session() as opened, reading():
            info = opened.client.schedules.get(name)
            wanted = configured(name) if name in opened.settings.schedule_names else None
    except NotFound:
        schedule = configured(name)
        if schedule is None:
            raise
        note(
            printable(f"scheduld: no daemon has taken up {name} yet; this is what the config says")
        )
        return schedule, _ticks(schedule, _base(after, schedule, None))
    if info.definition is None or info.state == "broken":
        raise Conflict(f"schedule {name} cannot be read: {info.error}")
    base = _base(after, info.definition, info.now_ms)
    _note_state(info)
    if wanted is not None and wanted.digest != info.definition.digest:
        note("scheduld: this is what runs now; the config has it otherwise (scheduld check tells)")
    skips = [(skip.from_ms, skip.to_ms) for skip in info.skips]
    return info.definition, _ticks(info.definition, base, skips, info.runs)


def _note_state(info: ScheduleInfo) -> None:
    if info.pause is not None:
        why = f": {info.pause.reason}" if info.pause.reason else ""
        note(printable(f"scheduld: it is paused, and does not fire until it is resumed{why}"))
    elif info.state == "disabled":
        note("scheduld: it is not enabled, and does not fire")
    elif info.state == "orphaned":
        note("scheduld: no daemon has it in its config any more, and it does not fire")
    elif info.state == "active" and not info.is_served:
        note(f"scheduld: no daemon works on type {info.type} now (scheduld run starts one)")
    elif info.overdue_ms is not None:
        note("scheduld: it is overdue: no daemon fires it now (scheduld nodes tells them)")


def configured(name: str) -> Schedule | None:
    """The schedule as the config has it, None if it has none or cannot be read."""
    from scheduld.config.load import load
    from scheduld.errors import ConfigError

    try:
        return load(common().config, redis_url=common().redis_url).schedules.get(name)
    except ConfigError:
        return None


def _base(after: str | None, schedule: Schedule, now_ms: int | None) -> int:
    from scheduld.calendar.bounds import as_day, bound_ms
    from scheduld.clock import wall_ms

    if after is None:
        return wall_ms() if now_ms is None else now_ms
    ms = bound_ms(after, schedule.timezone)
    return ms if as_day(after) is None else ms - 1


def _ticks(
    schedule: Schedule, after_ms: int, skips: list[tuple[int, int]] | None = None, runs: int = 0
) -> Iterator[NextTick]:
    from scheduld.calendar.preview import upcoming

    return upcoming(schedule, after_ms, skips=skips or [], runs=runs)


def _tell(schedule: Schedule, ticks: Iterator[NextTick], count: int) -> None:
    from scheduld.calendar.preview import in_words

    shown: list[NextTick] = []
    as_json = common().json
    if not as_json:
        say(printable(in_words(schedule)))
    say_all(_lines(islice(ticks, count), shown, as_json=as_json))
    if not shown:
        note("it fires no more")


def _lines(ticks: Any, shown: list[NextTick], *, as_json: bool) -> Iterator[str]:
    for tick in ticks:
        shown[:] = [tick]
        yield json.dumps(tick.to_dict()) if as_json else next_line(tick)
