"""When a poller looks again: pure arithmetic on monotonic seconds, no clock of its own."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from scheduld.store.calls import EARLY_MS, LEAD_MS, MAX_CLAIMED

if TYPE_CHECKING:
    from scheduld.clock import ServerClock
    from scheduld.model import TaskType
    from scheduld.store.answers import ClaimAnswer

LEAD_S = LEAD_MS / 1000
DOUBT = 0.4
"""Part of a lease that passes after its end before it is taken: more than the third of a lease
after which every live replica has renewed."""
_BUCKETS = 64


@dataclass(slots=True)
class Plan:
    """The next look of one poller, in monotonic seconds; at once when it is new.

    `phase`, a fraction, is where in each empty-poll timeout an idle poller looks, so that the
    types of a replica, and the replicas, do not all look at one moment. None: a whole timeout
    after the last look.
    """

    kind: TaskType
    lease_ms: int
    _: KW_ONLY
    phase: float | None = None
    next_at: float = 0.0
    _not_before: float = field(default=0.0, init=False)
    _asked_at: float = field(default=math.inf, init=False)

    def look_at(self, at: float) -> bool:
        """Look at `at` if that is sooner than planned; tells whether it is."""
        self._asked_at = min(self._asked_at, at)
        at = max(at, self._not_before)
        if at >= self.next_at:
            return False
        self.next_at = at
        return True

    def want(self, free: int) -> int:
        """How many tasks the next claim may take, with so many slots free."""
        most = self.kind.poll_batch if self.kind.poll_timeout_ms else MAX_CLAIMED
        return max(0, min(free, most))

    @property
    def early_ms(self) -> int:
        """How early the next claim may take a task: a paced type takes none ahead of its pace."""
        return LEAD_MS if self.kind.poll_timeout_ms else EARLY_MS

    def sent(self) -> None:
        """Take note that a claim is under way: what is asked from now on, it may not have seen."""
        self._asked_at = math.inf

    def answered(
        self, answer: ClaimAnswer, server: ServerClock, *, sent_at: float, now: float
    ) -> None:
        """Plan the next look after a claim that was sent at `sent_at`."""
        # A claim that found work sets the pace; after one that found none a task that
        # comes due later is taken at its time.
        self._not_before = sent_at + self.kind.poll_timeout_ms / 1000 if answer.count else now
        at = min(self._latest(now), self._asked_at)
        if answer.next_due_ms is not None:
            at = min(at, server.monotonic_at(answer.next_due_ms) - LEAD_S)
        if answer.next_lease_end_ms is not None:
            at = min(at, self._sweep_at(server.monotonic_at(answer.next_lease_end_ms + 1), now))
        self.next_at = max(at, self._not_before)

    def _sweep_at(self, end_at: float, now: float) -> float:
        """When to look for a lease that ends at `end_at`: once to see that it has ended, once
        to take it when the doubt has passed (see Bound)."""
        if end_at > now:
            return end_at
        return now + self.lease_ms / 1000 * DOUBT * (1 + 2 / _BUCKETS)

    def _latest(self, now: float) -> float:
        """When to look again if nothing else asks for it: at most a timeout from now."""
        timeout_s = self.kind.empty_poll_timeout_ms / 1000
        if self.phase is None:
            return now + timeout_s
        return now + timeout_s - (now - self.phase * timeout_s) % timeout_s


class Bound:
    """Up to which lease end this replica may take tasks from others.

    A lease counts as run out when its end lay before a server time that was told at least
    DOUBT of a lease ago by this process's own clock. So a server clock that steps forward, or
    a freeze of either side, gives live replicas the time to renew (they do so every lease/3)
    before anything is taken from them.
    """

    def __init__(self, lease_ms: int) -> None:
        self._wait_s = lease_ms / 1000 * DOUBT
        # (when the bucket began, when it was last told, the server's ms then)
        self._seen: deque[tuple[float, float, float]] = deque()

    def told(self, now_ms: float, at: float) -> None:
        """Take note that the server's time was `now_ms` at monotonic second `at`."""
        began = at
        if self._seen and at - self._seen[-1][0] < self._wait_s / _BUCKETS:
            began = self._seen.pop()[0]
        self._seen.append((began, at, now_ms))
        while len(self._seen) > 1 and at - self._seen[1][1] >= self._wait_s:
            self._seen.popleft()

    def value_ms(self, at: float) -> int:
        """Latest lease end that counts as run out at monotonic second `at`; 0 if none does."""
        old = [now_ms for _, told_at, now_ms in self._seen if at - told_at >= self._wait_s]
        return int(old[-1]) if old else 0
