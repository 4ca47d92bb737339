"""`cron add` and `cron remove`: schedules without a config file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from scheduld.cli.common import COMMON, common, session
from scheduld.cli.completing import type_names, zones
from scheduld.cli.cron_looking import NAME
from scheduld.cli.cron_telling import outlook
from scheduld.cli.output import note, say, say_json, telling_done
from scheduld.cli.payloads import STDIN, collect, payload_options
from scheduld.cli.several import repeat
from scheduld.errors import OutcomeUnknown, TaskExists

if TYPE_CHECKING:
    from scheduld.client.schedule_records import ScheduleInfo

_ADD_EXAMPLES = """\b
Examples:
  scheduld cron add weekday-report --type report --cron "0 7 * * mon-fri" --timezone Europe/Madrid
  scheduld cron add ping --type http --every 15m url=https://example.com/health
  scheduld cron add campaign --type email --cron @daily --ends-at 2026-12-24 --overlap queue
"""
_REMOVE_EXAMPLES = """\b
Examples:
  scheduld cron remove campaign
"""
_OPTIONS = {
    "cron": "cron",
    "every": "every",
    "dialect": "cron_dialect",
    "timezone": "timezone",
    "catch_up": "catch_up",
    "catch_up_window": "catch_up_window",
    "overlap": "overlap",
    "max_unfinished": "max_unfinished",
    "starts_at": "starts_at",
    "ends_at": "ends_at",
    "max_runs": "max_runs",
    "jitter": "jitter",
    "dst_gap": "dst_gap",
    "dst_overlap": "dst_overlap",
}
"""Options of the command that are settings of a schedule, and what these are called."""


def _choice(*words: str) -> click.Choice[str]:
    return click.Choice(list(words))


@click.command("add", epilog=_ADD_EXAMPLES)
@click.argument("name")
@click.option(
    "--type",
    "type_name",
    required=True,
    metavar="TYPE",
    shell_complete=type_names,
    help="Task type.",
)
@click.option("--cron", metavar="EXPR", help='Five fields as in a crontab, or "@daily".')
@click.option("--every", metavar="PERIOD", help="A period, such as 15m, 7d or 1mo.")
@click.option(
    "--dialect", type=_choice("vixie", "extended"), help="extended: six fields, seconds first."
)
@click.option(
    "--timezone",
    metavar="ZONE",
    shell_complete=zones,
    help="Zone of the rule; default: the config's, else UTC.",
)
@payload_options()
@click.option(
    "--catch-up", type=_choice("none", "latest", "all"), help="After an outage; default: latest."
)
@click.option("--catch-up-window", metavar="DURATION", help="How far back; default: 7d.")
@click.option(
    "--overlap",
    type=_choice("skip", "queue", "cancel", "allow"),
    help="While an earlier task is unfinished; default: skip.",
)
@click.option("--max-unfinished", type=int, metavar="N", help="Of --overlap allow; default: 100.")
@click.option("--starts-at", metavar="WHEN|DATE", help="No tick before it.")
@click.option("--ends-at", metavar="WHEN|DATE", help="No tick after it; a date: its end.")
@click.option("--max-runs", type=int, metavar="N", help="Ticks that become tasks, then it ends.")
@click.option("--jitter", metavar="DURATION", help="Tasks are due up to this much later.")
@click.option("--dst-gap", type=_choice("shift", "skip"), help="Of times that do not exist.")
@click.option(
    "--dst-overlap", type=_choice("first", "second", "both"), help="Of times that happen twice."
)
@click.option("--disabled", is_flag=True, help="Keep it, but do not fire it.")
@click.option(
    "--on-conflict",
    type=_choice("error", "keep", "replace"),
    default="error",
    help="If the name is taken by one with other settings; default: error.",
)
@click.option("--allow-unknown", is_flag=True, help="Take a type that nobody knows yet.")
@COMMON
@click.argument("entries", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON | -]...")
def add_command(name: str, type_name: str, entries: tuple[str, ...], **given: Any) -> None:
    """Add a schedule at run time.

    It is kept until it is removed, whatever the configs say. KEY=VALUE is put into its payload.
    Prints its name, when it fires in words, and its next three runs.
    """
    options = {
        setting: given[option] for option, setting in _OPTIONS.items() if given[option] is not None
    }
    if given["disabled"]:
        options["enabled"] = False
    with session() as opened:
        collected = collect(entries, given["payload"], given["payload_file"])
        options["payload"] = collected.payload
        try:
            info = opened.client.schedules.add(
                name,
                type_name,
                on_conflict=given["on_conflict"],
                allow_unknown=given["allow_unknown"],
                **options,
            )
        except TaskExists as exc:
            exc.hint = "--on-conflict replace takes its place, --on-conflict keep leaves it"
            raise
        except OutcomeUnknown as exc:
            words = {f"--{key.replace('_', '-')}": _word(value) for key, value in given.items()}
            words = {"--type": type_name, **words}
            raise repeat(
                exc,
                "cron add",
                [name, *(entry for entry in entries if entry != STDIN)],
                may="the schedule may be kept or not",
                options=words,
            ) from None
        with telling_done(f"schedule {name} is stored"):
            _tell(info)
        _warn_if_idle(info)


def _word(value: object) -> str | bool | None:
    return value if isinstance(value, str | bool | None) else str(value)


def _tell(info: ScheduleInfo) -> None:
    if common().json:
        say_json(info.to_dict())
        return
    say(info.name)
    if not info.created:
        say("kept: it exists, and nothing was changed")
    if info.definition is not None:
        say("\n".join(outlook(info.definition, info.now_ms)))


def _warn_if_idle(info: ScheduleInfo) -> None:
    # A script has nobody to start a daemon.
    if sys.stderr is not None and sys.stderr.isatty() and not info.is_served:
        note(f"scheduld: no daemon works on type {info.type} now (scheduld run starts one)")


@click.command("remove", epilog=_REMOVE_EXAMPLES)
@NAME
@COMMON
def remove_command(name: str) -> None:
    """Remove a schedule that was added at run time.

    Its tasks that wait are cancelled; what runs goes on. One of the config is removed there.
    """
    with session() as opened:
        try:
            cancelled = opened.client.schedules.remove(name)
        except OutcomeUnknown as exc:
            may = "it may be removed or not"
            raise repeat(exc, "cron remove", [name], may=may) from None
    with telling_done(f"schedule {name} is removed"):
        if common().json:
            say_json({"schedule": name, "cancelled": cancelled})
        else:
            tasks = f", {cancelled} task{'' if cancelled == 1 else 's'} cancelled"
            say(f"{name} removed{tasks if cancelled else ''}")
