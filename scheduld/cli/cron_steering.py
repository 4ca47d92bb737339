"""`cron pause`, `resume`, `trigger` and `skip`: what people do with a schedule that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scheduld.calendar.bounds import range_text
from scheduld.cli.common import COMMON, Session, common, reading, session
from scheduld.cli.cron_looking import NAME
from scheduld.cli.cron_telling import next_line
from scheduld.cli.output import say, say_json, telling_done
from scheduld.cli.payloads import collect, payload_options
from scheduld.cli.several import look_first, repeat
from scheduld.errors import Conflict, InvalidInput, OutcomeUnknown
from scheduld.names import printable
from scheduld.timezones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduld.client.schedule_records import ScheduleInfo, Skip, Triggered

_PAUSE_EXAMPLES = """\b
Examples:
  scheduld cron pause weekday-report --reason "the office is closed"
"""
_RESUME_EXAMPLES = """\b
Examples:
  scheduld cron resume weekday-report
  scheduld cron resume weekday-report --catch-up
"""
_TRIGGER_EXAMPLES = """\b
Examples:
  scheduld cron trigger weekday-report
  scheduld cron trigger weekday-report kind=special
"""
_SKIP_EXAMPLES = """\b
Examples:
  scheduld cron skip weekday-report --on 2026-12-24
  scheduld cron skip weekday-report --at "2026-12-24 07:00"
  scheduld cron skip weekday-report --from 2026-12-24 --to 2027-01-06
  scheduld cron skip weekday-report --on 2026-12-24 --undo
"""
_NOT_MADE = {
    "skipped": "an earlier task of it is unfinished",
    "backlog": "too many of its tasks are unfinished",
    "coalesced": "a tick waits for the end of an earlier task already",
}


@click.command("pause", epilog=_PAUSE_EXAMPLES)
@NAME
@click.option("--reason", metavar="TEXT", help="Why; shown by cron list.")
@COMMON
def pause_command(name: str, reason: str | None) -> None:
    """Let a schedule fire no more.

    Until "cron resume". Tasks that it has made go on. A second pause changes the reason.
    """
    with session() as opened:
        try:
            pause = opened.client.schedules.pause(name, reason=reason)
        except OutcomeUnknown as exc:
            may, options = "it may be paused or not", {"--reason": reason}
            raise repeat(exc, "cron pause", [name], may=may, options=options) from None
    with telling_done(f"{name} is paused"):
        if common().json:
            say_json(pause.to_dict())
        else:
            say(printable(f"{name} paused" + (f": {reason}" if reason else "")))


@click.command("resume", epilog=_RESUME_EXAMPLES)
@NAME
@click.option("--catch-up", is_flag=True, help="Make up for what it missed, as its catch_up says.")
@COMMON
def resume_command(name: str, catch_up: bool) -> None:
    """Let a paused schedule fire again.

    From its next tick on; what it missed is one record of its history.
    """
    with session() as opened:
        try:
            resumed = opened.client.schedules.resume(name, catch_up=catch_up)
        except OutcomeUnknown as exc:
            may, options = "it may be resumed or not", {"--catch-up": catch_up}
            raise repeat(exc, "cron resume", [name], may=may, options=options) from None
        with telling_done(f"{name} is not paused"):
            if common().json:
                say_json(
                    {
                        "schedule": name,
                        "was_paused": resumed.was_paused,
                        "passed_over": resumed.passed_over,
                    }
                )
                return
            say(f"{name} resumed" if resumed.was_paused else f"{name} was not paused")
            if resumed.passed_over:
                many = resumed.passed_over
                say(f"{many}{' or more' if many >= 1000 else ''} ticks were passed over")
            with reading():
                _tell_next(opened.client.schedules.get(name))


@click.command("trigger", epilog=_TRIGGER_EXAMPLES)
@NAME
@click.argument("entries", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON | -]...")
@payload_options("A JSON object, in place of the schedule's own.")
@COMMON
def trigger_command(
    name: str, entries: tuple[str, ...], payload: str | None, payload_file: str | None
) -> None:
    """Make a task of a schedule now.

    Its next tick stays as it is, and its overlap applies. KEY=VALUE is put into a copy of the
    schedule's payload. Prints TYPE/ID; exit code 1 if no task was made.
    """
    with session() as opened:
        value = _payload(opened, name, entries, payload, payload_file)
        try:
            triggered = opened.client.schedules.trigger(name, value)
        except OutcomeUnknown as exc:
            may = "a task may be made or not"
            raise look_first(exc, "cron history", [name], may=may) from None
    if triggered.outcome in _NOT_MADE:
        raise Conflict(
            f"no task was made ({triggered.outcome}): {_NOT_MADE[triggered.outcome]}",
            hint="the overlap of the schedule says so",
        )
    with telling_done(f"{triggered.ref} is stored"):
        _tell_triggered(triggered)


def _payload(
    opened: Session,
    name: str,
    entries: Sequence[str],
    payload: str | None,
    payload_file: str | None,
) -> dict[str, Any] | None:
    """What the task is to be given; None: what the schedule says."""
    if payload is None and payload_file is None and not entries:
        return None
    given = collect(entries, payload, payload_file)
    if payload is not None or given.from_stdin or payload_file is not None:
        return given.payload
    with reading():
        definition = opened.client.schedules.get(name).definition
    return {**(definition.payload if definition else {}), **given.payload}


def _tell_triggered(triggered: Triggered) -> None:
    if common().json:
        say_json(
            {
                "schedule": triggered.schedule,
                "type": triggered.type,
                "id": triggered.id,
                "outcome": triggered.outcome,
            }
        )
        return
    say(triggered.ref)
    if triggered.outcome == "queued":
        say("queued: it is made when an earlier task of the schedule has ended")


@click.command("skip", epilog=_SKIP_EXAMPLES)
@NAME
@click.option("--on", metavar="DATE", help="All ticks of a day, such as 2026-12-24.")
@click.option("--at", metavar="WHEN", help="The tick at this time.")
@click.option("--from", "start", metavar="WHEN|DATE", help="All from here ...")
@click.option("--to", "end", metavar="WHEN|DATE", help="... to here, both included.")
@click.option("--undo", is_flag=True, help="Let them fire after all.")
@COMMON
def skip_command(
    name: str, on: str | None, at: str | None, start: str | None, end: str | None, undo: bool
) -> None:
    """Leave out ticks that are to come.

    Of a day, of a time, or from one to another; in the zone of the schedule. Prints what is left
    out now, and the next run. The history tells each tick that was skipped.
    """
    if (start is None) != (end is None):
        raise InvalidInput("--from and --to go together", hint="both are included")
    if (on is not None) + (at is not None) + (start is not None) != 1:
        raise InvalidInput("say what to skip", hint="one of --on, --at, and --from with --to")
    with session() as opened:
        do = opened.client.schedules.unskip if undo else opened.client.schedules.skip
        try:
            skips = do(name, on=on, at=at, start=start, end=end)
        except OutcomeUnknown as exc:
            options = {"--on": on, "--at": at, "--from": start, "--to": end, "--undo": undo}
            may = "it may be done or not"
            raise repeat(exc, "cron skip", [name], may=may, options=options) from None
        with telling_done("it is done"):
            if common().json:
                say_json({"schedule": name, "skips": [one.to_dict() for one in skips]})
                return
            with reading():
                info = opened.client.schedules.get(name)
            say("\n".join(_skip_lines(skips, info)))
            _tell_next(info)


def _skip_lines(skips: Sequence[Skip], info: ScheduleInfo) -> Iterator[str]:
    zone = load_zone(info.definition.timezone if info.definition else "UTC")
    for one in skips:
        yield f"skips what is {range_text(one.from_ms, one.to_ms, zone)}"
    if not skips:
        yield "skips nothing"


def _tell_next(info: ScheduleInfo) -> None:
    from scheduld.calendar.preview import NextTick, local_text

    if info.next_ms is None or info.definition is None:
        say(f"{info.name} is {info.state}")
        return
    local = local_text(info.next_ms, load_zone(info.definition.timezone))
    say(f"next: {next_line(NextTick(info.next_ms, local))}")
