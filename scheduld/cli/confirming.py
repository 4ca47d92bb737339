"""What asks for --yes before it does something to many tasks at once."""

from __future__ import annotations

from scheduld.errors import InvalidInput


class NotConfirmed(InvalidInput):
    """Something that concerns many tasks, and was only looked at."""

    kind = "not_confirmed"

    def __init__(
        self, count: int, state: str, type_name: str, done: str, *, is_all: bool = True
    ) -> None:
        number = f"{count:,}" if is_all else f"{count:,} or more"
        tasks = "task" if count == 1 and is_all else "tasks"
        what = f"{number} {state} {tasks} of type {type_name}"
        super().__init__(f"{what} would be {done}, none is", hint="--yes does it")
