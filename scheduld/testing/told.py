"""What handlers tell on their way in tests: kept with their tasks, as the daemon keeps it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scheduld import notes
from scheduld.store.notecalls import Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.handlers.contract import Run
    from scheduld.model import Claim


class Told:
    """Progress and log lines of runs, until `take` hands them over to be stored."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._progress: dict[tuple[str, int], str] = {}
        self._lines: dict[tuple[str, int], deque[str]] = {}

    def progress(self, run: Run, text: str) -> None:
        """Take a JSON text in place of the last one."""
        self._progress[run.id, run.fence] = text

    def log(self, run: Run, text: str, age_ms: float = 0.0) -> None:
        """Take one more text."""
        lines = self._lines.setdefault((run.id, run.fence), deque(maxlen=notes.LOG_LINES))
        lines.append(notes.line(self._now_ms() - int(age_ms), text))

    def take(self, claim: Claim) -> list[Note]:
        """Hand over what a run has told; empty if that is nothing."""
        key = claim.id, claim.fence
        progress, lines = self._progress.pop(key, ""), self._lines.pop(key, ())
        if not (progress or lines):
            return []
        return [Note(claim.raw_id, claim.fence, progress, 0, tuple(lines))]
