"""Entry point of the `scheduld` command."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line (default: this process's) and return its exit code."""
    try:
        # In here, so that Ctrl-C during the imports is met as well.
        if "_SCHEDULD_COMPLETE" in os.environ:
            from scheduld.cli.completing import VARIABLE, answer

            return answer(os.environ[VARIABLE])
        from scheduld.cli.app import run_line

        return run_line(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        return INTERRUPTED
