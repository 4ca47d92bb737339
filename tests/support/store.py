"""A store under test: one namespace of a real server, a clock by hand, a check for leaks.

A test module imports the fixtures it uses under their own names: `any_store` gives the
argument `store` on each of the three servers in turn, `valkey_store` on Valkey alone.
"""

from __future__ import annotations

import itertools
import secrets
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import redis

from scheduld.engine.reschedule import of_what_is_over, with_next
from scheduld.model import Keep, TaskType, Verdict, VerdictKind
from scheduld.policies.reschedule import Answer
from scheduld.store import calls, usercalls
from scheduld.store.answers import (
    Added,
    AddedTask,
    Decision,
    Edited,
    Entry,
    Looked,
    RawTask,
    Renewed,
    Settled,
    Started,
)
from scheduld.store.calls import Call, Caller, ClaimRequest, NewTask
from scheduld.store.keys import Keys, encode_id
from scheduld.store.records import state_of
from scheduld.store.synclink import SyncLink
from scheduld.store.usercalls import Edit
from scheduld.store.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduld.model import Claim, OnConflict
    from scheduld.store.answers import ClaimAnswer
    from tests.support.servers import RunningServer

T = TypeVar("T")
NOW = 1_790_000_000_000
"""Where the clock of every store under test begins, ms."""
LEASE = 30_000
ENDED = ("done", "cancelled", "dead")


class Store:
    """One type of one fresh namespace. `now` is the time of all calls, in ms.

    `twice` names ids that a test leaves in two indexes on purpose; `stray` those it leaves
    with a hash and no index.
    """

    def __init__(self, server: RunningServer) -> None:
        self.namespace = f"t{secrets.token_hex(6)}"
        self.keys = Keys(self.namespace)
        self.type = self.keys.type("job")
        self.kind = TaskType(name="job", handler="log")
        self.now: int | None = NOW
        self.twice: set[str] = set()
        self.stray: set[str] = set()
        self.server = server
        self.link = SyncLink(server.url, timeout_s=10.0, max_connections=64)
        self.redis = redis.Redis.from_url(server.url)
        self._sequence = itertools.count(1)

    @property
    def time(self) -> int:
        """The clock by hand; a test that uses the server's clock has none."""
        assert self.now is not None
        return self.now

    def pass_ms(self, ms: int) -> None:
        """Let the clock go on."""
        self.now = self.time + ms

    def caller(self, node: str = "r1") -> Caller:
        """Who calls, at the time of the clock by hand."""
        return Caller(self.keys, node, self.now)

    def run(self, call: Call[T], *, valid_until: int | None = None) -> T:
        """Carry a call out, with a deadline if the test is about it."""
        if valid_until is not None:
            args = list(call.args)
            args[calls.DEADLINE] = valid_until
            call = replace(call, args=tuple(args))
        return self.link.run(call)

    # Transitions.

    def add_all(self, tasks: Sequence[NewTask], on_conflict: OnConflict) -> list[AddedTask]:
        """Add tasks in one call."""
        return self.run(calls.add(self.caller(), self.type, tasks, on_conflict=on_conflict))

    def add(
        self,
        task_id: str,
        at_ms: int | None = None,
        *,
        payload: bytes = b'{"n":1}',
        token: str = "",
        on_conflict: OnConflict = "error",
        load: str = "",
    ) -> AddedTask:
        """Add one task, due now if no instant is given; `load` is packed."""
        task = NewTask(encode_id(task_id), payload, token, at_ms, load=load)
        return self.add_all([task], on_conflict)[0]

    def order(self, want: int = 1, most: int = 100) -> list[str]:
        """Claim `want` at a time until nothing more is taken; the ids in their order."""
        found: list[str] = []
        while len(found) < most and (claims := self.claim(want).claims):
            found += [claim.id for claim in claims]
        return found

    def claim_call(
        self,
        want: int = 100,
        *,
        node: str = "r1",
        sequence: int | None = None,
        verdicts: Sequence[Verdict] = (),
        early_ms: int = 0,
        bound_ms: int = 0,
        lease_ms: int = LEASE,
    ) -> Call[ClaimAnswer]:
        """Build a claim, numbered by itself. Gives nothing back unless `bound_ms` says so."""
        number = next(self._sequence) if sequence is None else sequence
        request = ClaimRequest(number, want, tuple(verdicts), bound_ms, early_ms)
        return calls.claim(self.caller(node), self.type, self.kind, request, lease_ms=lease_ms)

    def claim(self, want: int = 100, **options: Any) -> ClaimAnswer:
        """Claim what is due; options as of `claim_call`."""
        return self.run(self.claim_call(want, **options))

    def take(self, task_id: str, **options: Any) -> Claim:
        """Claim, and return the claim of that id; it must be among those claimed."""
        found = [claim for claim in self.claim(**options).claims if claim.id == task_id]
        assert len(found) == 1, f"{task_id} was not claimed"
        return found[0]

    def take_early(self, task_id: str, ahead_ms: int = 40) -> Claim:
        """Add a task that is due shortly, and claim it before that."""
        self.add(task_id, self.time + ahead_ms)
        claim = self.take(task_id, early_ms=calls.EARLY_MS)
        assert claim.early
        return claim

    def finish_all(self, *verdicts: Verdict) -> list[Settled]:
        """Store the ends of runs in one call; what became of each, as the script tells it."""
        known = Verdicts(self.type, verdicts)
        call = calls.finish(self.caller(), self.type, verdicts)
        told = self.run(replace(call, parse=lambda answer: known.settled(answer[2])))
        found = []
        for sent in verdicts:
            index = [verdict for verdict, _ in told].index(sent)
            found.append(told.pop(index)[1])
        return found

    def finish(self, claim: Claim, kind: str = "done", **fields: Any) -> Settled:
        """Store the end of one run."""
        return self.finish_all(verdict(claim, kind, **fields))[0]

    def start(self, *claims: Claim) -> list[Started]:
        """Confirm early claims."""
        return self.run(calls.start(self.caller(), self.type, pairs(claims)))

    def renew(self, *claims: Claim, lease_ms: int = LEASE) -> list[Renewed]:
        """Renew the leases of claims."""
        call = calls.renew(self.caller(), self.type, pairs(claims), lease_ms=lease_ms)
        return self.run(call)

    def recover(
        self, *, bound_ms: int | None = None, limit: int = 100, lease_ms: int = LEASE
    ) -> int:
        """Give back expired leases; up to now unless bounded."""
        bound = self.time if bound_ms is None else bound_ms
        options = {"lease_ms": lease_ms, "bound_ms": bound, "limit": limit}
        return self.run(calls.recover(self.caller("sweeper"), self.type, self.kind, **options))

    def lose(self, task_id: str, **options: Any) -> Claim:
        """Claim a task, and let its lease run out and be recovered."""
        claim = self.take(task_id, **options)
        self.pass_ms(LEASE + 1)
        assert self.recover() == 1
        return claim

    def occur(self, claim: Claim, kind: str = "done", **said: Any) -> Settled:
        """End an occurrence of a periodic task as the engine does; `said` is what an Answer has."""
        detail = '{"kind":"E","message":"m"}' if kind == "dead" else ""
        sent = self.final(claim, verdict(claim, kind, detail=detail), **said)
        return self.finish_all(sent)[0]

    def final(self, claim: Claim, result: Verdict, **said: Any) -> Verdict:
        """Give the last verdict of an occurrence what comes after it."""
        options: dict[str, Any] = {"now_ms": self.time, "max_payload": 1_000}
        return with_next(claim, result, Answer(**said), **options)

    def plan(self, task_id: str, **said: Any) -> Claim:
        """Claim an occurrence that is over, and plan the next one."""
        claim = self.take(task_id)
        assert claim.over
        sent = self.final(claim, of_what_is_over(claim), **said)
        assert self.finish_all(sent) == [Settled.STORED]
        return claim

    def cancel(self, task_id: str, skip: usercalls.Skip | None = None) -> Decision:
        """Cancel a task, or one occurrence."""
        call = usercalls.cancel(self.caller("cli"), self.type, encode_id(task_id), skip)
        return self.run(call)

    def requeue(self, task_id: str) -> Decision:
        """Schedule an ended task again."""
        return self.run(usercalls.requeue(self.caller("cli"), self.type, [encode_id(task_id)]))[0]

    def run_now(self, task_id: str) -> Decision:
        """Make a waiting task due now."""
        return self.run(usercalls.run_now(self.caller("cli"), self.type, encode_id(task_id)))

    def edit(self, task_id: str, token: str = "", **changes: Any) -> Edited:
        """Change a task; `changes` are those of Edit."""
        change = Edit(token or secrets.token_hex(4), **changes)
        return self.run(usercalls.edit(self.caller("cli"), self.type, encode_id(task_id), change))

    def pause(self, reason: str = "") -> int:
        """Pause the type."""
        call = usercalls.pause(self.caller("cli"), self.type, reason=reason, who="ana@host")
        return self.run(call)

    def resume(self) -> bool:
        """Resume the type."""
        return self.run(usercalls.resume(self.caller("cli"), self.type))

    def purge(
        self, state: str, *, before_ms: int | None = None, offset: int = 0, limit: int = 500
    ) -> Looked:
        """Remove tasks of a state, one step."""
        options: dict[str, Any] = {"state": state, "before_ms": before_ms}
        return self.run(
            usercalls.purge(self.caller("cli"), self.type, offset=offset, limit=limit, **options)
        )

    def walk(self, part: str, place: Any = None, limit: int = 10) -> list[Entry]:
        """Read a page of an index."""
        return self.run(usercalls.walk(self.caller(), self.type, part, place, limit=limit))

    def prune(self, done: Keep, dead: Keep | None = None, limit: int = 100) -> int:
        """Remove ended tasks beyond a retention."""
        kind = replace(self.kind, keep_done=done, keep_dead=dead or self.kind.keep_dead)
        return self.run(calls.prune(self.caller(), self.type, kind, limit=limit))

    def audit(self, *task_ids: str, mend: bool = False) -> list[int]:
        """Look for ids without a hash or an index."""
        raw_ids = [encode_id(task_id) for task_id in task_ids]
        return self.run(calls.audit(self.caller("janitor"), self.type, raw_ids, mend=mend))

    def plain(self, task_id: str, score: float | str, payload: bytes | None = b'{"p":1}') -> None:
        """Add a task as any other language does: HSET and ZADD (no HSET if there is no payload)."""
        if payload is not None:
            self.link.commands(("HSET", self.task_key(task_id), "payload", payload))
        self.link.commands(("ZADD", self.type.due, score, encode_id(task_id)))

    def into(self, state: str, task_id: str) -> Claim | None:
        """Bring a new task into a state: scheduled, early, running, done, cancelled or dead."""
        if state == "early":
            return self.take_early(task_id)
        self.add(task_id, self.time + 60_000 if state == "scheduled" else None)
        if state == "cancelled":
            self.cancel(task_id)
        if state in ("scheduled", "cancelled"):
            return None
        claim = self.take(task_id)
        if state != "running":
            self.finish(claim, state, detail='{"kind":"x"}' if state == "dead" else "")
        return claim

    # Looking.

    def task_key(self, task_id: str) -> bytes:
        """Key of a task's hash."""
        return self.type.task(encode_id(task_id))

    def read(self, task_id: str) -> RawTask:
        """Read a task as it is stored."""
        return self.run(usercalls.read(self.caller(), self.type, [encode_id(task_id)]))[0]

    def fields(self, task_id: str) -> dict[str, bytes]:
        """Fields of a task's hash."""
        return self.read(task_id).fields

    def number(self, task_id: str, field: str) -> int:
        """A counter of a task; 0 if it has none."""
        return int(self.fields(task_id).get(field, b"0"))

    def state(self, task_id: str) -> str:
        """The state of a task as people read it; 'none' if it is in no index."""
        state = state_of(self.read(task_id))
        return "none" if state is None else str(state)

    def due(self, task_id: str) -> int | None:
        """The due time of a scheduled task."""
        return self.read(task_id).due_ms

    def indexes(self, task_id: str) -> list[str]:
        """Names of the indexes that hold an id."""
        names = [key for key in self.type.indexes() if self._holds(key, encode_id(task_id))]
        return [name.rpartition(":")[2] for name in names]

    def error(self, task_id: str) -> str:
        """The stored error of a task, as JSON text."""
        return self.fields(task_id).get("error", b"").decode()

    def events(self) -> list[dict[str, str]]:
        """All events, oldest first."""
        entries: Any = self.redis.xrange(self.type.events)
        return [
            {name.decode(): value.decode(errors="replace") for name, value in fields.items()}
            for _, fields in entries
        ]

    def last_event(self) -> dict[str, str]:
        """The newest event."""
        return self.events()[-1]

    def dump(self) -> dict[bytes, bytes]:
        """Every key of the namespace with its value, serialized."""
        return {key: self._value(key) for key in self.all_keys()}

    def _value(self, key: bytes) -> bytes:
        if self.redis.type(key) == b"hash":
            # The order of a large one changes while it is only read.
            return repr(sorted(self.redis.hgetall(key).items())).encode()
        found: bytes = self.link.commands(("DUMP", key))[0]
        return found

    def all_keys(self) -> list[bytes]:
        """Every key of the namespace."""
        return sorted(self.redis.scan_iter(f"{self.namespace}:*", count=1000))

    def _holds(self, key: str, raw_id: bytes) -> bool:
        return self.redis.zscore(key, raw_id) is not None

    def _members(self, key: str) -> set[bytes]:
        if self.redis.type(key) != b"zset":
            return set()
        return set(self.redis.zrange(key, 0, -1))  # type: ignore[arg-type]

    def check_leaks(self) -> None:
        """Fail for a key that nothing will ever remove, and for an id in two indexes."""
        members = [self._members(key) for key in self.type.indexes()]
        indexed = set().union(*members)
        known = {self.type.task(raw_id) for raw_id in indexed}
        known |= {self.task_key(task_id) for task_id in self.stray}
        known |= {key.encode() for key in (*self.type.common(), self.keys.format, self.keys.types)}
        waiting, held = members[0], members[1]
        crons = {key for key in self.all_keys() if key.startswith(self.type.cron("").encode())}
        known |= crons | {key.replace(b":cron:", b":ticks:", 1) for key in crons}
        for key in self.all_keys():
            if key in known or self.redis.ttl(key) >= 0:
                continue
            what = key.decode(errors="replace").removeprefix(self.type.root).partition(":")[0]
            if what in ("prio", "lazy"):
                assert self._members(key.decode()) <= waiting, f"{key!r} names what is not due"
            elif what == "live":
                assert self._members(key.decode()) <= waiting | held, (
                    f"{key!r} names what has ended"
                )
            elif what == "holders":
                assert self._members(key.decode(errors="surrogateescape")) <= held
            else:
                assert what == "unique", f"{key!r} stays for ever"
                assert self.redis.get(key) in waiting | held, f"{key!r} is of an ended task"
        allowed = {encode_id(task_id) for task_id in self.twice}
        double = {i for i in indexed - allowed if sum(i in ids for ids in members) > 1}
        assert not double, f"in two indexes: {double}"

    @contextmanager
    def wakeups(self) -> Iterator[list[str]]:
        """Collect the wake-ups of a block; the list is filled when it ends."""
        heard: list[str] = []
        channel: Any = self.redis.pubsub()  # type: ignore[no-untyped-call]
        channel.subscribe(self.keys.wake)
        assert channel.get_message(timeout=5)
        yield heard
        self.redis.publish(self.keys.wake, "end")
        while heard[-1:] != ["end"]:
            message = channel.get_message(timeout=5)
            assert message, "the end was not heard"
            heard.append(message["data"].decode())
        heard.pop()
        channel.close()

    def wipe(self) -> None:
        """Remove the namespace."""
        for key in self.all_keys():
            self.redis.delete(key)

    def close(self) -> None:
        """Remove the namespace and close all connections."""
        self.wipe()
        self.redis.close()
        self.link.close()


def verdict(claim: Claim, kind: str = "done", **fields: Any) -> Verdict:
    """The end of a claim's run."""
    return Verdict(claim.raw_id, claim.fence, VerdictKind(kind), **fields)


def pairs(claims: Sequence[Claim]) -> list[tuple[bytes, int]]:
    """Raw ids and fences of claims."""
    return [(claim.raw_id, claim.fence) for claim in claims]


def created(added: AddedTask) -> bool:
    """Whether an add stored the task."""
    return added.code in (Added.CREATED, Added.SUCCESSOR)


def _store_on(server: RunningServer) -> Iterator[Store]:
    store = Store(server)
    try:
        yield store
        store.check_leaks()
    finally:
        store.close()


@pytest.fixture(params=["valkey", "redis7", "cluster"], name="store")
def any_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A fresh namespace, on each of the servers in turn."""
    yield from _store_on(request.getfixturevalue(f"{request.param}_server"))


@pytest.fixture(name="fast_store")
def valkey_store(valkey_server: RunningServer) -> Iterator[Store]:
    """A fresh namespace on Valkey."""
    yield from _store_on(valkey_server)
