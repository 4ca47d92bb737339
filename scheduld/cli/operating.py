"""`check`, `run` and `version`: the commands around the daemon."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from scheduld.cli.common import CONFIG, JSON, REDIS_URL, common
from scheduld.cli.loading import load_checked, print_problems
from scheduld.cli.output import OutputLost, note, say, say_all, say_json, shell_words
from scheduld.errors import ConfigError, InvalidInput, ScheduldError
from scheduld.names import printable
from scheduld.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.config.settings import Config
    from scheduld.schedule import Schedule

_NEXT_RUNS = 3
_CHECK_EXAMPLES = """\b
Examples:
  scheduld check
  scheduld check --config /etc/scheduld/scheduld.toml --json
"""
_RUN_EXAMPLES = """\b
Examples:
  scheduld run
  scheduld run --config /etc/scheduld/scheduld.toml
"""


@click.command("check", epilog=_CHECK_EXAMPLES)
@CONFIG
@REDIS_URL
@JSON
def check_command() -> None:
    """Check the config file and every handler.

    Redis is not needed. Handlers are found among the installed packages, then in the current
    folder. Prints every problem with its file and line; of each schedule when it fires, in words,
    and its next three runs.
    """
    from scheduld import registry

    try:
        config = _loaded()
    except ConfigError as exc:
        if not common().json:
            print_problems(exc)
        else:
            say_json({"ok": False, "problems": [asdict(problem) for problem in exc.problems]})
        click.get_current_context().exit(exc.exit_code)
    for text in registry.notes():
        note(f"scheduld: {text}")
    if common().json:
        coming = {name: _next_runs(schedule) for name, schedule in config.schedules.items()}
        say_json({"ok": True, "problems": [], "schedules": coming})
        return
    found = [_counted(len(config.types), "type")]
    if config.schedules:
        found.append(_counted(len(config.schedules), "schedule"))
    say(f"OK: {printable(config.path or '')}, {', '.join(found)}")
    say_all(_outlooks(config))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _outlooks(config: Config) -> Iterator[str]:
    from scheduld.cli.cron_telling import outlook
    from scheduld.clock import wall_ms

    for name, schedule in config.schedules.items():
        words, *coming = outlook(schedule, wall_ms())
        yield f"{name} {words}"
        yield from (f"  {line}" for line in coming)


def _next_runs(schedule: Schedule) -> list[dict[str, Any]]:
    from scheduld.calendar.preview import upcoming
    from scheduld.clock import wall_ms

    if not schedule.enabled:
        return []
    return [tick.to_dict() for tick in islice(upcoming(schedule, wall_ms()), _NEXT_RUNS)]


@click.command("run", epilog=_RUN_EXAMPLES)
@click.argument("extra", nargs=-1, metavar="")
@click.option("--verbose", is_flag=True, help="Log every run, not only what went wrong.")
@CONFIG
@REDIS_URL
def run_command(extra: tuple[str, ...], verbose: bool) -> None:
    """Run the daemon in the foreground.

    It ends at SIGTERM or Ctrl-C. Handlers are found among the installed packages, then in the
    current folder.
    """
    if extra:
        raise _not_a_task(extra[0])
    ctx = click.get_current_context()
    try:
        config = _loaded()
    except ConfigError as exc:
        print_problems(exc)
        ctx.exit(exc.exit_code)
    from scheduld.daemon import serve

    if "NOTIFY_SOCKET" not in os.environ:
        _tell_how_to_add(config)
    ctx.exit(serve(config, verbose=verbose))


def _tell_how_to_add(config: Config) -> None:
    given = common().config
    words = ["scheduld", "add", *(["--config", given] if given else [])]
    first = next(iter(config.types.values()))
    words += ["--type", first.name, "--now"]
    words += ["message=Hello"] if first.handler == "log" else ["KEY=VALUE"]
    try:
        # To stdout: stderr is the log.
        say(f"Add a task from a second terminal: {shell_words(words)}")
    except (BrokenPipeError, OutputLost):
        # The work does not depend on a reader, nor should handlers that print.
        with contextlib.suppress(OSError):
            sys.stdout.close()
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _not_a_task(text: str) -> InvalidInput:
    hint = "see scheduld run --help"
    if "/" in text:
        ref = printable(text[:60])
        hint = f"did you mean run-now {ref}? What has ended: requeue {ref}"
    return InvalidInput(
        f"run starts the daemon and takes no task, such as {text[:60]!r}", hint=hint
    )


def _loaded() -> Config:
    """Load the config and check its handlers."""
    said = common()
    return load_checked(said.config, redis_url=said.redis_url).config


@click.command("version")
@JSON
def version_command() -> None:
    """Tell the versions in use."""
    told = {
        "scheduld": __version__,
        "python": platform.python_version(),
        "redis_py": metadata.version("redis"),
        "embedded_server": _server(),
    }
    if common().json:
        say_json(told)
        return
    say("\n".join(f"{name.replace('_', '-'):15}  {text}" for name, text in told.items()))


def _server() -> str | None:
    """Tell which program `redis_url = "embedded"` would start; None if there is none."""
    from scheduld.store.launch import server_binary

    try:
        program = str(server_binary())
        run = subprocess.run(  # noqa: S603 - the program that the daemon would run
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (ScheduldError, OSError, subprocess.TimeoutExpired):
        return None
    return printable(f"{run.stdout.strip()} ({program})")
