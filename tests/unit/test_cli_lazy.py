"""The command line starts quickly: help and mistakes load neither Redis client nor models."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("asyncio", "pydantic", "redis", "tomli", "scheduld.client", "scheduld.config")
CODE = f"""
import sys
from scheduld.cli.main import main
code = main(sys.argv[1:])
print(code, [name for name in {HEAVY!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["add", "--help"], 0),
        (["run", "--help"], 0),
        (["show", "-h"], 0),
        (["edit", "--help"], 0),
        (["requeue", "--help"], 0),
        (["purge", "--help"], 0),
        (["events", "--help"], 0),
        (["config", "diff", "--help"], 0),
        (["cron", "--help"], 0),
        (["cron", "next", "--help"], 0),
        (["cron", "add", "x"], 2),
        (["completion", "bash"], 0),
        (["add"], 2),
        (["nope"], 2),
    ],
)
def test_help_and_usage_errors_load_nothing_heavy(argv: list[str], code: int) -> None:
    """What needs no server does not pay for the client of one."""
    ran = subprocess.run(
        [sys.executable, "-c", CODE, *argv], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == f"{code} []"


def test_a_client_command_does_not_load_the_model_of_the_config() -> None:
    """`list` reads the few settings it needs without pydantic."""
    argv = ["list", "--redis-url", "unix:///nobody/here.sock", "--wait", "0s"]
    ran = subprocess.run(
        [sys.executable, "-c", CODE, *argv], capture_output=True, text=True, check=True
    )
    code, _, names = ran.stdout.splitlines()[-1].partition(" ")
    assert code == "3"
    assert "pydantic" not in names
