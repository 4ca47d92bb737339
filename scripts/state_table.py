"""Write the tables of docs/states.md from the data of the test that tries every cell.

python scripts/state_table.py           rewrite the tables
python scripts/state_table.py --check   exit 1 if they are not up to date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.matrix import MEANINGS, STATES, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "states.md"
START = "<!-- verbs and states: start -->\n"
END = "<!-- verbs and states: end -->\n"


def tables() -> str:
    """Return the tables as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"\n| state | {' | '.join(f'`{verb.command}`' for verb in VERBS)} |"
    yield "|---" * (len(VERBS) + 1) + "|"
    for state in STATES:
        yield f"| **{state}** | {' | '.join(verb.word(state) for verb in VERBS)} |"
    yield "\n| state | meaning |"
    yield "|---|---|"
    for state, meaning in STATES.items():
        yield f"| {state} | {meaning} |"
    yield "\n| word | what is done |"
    yield "|---|---|"
    for word, meaning in MEANINGS.items():
        yield f"| {word} | {meaning} |"
    yield ""


def main(arguments: list[str]) -> int:
    """Rewrite or check the page; returns the exit code."""
    page = PAGE.read_text()
    before, _, rest = page.partition(START)
    after = rest.partition(END)[2]
    wanted = f"{before}{START}{tables()}{END}{after}"
    if wanted == page:
        return 0
    if "--check" in arguments:
        print(f"{PAGE.name} is not up to date; run scripts/state_table.py", file=sys.stderr)  # noqa: T201
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
