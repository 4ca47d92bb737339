"""`dead` and `purge`: what failed for good, and what is not to be kept any longer."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

import click

from scheduld.cli import telling
from scheduld.cli.common import COMMON, TYPE, common, reading, session
from scheduld.cli.completing import states, type_names
from scheduld.cli.confirming import NotConfirmed
from scheduld.cli.output import note, say, say_json, table, telling_done
from scheduld.cli.several import look_first
from scheduld.duration import parse_duration_ms
from scheduld.errors import InvalidInput, OutcomeUnknown

if TYPE_CHECKING:
    from scheduld.client.dead import DeadGroup
    from scheduld.model import Task

_LISTED = 100
_GROUPED = 10_000
_DEAD_EXAMPLES = """\b
Examples:
  scheduld dead --group
  scheduld dead --type hello --error "connection refused" --limit 20
  scheduld dead --json | jq -r .error.message
"""
_PURGE_EXAMPLES = """\b
Examples:
  scheduld purge --type hello --state done --older-than 7d
  scheduld purge --type hello --state dead --yes
"""


@click.command("dead", epilog=_DEAD_EXAMPLES)
@TYPE
@click.option("--error", metavar="TEXT", help='Only where "KIND: MESSAGE" contains this.')
@click.option("--group", is_flag=True, help="Count them by error, the most frequent first.")
@click.option(
    "--limit",
    type=int,
    metavar="N",
    help=f"The newest N, default {_LISTED}; with --group of each type, default {_GROUPED}.",
)
@COMMON
def dead_command(type_name: str | None, error: str | None, group: bool, limit: int | None) -> None:
    """List dead tasks, the newest first.

    With --group one line an error: numbers and ids in it count as the same. With --json one
    object a line. "requeue" schedules them again.
    """
    if group and error is not None:
        raise InvalidInput("--group and --error exclude each other", hint="one of the two")
    if group:
        _dead_groups(type_name, _GROUPED if limit is None else limit)
    else:
        _dead(type_name, error, _LISTED if limit is None else limit)


def _dead(type_name: str | None, error: str | None, limit: int) -> None:
    with session() as opened, reading():
        tasks = opened.client.dead(type_name, error=error, limit=limit)
    if common().json:
        for task in tasks:
            say_json(task.to_dict())
    elif tasks:
        _print_dead(tasks)
    else:
        note("no dead tasks")
    if len(tasks) >= limit:
        note(f"only the newest {limit} are shown; --limit shows more")


def _print_dead(tasks: list[Task]) -> None:
    from scheduld.clock import wall_ms

    now_ms = wall_ms()
    rows = [telling.dead_row(task, now_ms) for task in tasks]
    say(table(("TASK", "DIED", "FAILED", "ERROR"), rows))


def _dead_groups(type_name: str | None, limit: int) -> None:
    with session() as opened, reading():
        groups = opened.client.dead_groups(type_name, limit=limit)
    if common().json:
        for one in groups:
            say_json(_group_dict(one))
    elif groups:
        _print_groups(groups)
    else:
        note("no dead tasks")
    counts: Counter[str] = Counter()
    for one in groups:
        counts[one.type] += one.count
    for name, count in counts.items():
        if count >= limit:
            note(f"only the newest {limit} of type {name} are counted; --limit counts more")


def _print_groups(groups: list[DeadGroup]) -> None:
    from scheduld.clock import wall_ms

    now_ms = wall_ms()
    rows = [telling.group_row(one, now_ms) for one in groups]
    say(table(("COUNT", "TYPE", "NEWEST", "EXAMPLE", "ERROR"), rows))


def _group_dict(group: DeadGroup) -> dict[str, object]:
    from scheduld.model import iso

    return {**dataclasses.asdict(group), "newest": iso(group.newest_ms)}


@click.command("purge", epilog=_PURGE_EXAMPLES)
@click.option(
    "--type",
    "type_name",
    required=True,
    metavar="TYPE",
    shell_complete=type_names,
    help="Task type.",
)
@click.option(
    "--state",
    required=True,
    metavar="STATE",
    shell_complete=states,
    help="done, cancelled, dead or scheduled.",
)
@click.option("--older-than", metavar="DURATION", help="Only what ended, or was due, so long ago.")
@click.option("--yes", is_flag=True, help="Do it; without, the number of tasks is told.")
@COMMON
def purge_command(type_name: str, state: str, older_than: str | None, yes: bool) -> None:
    """Remove tasks for good.

    Those of a type and state, without a trace but in the events. Shows how many there are, and
    needs --yes. Running tasks are never removed: cancel them.
    """
    if older_than is not None:
        parse_duration_ms(older_than, what="--older-than")
    with session() as opened:
        if not yes:
            with reading():
                count = opened.client.purge(
                    type_name, state=state, older_than=older_than, dry_run=True
                )
            if count:
                raise NotConfirmed(count, state, type_name, "removed")
            removed = 0
        else:
            try:
                removed = opened.client.purge(type_name, state=state, older_than=older_than)
            except OutcomeUnknown as exc:
                may, options = "some may be removed", {"--type": type_name, "--state": state}
                raise look_first(exc, "list", [], may=may, options=options) from None
    with telling_done(f"{removed} removed"):
        if common().json:
            say_json({"type": type_name, "state": state, "removed": removed})
        else:
            say(f"{removed} removed")
