"""Write the tables of docs/states.md from the data of the test that tries every cell.

python scripts/state_table.py           rewrite the tables
python scripts/state_table.py --check   exit 1 if they are not up to date
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from docs_page import keep

from tests.support.matrix import MEANINGS, STATES, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator


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


if __name__ == "__main__":
    sys.exit(keep("states.md", "verbs and states", tables(), sys.argv[1:]))
