"""The call that keeps what runs tell on their way with their tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduld.notes import LOG_BYTES, LOG_LINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.store.calls import Arg, Call, Caller
    from scheduld.store.keys import TypeKeys

MOST_NOTES = 100
"""Most runs a call takes: with all that is kept of each they are half of what a call may carry."""


class Note(NamedTuple):
    """What a run has told: JSON of its progress or '', lines from number `first` of the run on."""

    raw_id: bytes
    fence: int
    progress: str
    first: int
    lines: Sequence[str]


def note(caller: Caller, type_keys: TypeKeys, notes: Sequence[Note]) -> Call[list[bool]]:
    """Keep what runs have told; answers for each whether it was kept. May be repeated."""
    if len(notes) > MOST_NOTES:
        raise ValueError(f"a call takes at most {MOST_NOTES} notes, not {len(notes)}")
    rest: list[Arg] = []
    for one in notes:
        rest += (one.raw_id, one.fence, one.progress, one.first, len(one.lines), *one.lines)
    return caller.call(
        "note",
        type_keys,
        lambda answer: [code == 1 for code in answer[2]],
        extra_keys=type_keys.tasks([one.raw_id for one in notes]),
        rest=rest,
        args={"max_lines": LOG_LINES, "max_bytes": LOG_BYTES, "count": len(notes)},
    )
