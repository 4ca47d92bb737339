"""Keeps the part of a docs page that is written from data: between two comments in it."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def keep(page: str, marker: str, text: str, arguments: list[str]) -> int:
    """Rewrite what stands between `<!-- MARKER: start -->` and its end, or with `--check` compare.

    Returns the exit code: 1 if it is not up to date and was to be checked.
    """
    path, start, end = DOCS / page, f"<!-- {marker}: start -->\n", f"<!-- {marker}: end -->\n"
    found = path.read_text()
    before, _, rest = found.partition(start)
    wanted = f"{before}{start}{text}{end}{rest.partition(end)[2]}"
    if wanted == found:
        return 0
    if "--check" in arguments:
        print(f"{page} is not up to date; run {sys.argv[0]}", file=sys.stderr)  # noqa: T201
        return 1
    path.write_text(wanted)
    return 0
