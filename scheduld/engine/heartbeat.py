"""Answers for the leases: renews them from a thread of its own, on a connection of its own.

A thread, so that a handler may block the event loop; of this process, so that a stopped
daemon loses its leases. It stops renewing when the loop is stuck beyond what its handlers
may take.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from scheduld.engine.isolation import Stop
from scheduld.errors import ScheduldError
from scheduld.store import calls
from scheduld.store.answers import Renewed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduld.engine.watchdog import Pulse
    from scheduld.model import Claim, Verdict
    from scheduld.store.calls import Caller
    from scheduld.store.synclink import SyncLink

log = structlog.get_logger("scheduld.heartbeat")
_PAIRS_A_CALL = 250
_STOPS = {Renewed.CANCELLED: Stop.CANCELLED, Renewed.LOST: Stop.LOST}


class Holds:
    """Every lease this replica holds, from the claim until its verdict is stored."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fences: dict[str, dict[bytes, int]] = {}

    def add(self, type_name: str, claims: Iterable[Claim]) -> None:
        """Hold the leases of claims of a type."""
        with self._lock:
            held = self._fences.setdefault(type_name, {})
            for claim in claims:
                held[claim.raw_id] = claim.fence

    def remove(self, type_name: str, ended: Iterable[Claim | Verdict]) -> None:
        """Let leases go; a newer one of the same id stays."""
        with self._lock:
            held = self._fences.get(type_name, {})
            for item in ended:
                if held.get(item.raw_id) == item.fence:
                    del held[item.raw_id]

    def forget(self, type_name: str, raw_id: bytes, fence: int) -> None:
        """Let the lease of one pair go."""
        with self._lock:
            held = self._fences.get(type_name, {})
            if held.get(raw_id) == fence:
                del held[raw_id]

    def chunks(self) -> list[tuple[str, list[tuple[bytes, int]]]]:
        """All leases as (raw id, fence) pairs, in pieces that fit a call."""
        with self._lock:
            held = [(name, list(fences.items())) for name, fences in self._fences.items()]
        return [
            (name, pairs[start : start + _PAIRS_A_CALL])
            for name, pairs in held
            for start in range(0, len(pairs), _PAIRS_A_CALL)
        ]


class Heartbeat(threading.Thread):
    """Renews every lease each third of its length; a failed renewal is tried again soon.

    `on_stop(type, raw id, fence, why)` is called from this thread.
    """

    def __init__(
        self,
        link: SyncLink,
        caller: Caller,
        holds: Holds,
        pulse: Pulse,
        *,
        lease_ms: int,
        on_stop: Callable[[str, bytes, int, Stop], None],
    ) -> None:
        super().__init__(name="scheduld-heartbeat", daemon=True)
        self._link = link
        self._caller = caller
        self._holds = holds
        self._pulse = pulse
        self._lease_ms = lease_ms
        self._on_stop = on_stop
        self._over = threading.Event()
        self._wake = threading.Event()

    def hurry(self) -> None:
        """Renew now: it also tells which runs should stop."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread; waits for the call under way."""
        self._over.set()
        self._wake.set()
        if self.is_alive():
            self.join(self._link.timeout_s * 2)

    def run(self) -> None:
        """Renew until stopped."""
        third_s = self._lease_ms / 3000
        while not self._over.is_set():
            # After a failure soon again: a lease must outlast several tries.
            self._wake.clear()
            worked = not self._pulse.is_stuck() and self.renew()
            if not self._over.is_set():
                self._wake.wait(third_s if worked else third_s / 7)

    def renew(self) -> bool:
        """Renew all leases once; tells whether the server has answered."""
        chunks = self._holds.chunks()
        if not chunks:
            return True
        keys = self._caller.keys
        requests = [
            calls.renew(self._caller, keys.type(name), pairs, lease_ms=self._lease_ms)
            for name, pairs in chunks
        ]
        try:
            answers = self._link.run_all(requests)
        except ScheduldError:
            return False  # the pollers meet the same outage, and tell it
        except Exception as error:  # noqa: BLE001 - without this thread every lease is lost
            log.error("renewal failed", error=f"{type(error).__name__}: {error}")
            return False
        for (name, pairs), codes in zip(chunks, answers, strict=True):
            if isinstance(codes, ScheduldError):
                return False
            for (raw_id, fence), code in zip(pairs, codes, strict=True):
                self._tell(name, raw_id, fence, code)
        return True

    def _tell(self, name: str, raw_id: bytes, fence: int, code: Renewed) -> None:
        if code in _STOPS:
            self._on_stop(name, raw_id, fence, _STOPS[code])
        if code is Renewed.LOST:
            self._holds.forget(name, raw_id, fence)
