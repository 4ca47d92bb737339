"""`events`, `nodes` and `export`: what happened, who works, and everything that is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from scheduld.cli import telling
from scheduld.cli.common import COMMON, STATE, TYPE, common, reading, session, split_ref
from scheduld.cli.completing import task_refs
from scheduld.cli.output import note, say, say_all, say_json, table
from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from scheduld.cli.common import Session
    from scheduld.client.events import Event

_LIMIT = 1000
_EVENTS_EXAMPLES = """\b
Examples:
  scheduld events --type hello --since 1h
  scheduld events --id hello/welcome-42
  scheduld events --follow --json
"""
_NODES_EXAMPLES = """\b
Examples:
  scheduld nodes
"""
_EXPORT_EXAMPLES = """\b
Examples:
  scheduld export > tasks.jsonl
  scheduld export --type hello --state dead | jq -r .error.message
"""


@click.command("events", epilog=_EVENTS_EXAMPLES)
@TYPE
@click.option(
    "--id", "ref", metavar="ID", shell_complete=task_refs, help="Of this task only: ID or TYPE/ID."
)
@click.option(
    "--since", metavar="WHEN|DURATION", help="From this instant on, or so long ago, such as 1h."
)
@click.option("--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
@click.option(
    "--limit",
    type=int,
    metavar="N",
    help=f"The newest N, or with --since the first; default {_LIMIT}.",
)
@COMMON
def events_command(
    type_name: str | None, ref: str | None, since: str | None, follow: bool, limit: int | None
) -> None:
    """Tell what happened, the oldest first.

    The newest 10,000 events of a type are kept. Many tasks can share an event, which then names
    the first and counts the others. With --json one object a line.
    """
    if follow and limit is not None:
        raise InvalidInput("--follow has no end, and so no --limit", hint="leave one out")
    task_id = None
    if ref is not None:
        named, task_id = split_ref(ref)
        if named and type_name not in (None, named):
            raise InvalidInput(f"--type and --id name two types, {type_name} and {named}")
        type_name = named or type_name
    most = _LIMIT if limit is None else limit
    with session() as opened, reading():
        start = None if since is None else _since(since, opened.settings.timezone)
        if follow:
            for event in opened.client.follow(type_name, id=task_id, since=start):
                _print(event, task_id)
            return
        found = opened.client.events(type_name, id=task_id, since=start, limit=most)
    for event in found:
        _print(event, task_id)
    if not found:
        note("no events")
    elif len(found) >= most:
        which = "newest" if start is None else "first"
        note(f"only the {which} {most} are shown; --limit shows more")


def _since(text: str, zone: str | None) -> datetime | str:
    """Read an instant; a duration stays one, and counts on the server's clock."""
    from scheduld.duration import parse_duration_ms
    from scheduld.errors import WhenError
    from scheduld.when import parse_when

    try:
        parse_duration_ms(text)
    except WhenError:
        return parse_when(text, timezone=zone, allow_past=True)
    return text


def _print(event: Event, task_id: str | None) -> None:
    if common().json:
        say_json(telling.event_dict(event))
    else:
        say(telling.event_line(event, task_id))


_NODE_HEADER = ("ID", "HOST", "PID", "VERSION", "SEEN", "SCHEDULES", "TYPES")


@click.command("nodes", epilog=_NODES_EXAMPLES)
@COMMON
def nodes_command() -> None:
    """List the daemons that are alive.

    Each start of a daemon has an id of its own, which "show" calls the owner of a run.
    """
    with session() as opened, reading():
        nodes = opened.client.nodes()
    if common().json:
        for node in nodes:
            say_json(telling.node_dict(node))
    elif nodes:
        from scheduld.clock import wall_ms

        now_ms = wall_ms()
        rows = [telling.node_row(node, now_ms) for node in nodes]
        say(table(_NODE_HEADER, rows))
    else:
        note("no daemon is alive (scheduld run starts one)")


@click.command("export", epilog=_EXPORT_EXAMPLES)
@TYPE
@STATE
@COMMON
def export_command(type_name: str | None, state: str | None) -> None:
    """Print every task as a line of JSON.

    A walk over all of it while work goes on: what stays where it is comes once, what moves
    meanwhile may come twice or not at all.
    """
    with session() as opened, reading():
        say_all(_json_lines(opened, type_name, state))


def _json_lines(opened: Session, type_name: str | None, state: str | None) -> Iterator[str]:
    for task in opened.client.export(type_name, state=state):
        yield json.dumps(task.to_dict())
