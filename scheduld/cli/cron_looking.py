"""`cron list`, `cron show` and `cron history`: which schedules there are, and what they did."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from scheduld.cli import cron_telling as telling
from scheduld.cli.common import COMMON, TYPE, common, reading, session
from scheduld.cli.completing import schedule_names
from scheduld.cli.output import note, say, say_json, table
from scheduld.errors import ConfigError, NotFound
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduld.client.schedule_records import ScheduleInfo
    from scheduld.schedule import Schedule

NAME = click.argument("name", shell_complete=schedule_names)
_LIST_EXAMPLES = """\b
Examples:
  scheduld cron list
  scheduld cron list --type report --json
"""
_SHOW_EXAMPLES = """\b
Examples:
  scheduld cron show weekday-report
"""
_HISTORY_EXAMPLES = """\b
Examples:
  scheduld cron history weekday-report
  scheduld cron history weekday-report --limit 1000 --json | jq -r 'select(.outcome == "gap")'
"""


@click.command("list", epilog=_LIST_EXAMPLES)
@TYPE
@COMMON
def list_command(type_name: str | None) -> None:
    """List the schedules, by name.

    When each fires next, what it did last, and what keeps it from firing. Those of the config
    that no daemon has taken up yet are listed too, and where the config differs it is told. With
    --json one object a line.
    """
    with session() as opened, reading():
        found = opened.client.schedules.list(type_name)
    configured = _configured()
    found = _with_new(found, configured or {}, type_name)
    if common().json:
        for info in found:
            say_json(info.to_dict())
    elif found:
        say(table(telling.LIST_HEAD, [telling.row(info) for info in found]))
    else:
        note("no schedules (a [schedules.NAME] table of the config, or: scheduld cron add)")
    for text in _differences(found, configured or {}):
        note(printable(f"scheduld: {text}"))


def _configured() -> Mapping[str, Schedule] | None:
    """The schedules of the config; None if there is none, or it cannot be compared."""
    from scheduld.config.load import load
    from scheduld.config.source import search

    said = common()
    if search(said.config, os.environ).path is None:
        return None
    try:
        config = load(said.config, redis_url=said.redis_url)
    except ConfigError:
        note("scheduld: not compared with the config, which has problems here (scheduld check)")
        return None
    # Schedules of another namespace are others, whatever their names.
    return config.schedules if said.namespace in (None, config.namespace) else None


def _with_new(
    found: Sequence[ScheduleInfo], configured: Mapping[str, Schedule], type_name: str | None
) -> list[ScheduleInfo]:
    from scheduld.client.schedule_records import ScheduleInfo
    from scheduld.clock import wall_ms

    there, now_ms = {info.name for info in found}, wall_ms()
    new = [
        ScheduleInfo(
            name=name,
            type=schedule.type,
            origin="config",
            state="new",
            definition=schedule,
            now_ms=now_ms,
        )
        for name, schedule in configured.items()
        if name not in there and type_name in (None, schedule.type)
    ]
    return sorted([*found, *new], key=lambda info: info.name)


def _differences(found: Sequence[ScheduleInfo], configured: Mapping[str, Schedule]) -> list[str]:
    told = []
    for info in found:
        wanted = configured.get(info.name)
        if info.definition is None or wanted is None or wanted.digest == info.definition.digest:
            continue
        if info.origin == "runtime":
            told.append(f"{info.name} was added at run time; the one of the config does not run")
            continue
        keys = [
            key.removesuffix("_ms")
            for key in vars(wanted)
            if key in wanted.__dataclass_fields__
            and getattr(wanted, key) != getattr(info.definition, key)
        ]
        told.append(f"{info.name} runs with another {', '.join(keys)} than the config has")
    return told


@click.command("show", epilog=_SHOW_EXAMPLES)
@NAME
@COMMON
def show_command(name: str) -> None:
    """Tell all about one schedule."""
    with session() as opened, reading():
        info = opened.client.schedules.get(name)
    if common().json:
        say_json(info.to_dict())
    else:
        say("\n".join(telling.story(info)))


@click.command("history", epilog=_HISTORY_EXAMPLES)
@NAME
@click.option("--limit", type=int, default=100, metavar="N", help="The newest N; default 100.")
@COMMON
def history_command(name: str, limit: int) -> None:
    """Tell what became of the ticks of a schedule, the oldest first.

    fired (and how late), queued, coalesced, skipped, backlog, exists, gap (several that were
    missed), backfilled. Kept as the schedule's keep_history says. With --json one object a line.
    """
    with session() as opened, reading():
        ticks = opened.client.schedules.history(name, limit=limit)
        zone = opened.settings.timezone
        try:
            info = opened.client.schedules.get(name)
            zone = info.definition.timezone if info.definition else zone
        except NotFound:
            note(f"scheduld: schedule {name} was removed")
    if common().json:
        for tick in ticks:
            say_json(tick.to_dict())
    elif ticks:
        say(table(telling.HISTORY_HEAD, [telling.history_row(tick, zone) for tick in ticks]))
    else:
        note("no ticks yet")
    if len(ticks) >= limit:
        note(f"only the newest {limit} are shown; --limit shows more")
