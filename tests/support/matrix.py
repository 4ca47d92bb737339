"""What every verb does to a task in every state: the data of a test, and of a table in the docs.

`scripts/state_table.py` writes the table, `tests/integration/test_state_matrix.py` tries each cell
on real servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal[
    "scheduled",
    "claimed early",
    "retry wait",
    "snoozed",
    "held back",
    "running",
    "running, replaced",
    "cancelling",
    "periodic, waiting",
    "periodic, running",
    "periodic, run over",
    "done",
    "cancelled",
    "dead",
    "no such task",
]
STATES: dict[State, str] = {
    "scheduled": "waits for its due time",
    "claimed early": "held by a replica, less than 50 ms before its due time",
    "retry wait": "a run failed, the next attempt waits",
    "snoozed": "a run asked to be run again later",
    "held back": "it is due, and others of its key run",
    "running": "a replica runs it",
    "running, replaced": "it runs, and a successor waits for its end",
    "cancelling": "it runs, and was asked to stop: `show` and `list` tell it",
    "periodic, waiting": "it waits for its next occurrence",
    "periodic, running": "a replica runs an occurrence",
    "periodic, run over": "an occurrence is over, and a replica has yet to plan the next one",
    "done": "it succeeded",
    "cancelled": "it was cancelled",
    "dead": "it was given up",
    "no such task": "it never was, or is not kept any longer",
}
PERIODIC: tuple[State, ...] = ("periodic, waiting", "periodic, running", "periodic, run over")
WAITING: tuple[State, ...] = (
    *("scheduled", "claimed early", "retry wait", "snoozed", "held back"),
    *("periodic, waiting", "periodic, run over"),
)
RUNNING: tuple[State, ...] = ("running", "running, replaced", "cancelling", "periodic, running")
ENDED: tuple[State, ...] = ("done", "cancelled", "dead")


@dataclass(frozen=True)
class Verb:
    """A verb: its command, and the word for what it does in each state, in the order of STATES."""

    name: str
    command: str
    words: tuple[str, ...]

    def word(self, state: State) -> str:
        """What it does to a task in a state."""
        return self.words[list(STATES).index(state)]


def _verb(name: str, command: str, words: str) -> Verb:
    split = tuple(word.replace("_", " ") for word in words.split())
    assert len(split) == len(STATES), name
    return Verb(name, command, split)


VERBS = (
    # The states: five of waiting, three of running, three of periodic ones, three of having
    # ended, none.
    _verb(
        "show",
        "show",
        "told told told told told  told told told  told told told  told told told  not_found",
    ),
    _verb(
        "add",
        "add --id",
        "exists exists exists exists exists  exists exists exists  exists exists exists  "
        "exists exists exists  added",
    ),
    _verb(
        "add_keep",
        "add --on-conflict keep",
        "kept kept kept kept kept  kept kept kept  kept kept kept  kept kept kept  added",
    ),
    _verb(
        "add_replace",
        "add --on-conflict replace",
        "replaced replaced replaced replaced replaced  successor successor successor  "
        "replaced successor replaced  replaced replaced replaced  added",
    ),
    _verb(
        "add_rerun",
        "add --on-conflict rerun",
        "kept kept kept kept kept  successor successor successor  kept successor kept  "
        "replaced replaced replaced  added",
    ),
    _verb(
        "edit",
        "edit",
        "edited edited edited edited edited  refused refused refused  edited next_edited edited  "
        "refused refused refused  not_found",
    ),
    _verb(
        "run_now",
        "run-now",
        "due_now due_now due_now due_now due_now  refused refused refused  "
        "due_now refused due_now  refused refused refused  not_found",
    ),
    _verb(
        "cancel",
        "cancel",
        "cancelled cancelled cancelled cancelled cancelled  cancelling cancelling cancelling  "
        "cancelled cancelling cancelled  refused cancelled refused  not_found",
    ),
    _verb(
        "cancel_run",
        "cancel --this-run",
        "refused refused refused refused refused  refused refused refused  "
        "left_out stopping left_out  refused cancelled refused  not_found",
    ),
    _verb(
        "requeue",
        "requeue",
        "refused refused refused refused refused  refused refused refused  "
        "refused refused refused  requeued requeued requeued  not_found",
    ),
    _verb(
        "purge",
        "purge --state",
        "removed untouched removed removed removed  refused refused refused  "
        "removed refused removed  removed removed removed  untouched",
    ),
)
MEANINGS = {
    "told": "is printed",
    "exists": "refused with exit 1: an id is taken in any state",
    "kept": "nothing is changed; exit 0, and the answer says so",
    "added": "stored, and scheduled",
    "replaced": "the new task takes its place; no end of the old one counts any more",
    "successor": "the run goes on, and when it ends in any way the new task takes its place",
    "edited": "changed; a replica that held it gives it back",
    "next edited": "its next occurrence is changed; the run goes on as it began",
    "due now": "due at once, what was counted stays; a replica that held it gives it back",
    "cancelled": "ended, and kept as cancelled",
    "cancelling": "the run is asked to stop and its end is not used; a successor is dropped",
    "left out": "its next occurrence is cancelled, and the one after it is the next",
    "stopping": "the run is asked to stop and its end is not used; the series goes on",
    "requeued": "due at once, its counters at zero",
    "removed": "gone for good",
    "untouched": "nothing is done to it",
    "refused": "exit 1, nothing is changed, and the hint says what would be right",
    "not found": "exit 1",
}
