"""The life of a task, in the steps of docs/life-of-a-task.md and under the same numbers.

Read the page beside it. Each test's docstring is the heading of its step.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduld import Dead, InvalidInput, Retry, Snooze, State
from scheduld.client.adding import TaskSpec, prepare
from scheduld.model import Claim, Keep, RetryPolicy, Verdict, VerdictKind
from scheduld.policies.endings import Ending, GivenBack, Raised, Returned, TimedOut, verdict
from scheduld.store import calls
from scheduld.store.answers import Added, Settled, Started
from scheduld.store.keys import Keys
from tests.support.replicas import Site, until
from tests.support.store import LEASE
from tests.support.store import valkey_store as valkey_store
from tests.support.tasks import Gate, Journal, duty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.servers import RunningServer
    from tests.support.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "life-of-a-task.md"


@pytest.fixture
async def site(valkey_server: RunningServer) -> AsyncIterator[Site]:
    """A namespace for replicas."""
    async with Site(valkey_server.url) as site:
        yield site


def test_the_page_has_these_steps() -> None:
    """Numbers and headings of the page are numbers and docstrings of the tests here."""
    headings = re.findall(r"^### (\d+)\. (.+)$", PAGE.read_text(), re.MULTILINE)
    tests = inspect.getmembers(sys.modules[__name__], inspect.isfunction)
    steps = [
        (match[1], (inspect.getdoc(test) or "").splitlines()[0].rstrip("."))
        for name, test in tests
        if (match := re.match(r"test_step_(\d)_", name))
    ]
    assert headings == sorted(steps)
    assert [number for number, _ in headings] == [str(number) for number in range(1, 10)]


def test_step_1_build() -> None:
    """A client builds a task."""
    spec = TaskSpec(payload={"to": "ana"}, delay="5m").named()
    assert spec.id is not None
    assert spec.id == spec.token, "a made-up id is its own token, and costs nothing"
    assert TaskSpec(id="mine").named().token not in ("mine", None)
    limits = {"timezone": None, "allow_past": False, "max_payload": 1000}
    new = prepare(spec, **limits).new  # type: ignore[arg-type]
    assert (new.payload, new.at_ms, new.delay_ms) == (b'{"to":"ana"}', None, 300_000)
    with pytest.raises(InvalidInput, match="not a text"):
        prepare(TaskSpec(payload={1: 2}).named(), **limits)  # type: ignore[arg-type, dict-item]


def test_step_2_name(fast_store: Store) -> None:
    """The store names keys and script."""
    keys = Keys("ns").type("email")
    assert {key.partition("}")[0] for key in keys.common()} == {"ns:{email"}
    task = calls.NewTask(b"42", b"{}", "", None, 0)
    call = calls.add(fast_store.caller(), keys, [task], on_conflict="error")
    assert call.keys[-1] == b"ns:{email}:task:42"
    fast_store.now = None  # the server's own clock, as in life
    late = calls.add(fast_store.caller(), fast_store.type, [task], on_conflict="error")
    args = list(late.args)
    args[calls.DEADLINE] = 1_000
    answer = fast_store.link.commands(
        ("EVAL", late.script.source, len(late.keys), *late.keys, *args)
    )[0]
    assert answer[0] == -1, "past its valid_until a call is not carried out"
    assert fast_store.state("42") == "none"


def test_step_3_add(fast_store: Store) -> None:
    """`add` stores hash and index together."""
    with fast_store.redis.pubsub() as heard:  # type: ignore[no-untyped-call]
        heard.subscribe(fast_store.keys.wake)
        assert heard.get_message(timeout=5) is not None
        due = fast_store.time + 60_000
        assert fast_store.add("made-up", due, token="made-up").code is Added.CREATED
        assert fast_store.fields("made-up") == {"payload": b'{"n":1}'}
        assert fast_store.indexes("made-up") == ["due"]
        message = heard.get_message(timeout=5)
        assert message is not None
        assert message["data"] == f"job {due}".encode()
    assert fast_store.add("made-up", due, token="made-up").code is Added.REPEATED, "a repeat"


async def test_step_4_wake(site: Site) -> None:
    """A poller wakes."""
    journal = Journal()
    await site.start(duty("a", journal.inline(), empty_poll_timeout_ms=3_600_000))
    await site.ended("a", await site.add("a"))
    # Without the wake-up this would have taken an hour; without any, it takes the timeout.
    await site.start(duty("b", journal.inline(), empty_poll_timeout_ms=200))
    await site.redis.zadd(site.keys.type("b").due, {"unheard": 1})
    await site.redis.hset(site.keys.type("b").task(b"unheard"), "payload", "{}")
    await site.ended("b", "unheard")


def test_step_5_claim(fast_store: Store) -> None:
    """`claim` moves due tasks to leased."""
    for task_id, ago in (("young", 1), ("old", 3), ("middle", 2)):
        fast_store.add(task_id, fast_store.time - ago)
    claims = fast_store.claim(2).claims
    assert [claim.id for claim in claims] == ["old", "middle"]
    assert fast_store.fields("old")["owner"] == b"r1"
    assert (fast_store.state("old"), fast_store.state("young")) == ("running", "scheduled")
    assert fast_store.claim().claims[0].fence > claims[0].fence
    early = fast_store.take_early("early")
    assert fast_store.state("early") == "scheduled"
    fast_store.pass_ms(40)
    assert fast_store.start(early) == [Started.GO]
    assert fast_store.state("early") == "running"


async def test_step_6_run(site: Site) -> None:
    """The handler runs."""
    gate = Gate()
    await site.start(duty("a", gate.inline), duty("b", gate.threaded), duty("c", _exits))
    ids = {name: await site.add(name) for name in "abc"}
    keys = site.keys.type("a")
    await until(lambda: site.redis.zscore(keys.leased, ids["a"]), "a runs")
    first = await site.redis.zscore(keys.leased, ids["a"])

    async def renewed() -> bool:
        return bool(await site.redis.zscore(keys.leased, ids["a"]) > first)

    await until(renewed, "the lease is renewed while the handler runs")
    task = await site.ended("c", ids["c"], State.SCHEDULED)
    await until(lambda: site.redis.hget(site.keys.type("c").task(task.id.encode()), "failed"), "c")
    gate.open()
    for name in "ab":
        assert (await site.ended(name, ids[name])).result == "through the gate"


async def _exits(payload: object, run: object) -> None:
    sys.exit("the daemon must not end")


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (Returned({"n": 1}), VerdictKind.DONE),
        (Raised(ValueError("no")), VerdictKind.RETRY),
        (TimedOut(60_000), VerdictKind.RETRY),
        (Returned(Retry(after="5s")), VerdictKind.RETRY),
        (Raised(Dead("never")), VerdictKind.DEAD),
        (Returned(Snooze("1h")), VerdictKind.SNOOZE),
        (GivenBack(), VerdictKind.RELEASE),
    ],
)
def test_step_7_decide(ending: Ending, kind: VerdictKind) -> None:
    """The ending becomes a verdict."""

    def decided(failed: int) -> VerdictKind:
        claim = Claim("a", "i", b"i", b"{}", 7, 0, 0, False, failed, 0, 0)
        policy = RetryPolicy(attempts=3)
        return verdict(claim, ending, policy=policy, now_ms=0, fraction=0.5).kind

    assert decided(failed=0) is kind
    # The third failure is the last one allowed; what is no failure goes on as before.
    assert decided(failed=2) is (VerdictKind.DEAD if kind is VerdictKind.RETRY else kind)


def test_step_8_finish(fast_store: Store) -> None:
    """`finish` stores the verdict, by fence."""
    fast_store.add("a")
    old = fast_store.lose("a")
    new = fast_store.take("a")
    assert fast_store.finish(old) is Settled.REFUSED
    assert fast_store.state("a") == "running"
    assert fast_store.finish(new, detail='{"n":1}') is Settled.STORED
    assert fast_store.finish(new) is Settled.ALREADY
    assert (fast_store.state("a"), fast_store.fields("a")["result"]) == ("done", b'{"n":1}')
    fast_store.add("b")
    carried = fast_store.claim_call(verdicts=[_done(fast_store.take("b"))])
    assert fast_store.run(carried).refused == [], "with the next claim"


def test_step_9_recover(fast_store: Store) -> None:
    """If the process dies, another gives the task back."""
    fast_store.add("a")
    dead = fast_store.take("a")
    assert fast_store.recover() == 0, "its lease is good"
    fast_store.pass_ms(LEASE + 1)
    assert fast_store.recover() == 1
    assert (fast_store.state("a"), fast_store.number("a", "interruptions")) == ("scheduled", 1)
    assert fast_store.take("a").fence > dead.fence
    fast_store.pass_ms(LEASE + 1)
    fast_store.recover()
    slow = fast_store.take("a")
    fast_store.pass_ms(LEASE + 1)
    fast_store.recover()
    assert fast_store.state("a") == "dead", "three lost runs are max_interruptions"
    assert fast_store.finish(slow) is Settled.REFUSED, "it was given up before this came"
    fast_store.add("b")
    slow = fast_store.lose("b")
    assert fast_store.finish(slow) is Settled.STORED, "nobody has claimed it since"


def _done(claim: Claim) -> Verdict:
    return Verdict(claim.raw_id, claim.fence, VerdictKind.DONE)


# --- the diagram

GONE = "[*]"


def _claimed(store: Store) -> None:
    store.pass_ms(60_000)
    store.take("a")


def _lost(store: Store, claim: Claim) -> None:
    store.pass_ms(LEASE + 1)
    store.recover()


def _lost_too_often(store: Store, claim: Claim) -> None:
    for _ in range(3):
        _lost(store, claim)
        store.claim()


def _ended_after_cancel(store: Store, claim: Claim) -> None:
    assert store.cancel("a").state == "running"
    store.finish(claim)


def _ended_after_replace(store: Store, claim: Claim) -> None:
    assert store.add("a", on_conflict="replace").code is Added.SUCCESSOR
    store.finish(claim)


def _comes_again(store: Store, claim: Claim) -> None:
    store.finish(claim, "release")
    store.edit("a", period=f"every=1h\nanchor={store.time}")
    store.occur(store.take("a"))


def _broken(store: Store) -> None:
    store.redis.zadd(store.type.due, {"a": 1_790_000_000})  # seconds, not ms
    store.claim()


def _plain(store: Store) -> None:
    store.plain("a", store.time)


def _replace(store: Store) -> None:
    store.add("a", store.time + 1, on_conflict="replace")


def _prune(store: Store) -> None:
    state = store.state("a")
    store.add("b")
    store.finish(store.take("b"))
    assert store.purge(state, limit=1).removed == 1
    store.pass_ms(2)
    store.prune(Keep(1, 1), Keep(1, 1))
    assert store.state("b") == "none"


RUNNING: dict[tuple[str, str], Callable[[Store, Claim], object]] = {
    ("done", "done"): lambda store, claim: store.finish(claim),
    ("scheduled", "retry"): lambda store, claim: store.finish(claim, "retry", detail="{}"),
    ("scheduled", "snooze"): lambda store, claim: store.finish(claim, "snooze", at_ms=store.time),
    ("scheduled", "release"): lambda store, claim: store.finish(claim, "release"),
    ("scheduled", "lease lost"): _lost,
    ("scheduled", "ended, and comes again"): _comes_again,
    ("scheduled", "ended after a replace"): _ended_after_replace,
    ("cancelled", "ended after a cancel"): _ended_after_cancel,
    ("dead", "failed too often"): lambda store, claim: store.finish(claim, "dead", detail="{}"),
    ("dead", "lost too often"): _lost_too_often,
}
OTHERS: dict[tuple[str, str, str], Callable[[Store], object]] = {
    (GONE, "scheduled", "add"): lambda store: store.add("a"),
    (GONE, "scheduled", "HSET and ZADD"): _plain,
    ("scheduled", "running", "claim"): _claimed,
    ("scheduled", "scheduled", "replace"): _replace,
    ("scheduled", "scheduled", "edit"): lambda store: store.edit("a", at_ms=store.time + 9),
    ("scheduled", "scheduled", "run now"): lambda store: store.run_now("a"),
    ("scheduled", GONE, "purge"): lambda store: store.purge("scheduled"),
    ("scheduled", "cancelled", "cancel"): lambda store: store.cancel("a"),
    ("scheduled", "dead", "cannot be run"): _broken,
    **{
        (state, "scheduled", "requeue"): lambda store: store.requeue("a")
        for state in ("done", "cancelled", "dead")
    },
    **{(state, "scheduled", "replace"): _replace for state in ("done", "cancelled", "dead")},
    **{(state, GONE, "prune or purge"): _prune for state in ("done", "cancelled", "dead")},
}


def _arrows() -> list[tuple[str, str, str]]:
    return re.findall(r"^    (\S+) --> (\S+): (.+)$", PAGE.read_text(), re.MULTILINE)


def test_the_diagram_has_every_state_and_these_arrows() -> None:
    """The states of the diagram are those of the model; each of its arrows is tried below."""
    arrows = _arrows()
    assert {name for arrow in arrows for name in arrow[:2]} == {*State, GONE}
    assert len(arrows) == len(set(arrows))
    assert set(arrows) == {("running", *arrow) for arrow in RUNNING} | set(OTHERS)


@pytest.mark.parametrize("arrow", _arrows(), ids="-".join)
def test_an_arrow_of_the_diagram(fast_store: Store, arrow: tuple[str, str, str]) -> None:
    """A task in the state where an arrow begins is in the state where it ends, after the script."""
    begin, end, label = arrow
    claim = None if begin == GONE else fast_store.into(begin, "a")
    assert fast_store.state("a") == begin.replace(GONE, "none")
    if begin == "running":
        assert claim is not None
        RUNNING[end, label](fast_store, claim)
    else:
        OTHERS[arrow](fast_store)
    assert fast_store.state("a") == end.replace(GONE, "none")
