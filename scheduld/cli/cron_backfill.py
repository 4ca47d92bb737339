"""`cron backfill`: tasks for ticks of the past that never ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scheduld.cli.common import COMMON, common, reading, session
from scheduld.cli.cron_looking import NAME
from scheduld.cli.output import say, say_all, say_json, table, telling_done
from scheduld.cli.several import repeat
from scheduld.errors import InvalidInput, OutcomeUnknown
from scheduld.when import describe_shortly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.client.schedule_records import Backfill

_SHOWN = 50
_EXAMPLES = """\b
Examples:
  scheduld cron backfill weekday-report --from 2026-11-02 --to 2026-11-06
  scheduld cron backfill weekday-report --from 2026-11-02 --to 2026-11-06 --rate 1/m --yes
"""


class NotFilled(InvalidInput):
    """A backfill that was only looked at."""

    kind = "not_confirmed"

    def __init__(self, count: int) -> None:
        tasks = f"{count:,} task{'' if count == 1 else 's'}"
        super().__init__(f"{tasks} would be added, none is", hint="--yes does it")


@click.command("backfill", epilog=_EXAMPLES)
@NAME
@click.option("--from", "start", required=True, metavar="WHEN|DATE", help="First tick ...")
@click.option("--to", "end", required=True, metavar="WHEN|DATE", help="... and last, included.")
@click.option("--rate", default="10/s", metavar="RATE", help="How fast they are due; default 10/s.")
@click.option("--yes", is_flag=True, help="Do it; without, it is told what would be added.")
@COMMON
def backfill_command(name: str, start: str, end: str, rate: str, yes: bool) -> None:
    """Add tasks for ticks of the past that never ran.

    Shows them, and which ran already, and needs --yes. At most 10,000, the oldest first. Overlap
    does not apply.
    """
    with session() as opened:
        schedules = opened.client.schedules
        if not yes:
            with reading():
                plan = schedules.backfill(name, start, end, rate=rate)
                definition = schedules.get(name).definition
            _show(plan, definition.timezone if definition else None)
            if plan.added:
                raise NotFilled(plan.added)
            return
        try:
            done = schedules.backfill(name, start, end, rate=rate, dry_run=False)
        except OutcomeUnknown as exc:
            options: dict[str, str | bool | None] = {
                "--from": start,
                "--to": end,
                "--rate": rate,
                "--yes": True,
            }
            may = "some may be added"
            raise repeat(exc, "cron backfill", [name], may=may, options=options) from None
    with telling_done(f"{done.added} tasks are added"):
        if common().json:
            say_json(_dict(done))
        else:
            say(
                f"{done.added} added"
                + (f", {done.known} existed, or ran before" if done.known else "")
            )


def _show(plan: Backfill, zone: str | None) -> None:
    if common().json:
        say_json(_dict(plan))
        return
    rows = [
        (
            describe_shortly(one.tick_ms, zone),
            f"{plan.type}/{one.id}",
            "exists, or ran before" if one.is_known else "would be added",
        )
        for one in plan.ticks[:_SHOWN]
    ]
    say_all(_lines(table(("TICK", "TASK", "WHAT"), rows), plan))


def _lines(rows: str, plan: Backfill) -> Iterator[str]:
    yield rows
    more = len(plan.ticks) - _SHOWN
    if more > 0:
        yield f"... and {more:,} more"
    if not plan.added:
        yield "nothing to add: all of them exist, or ran before"


def _dict(plan: Backfill) -> dict[str, object]:
    return {
        "schedule": plan.schedule,
        "type": plan.type,
        "dry_run": plan.dry_run,
        "added": plan.added,
        "known": plan.known,
        "ticks": [one.to_dict() for one in plan.ticks],
    }
