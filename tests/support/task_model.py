"""What the store's rules say about one type, in plain Python: the model that tests compare with."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduld.store.answers import Added, Renewed, Settled, Started
from scheduld.store.calls import LEAD_MS
from tests.support.store import ENDED, LEASE

HELD = ("early", "running")


@dataclass
class Record:
    """One id. `plain` is the score of a plain add that waits in due beside another index."""

    at: int
    payload: bytes
    state: str = "scheduled"
    nominal: int | None = None
    failed: int = 0
    releases: int = 0
    interruptions: int = 0
    fence: int | None = None
    settled: int | None = None
    lease_end: int = 0
    cancel: bool = False
    successor: tuple[int, bytes] | None = None
    plain: int | None = None

    def indexes(self) -> set[str]:
        """Names of the indexes that hold the id."""
        own = {"scheduled": "due", "cancelled": "done", "early": "leased", "running": "leased"}
        found = {own.get(self.state, self.state)}
        return found | {"due"} if self.plain is not None else found

    def due(self) -> int | None:
        """Score in due."""
        return self.at if self.state == "scheduled" else self.plain


@dataclass
class Model:
    """All ids of a type. Each method does what the script of its name does."""

    max_interruptions: int
    tasks: dict[str, Record] = field(default_factory=dict)
    is_paused: bool = False

    def _of(self, task_id: str) -> Record:
        """Return a record; one that was pruned knows no claim."""
        return self.tasks.get(task_id) or Record(0, b"")

    def add(self, task_id: str, at: int, payload: bytes, on_conflict: str) -> Added:
        """Schedule a task."""
        task = self.tasks.get(task_id)
        if task and on_conflict != "replace":
            return Added.KEPT if on_conflict == "keep" else Added.EXISTS
        if task and task.state == "running":
            task.successor, task.plain = (at, payload), None
            return Added.SUCCESSOR
        self.tasks[task_id] = Record(at, payload)
        return Added.CREATED

    def plain(self, task_id: str, at: int, payload: bytes) -> None:
        """HSET and ZADD."""
        task = self.tasks.setdefault(task_id, Record(at, payload))
        task.payload = payload
        if task.state == "scheduled":
            task.at = at
        else:
            task.plain = at

    def claim(self, now: int, want: int, early_ms: int) -> list[str]:
        """Tell which ids are taken; the caller sets their fences by `claimed`."""
        due = sorted(
            (task.due() or 0, i) for i, task in self.tasks.items() if "due" in task.indexes()
        )
        taken: list[str] = []
        want = 0 if self.is_paused else want
        for at, task_id in [entry for entry in due if entry[0] <= now + early_ms]:
            task = self.tasks[task_id]
            if len(taken) == want:
                break
            if task.state in HELD:
                task.successor, task.plain = (at, task.payload), None
                continue
            if task.state in ENDED:
                task = self.tasks[task_id] = Record(at, task.payload)
            task.state = "early" if at > now + LEAD_MS else "running"
            task.nominal = task.nominal or at
            task.lease_end = now + LEASE
            taken.append(task_id)
        return taken

    def finish(self, now: int, task_id: str, fence: int, kind: str, wait: int) -> Settled:
        """Store the end of a run; `wait` in ms for retry, release and snooze."""
        task = self._of(task_id)
        if task.fence == fence == task.settled:
            return Settled.ALREADY
        if task.fence != fence or task.state in ENDED:
            return Settled.REFUSED
        if task.state == "scheduled" and task.at != task.nominal:
            task.plain = task.at
        task.settled = fence
        if self._hand_over(task_id) or self._end(task, kind):
            return Settled.STORED
        if task.state == "early":
            task.state = "scheduled"
            return Settled.STORED
        task.state, task.at = "scheduled", now + wait
        task.failed += kind == "retry"
        task.releases += kind == "release"
        return Settled.STORED

    def _end(self, task: Record, kind: str) -> bool:
        if task.state == "early":
            return False
        if task.cancel:
            task.state, task.cancel = "cancelled", False
        elif kind in ("done", "dead"):
            task.state = kind
            task.failed += kind == "dead"
        return task.state in ENDED

    def _hand_over(self, task_id: str) -> bool:
        task = self.tasks[task_id]
        if task.plain is not None:
            self.tasks[task_id] = Record(task.plain, task.payload)
        elif task.successor:
            self.tasks[task_id] = Record(*task.successor)
        return self.tasks[task_id] is not task

    def recover(self, now: int, limit: int) -> int:
        """Give expired leases back."""
        held = [(task.lease_end, i) for i, task in self.tasks.items() if task.state in HELD]
        ended = sorted(entry for entry in held if entry[0] <= now)[:limit]
        for _, task_id in ended:
            if not self._hand_over(task_id):
                self._lose(self.tasks[task_id])
        return len(ended)

    def _lose(self, task: Record) -> None:
        if task.state == "early":
            task.state, task.fence = "scheduled", None
        elif task.cancel:
            task.state, task.cancel = "cancelled", False
        else:
            task.interruptions += 1
            task.state, task.at = "scheduled", task.nominal or 0
            if task.interruptions == self.max_interruptions:
                task.state = "dead"

    def start(self, now: int, task_id: str, fence: int) -> Started:
        """Confirm an early claim."""
        task = self._of(task_id)
        if task.fence != fence or task.state not in HELD:
            return Started.TAKEN_BACK
        if task.state == "early" and (self.is_paused or task.at > now + LEAD_MS):
            if not self._hand_over(task_id):
                task.state, task.fence = "scheduled", None
            return Started.NOT_YET
        task.state = "running"
        return Started.GO

    def renew(self, now: int, task_id: str, fence: int) -> Renewed:
        """Push a lease out."""
        task = self._of(task_id)
        if task.fence != fence or task.settled == fence or task.state in ENDED:
            return Renewed.LOST
        if task.state == "scheduled":
            return Renewed.GIVEN_BACK
        task.lease_end = now + LEASE
        return Renewed.CANCELLED if task.cancel else Renewed.HELD

    def cancel(self, task_id: str) -> int:
        """Cancel a task; the code of the answer."""
        task = self.tasks.get(task_id)
        if not task or (task.state in ("done", "dead") and task.plain is None):
            return 3
        if task.state == "running":
            task.cancel, task.successor, task.plain = True, None, None
            return 2
        if task.state in ENDED and task.plain is not None:
            # What is cancelled is the new life.
            task = self.tasks[task_id] = Record(task.plain, task.payload)
        if task.state != "cancelled":
            task.state, task.fence = "cancelled", None
            task.successor = task.plain = None
        return 1

    def requeue(self, now: int, task_id: str) -> int:
        """Schedule an ended task again; the code of the answer."""
        task = self.tasks.get(task_id)
        if not task or task.state not in ENDED or task.plain is not None:
            return 3
        self.tasks[task_id] = Record(now, task.payload)
        return 1

    def edit(self, task_id: str, at: int | None, payload: bytes | None) -> int:
        """Change a task that has not begun; the code of the answer."""
        task = self._ready(task_id)
        if task is None:
            return 3
        task.payload = payload or task.payload
        if at is not None:
            task.at, task.nominal = at, None
        return 1

    def run_now(self, now: int, task_id: str) -> int:
        """Make a waiting task due now; the code of the answer."""
        task = self._ready(task_id)
        if task is None:
            return 3
        if task.at > now:
            task.at, task.nominal = now, task.nominal or task.at
        return 1

    def _ready(self, task_id: str) -> Record | None:
        task = self.tasks.get(task_id)
        if task is None or task.state == "running" or (task.state in ENDED and task.plain is None):
            return None
        if task.state == "early" and not self._hand_over(task_id):
            task.state = "scheduled"
        elif task.state in ENDED:
            self._hand_over(task_id)
        task = self.tasks[task_id]
        task.fence = task.settled = None
        return task

    def purge(self, state: str) -> int:
        """Remove all records of a state; answers how many."""
        if state == "scheduled":
            found = [i for i, task in self.tasks.items() if "due" in task.indexes()]
        else:
            found = [i for i, task in self.tasks.items() if task.state == state]
        for task_id in found:
            task = self.tasks[task_id]
            if state == "scheduled" and task.state != "scheduled":
                task.plain = None
            elif task.plain is None or state == "scheduled":
                del self.tasks[task_id]
            else:
                self.tasks[task_id] = Record(task.plain, task.payload)
        return len(found)

    def prune(self, index: str) -> int:
        """Remove all records of an index of ended tasks; answers how many."""
        found = [i for i, task in self.tasks.items() if task.state in ENDED]
        found = [i for i in found if index in self.tasks[i].indexes()]
        for task_id in found:
            task = self.tasks.pop(task_id)
            if task.plain is not None:
                self.tasks[task_id] = Record(task.plain, task.payload)
        return len(found)
