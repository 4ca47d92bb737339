"""What asks for --yes before it does something to many tasks at once."""

from __future__ import annotations

from scheduld.errors import InvalidInput


class NotConfirmed(InvalidInput):
    """Something that concerns many tasks, and was only looked at."""

    kind = "not_confirmed"

    def __init__(self, what: str, done: str) -> None:
        super().__init__(f"{what} would be {done}, none is", hint="--yes does it")


def tasks_in_words(count: int, which: str, is_all: bool = True) -> str:
    """Tell a number of tasks, maybe one that is only known not to be smaller."""
    number = f"{count:,}" if is_all else f"{count:,} or more"
    return f"{number} task{'' if count == 1 and is_all else 's'} {which}"
