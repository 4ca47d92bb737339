"""`list`, `show` and `stats`: what is stored, for people and as JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from scheduld.cli import telling
from scheduld.cli.common import COMMON, REF, STATE, TYPE, common, reading, session
from scheduld.cli.output import note, say, say_json, table
from scheduld.errors import InvalidInput
from scheduld.model import State
from scheduld.names import printable

if TYPE_CHECKING:
    from scheduld.cli.common import Session
    from scheduld.client.stats import TypeStats
    from scheduld.client.steering import TypePause
    from scheduld.model import Task

_LIST_EXAMPLES = """\b
Examples:
  scheduld list
  scheduld list --type hello --state dead --limit 20
  scheduld list --json | jq -r .id
"""
_SHOW_EXAMPLES = """\b
Examples:
  scheduld show hello/welcome-42
  scheduld show welcome-42 --json
"""
_STATS_EXAMPLES = """\b
Examples:
  scheduld stats
  scheduld stats --type hello --json
"""


@click.command("list", epilog=_LIST_EXAMPLES)
@TYPE
@STATE
@click.option(
    "--limit",
    type=int,
    default=100,
    metavar="N",
    help="At most so many of each type and state; default 100.",
)
@COMMON
def list_command(type_name: str | None, state: str | None, limit: int) -> None:
    """List tasks, the earliest first.

    With --json one object a line.
    """
    with session() as opened, reading():
        tasks = opened.client.list(type_name, state=state, limit=limit)
        zone = opened.settings.timezone
        pauses = _pauses(opened, tasks)
    if common().json:
        for task in tasks:
            say_json(task.to_dict())
    else:
        _print_tasks(tasks, zone)
        _note_pauses(pauses)
    for (name, state_name), count in Counter(_group(task) for task in tasks).items():
        if count >= limit:
            what = f"{state_name} tasks of type {name}"
            note(f"only the first {limit} {what} are shown; --limit shows more")


def _group(task: Task) -> tuple[str, str]:
    """Type and state, done and cancelled ones together: of each group there are up to the limit."""
    is_ended = task.state in (State.DONE, State.CANCELLED)
    return task.type, "done or cancelled" if is_ended else task.state.value


def _print_tasks(tasks: list[Task], zone: str | None) -> None:
    from scheduld.clock import wall_ms

    if not tasks:
        note("no tasks")
        return
    now_ms = wall_ms()
    rows = [telling.row(task, zone, now_ms) for task in tasks]
    say(table(("TASK", "STATE", "DUE", "WHAT"), rows))


@click.command("show", epilog=_SHOW_EXAMPLES)
@REF
@COMMON
def show_command(ref: str) -> None:
    """Tell all about one task.

    TYPE/ID, or an ID that only one type has.
    """
    with session() as opened, reading():
        task = opened.client.get(*opened.task_named(ref))
        zone = opened.settings.timezone
        pauses = _pauses(opened, [task])
    from scheduld.cli.repetition import upcoming_dict
    from scheduld.clock import wall_ms

    if common().json:
        say_json({**task.to_dict(), **upcoming_dict(task, wall_ms())})
        return
    say("\n".join(telling.story(task, zone, wall_ms())))
    _note_pauses(pauses)


def _pauses(opened: Session, tasks: list[Task]) -> list[TypePause]:
    """Read for people which pauses keep some of the tasks waiting."""
    if common().json:
        return []
    found: list[TypePause] = []
    for name in sorted({task.type for task in tasks if task.state is State.SCHEDULED}):
        with suppress(InvalidInput):  # a type that only the task knows
            found += opened.client.paused(name)
    return found


def _note_pauses(pauses: list[TypePause]) -> None:
    """Say why what is due does not run."""
    from scheduld.clock import wall_ms

    for pause in pauses:
        note(f"scheduld: {telling.pause_text(pause, wall_ms())}")


@click.command("stats", epilog=_STATS_EXAMPLES)
@TYPE
@COMMON
def stats_command(type_name: str | None) -> None:
    """Tell how each type is doing.

    Counts by state ("done" counts the cancelled ones as well), how many scheduled tasks are
    due and wait, and for how long the oldest has. Then, for the last hour: how late runs
    began, and how long they took. With --json one object a line, with counters of all
    events since the type was first used.
    """
    with session() as opened, reading():
        stats = opened.client.stats(type_name)
        is_any_paused = any(one.paused for one in stats) and not common().json
        pauses = opened.client.paused(type_name) if is_any_paused else []
    for one in stats:
        if one.error:
            note(f"scheduld: {printable(one.error)}")
    if common().json:
        for one in stats:
            say_json(_stats_dict(one))
    elif stats:
        _print_stats(stats)
        _note_pauses(pauses)
    else:
        note("no task types are known here yet")


def _print_stats(stats: list[TypeStats]) -> None:
    from scheduld.cli import numbers

    say(table(numbers.COUNTS, [numbers.counts_row(one) for one in stats]))
    measured = numbers.times_rows(stats)
    if measured:
        say("\n" + table(numbers.TIMES, measured))


def _stats_dict(stats: TypeStats) -> dict[str, Any]:
    from scheduld.model import iso

    return {**dataclasses.asdict(stats), "next_due": iso(stats.next_due_ms)}
