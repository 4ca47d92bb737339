"""Every verb in every state, by a real client on each server: the table of docs/states.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from scheduld import Client, Conflict, InvalidInput, NotFound, State, Task, TaskExists
from scheduld.store import calls
from scheduld.store.answers import Settled, Started
from scheduld.store.usercalls import Skip
from tests.support import matrix
from tests.support.matrix import ENDED, PERIODIC, RUNNING, STATES, VERBS, WAITING
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.model import Claim
    from tests.support.store import Store

HOUR = 3_600_000
NEW = {"new": 1}


def _server_ms(store: Store) -> int:
    seconds, micros = store.link.commands(("TIME",))[0]
    return int(seconds) * 1000 + int(micros) // 1000


@dataclass
class World:
    """A store with the task x in some state, the last claim of x, and one that holds x back."""

    claim: Claim | None = None
    other: Claim | None = None


def _bring(store: Store, state: matrix.State) -> World:
    """Bring the task x into a state."""
    store.now = _server_ms(store)
    store.link.commands(("SADD", store.keys.types, "job"))
    if state == "no such task":
        return World()
    if state == "scheduled":
        store.add("x", store.time + HOUR)
        return World()
    if state == "held back":
        store.kind = replace(store.kind, max_running_per_key=1)
        store.add("other", load="key=k")
        other = store.take("other", lease_ms=HOUR)
        store.add("x", load="key=k")
        assert store.claim().claims == []
        return World(other=other)
    if state == "claimed early":
        # By a replica an hour ahead, so that it stays early whatever time this test takes.
        store.pass_ms(HOUR)
        store.add("x", store.time + 40)
        claim = store.take("x", early_ms=calls.EARLY_MS, lease_ms=HOUR)
        assert claim.early
        return World(claim)
    store.add("x", load="every=1h" if state in PERIODIC else "")
    claim = store.take("x", lease_ms=HOUR)
    if state == "periodic, waiting":
        store.occur(claim)
    elif state == "periodic, run over":
        store.cancel("x", Skip(0, 0, None))
        store.occur(claim)
    elif state == "retry wait":
        store.finish(claim, "retry", delay_ms=HOUR, detail='{"kind":"E"}')
    elif state == "snoozed":
        store.finish(claim, "snooze", at_ms=store.time + HOUR)
    elif state == "running, replaced":
        store.add("x", payload=b'{"next":1}', on_conflict="replace")
    elif state in ("cancelling", "cancelled"):
        store.cancel("x")
    if state in ENDED:
        store.finish(claim, "dead" if state == "dead" else "done", detail='{"kind":"E"}')
    return World(claim)


def _shown(state: matrix.State) -> str:
    """The state as `show` tells it."""
    if state in WAITING:
        return "scheduled"
    return "running" if state in RUNNING else state


def _purge(client: Client, state: matrix.State) -> str:
    shown = "done" if state == "no such task" else _shown(state)
    return "removed" if client.purge("job", state=shown) else "untouched"


def _word_of_add(task: Task) -> str:
    if task.created is False:
        return "kept"
    return "successor" if task.successor else "added"


def _ask(client: Client, verb: str, state: matrix.State) -> str:
    """Ask for a verb; what came of it, in a word of the table."""

    def add(on_conflict: str) -> str:
        task = client.schedule(
            "job",
            NEW,
            delay="1h",
            id="x",
            on_conflict=on_conflict,  # type: ignore[arg-type]
            allow_unknown=True,
        )
        word = _word_of_add(task)
        return "replaced" if word == "added" and state != "no such task" else word

    def cancelled(task: Task) -> str:
        return "cancelling" if task.state is State.RUNNING else "cancelled"

    def run_cancelled(task: Task) -> str:
        words = {State.RUNNING: "stopping", State.SCHEDULED: "left out"}
        return words.get(task.state, "cancelled")

    def edited(task: Task) -> str:
        return "next edited" if task.state is State.RUNNING else "edited"

    asked: dict[str, Callable[[], object]] = {
        "show": lambda: client.get("job", "x").type and "told",
        "add": lambda: add("error"),
        "add_keep": lambda: add("keep"),
        "add_replace": lambda: add("replace"),
        "add_rerun": lambda: add("rerun"),
        "edit": lambda: edited(client.edit("job", "x", payload=NEW)),
        "run_now": lambda: client.run_now("job", "x").type and "due now",
        "cancel": lambda: cancelled(client.cancel("job", "x")),
        "cancel_run": lambda: run_cancelled(client.cancel("job", "x", this_run=True)),
        "requeue": lambda: client.requeue("job", "x").type and "requeued",
        "purge": lambda: _purge(client, state),
    }
    try:
        return str(asked[verb]())
    except TaskExists as exc:
        return "exists" if exc.state == _shown(state) else f"exists in state {exc.state}"
    except NotFound:
        return "not found"
    except (Conflict, InvalidInput) as exc:
        return "refused" if exc.hint else f"refused, but not said what would be right: {exc}"


STAYS = ("told", "exists", "kept", "untouched", "refused", "not found")
BECOMES = {
    "added": "scheduled",
    "replaced": "scheduled",
    "successor": "running",
    "edited": "scheduled",
    "due now": "scheduled",
    "cancelled": "cancelled",
    "cancelling": "running",
    "next edited": "running",
    "stopping": "running",
    "left out": "scheduled",
    "requeued": "scheduled",
    "removed": "none",
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_cell_of_the_table(store: Store, verb: matrix.Verb, state: matrix.State) -> None:
    """The verb does what the table says, changes nothing else, and a late end of a run neither."""
    world = _bring(store, state)
    before = _dump(store)
    shown = store.state("x")
    with Client(store.server.url, namespace=store.namespace, wait_s=1.0) as client:
        word = _ask(client, verb.name, state)
    assert word == verb.word(state)
    if word in STAYS:
        assert _dump(store) == before
    assert store.state("x") == BECOMES.get(word, shown)
    assert len(store.indexes("x")) == (store.state("x") != "none")
    if word in ("due now", "requeued"):
        assert (store.due("x") or 0) <= _server_ms(store)
    if word in ("edited", "next edited", "replaced", "added"):
        assert store.fields("x")["payload"] == b'{"new":1}'
    if world.claim:
        _end(store, world.claim, word, state)
    if world.other:
        _let_go(store, world.other, word)


def _dump(store: Store) -> dict[bytes, bytes]:
    """All that is stored of the type; a client notes the type itself wherever it adds."""
    return {key: value for key, value in store.dump().items() if b"{job}" in key}


def _end(store: Store, claim: Claim, word: str, state: matrix.State) -> None:
    """Let the run that there was go on: what was done to its task must stay done."""
    after = store.state("x")
    if claim.early and word not in STAYS:
        assert store.start(claim) == [Started.TAKEN_BACK]
    if state not in RUNNING:
        if not claim.early or word not in STAYS:
            assert store.finish(claim) in (Settled.REFUSED, Settled.ALREADY)
            assert store.state("x") == after
        return
    end = store.occur if state in PERIODIC else store.finish
    assert end(claim) is Settled.STORED
    if word == "successor":
        assert (store.state("x"), store.fields("x")["payload"]) == ("scheduled", b'{"new":1}')
    elif word == "cancelling" or state == "cancelling":
        assert store.state("x") == "cancelled"
    else:
        goes_on = state in ("running, replaced", "periodic, running")
        assert store.state("x") == ("scheduled" if goes_on else "done")
        if word == "next edited":
            assert store.fields("x")["payload"] == b'{"new":1}'


def _let_go(store: Store, other: Claim, word: str) -> None:
    """End the run that held x back: x is claimed if it is still there and due, and once."""
    store.now = _server_ms(store)
    assert store.claim().claims == [], "one of a key at a time"
    store.finish(other)
    is_due = word in STAYS or word in ("edited", "due now")
    assert [claim.id for claim in store.claim().claims] == ["x"] * is_due


def test_every_word_is_explained() -> None:
    """The table has words for all states of all verbs, and the page explains each."""
    words = {word for verb in VERBS for word in verb.words}
    assert words == set(matrix.MEANINGS)
    assert words == {*STAYS, *BECOMES}
