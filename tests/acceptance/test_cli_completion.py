"""Shell completion, asked as the shells ask, and by a Tab in a real bash."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.cli import ROOT, Cli, cli

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["cli"]  # the fixture
PATIENCE_S = 20.0


def _asked(cli: Cli, words: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
    """Ask as the script for bash does; the last word is at the cursor."""
    return subprocess.run(
        [sys.executable, "-m", "scheduld"],
        cwd=cli.folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_SCHEDULD_COMPLETE": "bash_complete",
            "COMP_WORDS": "\n".join(("scheduld", *words)),
            "COMP_CWORD": str(len(words)),
            **env,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def _answers(cli: Cli, *words: str, **env: str) -> list[str]:
    asked = _asked(cli, words, **env)
    assert asked.stderr == ""
    return asked.stdout.split()


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        (["sho"], ["plain,show"]),
        (["config", ""], ["plain,diff"]),
        (["add", "--type", "h"], ["plain,hello"]),
        (["add", "--type", ""], ["plain,hello", "plain,other"]),
        (["add", "--type", "=", "o"], ["plain,other"]),
        (["--json", "add", "--on-conflict", "r"], ["plain,replace", "plain,rerun"]),
        (["show", "o"], ["plain,other/"]),
        (["cancel", ""], ["plain,hello/", "plain,other/"]),
        (["list", "--state", "d"], ["plain,done", "plain,dead"]),
        (["add", "--timezone", "Europe/Madr"], ["plain,Europe/Madrid"]),
        (["add", "--payload-file", "x"], ["file,x"]),
        (["list", "--lim"], ["plain,--limit"]),
        (["nope", ""], []),
        (["add", "--type", "hello", ""], []),
    ],
)
def test_what_can_stand_at_the_cursor(cli: Cli, words: list[str], answers: list[str]) -> None:
    """Commands, options, values and the task types of the config; nothing where all is free."""
    assert _answers(cli, *words) == answers


def test_schedules_of_the_config(cli: Cli) -> None:
    """The commands about a schedule complete its name; `cron` its commands."""
    path = cli.folder / "scheduld.toml"
    text = '[schedules.daily]\ntype = "hello"\ncron = "@daily"\n[schedules.nightly]\n'
    path.write_text(path.read_text() + text)
    assert _answers(cli, "cron", "pause", "") == ["plain,daily", "plain,nightly"]
    assert _answers(cli, "cron", "next", "n") == ["plain,nightly"]
    assert _answers(cli, "cron", "re") == ["plain,resume", "plain,remove"]
    assert _answers(cli, "cron", "add", "x", "--overlap", "al") == ["plain,allow"]
    assert _answers(cli, "cron", "next", "--timezone", "Europe/Madr") == ["plain,Europe/Madrid"]


def test_types_are_those_of_the_config_that_is_named(cli: Cli) -> None:
    """--config before or after the command, and $SCHEDULD_CONFIG, choose the file."""
    (cli.folder / "b.toml").write_text('[types.mail]\nhandler = "log"\n')
    mail = ["plain,mail"]
    assert _answers(cli, "--config", "b.toml", "list", "--type", "") == mail
    assert _answers(cli, "list", "--config", "b.toml", "--type", "") == mail
    assert _answers(cli, "list", "--type", "", SCHEDULD_CONFIG="b.toml") == mail


@pytest.mark.parametrize(
    "content", ["not toml", "types = 3", '[types."x y"]\nhandler = 1', "[types]\n\xff", ""]
)
def test_no_error_is_ever_printed(cli: Cli, content: str) -> None:
    """A broken config, or none, leaves the line as it is."""
    (cli.folder / "scheduld.toml").write_bytes(content.encode("latin-1"))
    asked = _asked(cli, ["show", "h"])
    assert (asked.stdout.strip(), asked.stderr) == ("", "")
    (cli.folder / "scheduld.toml").unlink()
    assert _answers(cli, "show", "h") == []


@pytest.mark.parametrize(
    "env",
    [
        {"_SCHEDULD_COMPLETE": "tcsh_complete"},
        {"_SCHEDULD_COMPLETE": "bash_source"},
        {"_SCHEDULD_COMPLETE": ""},
        {"COMP_CWORD": "x"},
        {"COMP_WORDS": "scheduld 'open"},
    ],
)
def test_a_strange_question_gets_no_answer(cli: Cli, env: dict[str, str]) -> None:
    """What no script of ours asks prints nothing, and starts no command."""
    asked = _asked(cli, ["stat"], **env)
    assert (asked.stdout.strip(), asked.stderr) == ("", "")


def test_a_pipe_in_place_of_the_config_does_not_hang_the_shell(cli: Cli) -> None:
    """The answer comes within moments, whatever lies where the config should be."""
    (cli.folder / "scheduld.toml").unlink()
    os.mkfifo(cli.folder / "scheduld.toml")
    assert _answers(cli, "show", "") == []


def test_an_answer_loads_no_client(cli: Cli) -> None:
    """It reads the config alone, so that no server can make anybody wait for a Tab."""
    code = "import sys; from scheduld.cli.main import main; main(); print(sorted(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cli.folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_SCHEDULD_COMPLETE": "bash_complete",
            "COMP_WORDS": "scheduld\nshow\nh",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    answer, modules = ran.stdout.splitlines()
    assert answer == "plain,hello/"
    for name in ("scheduld.client", "scheduld.store", "pydantic", "socket", "redis"):
        assert f"'{name}'" not in modules


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_ask_us(cli: Cli, shell: str) -> None:
    """The scripts of zsh and fish name the command and the variable."""
    out = cli("completion", shell).ok().out
    assert f"_SCHEDULD_COMPLETE={shell}_complete" in out


def test_the_shell_is_known_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an argument $SHELL says which; another shell is a usage error."""
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert cli("completion").ok().out == cli("completion", "fish").ok().out
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    refused = cli("completion")
    assert (refused.code, refused.out) == (2, "")
    assert "one of bash, zsh, fish" in refused.err
    assert cli("completion", "tcsh").code == 2


class Terminal:
    """A bash on a terminal, and somebody who types."""

    def __init__(self, folder: Path, script: str) -> None:
        (folder / "script").write_text(script)
        (folder / "bin").mkdir()
        program = folder / "bin" / "scheduld"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m scheduld "$@"\n')
        program.chmod(0o755)
        self._ours, theirs = pty.openpty()
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=folder,
            env={
                **os.environ,
                "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "PS1": "$ ",
                "TERM": "dumb",
                "INPUTRC": os.devnull,
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.types("bind 'set enable-bracketed-paste off'; . ./script; echo rea''dy\n", "ready")

    def types(self, keys: str, wanted: str) -> None:
        """Type, and wait until the screen shows what is wanted."""
        os.write(self._ours, keys.encode())
        seen = ""
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in seen:
            ready, _, _ = select.select([self._ours], [], [], deadline - time.monotonic())
            assert ready, f"{keys!r} does not show {wanted!r}, but {seen!r}"
            seen += os.read(self._ours, 4096).decode()

    def close(self) -> None:
        """Close the terminal."""
        self._bash.kill()
        self._bash.wait()
        os.close(self._ours)


def test_tab_in_bash(cli: Cli) -> None:
    """A Tab completes a type, goes on behind TYPE/, and does so behind a "=" too."""
    terminal = Terminal(cli.folder, cli("completion", "bash").ok().out)
    try:
        terminal.types("scheduld sho\thel\tx\x01#\n", "#scheduld show hello/x")
        terminal.types("scheduld add --type=hel\tx\x01#\n", "#scheduld add --type=hello x")
    finally:
        terminal.close()
