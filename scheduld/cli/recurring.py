"""The options of `scheduld add` that make a task come again (docs/periodic.md), and the dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduld.cli.output import note, say, say_json
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from scheduld.client.adding import Pending

F = TypeVar("F", bound="Callable[..., Any]")
SHOWN = 10
"""How many instants a dry run tells of a long series."""


@dataclass(frozen=True, slots=True)
class Recurring:
    """What was typed."""

    every: str | None
    until: str | None
    max_runs: int | None

    @classmethod
    def pop(cls, given: dict[str, Any]) -> Recurring:
        """Take these options out of what click gives."""
        return cls(**{name: given.pop(name) for name in cls.__dataclass_fields__})

    def options(self, zone: str | None) -> dict[str, Any]:
        """Return the options of the client's `schedule`; raises WhenError."""
        values = {"every": self.every, "until": _until(self.until, zone), "max_runs": self.max_runs}
        return {name: value for name, value in values.items() if value is not None}

    def words(self, options: dict[str, Any]) -> dict[str, str | bool | list[str] | None]:
        """Return the options of a command line that means the same."""
        until = options.get("until")
        return {
            "--every": self.every,
            "--until": until and until.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "--max-runs": None if self.max_runs is None else str(self.max_runs),
        }


def _until(text: str | None, zone: str | None) -> datetime | None:
    """Read an instant once, as --at is: a repeat, maybe tomorrow, must mean the same one."""
    if text is None:
        return None
    from scheduld.client.periods import until_ms
    from scheduld.clock import wall_ms
    from scheduld.model import instant

    ms = until_ms(text, zone, wall_ms())
    return None if ms is None else instant(ms)


def recurring(function: F) -> F:
    """Decorate a command with the options."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS = (
    click.option(
        "--every",
        metavar="D",
        help="Again after so long, counted from the due time: 7d, 1mo, 90m. Days, weeks, months "
        "and years keep the time on the clock of the zone.",
    ),
    click.option(
        "--until",
        metavar="WHEN|DATE",
        help="With --every: not due later than this; a date: to the end of that day.",
    ),
    click.option("--max-runs", type=int, metavar="N", help="With --every: so often, then no more."),
)


def _edit_options() -> tuple[Callable[[F], F], ...]:
    return (
        click.option(
            "--every", metavar="D", help="Another period, from the next due on; or the first one."
        ),
        click.option(
            "--until", metavar="WHEN|DATE|never", help="Another end of a periodic task, or none."
        ),
        click.option("--max-runs", type=int, metavar="N", help="Ended after so many runs in all."),
    )


def replanning(function: F) -> F:
    """Decorate `edit` with its options of periodic tasks."""
    for option in reversed(_edit_options()):
        function = option(function)
    return function


def tell_dry_run(type_name: str, task: Pending, zone: str | None, *, as_json: bool) -> None:
    """Print when a task would be due; of a long series the first `SHOWN`, and how many."""
    from scheduld.client.periods import instants
    from scheduld.clock import wall_ms

    now_ms = wall_ms()
    found = instants(task, now_ms, most=SHOWN)
    if as_json:
        say_json(
            {
                "type": type_name,
                "payload": task.payload,
                "instants": [_told(ms, zone, found.notes.get(ms, "")) for ms in found.first],
                "count": found.count,
                "missed": task.missed,
            }
        )
    else:
        from scheduld.when import describe

        for ms in found.first:
            note_of = f" ({found.notes[ms]})" if ms in found.notes else ""
            say(f"due {describe(ms, zone, now_ms)}{note_of}")
        for line in _rest(len(found.first), found.count, task.missed):
            say(line)
    note("nothing is stored: this was a dry run")


def _rest(shown: int, count: int | None, missed: int) -> Iterator[str]:
    from scheduld.calendar.period import MOST_COUNTED

    if count is None:
        yield "and so on, without an end"
    elif count >= MOST_COUNTED:
        yield f"and so on: {MOST_COUNTED} or more"
    elif count > shown:
        yield f"and so on: {count} in all"
    if missed:
        yield f"missed: {missed} of the series {'has' if missed == 1 else 'have'} passed already"


def _told(ms: int, zone: str | None, note: str) -> dict[str, str | None]:
    from scheduld.model import iso
    from scheduld.when import describe_shortly

    local = describe_shortly(ms, zone) if zone else None
    return {"utc": iso(ms), "local": local, "note": note}


def note_unknown(type_name: str, known: frozenset[str] | None) -> None:
    """Say that a dry run, which asks nobody, cannot know a type."""
    if known is not None and type_name not in known:
        what = f"the config has no type {printable(type_name)!r}"
        note(f"scheduld: {what}; whether a daemon has was not asked")
