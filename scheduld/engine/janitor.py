"""Answers for what nobody else looks at: leases of busy types, old and broken records.

It walks the namespace slowly, one small step at a time, and looks twice: a hash without an
index entry, or an entry without a hash, may be somebody's add between its two commands.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog

from scheduld.clock import monotonic
from scheduld.engine.loop import wait_for
from scheduld.errors import Conflict
from scheduld.names import printable
from scheduld.store import calls
from scheduld.store.keys import decode_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from scheduld.engine.plan import Bound
    from scheduld.engine.poller import Poller
    from scheduld.store.calls import Caller
    from scheduld.store.link import AsyncLink

    _Place = Callable[[bytes], Awaitable[dict[str, list[bytes]]]]

log = structlog.get_logger("scheduld.janitor")
STEP_S = 5.0
_SCAN_COUNT = 500
_AUDIT_IDS = 250
_RECOVER = 50
_PRUNE = 200
_PRUNE_CALLS = 20
_MOST_SUSPECTS = 10_000


class Janitor:
    """The loop that recovers for busy types, prunes, and audits, one small step at a time.

    `step_s`: pause between steps; `settle_s`: how long a record must look broken.
    """

    name = "janitor"

    def __init__(
        self,
        link: AsyncLink,
        caller: Caller,
        bound: Bound,
        pollers: Sequence[Poller],
        *,
        lease_ms: int,
        step_s: float = STEP_S,
        settle_s: float = 10.0,
    ) -> None:
        self._link = link
        self._caller = caller
        self._bound = bound
        self._pollers = pollers
        self._names = [poller.duty.name for poller in pollers]
        self._lease_ms = lease_ms
        self._step_s = step_s
        self._settle_s = settle_s
        self._suspects: dict[tuple[str, bytes], float] = {}
        self._walk = self._places()
        self._cursor = b"0"
        self._place: _Place | None = None
        self._turn = -1
        self._is_pruning = False
        self._stop = asyncio.Event()

    def is_over(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End the loop."""
        self._stop.set()

    async def run_once(self) -> None:
        """Wait a step, then do one: recover, and in turn prune or audit."""
        if not await wait_for(self._stop, self._step_s):
            await self.recover()
            self._is_pruning = not self._is_pruning
            # A key of the wrong type in one type must not keep the others from care.
            with _tells_conflicts("cannot prune or audit"):
                await (self.prune() if self._is_pruning else self.audit())

    async def recover(self) -> None:
        """Give expired leases back for types whose pollers have not looked for a lease."""
        now = monotonic()
        for poller in self._pollers:
            if now - poller.last_claim_at < self._lease_ms / 1000:
                continue
            bound_ms = self._bound.value_ms(now)
            call = calls.recover(
                self._caller,
                self._caller.keys.type(poller.duty.name),
                poller.duty.kind,
                lease_ms=self._lease_ms,
                bound_ms=bound_ms,
                limit=_RECOVER,
            )
            with _tells_conflicts("cannot recover"):
                await self._link.run(call)
                # A busy type's poller tells the bound no news; the server's clock does.
                self._bound.told(self._link.server.now_ms(), monotonic())

    async def prune(self) -> None:
        """Remove what one type keeps too long; claims do so only little by little."""
        if not self._pollers:
            return
        self._turn = (self._turn + 1) % len(self._pollers)
        duty = self._pollers[self._turn].duty
        keys = self._caller.keys.type(duty.name)
        call = calls.prune(self._caller, keys, duty.kind, limit=_PRUNE)
        for _ in range(_PRUNE_CALLS):
            if await self._link.run(call) < _PRUNE:
                break

    async def audit(self) -> None:
        """Look at the next few records, and mend those that were broken at the last look too."""
        for type_name, raw_ids in (await self._next_ids()).items():
            with _tells_conflicts("cannot audit"):
                for start in range(0, len(raw_ids), _AUDIT_IDS):
                    await self._audit(type_name, raw_ids[start : start + _AUDIT_IDS])
        await self._mend()

    async def _next_ids(self) -> dict[str, list[bytes]]:
        if self._place is None:
            self._place = next(self._walk)
            self._cursor = b"0"
        try:
            ids = await self._place(self._cursor)
        except Conflict:
            self._place = None
            raise
        if self._cursor == b"0":
            self._place = None
        return ids

    def _places(self) -> Iterator[_Place]:
        while True:
            yield self._hashes
            for name in self._names:
                keys = self._caller.keys.type(name)
                for index in keys.indexes():
                    yield partial(self._entries, name, index)

    async def _hashes(self, cursor: bytes) -> dict[str, list[bytes]]:
        """A step through the task hashes of all types of this replica."""
        pattern = self._caller.keys.any_task_pattern
        command = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
        ((self._cursor, names),) = await self._link.commands(command)
        found: dict[str, list[bytes]] = {}
        for name in self._names:
            prefix = self._caller.keys.type(name).task_prefix.encode()
            ids = [key[len(prefix) :] for key in names if key.startswith(prefix)]
            if ids:
                found[name] = ids
        return found

    async def _entries(self, name: str, index: str, cursor: bytes) -> dict[str, list[bytes]]:
        """A step through one index."""
        command = ("ZSCAN", index, cursor, "COUNT", _SCAN_COUNT)
        ((self._cursor, pairs),) = await self._link.commands(command)
        return {name: pairs[::2]} if pairs else {}

    async def _audit(self, type_name: str, raw_ids: list[bytes]) -> None:
        keys = self._caller.keys.type(type_name)
        codes = await self._link.run(calls.audit(self._caller, keys, raw_ids, mend=False))
        for raw_id, code in zip(raw_ids, codes, strict=True):
            if code and len(self._suspects) < _MOST_SUSPECTS:
                self._suspects.setdefault((type_name, raw_id), monotonic())

    async def _mend(self) -> None:
        now = monotonic()
        ripe = [who for who, since in self._suspects.items() if now - since >= self._settle_s]
        for type_name, raw_id in ripe[:_AUDIT_IDS]:
            keys = self._caller.keys.type(type_name)
            code = 0
            with _tells_conflicts("cannot mend"):
                (code,) = await self._link.run(calls.audit(self._caller, keys, [raw_id], mend=True))
            del self._suspects[type_name, raw_id]
            if code:
                what = "hash in no index" if code == 1 else "index entry without a hash"
                task = f"{type_name}/{printable(decode_id(raw_id))}"
                log.error("broken record is dead now", task=task, error=what)


@contextmanager
def _tells_conflicts(what: str) -> Iterator[None]:
    """Log a key that holds something else (its message names the type), and go on."""
    try:
        yield
    except Conflict as error:
        log.error(what, error=error.message)
