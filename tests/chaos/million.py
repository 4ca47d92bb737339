"""Asks a server with a million scheduled tasks everything that the command line can ask.

Each command, its process included, is to answer within `MOST_S`, and none of its Redis commands
may take longer than `MOST_MS` there (SLOWLOG).
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduld import Client, TaskSpec
from scheduld.errors import ScheduldError
from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from tests.support.servers import RunningServer

MOST_S = 1.0
MOST_MS = 20
TASKS = 1_000_000
_SCHEDULED = {"mail": 0.7, "sms": 0.25, "report": 0.05}
"""Types, and the part of the scheduled tasks that each has."""
_AT_ONCE = 20_000
_TRIES = 3
_CODES = {"purge": 2}
"""Without --yes it tells how many there are, and wants that."""


@dataclass(frozen=True)
class Answer:
    """How one command answered."""

    words: tuple[str, ...]
    code: int
    seconds: float
    lines: int
    slow: tuple[str, ...]
    """Redis commands that took longer than MOST_MS."""
    complaint: str

    @property
    def fault(self) -> str | None:
        """What is wrong with it."""
        command = " ".join(self.words)
        if self.code != _CODES.get(self.words[0], 0):
            return f"{command} ended with {self.code}: {self.complaint}"
        if self.seconds > MOST_S:
            return f"{command} took {self.seconds:.2f} s"
        if self.slow:
            return f"{command} kept the server: {', '.join(self.slow)}"
        return None

    def __str__(self) -> str:
        return f"{self.seconds:6.3f} s {self.lines:6} lines  scheduld {' '.join(self.words)}"


def site(folder: Path, url: str) -> Site:
    """Make the folder: types with tasks for later, and two for what has ended."""
    common = {"keep_done": {"count": 10_000_000, "age": "9d"}, "retry": {"attempts": 1}}
    types = {name: {"handler": WORK + "sleep"} for name in _SCHEDULED}
    ended = {"handler": WORK + "sleep", **common}
    return Site(folder, url, types={**types, "ended": ended, "broken": ended})


def fill(place: Site, count: int) -> None:
    """Add `count` scheduled tasks, and a twentieth of that which has ended in every way."""
    with place.client() as client:
        _add(client, "ended", count // 40)
        _add(client, "broken", count // 40, fail=True)
        with DaemonProcess(place).started() as daemon:
            wait_until(lambda: _open(client) == 0, "the ended ones have ended", 300)
            daemon.term()
        for name, part in _SCHEDULED.items():
            _add(client, name, round(count * part), delay_s=86_400)
        for number in range(20):
            client.cancel("sms", f"sms-{number * 11}")


def _open(client: Client) -> int:
    return sum(one.scheduled + one.running for one in client.stats())


def _add(client: Client, name: str, count: int, delay_s: float = 0, **payload: object) -> None:
    for first in range(0, count, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, count))
        specs = [
            TaskSpec(
                payload={"to": f"user{number}@example.com", **payload},
                delay=delay_s + number % 100_000 if delay_s else None,
                id=f"{name}-{number}",
            )
            for number in numbers
        ]
        for result in client.schedule_many(name, specs, allow_unknown=True):
            if isinstance(result, ScheduldError):
                raise result


def commands() -> list[tuple[str, ...]]:
    """Every command line that reads or ends tasks, as far as this version has the command."""
    from scheduld.cli.app import cli

    known = set(cli.list_commands(cli.make_context("scheduld", [], resilient_parsing=True)))
    return [words for words in _COMMANDS if words[0] in known]


def ask(place: Site, server: RunningServer, words: tuple[str, ...]) -> Answer:
    """Run one command, and read what it cost the server.

    What reads only may try again: a busy machine makes anything slow once.
    """
    answer = _ask(place, server, words)
    for _ in range(0 if words[0] in _CHANGING else _TRIES - 1):
        if answer.fault:
            answer = _ask(place, server, words)
    return answer


def _ask(place: Site, server: RunningServer, words: tuple[str, ...]) -> Answer:
    with closing(server.client()) as plain:
        plain.config_set("slowlog-log-slower-than", MOST_MS * 1000)
        plain.slowlog_reset()
        began = time.monotonic()
        ran = place.run(*words, within_s=120)
        seconds = time.monotonic() - began
        slow = tuple(_slow(plain))
    complaint = ran.stderr.strip()[-300:]
    return Answer(words, ran.returncode, seconds, ran.stdout.count("\n"), slow, complaint)


def _slow(plain: redis.Redis) -> Iterator[str]:
    for entry in plain.slowlog_get(20):
        command = bytes(entry["command"]).decode(errors="replace")
        yield f"{entry['duration'] / 1000:.0f} ms: {command[:80]}"


_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("stats",),
    ("stats", "--json"),
    ("stats", "--type", "mail"),
    ("list",),
    ("list", "--json"),
    ("list", "--type", "mail", "--limit", "1000"),
    ("list", "--type", "mail", "--limit", "10000"),
    ("list", "--state", "scheduled"),
    ("list", "--state", "running"),
    ("list", "--state", "done"),
    ("list", "--state", "dead"),
    ("list", "--state", "cancelled"),
    ("list", "--type", "ended", "--state", "cancelled"),
    ("list", "--type", "broken", "--state", "dead", "--limit", "1000"),
    ("show", "mail/mail-77"),
    ("show", "mail-7001"),
    ("show", "broken-5"),
    ("dead",),
    ("dead", "--group"),
    ("dead", "--type", "broken", "--error", "nothing has this"),
    ("events",),
    ("events", "--id", "mail-77"),
    ("nodes",),
    ("export", "--state", "running"),
    ("purge", "--type", "broken", "--state", "dead"),
    ("cancel", "mail/mail-123"),
    ("cancel", "sms-1234"),
    ("requeue", "broken/broken-7"),
    ("requeue", "ended-9", "--json"),
)
_CHANGING = ("cancel", "requeue")
