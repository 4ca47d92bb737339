"""One table of all verbs: command line, both clients and docs name the same ones."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from scheduld import AsyncClient, Client
from scheduld.cli.app import COMMANDS, cli
from scheduld.client.aio_schedules import AsyncSchedules
from scheduld.client.blocking_schedules import Schedules

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Verb:
    """A verb: its command, the methods of both clients, the section of docs/cli.md."""

    command: str
    section: str
    methods: tuple[str, ...] = ()


VERBS = (
    Verb("init", "The daemon and its config"),
    Verb("check", "The daemon and its config"),
    Verb("config", "The daemon and its config"),
    Verb("run", "The daemon and its config"),
    Verb("nodes", "The daemon and its config", ("nodes", "is_served")),
    Verb("add", "Adding tasks", ("schedule", "schedule_many")),
    Verb("edit", "Changing tasks", ("edit",)),
    Verb("run-now", "Changing tasks", ("run_now",)),
    Verb("cancel", "Changing tasks", ("cancel",)),
    Verb("requeue", "Changing tasks", ("requeue", "requeue_dead")),
    Verb("purge", "Changing tasks", ("purge",)),
    Verb("pause", "Whole types", ("pause", "paused")),
    Verb("resume", "Whole types", ("resume",)),
    Verb("cron", "Schedules"),
    Verb("stats", "Whole types", ("stats",)),
    Verb("list", "Looking", ("list",)),
    Verb("show", "Looking", ("get", "find")),
    Verb("dead", "Looking", ("dead", "dead_groups")),
    Verb("events", "Looking", ("events", "follow")),
    Verb("export", "Looking", ("export",)),
    Verb("completion", "Shell completion"),
    Verb("version", "Everywhere"),
)
SCHEDULE_VERBS = {
    "list": ("list",),
    "show": ("get",),
    "next": ("next",),
    "history": ("history",),
    "pause": ("pause",),
    "resume": ("resume",),
    "trigger": ("trigger",),
    "skip": ("skip", "unskip", "skips"),
    "backfill": ("backfill",),
    "add": ("add",),
    "remove": ("remove",),
}
"""Each command of `cron`, and the methods of `client.schedules`."""
OF_NO_TASK = {"close", "aclose"}
"""Methods that end a client, and are no verbs."""


def _methods(client: type) -> set[str]:
    found = inspect.getmembers(client, inspect.isfunction)
    return {name for name, _ in found if not name.startswith("_")} - OF_NO_TASK


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", (DOCS / "cli.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_command_line_has_these_verbs_and_no_others() -> None:
    """Each command is a verb of the table, and the other way round."""
    assert {verb.command for verb in VERBS} == set(COMMANDS)


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_the_clients_have_these_verbs_and_no_others(client: type) -> None:
    """Each public method of both clients belongs to a verb of the table."""
    assert {method for verb in VERBS for method in verb.methods} == _methods(client)


@pytest.mark.parametrize("client", [Schedules, AsyncSchedules])
def test_schedules_have_these_verbs_and_no_others(client: type) -> None:
    """`client.schedules` of both clients and `cron` have the same verbs."""
    assert {method for methods in SCHEDULE_VERBS.values() for method in methods} == _methods(client)
    ctx = cli.make_context("scheduld", ["cron", "--help"], resilient_parsing=True)
    group = cli.get_command(ctx, "cron")
    assert isinstance(group, click.Group)
    assert list(SCHEDULE_VERBS) == group.list_commands(ctx)


@pytest.mark.parametrize("command", SCHEDULE_VERBS)
def test_the_docs_tell_a_verb_of_schedules(command: str) -> None:
    """docs/cli.md has a row for its command, docs/schedules.md names each method."""
    rows = re.findall(r"^\| `scheduld cron ([a-z]+)", _sections()["Schedules"], re.MULTILINE)
    assert command in rows
    page = (DOCS / "schedules.md").read_text()
    for method in SCHEDULE_VERBS[command]:
        assert re.search(rf"`{method}\(", page), method


def test_clients_of_both_kinds_take_the_same() -> None:
    """The verbs of schedules have the same parameters in both clients."""
    for methods in SCHEDULE_VERBS.values():
        for method in methods:
            one, other = getattr(Schedules, method), getattr(AsyncSchedules, method)
            assert inspect.signature(one) == inspect.signature(other)
            assert inspect.getdoc(one) == inspect.getdoc(other)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.command)
def test_the_docs_tell_a_verb(verb: Verb) -> None:
    """docs/cli.md has a row for its command, docs/python-api.md names each method."""
    rows = re.findall(r"^\| `scheduld ([a-z-]+)", _sections()[verb.section], re.MULTILINE)
    assert verb.command in rows
    page = (DOCS / "python-api.md").read_text()
    for method in verb.methods:
        assert re.search(rf"`{method}\b", page), method


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.command)
def test_the_help_of_a_verb_has_an_example(verb: Verb) -> None:
    """--help shows the command as it can be typed, or its subcommands do."""
    if verb.command == "version":
        return
    ctx = cli.make_context("scheduld", [verb.command, "--help"], resilient_parsing=True)
    command = cli.get_command(ctx, verb.command)
    assert command is not None
    commands = list(getattr(command, "commands", {}).values()) or [command]
    for one in commands:
        words = verb.command if one is command else f"{verb.command} {one.name}"
        assert f"scheduld {words}" in (one.epilog or ""), one.name
        assert one.help


def test_the_table_of_states_is_up_to_date() -> None:
    """docs/states.md is what the data of the matrix says."""
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "state_table.py"), "--check"],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
