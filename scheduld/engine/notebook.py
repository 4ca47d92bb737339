"""Answers for what runs of one type tell on their way: collects it, and stores it now and then.

A run's end is stored after what it told. However often a run tells something, the newest
progress and the last lines are kept, and Redis hears of them twice a second at most.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from scheduld import notes
from scheduld.clock import monotonic
from scheduld.engine.loop import wait_for
from scheduld.observe import masking
from scheduld.store.keys import encode_id
from scheduld.store.notecalls import MOST_NOTES, Note, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.engine.shared import Shared
    from scheduld.handlers.contract import Run
    from scheduld.model import Verdict

EVERY_S = 0.5
"""Shortest time between two looks, unless a run has ended."""


class _Page:
    """What one run has told, and is not stored yet.

    `first` is the number of the oldest line that is kept, among all lines of the run.
    """

    __slots__ = ("at_ms", "bytes", "first", "lines", "progress", "verdict")

    def __init__(self) -> None:
        self.at_ms = 0
        self.progress = ""
        self.lines: deque[str] = deque()
        self.bytes = 0
        self.first = 0
        self.verdict: Verdict | None = None

    @property
    def is_stored(self) -> bool:
        return not (self.progress or self.lines)

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.bytes += len(line)
        while len(self.lines) > notes.LOG_LINES or self.bytes > notes.LOG_BYTES:
            self.drop()

    def drop(self) -> None:
        self.bytes -= len(self.lines.popleft())
        self.first += 1


class Notebook:
    """The notes of the runs of one type. As a loop it stores them.

    `on_verdict` is called with each verdict that `hold` has held, when its run's notes are
    stored, or are refused because the lease is lost.
    """

    def __init__(
        self, type_name: str, shared: Shared, on_verdict: Callable[[Verdict], None]
    ) -> None:
        self.name = f"notebook of {type_name}"
        self._shared = shared
        self._keys = shared.caller.keys.type(type_name)
        self._on_verdict = on_verdict
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pages: dict[tuple[bytes, int], _Page] = {}
        self._fresh = asyncio.Event()
        self._hurry = asyncio.Event()
        self._is_told = False
        self._stored_at = -EVERY_S

    # --- what runs tell, from any thread

    def progress(self, run: Run, text: str) -> None:
        """Take a JSON text in place of the last one."""
        with self._lock:
            self._page(run).progress = text
        self._tell()

    def log(self, run: Run, text: str, age_ms: float = 0.0) -> None:
        """Take one more text, of so long ago."""
        at_ms = int(self._shared.link.server.now_ms() - age_ms)
        text = masking.current().values(text)
        with self._lock:
            page = self._page(run)
            # A message of a worker may be under way for longer than the next one.
            page.at_ms = max(page.at_ms, at_ms)
            page.add(notes.line(page.at_ms, text))
        self._tell()

    def _page(self, run: Run) -> _Page:
        return self._pages.setdefault((encode_id(run.id), run.fence), _Page())

    def _tell(self) -> None:
        # Waking the loop costs a system call: once for all that comes before it looks.
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._fresh.set)

    # --- the ends of runs

    def hold(self, verdict: Verdict) -> bool:
        """Hold a verdict back if its run has told what is not stored yet; tells whether."""
        if not self._pages:
            return False
        key = verdict.raw_id, verdict.fence
        with self._lock:
            page = self._pages.get(key)
            if page is None:
                return False
            if page.is_stored:
                del self._pages[key]
                return False
            page.verdict = verdict
        self._fresh.set()
        self._hurry.set()
        return True

    # --- the loop

    def is_over(self) -> bool:
        """Never: it ends with the replica."""
        return False

    async def run_once(self) -> None:
        """Wait until something was told, and a little for more; store it."""
        await self._fresh.wait()
        await wait_for(self._hurry, self._stored_at + EVERY_S - monotonic())
        # Before the look, or what is told between the look and this line waits for ever.
        self._is_told = False
        self._fresh.clear()
        self._hurry.clear()
        self._stored_at = monotonic()
        try:
            open_notes = self._open_notes()
            for start in range(0, len(open_notes), MOST_NOTES):
                await self._store(open_notes[start : start + MOST_NOTES])
        except BaseException:
            self._fresh.set()
            raise

    def _open_notes(self) -> list[Note]:
        with self._lock:
            return [
                Note(raw_id, fence, page.progress, page.first, tuple(page.lines))
                for (raw_id, fence), page in self._pages.items()
                if not page.is_stored
            ]

    async def _store(self, batch: list[Note]) -> None:
        kept = await self._shared.link.run(note(self._shared.caller, self._keys, batch))
        self._shared.outage.fine()
        for one, is_kept in zip(batch, kept, strict=True):
            self._stored(one, is_kept=is_kept)

    def _stored(self, one: Note, *, is_kept: bool) -> None:
        key = one.raw_id, one.fence
        with self._lock:
            page = self._pages[key]  # only what is stored is taken out elsewhere
            if is_kept:
                if page.progress == one.progress:
                    page.progress = ""
                while page.lines and page.first < one.first + len(one.lines):
                    page.drop()
            is_left = is_kept and not page.is_stored
            verdict = None if is_left else page.verdict
            if verdict is not None or not is_kept:
                del self._pages[key]
        if verdict is not None:
            self._on_verdict(verdict)
