"""Client commands start quickly: they load a socket and a parser, no client library."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.cli import ROOT, Cli, cli

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cli"]  # the fixture
SLOW = (
    *("asyncio", "redis", "pydantic", "structlog", "croniter", "dateutil", "aiosmtplib"),
    *("difflib", "importlib.resources", "logging", "scheduld.store.link", "scheduld.store.lines"),
    *("scheduld.store.embedded", "scheduld.config.model", "scheduld.engine", "scheduld.daemon"),
)
CODE = f"""
import sys
from scheduld.cli.main import main
code = main(sys.argv[1:])
print(code, [name for name in {SLOW!r} if name in sys.modules])
"""


def _ran(cli: Cli, argv: Sequence[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *argv],
        cwd=cli.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "argv",
    [
        ["add", "--type", "hello", "--now", "message=Hello"],
        ["add", "--type", "hello", "--at", "@4000000000"],
        ["add", "--type", "hello", "--in", "1h", "--timezone", "Europe/Madrid", "--json"],
        ["show", "hello/a"],
        ["list"],
        ["stats"],
        ["cancel", "hello/a"],
        ["edit", "hello/a", "n=1"],
        ["run-now", "hello/a"],
        ["pause", "hello"],
        ["resume", "hello"],
        ["dead"],
        ["dead", "--group"],
        ["purge", "--type", "hello", "--state", "done", "--yes"],
        ["requeue", "--dead", "--type", "hello"],
        ["events"],
        ["nodes"],
        ["export"],
    ],
)
def test_a_command_loads_nothing_slow(cli: Cli, argv: list[str]) -> None:
    """redis-py alone takes longer to import than the whole command."""
    cli("add", "--type", "hello", "--id", "a", "--at", "@4000000000").ok()
    assert _ran(cli, argv) == "0 []"
