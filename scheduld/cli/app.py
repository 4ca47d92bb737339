"""The group of all commands, and what becomes of their errors: one line and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from scheduld.cli.common import COMMON, kept
from scheduld.cli.output import report
from scheduld.errors import InvalidInput, ScheduldError
from scheduld.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "init": "starting",
    "check": "operating",
    "run": "operating",
    "add": "adding",
    "list": "reading",
    "show": "reading",
    "edit": "editing",
    "cancel": "ending",
    "run-now": "editing",
    "requeue": "ending",
    "dead": "ended",
    "purge": "ended",
    "pause": "pausing",
    "resume": "pausing",
    "cron": "cron",
    "stats": "reading",
    "nodes": "watching",
    "events": "watching",
    "export": "watching",
    "config": "comparing",
    "completion": "completing",
    "version": "operating",
}
"""Name of each command, in the order of the help, and the module that has it."""
_ELSEWHERE = {
    "delete": "cancel or purge",
    "remove": "cancel or purge",
    "rm": "cancel or purge",
    "retry": "requeue",
    "revive": "requeue",
    "trigger": "run-now",
    "start": "run",
    "worker": "run",
    "schedule": "add",
    "schedules": "cron list",
    "crontab": "cron",
    "enqueue": "add",
    "get": "show",
    "ls": "list",
    "ps": "list",
    "logs": "events",
    "workers": "nodes",
}
"""What other tools call them."""


class Commands(click.Group):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"scheduld.cli.{COMMANDS[cmd_name]}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a line; raises InvalidInput naming the nearest."""
        if args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            meant = _ELSEWHERE.get(args[0]) or "".join(near)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(COMMANDS)}"
            raise InvalidInput(f"there is no command {args[0][:60]!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""Exit codes: 0 done, 1 refused by the state of things, 2 usage or config error,
    3 Redis unreachable, 4 outcome unknown. Options may stand before or after the command.""",
)
@COMMON
@click.version_option(__version__, prog_name="scheduld", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run things at a time, on Redis or Valkey."""
    command = cli.get_command(ctx, ctx.invoked_subcommand or "")
    known = {param.name for param in command.params} if command else set()
    for name in kept(ctx):
        if name not in known:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{ctx.invoked_subcommand} takes no {option}", hint="leave it out")


def run_line(argv: Sequence[str]) -> int:
    """Carry out a command line; returns the exit code. Only KeyboardInterrupt is raised."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An id that the terminal's encoding lacks must not end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _carried_out(argv)
    except ScheduldError as exc:
        error = exc
    except click.ClickException as exc:
        error = _usage_error(exc)
    except BrokenPipeError:
        return _nobody_reads()
    except Exception as exc:  # noqa: BLE001 - the last resort: never a traceback
        error = _own_fault(exc)
    report(error, as_json="--json" in argv)
    return error.exit_code


def _carried_out(argv: Sequence[str]) -> int:
    for index, text in enumerate(argv, 1):
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise InvalidInput(f"argument {index} is not UTF-8: {text[:60]!r}")
    try:
        with cli.make_context("scheduld", list(argv)) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    return 0


def _usage_error(exc: click.ClickException) -> InvalidInput:
    """Say click's own errors in our way."""
    message = exc.message or exc.format_message()
    if isinstance(exc, click.MissingParameter | click.BadParameter):
        message = exc.format_message()
    near = getattr(exc, "possibilities", None)
    ctx = getattr(exc, "ctx", None)
    hint = f"see {ctx.command_path} --help" if ctx else None
    if near:
        hint = f"did you mean {near[0]}?"
    message = " ".join(message.split()).rstrip(".")
    return InvalidInput(message[:1].lower() + message[1:], hint=hint)


def _nobody_reads() -> int:
    """Whoever read the output has gone, as `head` does: that is no failure of the command.

    What was asked for is done by then (commands print last), so for `add` any other code
    would make a script repeat what is stored.
    """
    with contextlib.suppress(OSError, ValueError):
        # Python flushes once more at its end, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _own_fault(exc: Exception) -> ScheduldError:
    """Tell a bug by its place alone: the words of the exception may hold a secret."""
    trace = exc.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    return ScheduldError(
        f"internal error: {type(exc).__name__}{place}", hint="this is a bug, please report it"
    )
