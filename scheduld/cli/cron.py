"""`cron`: the group of the commands about schedules."""

from __future__ import annotations

import click

from scheduld.cli.common import COMMON
from scheduld.cli.cron_adding import add_command, remove_command
from scheduld.cli.cron_backfill import backfill_command
from scheduld.cli.cron_looking import history_command, list_command, show_command
from scheduld.cli.cron_next import next_command
from scheduld.cli.cron_steering import pause_command, resume_command, skip_command, trigger_command
from scheduld.errors import InvalidInput

_COMMANDS = (
    list_command,
    show_command,
    next_command,
    history_command,
    pause_command,
    resume_command,
    trigger_command,
    skip_command,
    backfill_command,
    add_command,
    remove_command,
)
_ELSEWHERE = {"run": "trigger", "fire": "trigger", "ls": "list", "rm": "remove", "delete": "remove"}


class Cron(click.Group):
    """Commands in the order of a day's work, and the nearest one for what is none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name all commands."""
        return [str(command.name) for command in _COMMANDS]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of a line; raises InvalidInput naming the nearest."""
        if args[0] not in self.commands:
            import difflib

            near = difflib.get_close_matches(args[0], self.commands, 1)
            meant = _ELSEWHERE.get(args[0]) or "".join(near)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(self.commands)}"
            raise InvalidInput(f"there is no command cron {args[0][:60]!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.group("cron", cls=Cron, no_args_is_help=False)
@COMMON
def cron_command() -> None:
    """Schedules: what fires when, and what became of it.

    Those of the config, and those that were added at run time.
    """


for _command in _COMMANDS:
    cron_command.add_command(_command)
