"""What the tests of the command line share: a folder with a config, and how commands are run."""

from __future__ import annotations

import io
import json
import os
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.cli.main import main

if TYPE_CHECKING:
    from tests.support.servers import RunningServer

ROOT = Path(__file__).parents[2]
CONFIG = """
[scheduld]
redis_url = "{url}"
namespace = "{namespace}"
{more}
[types.hello]
handler = "log"
[types.other]
handler = "log"
"""


@dataclass(frozen=True)
class Ran:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON that was printed."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error that was printed as JSON."""
        told: dict[str, Any] = json.loads(self.err)["error"]
        return told

    def ok(self) -> Ran:
        """The same, if it ended well and had nothing to complain about."""
        assert (self.code, self.err) == (0, "")
        return self


class Cli:
    """Runs commands in a folder that has a scheduld.toml, in this process or in one of its own."""

    def __init__(self, folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.namespace = "t" + secrets.token_hex(6)
        self._capsys = capsys
        self.configure(url)

    def configure(self, url: str, more: str = "") -> None:
        """Write the config."""
        text = CONFIG.format(url=url, namespace=self.namespace, more=more)
        (self.folder / "scheduld.toml").write_text(text)

    def __call__(self, *argv: str, stdin: bytes = b"") -> Ran:
        """Run a command in this process."""
        self._capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            patch.setattr(sys, "path", list(sys.path))
            code = main(argv)
        told = self._capsys.readouterr()
        return Ran(code, told.out, told.err)

    def start(self, *argv: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command as a process of its own."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-m", "scheduld", *argv],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            **{"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True, **options},
        )


@pytest.fixture
def cli(
    valkey_server: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Cli:
    """Commands for a fresh namespace, in a folder whose config names the shared server."""
    monkeypatch.chdir(tmp_path)
    for name in ("SCHEDULD_CONFIG", "SCHEDULD_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    return Cli(tmp_path, valkey_server.url, capsys)
