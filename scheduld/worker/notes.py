"""What a run tells on its way, on its way to the daemon: a few messages a second, at most."""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from scheduld.clock import monotonic
from scheduld.notes import LOG_LINES

if TYPE_CHECKING:
    from scheduld.handlers.contract import Run
    from scheduld.worker.channel import Channel

_PERIOD_S = 0.2
_PROMPT = 20
"""So many notes a period are told at once, as the process may crash; more wait for its end."""


class SentNotes:
    """Sends the notes of one run after the other; handlers call it, from any thread.

    `run` is the one that runs: notes of others, by threads that they left behind, are dropped.
    Nothing here waits for a lock, so that signal handlers may call it too.
    """

    def __init__(self, channel: Channel) -> None:
        self.run: Run | None = None
        self._channel = channel
        self._progress: deque[str] = deque(maxlen=1)
        self._lines: deque[tuple[float, str]] = deque(maxlen=LOG_LINES)
        self._began_at = 0.0
        self._told = 0
        self._late = threading.Event()
        self._thread: threading.Thread | None = None

    def progress(self, run: Run, text: str) -> None:
        """Take a JSON text in place of the last one."""
        if run is self.run:
            self._progress.append(text)
            self._tell()

    def log(self, run: Run, text: str, age_ms: float = 0.0) -> None:
        """Take one more text, of so long ago."""
        if run is self.run:
            self._lines.append((monotonic() - age_ms / 1000, text))
            self._tell()

    def flush(self) -> None:
        """Send what waits."""
        while self._progress or self._lines:
            self._channel.send_made(self._taken)

    def _tell(self) -> None:
        now = monotonic()
        if now - self._began_at > _PERIOD_S:
            self._began_at, self._told = now, 0
        self._told += 1
        if self._told <= _PROMPT and self._channel.send_if_free(self._taken):
            return
        if not self._late.is_set():
            self._late.set()
            if self._thread is None:
                self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._send_late, daemon=True)
        with suppress(RuntimeError):  # no memory for one: what waits is sent at the end
            thread.start()
            self._thread = thread

    def _send_late(self) -> None:
        while self._late.wait():
            pause = threading.Event()
            pause.wait(_PERIOD_S)
            self._late.clear()
            self.flush()

    def _taken(self) -> bytes:
        lines, now = [], monotonic()
        while self._lines:
            at, text = self._lines.popleft()
            lines.append([round((now - at) * 1000), text])
        told = {"progress": self._progress.popleft() if self._progress else None, "log": lines}
        return json.dumps({"notes": told}).encode()
