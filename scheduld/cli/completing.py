"""Shell completion: the script a shell loads, and the answers it then asks for.

An answer reads the config and nothing else, so that it never waits for a server; whatever goes
wrong, nothing is printed, since it would land in the middle of what somebody types.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from scheduld.cli.output import say
from scheduld.errors import InvalidInput
from scheduld.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem

VARIABLE = "_SCHEDULD_COMPLETE"
"""Set by the scripts: the command then answers what could stand at the cursor."""
LONGEST_S = 2.0
"""After so long an answer, which takes a tenth of a second, is given up: a disk may hang."""
_SHELLS = ("bash", "zsh", "fish")
# Not click's own: that one takes no part of a word (a blank after "hello/"), and asks for a
# newer bash than some systems still have.
_BASH = """\
_scheduld_completion() {
    local IFS=$'\\n' answer
    COMPREPLY=()
    for answer in $(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        _SCHEDULD_COMPLETE=bash_complete "$1" 2>/dev/null); do
        case $answer in
            file,*) compopt -o default 2>/dev/null ;;
            plain,*/) COMPREPLY+=("${answer#*,}"); compopt -o nospace 2>/dev/null ;;
            plain,*) COMPREPLY+=("${answer#*,}") ;;
        esac
    done
}
complete -o nosort -F _scheduld_completion scheduld 2>/dev/null ||
    complete -F _scheduld_completion scheduld"""
_EXAMPLES = """\b
Examples:
  eval "$(scheduld completion bash)"                   in ~/.bashrc
  eval "$(scheduld completion zsh)"                    in ~/.zshrc, below compinit
  scheduld completion fish > ~/.config/fish/completions/scheduld.fish
"""


@click.command("completion", epilog=_EXAMPLES)
@click.argument("shell", required=False, type=click.Choice(_SHELLS))
def completion_command(shell: str | None) -> None:
    """Print the script for shell completion.

    It completes commands, options, their values, and the task types of the config. Default: for
    the shell that $SHELL names.
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        raise InvalidInput("which shell is not known", hint=f"one of {', '.join(_SHELLS)}")
    say(script(name))


def script(shell: str) -> str:
    """Return the script that makes a shell complete our command lines."""
    if shell == "bash":
        return _BASH
    from click.shell_completion import FishComplete, ZshComplete

    kind = ZshComplete if shell == "zsh" else FishComplete
    return kind(_group(), {}, "scheduld", VARIABLE).source()


def answer(instruction: str) -> int:
    """Print what could stand at the cursor, as `instruction` (`bash_complete` ...) asks."""
    import signal  # only here: every command loads this module

    from click.shell_completion import get_completion_class

    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        if instruction == "bash_complete":
            _join_what_bash_split()
        found = get_completion_class(instruction.removesuffix("_complete"))
        if found is None or not instruction.endswith("_complete"):
            return 1
        sys.stdout.write(found(_group(), {}, "scheduld", VARIABLE).complete() + "\n")
        sys.stdout.flush()
    except Exception:  # noqa: BLE001 - nothing may be printed over a half typed line
        return 1
    finally:
        # At its end the interpreter takes the handler away, and the alarm would kill it.
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _join_what_bash_split() -> None:
    """Take the "=" out of `--type = hel`, as bash hands over `--type=hel`."""
    words = os.environ["COMP_WORDS"].split("\n")
    at = int(os.environ["COMP_CWORD"])
    left = [word for word in words[:at] if word != "="]
    os.environ["COMP_WORDS"] = "\n".join(left + words[at:])
    os.environ["COMP_CWORD"] = str(len(left))


def _give_up(*_: object) -> None:
    os._exit(1)


def _group() -> click.Group:
    from scheduld.cli.app import cli

    return cli


def type_names(ctx: click.Context, param: object, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete a task type of the config."""
    return _beginning(_configured(ctx), incomplete)


def schedule_names(ctx: click.Context, param: object, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete a schedule of the config."""
    return _beginning(_configured(ctx, "schedules"), incomplete)


def task_refs(ctx: click.Context, param: object, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete the `TYPE/` of a task."""
    return _beginning([f"{name}/" for name in _configured(ctx)], incomplete)


def states(ctx: object, param: object, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete the state of a task."""
    return _beginning([state.value for state in State], incomplete)


def zones(ctx: object, param: object, incomplete: str) -> list[str]:  # noqa: ARG001
    """Complete the name of a time zone."""
    from zoneinfo import available_timezones

    return _beginning(sorted(available_timezones()), incomplete)


def files(ctx: object, param: object, incomplete: str) -> list[CompletionItem[Any]]:  # noqa: ARG001
    """Leave the completion of a file name to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _configured(ctx: click.Context, table: str = "types") -> list[str]:
    """Name the types (or schedules) of the config the command would use; raises ConfigError."""
    from scheduld.cli.common import kept
    from scheduld.config.source import read, search

    entries = read(search(kept(ctx).get("config"), os.environ)).data.get(table, {})
    return sorted(entries) if isinstance(entries, dict) else []


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
