"""Print the first `sh` block below a heading of the README: what CI runs is what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def command(heading: str) -> str:
    """The block; a heading without one is a KeyError."""
    sections = README.read_text(encoding="utf-8").split("\n## ")
    for section in sections:
        if section.startswith(heading + "\n"):
            match = re.search(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
            if match:
                return match.group(1).strip()
    raise KeyError(heading)


if __name__ == "__main__":
    print(command(sys.argv[1]))  # noqa: T201
