"""`scheduld add`: one task, and the command to repeat where its outcome is unknown."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from scheduld.cli.common import COMMON, Common, Session, common, session
from scheduld.cli.completing import type_names, zones
from scheduld.cli.instants import at_text, check_one, due_of
from scheduld.cli.output import RepeatSafely, note, say, say_json, telling_done
from scheduld.cli.payloads import SHORT_PAYLOAD, STDIN, Collected, collect, payload_options
from scheduld.cli.recurring import Recurring, note_unknown, recurring, tell_dry_run
from scheduld.cli.repeating import command_line, unknown
from scheduld.cli.shaping import Shaping, shaping
from scheduld.errors import InvalidInput, OutcomeUnknown, ScheduldError, TaskExists
from scheduld.names import id_fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from scheduld.client.adding import TaskSpec
    from scheduld.model import OnConflict, Task

_OPEN = "the task may be kept or not"
_CLASH = "--on-conflict keep answers with that one, --on-conflict replace takes its place"
_EXAMPLES = """\b
Examples:
  scheduld add --type hello --now message=Hello
  scheduld add --type hello --in 1h30m message=Later tries:=3
  scheduld add --type hello --at "2026-12-24 09:00" --timezone Europe/Madrid
  scheduld add --type hello --at 2026-12-24T08:00Z --id xmas --on-conflict replace
  scheduld add --type hello --payload '{"message": "Hello"}'
  make-payload | scheduld add --type hello -
  scheduld add --type hello --at "2026-12-24 09:00" --every 7d --until 2027-03-31 --dry-run
"""


@dataclass(frozen=True, slots=True)
class Given:
    """The options of `add` as they were typed."""

    type_name: str
    entries: tuple[str, ...]
    at: str | None
    delay: str | None
    now: bool
    id: str | None
    timezone: str | None
    payload: str | None
    payload_file: str | None
    on_conflict: OnConflict
    token: str | None
    allow_past: bool
    allow_unknown: bool
    dry_run: bool
    shaping: Shaping
    recurring: Recurring


@click.command("add", epilog=_EXAMPLES)
@click.option(
    "--type",
    "type_name",
    required=True,
    metavar="TYPE",
    shell_complete=type_names,
    help="Task type.",
)
@click.option(
    "--at",
    metavar="WHEN",
    help="2026-12-24T09:00[Z|+01:00], 'today|tomorrow 09:00', +1h30m or @SECONDS.",
)
@click.option("--in", "delay", metavar="DURATION", help="So long from now, such as 1h30m.")
@click.option("--now", is_flag=True, help="At once; the default, but for types with a series.")
@click.option("--id", metavar="ID", help="Default: one is made.")
@click.option(
    "--timezone",
    metavar="ZONE",
    shell_complete=zones,
    help="Zone of an --at without offset, and of --every in days.",
)
@payload_options()
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "keep", "replace", "rerun"]),
    default="error",
    help="What to do where the id (or what is unique) is kept already; default: error.",
)
@click.option("--token", metavar="TOKEN", help="Name of this add: a repeat with it is safe.")
@click.option(
    "--allow-past",
    is_flag=True,
    help="Take an --at in the past: run at once, or with --every at its next time.",
)
@click.option("--allow-unknown", is_flag=True, help="Take a type that nobody knows yet.")
@click.option("--dry-run", is_flag=True, help="Only tell when it would be due; nothing is stored.")
@recurring
@shaping
@COMMON
@click.argument("entries", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON | -]...")
def add_command(**given: Any) -> None:
    """Add a task.

    KEY=VALUE puts a text into the payload, KEY:=JSON any JSON value, over what --payload,
    --payload-file or - (stdin) say. Prints TYPE/ID, then when it is due.
    """
    _add(Given(shaping=Shaping.pop(given), recurring=Recurring.pop(given), **given))


def _add(given: Given) -> None:
    check_one(given.at, given.delay, given.now)
    if given.token is not None and (fault := id_fault(given.token)):
        raise InvalidInput(f"--token {fault}", hint="the rules of an id, up to 64 characters")
    with session() as opened:
        zone = given.timezone or opened.settings.timezone
        due = due_of(given.at, given.delay, given.timezone, zone=zone, allow_past=given.allow_past)
        collected = collect(given.entries, given.payload, given.payload_file)
        spec = _spec(given, due, collected.payload, zone)
        if given.dry_run:
            _dry_run(opened, given, spec)
            return
        command = _repeat(given, common(), spec, collected)
        task = _sent(opened, given, spec, command)
        put_off = given.shaping.debounce is not None
        known_now = due is None and given.delay is None and not put_off and task.series is None
        _tell(task, zone, common(), known_now=known_now, put_off=put_off)
        _warn_if_it_waits(opened, task)


def _warn_if_it_waits(opened: Session, task: Task) -> None:
    if sys.stderr is None or not sys.stderr.isatty():
        return  # a script has nobody to start a daemon
    # The task is stored whatever is found out here: no failure of the look may seem to be its.
    with contextlib.suppress(ScheduldError, KeyboardInterrupt):
        for pause in opened.client.paused(task.type):
            from scheduld.cli.telling import pause_text
            from scheduld.clock import wall_ms

            note(f"scheduld: {pause_text(pause, wall_ms())}")
        if not opened.client.is_served(task.type):
            note(
                f"scheduld: no daemon works on type {task.type} now, so the task waits "
                "(scheduld run starts one)"
            )


def _spec(
    given: Given, due: datetime | str | None, payload: dict[str, Any], zone: str | None
) -> TaskSpec:
    from scheduld.client.adding import TaskSpec

    return TaskSpec(
        payload=payload,
        at=due,
        # Said, it means now also of a type whose tasks have times of their own.
        delay="0s" if given.now else given.delay,
        id=given.id,
        token=given.token,
        **given.shaping.load(zone, has_id=given.id is not None),
        **given.recurring.options(zone),
    ).named()


def _dry_run(opened: Session, given: Given, spec: TaskSpec) -> None:
    from scheduld.client.requests import Requests

    settings = opened.settings
    _, task = Requests(settings).schedule(
        given.type_name,
        spec,
        timezone=given.timezone,
        on_conflict=given.on_conflict,
        allow_unknown=given.allow_unknown,
        allow_past=given.allow_past,
    )
    note_unknown(given.type_name, settings.type_names)
    zone = given.timezone or settings.timezone
    tell_dry_run(given.type_name, task, zone, as_json=common().json)


def _sent(opened: Session, given: Given, spec: TaskSpec, command: str) -> Task:
    try:
        return opened.client.schedule(
            given.type_name,
            spec.payload,
            at=spec.at,
            delay=spec.delay,
            id=spec.id,
            on_conflict=given.on_conflict,
            token=spec.token,
            timezone=opened.settings.timezone if given.timezone is None else given.timezone,
            allow_unknown=given.allow_unknown,
            allow_past=given.allow_past,
            **spec.load(),
        )
    except TaskExists as exc:
        exc.hint = _CLASH
        raise
    except OutcomeUnknown as exc:
        raise RepeatSafely(unknown(exc.message, _OPEN, common()), command) from None
    except KeyboardInterrupt:
        # Whether it was sent cannot be told from here, and a script must not guess.
        lost = "interrupted before Redis answered"
        raise RepeatSafely(unknown(lost, _OPEN, common()), command) from None


def _repeat(given: Given, said: Common, spec: TaskSpec, collected: Collected) -> str:
    """Write a command line that means the same add, and so stores nothing twice."""
    options = {
        "--type": given.type_name,
        "--at": at_text(spec.at),
        "--in": given.delay,
        "--now": given.now,
        "--id": spec.id,
        "--token": spec.token,
        "--on-conflict": given.on_conflict,
        "--allow-past": given.allow_past,
        "--allow-unknown": given.allow_unknown,
        **given.shaping.words(spec.load()),
        **given.recurring.words(spec.load()),
        "--timezone": given.timezone if spec.at is None or spec.every is not None else None,
    }
    text = json.dumps(collected.payload)
    if collected.from_stdin and len(text) <= SHORT_PAYLOAD:
        return command_line("add", {**options, "--payload": text}, said, [])
    options |= {"--payload": given.payload, "--payload-file": given.payload_file}
    dashed = any(entry.startswith("-") and entry != STDIN for entry in given.entries)
    return command_line("add", options, said, ["--", *given.entries] if dashed else given.entries)


def _tell(task: Task, zone: str | None, said: Common, *, known_now: bool, put_off: bool) -> None:
    with telling_done(f"{task.ref} is stored"):
        if said.json:
            say_json(task.to_dict())
        else:
            say("\n".join(_lines(task, zone, known_now=known_now, put_off=put_off)))


def _lines(task: Task, zone: str | None, *, known_now: bool, put_off: bool) -> Iterator[str]:
    from scheduld.clock import wall_ms
    from scheduld.when import describe

    # As it is, for scripts: an id has no control characters, they were refused.
    yield task.ref
    if not task.created and put_off:
        yield "put off: it has the new payload, and is due later"
    elif not task.created:
        yield f"kept: it exists in state {task.state}, and nothing was changed"
    due_ms = task.due_ms
    if task.created and task.successor:
        due_ms = task.successor["due_ms"]
        yield "it runs now; the new task takes over when that run ends"
    if due_ms is not None:
        now_ms = due_ms if known_now and task.created else wall_ms()
        yield f"due {describe(due_ms, zone, now_ms)}"
        if task.created and (task.every or task.series) and not task.successor:
            from scheduld.cli.repetition import then

            yield f"then {then(task, task.timezone or zone, now_ms)}"
