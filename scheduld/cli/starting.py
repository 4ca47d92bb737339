"""`scheduld init`: a first config file that runs as it is."""

from __future__ import annotations

import contextlib
import os
import secrets
from importlib import resources
from pathlib import Path

import click

from scheduld.cli.output import say, shell_words
from scheduld.errors import InvalidInput, ScheduldError
from scheduld.names import printable

_DEFAULT = "scheduld.toml"
_EXAMPLES = """\b
Examples:
  scheduld init
  scheduld init /etc/scheduld/scheduld.toml
"""


class FileExists(ScheduldError):
    """A file that would be overwritten."""

    kind = "exists"


@click.command("init", epilog=_EXAMPLES)
@click.argument("path", default=_DEFAULT, metavar="[PATH]")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init_command(path: str, force: bool) -> None:
    """Write a first config file.

    It runs as it is, and is readable by you alone. Default for PATH: scheduld.toml.
    """
    option = [] if path == _DEFAULT else ["--config", path]
    try:
        _write(path, _named(starter(), option), force=force)
    except FileExistsError:
        raise FileExists(
            f"{printable(path)} exists already", hint="--force overwrites it, or name another file"
        ) from None
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise InvalidInput(f"{printable(path)} cannot be written: {reason}") from None
    say(f"wrote {printable(path)}")
    say(f"start it:    {shell_words(['scheduld', 'run', *option])}")
    add = ["scheduld", "add", *option, "--type", "hello", "--now", "message=Hello"]
    say(f"add a task:  {shell_words(add)}   (in another terminal)")


def starter() -> str:
    """Return the text of config/starter.toml, from the installed package or the source tree."""
    packaged = resources.files("scheduld") / "config" / "data" / "starter.toml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "config" / "starter.toml").read_text(encoding="utf-8")


def _named(text: str, option: list[str]) -> str:
    """Have the commands in the comments name the file as it is called here."""
    words = f" {printable(shell_words(option))}" if option else ""
    return text.replace(" --config starter.toml", words)


def _write(path: str, text: str, *, force: bool) -> None:
    if not force:
        _create(path, text)
        return
    if os.path.isdir(path):
        raise IsADirectoryError(None, "it is a folder")
    # Beside it and then in its place, so that no half-written file is ever seen.
    beside = f"{path}.{secrets.token_hex(4)}"
    _create(beside, text)
    try:
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _create(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
