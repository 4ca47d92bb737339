"""The whole config for a command, checked with its handlers, and its problems in words."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from scheduld.cli.output import note
from scheduld.names import printable

if TYPE_CHECKING:
    from scheduld.config.load import Loaded
    from scheduld.errors import ConfigError


def load_checked(path: str | None, *, redis_url: str | None = None) -> Loaded:
    """Load a config and check its handlers; raises ConfigError with all problems."""
    from scheduld import registry
    from scheduld.config.load import load_whole

    _make_current_folder_importable()
    # A module that prints while it is imported must not be taken for our output.
    with contextlib.redirect_stdout(sys.stderr):
        loaded = load_whole(path, redis_url=redis_url, check_handlers=registry.check)
    for text in loaded.config.notes:
        note(f"scheduld: {printable(text)}")
    return loaded


def print_problems(error: ConfigError) -> None:
    """Tell all problems on stderr, one line each."""
    for problem in error.problems:
        note(printable(str(problem)))
    if error.hint:
        note(f"scheduld: {error.hint}")


def _make_current_folder_importable() -> None:
    # Last, not first: a file called json.py or redis.py there must not replace the real one.
    with contextlib.suppress(OSError):  # the folder was removed
        folder = os.getcwd()
        if folder not in sys.path and "" not in sys.path:
            sys.path.append(folder)
