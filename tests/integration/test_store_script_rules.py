"""What holds for every script: late calls, foreign keys, full memory, forgotten scripts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.errors import Conflict, Unreachable
from scheduld.model import Keep, TaskType
from scheduld.store import calls, croncalls, usercalls
from scheduld.store.answers import Decision, Renewed, Started
from scheduld.store.calls import Call, ClaimRequest, NewTask
from scheduld.store.croncalls import Definition, PastTick
from scheduld.store.notecalls import Note, note
from scheduld.store.scripts import script_names
from scheduld.store.usercalls import Edit
from tests.support.crons import Crons, daily
from tests.support.servers import start_server
from tests.support.store import LEASE, NOW, Store, pairs, verdict
from tests.support.store import any_store as any_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.model import Claim

SCRIPTS = script_names()
READERS = {"fields", "read", "walk", "cron_read"}


class Busy:
    """A type in which every script has something to do, and a call for each of them.

    The claims are taken by node r1 at NOW; `late` is the time at which the calls are made.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.crons = Crons(store)
        self.crons.define(daily("n"))
        self.crons.define(daily("paused"))
        self.crons.pause("paused")
        for task_id in ("done", "dead", "lost", "run"):
            store.add(task_id)
        claims = {claim.id: claim for claim in store.claim().claims}
        store.finish_all(verdict(claims["done"]), verdict(claims["dead"], "dead", detail="{}"))
        store.pass_ms(LEASE + 50)
        self.run = claims["run"]
        store.renew(self.run)
        store.add("due")
        store.redis.hset(store.task_key("stray"), "payload", "{}")
        store.stray.add("stray")
        store.add("early", store.time + 40)
        (self.early,) = self._claim_early()

    def _claim_early(self) -> list[Claim]:
        store = self.store
        store.cancel("due")
        claims = store.claim(early_ms=50, node="r2").claims
        store.requeue("due")
        store.pass_ms(40)
        return claims

    def call(self, name: str) -> Call[Any]:
        """Return a call of a script that changes something, if it is not one that only reads."""
        store = self.store
        caller, keys = store.caller(), store.type
        kind = TaskType(name="job", handler="log", keep_done=Keep(0, 0), keep_dead=Keep(0, 0))
        bound: dict[str, Any] = {"lease_ms": LEASE, "bound_ms": store.time}
        request = ClaimRequest(90, 5, (verdict(self.run, "retry", delay_ms=5),), store.time)
        made: dict[str, Call[Any]] = {
            **self._cron_calls(),
            "add": calls.add(caller, keys, [NewTask(b"new", b"{}", "T")], on_conflict="error"),
            "audit": calls.audit(caller, keys, [b"stray"], mend=True),
            "cancel": usercalls.cancel(caller, keys, b"due"),
            "claim": calls.claim(caller, keys, kind, request, lease_ms=LEASE),
            "edit": usercalls.edit(caller, keys, b"due", Edit("T", payload=b"{}", at_ms=NOW)),
            "fields": usercalls.fields(caller, keys, [b"run"], "payload"),
            "finish": calls.finish(caller, keys, [verdict(self.run)]),
            "pause": usercalls.pause(caller, keys, reason="", who="ana"),
            "note": note(caller, keys, [Note(b"run", self.run.fence, "1", 0, ["{}"])]),
            "prune": calls.prune(caller, keys, kind, limit=10),
            "purge": usercalls.purge(caller, keys, state="done", before_ms=None, offset=0, limit=9),
            "read": usercalls.read(caller, keys, [b"run"]),
            "recover": calls.recover(caller, keys, kind, limit=10, **bound),
            "renew": calls.renew(caller, keys, pairs([self.run]), lease_ms=LEASE * 2),
            "requeue": usercalls.requeue(caller, keys, [b"dead"]),
            "resume": usercalls.resume(caller, keys),
            "run_now": usercalls.run_now(caller, keys, b"due"),
            "start": calls.start(caller, keys, pairs([self.early])),
            "walk": usercalls.walk(caller, keys, "due", None, limit=9),
        }
        return made[name]

    def _cron_calls(self) -> dict[str, Call[Any]]:
        caller, keys = self.store.caller(), self.store.type
        past = PastTick(NOW - 5, NOW, b"n@past")
        return {
            "cron_backfill": croncalls.backfill(caller, keys, "n", [past]),
            "cron_define": croncalls.define(caller, keys, [Definition(daily("new"), "config")]),
            "cron_move": croncalls.move(caller, keys, "n", to="other"),
            "cron_orphan": croncalls.orphan(caller, keys, "n", after_ms=9),
            "cron_park": croncalls.park(caller, keys, "n", digest=daily("n").digest, why="x"),
            "cron_pause": croncalls.pause(caller, keys, "n", reason="", who="ana"),
            "cron_raise_marks": croncalls.raise_marks(caller, keys, [("n", NOW + 9)]),
            "cron_read": croncalls.read(caller, keys, ["n"]),
            "cron_remove": croncalls.remove(caller, keys, "n", reason=""),
            "cron_resume": croncalls.resume(caller, keys, "paused"),
            "cron_skips": croncalls.skips(caller, keys, "n", add=[(NOW, NOW + LEASE * 9)]),
            "cron_tick": croncalls.tick(caller, keys, [self.crons.a_tick(name="n")]),
            "cron_trigger": croncalls.trigger(caller, keys, "n", raw_id=b"n@manual-1"),
        }


@pytest.fixture
def busy(store: Store) -> Busy:
    """A type in which every script has something to do."""
    return Busy(store)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_late_call_is_refused(store: Store, busy: Busy, name: str) -> None:
    """After its deadline a call changes nothing; at its deadline it is still carried out."""
    if name == "resume":
        store.pause()
    before = store.dump()
    with pytest.raises(Unreachable, match="too late and was not carried out"):
        store.run(busy.call(name), valid_until=store.time - 1)
    assert store.dump() == before
    store.run(busy.call(name), valid_until=store.time)
    assert (store.dump() == before) == (name in READERS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_foreign_key_refuses_before_the_first_write(store: Store, busy: Busy, name: str) -> None:
    """A wrong type at a key of the type fails every call as a whole, and is told in one line."""
    for key in store.type.common():
        store.redis.rename(key, f"{key}.aside")
        store.redis.set(key, "foreign")
        before = store.dump()
        with pytest.raises(
            Conflict, match="a key of type job holds another kind of value; nothing was"
        ):
            store.run(busy.call(name))
        assert store.dump() == before, key
        store.redis.rename(f"{key}.aside", key)
    store.run(busy.call(name))


def test_a_foreign_key_at_the_record_of_a_claim(store: Store, busy: Busy) -> None:
    """The same for the key that only claims use."""
    store.redis.delete(store.type.claim("r1"))
    store.redis.rpush(store.type.claim("r1"), "foreign")
    store.redis.expire(store.type.claim("r1"), 60)
    before = store.dump()
    with pytest.raises(Conflict):
        store.run(busy.call("claim"))
    assert store.dump() == before


def test_a_foreign_key_at_a_task(store: Store) -> None:
    """A task whose key is no hash is answered as such, and nothing is written for it."""
    store.redis.set(store.task_key("x"), "foreign", px=60_000)
    before = store.dump()
    assert store.cancel("x") == store.requeue("x") == Decision(3, "broken")
    assert store.dump() == before


def test_scripts_that_the_server_forgot_are_sent_again(store: Store, busy: Busy) -> None:
    """A restarted server knows no script: every call works nevertheless, with all of a batch."""
    for name in SCRIPTS:
        store.redis.script_flush()
        store.run(busy.call(name))
        busy = Busy(fresh(store))
    store.redis.script_flush()
    caller = store.caller()
    batch: list[Call[Any]] = [
        usercalls.read(caller, store.type, [b"run"]),
        usercalls.cancel(caller, store.type, b"none"),
    ]
    first, second = store.link.run_all(batch)
    assert first[0].raw_id == b"run"
    assert second == Decision(3, "none")


def fresh(store: Store) -> Store:
    """Empty the namespace and set the clock back."""
    store.wipe()
    store.now = NOW
    return store


def test_the_servers_clock_is_used_without_an_explicit_now(store: Store) -> None:
    """A call takes the server's time, and the link learns it from the answers."""
    seconds, _ = store.redis.time()
    store.now = None
    added = store.add("x")
    assert added.due_ms is not None
    assert seconds * 1000 <= added.due_ms <= (seconds + 60) * 1000
    assert store.link.server.known


def test_a_call_with_a_deadline_from_a_wrong_clock_is_repeated(store: Store) -> None:
    """A link that took the server's clock for an earlier one asks again, and is not refused."""
    store.now = None
    store.link.server.told(NOW - 10**11)
    assert store.add("x").code.name == "CREATED"
    assert store.redis.zcard(store.type.due) == 1


class TestFullMemory:
    """A server that is out of memory, of its own because the limit holds for all of it."""

    @pytest.fixture(params=["valkey", "redis7"])
    def full(self, request: pytest.FixtureRequest) -> Iterator[Busy]:
        """A busy type on a server that may not grow any more."""
        with (
            tempfile.TemporaryDirectory(prefix="scheduld-") as folder,
            start_server(request.param, Path(folder)) as server,
        ):
            store = Store(server)
            busy = Busy(store)
            store.redis.config_set("maxmemory", 1)
            yield busy
            store.close()

    def test_work_goes_on_and_ends(self, full: Busy) -> None:
        """New tasks are refused in words; claims, renewals, ends, cancels and mending go on."""
        store = full.store
        before = store.dump()
        adding = ("add", "edit", "requeue")
        for name in (
            *adding,
            "cron_tick",
            "cron_define",
            "cron_trigger",
            "cron_backfill",
            "cron_orphan",
        ):
            with pytest.raises(Unreachable, match="Redis is out of memory"):
                store.run(full.call(name))
        assert store.dump() == before
        assert store.run(full.call("renew")) == [Renewed.HELD]
        assert store.run(full.call("start")) == [Started.GO]
        assert store.run(full.call("audit")) == [1]
        assert store.run(full.call("cancel")) == Decision(1, "scheduled")
        assert store.run(full.call("recover")) == 1
        assert [claim.id for claim in store.claim(node="r3").claims] == ["lost"]
        assert store.run(full.call("finish")) == [], "none refused"
        assert store.run(full.call("read"))[0].finished_ms == store.time
        assert store.run(full.call("prune")) == 5, "three done, two dead"
        letting_go = ("cron_skips", "cron_pause", "cron_resume")
        for name in (*letting_go, "cron_raise_marks", "cron_park", "cron_remove"):
            assert store.run(full.call(name))
        store.run(full.call("pause"))
        assert store.run(full.call("resume"))
