"""Nights in which clocks are set, lived through by daemons and a server with a moved clock.

The clock jumps to half a second before each instant that matters and runs on from there, so a
night takes seconds. What must hold: each schedule has exactly the starts that the table says,
whichever daemon is restarted in between.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.support.daemons import WORK, DaemonProcess, Site
from tests.support.servers import wait_until
from tests.support.work import starts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.clocks import MovedClock
    from tests.support.servers import RunningServer

BEFORE_S = 0.5


def instants(day: str, times: str) -> tuple[datetime, ...]:
    """Read times of a day in UTC: `22:30 23:00`; those of the next day follow a `/`."""
    found = []
    for offset, part in enumerate(times.split("/")):
        for word in part.split():
            at = datetime.fromisoformat(f"{day}T{word}:00+00:00")
            found.append(at + timedelta(days=offset))
    return tuple(found)


@dataclass(frozen=True)
class Night:
    """One change of the clocks. `runs`: by cron line the instants (UTC) at which it starts.

    `looks`: further instants to live through, at which nothing must start.
    """

    zone: str
    runs: Mapping[str, Sequence[datetime]]
    looks: Sequence[datetime] = ()
    restart_after: datetime | None = None
    """Where all daemons are ended and others started."""

    @property
    def stops(self) -> list[datetime]:
        """All instants to live through, in order."""
        return sorted({one for runs in self.runs.values() for one in runs} | set(self.looks))


SPRING = Night(
    "Europe/Madrid",  # 2026-03-29 02:00 becomes 03:00, at 01:00 UTC
    {
        "30 2 * * *": instants("2026-03-28", "/ 01:00"),
        "0 3 * * *": instants("2026-03-28", "/ 01:00"),
        "0 2 * * 0": instants("2026-03-28", "/ 01:00"),
        "*/30 * * * *": instants("2026-03-28", "23:00 23:30 / 00:00 00:30 01:00 01:30"),
        "0 0 * * *": instants("2026-03-28", "23:00"),
        "*/15 2 * * *": (),
    },
    looks=instants("2026-03-28", "/ 00:45"),
    restart_after=instants("2026-03-28", "/ 01:00")[0],
)
AUTUMN = Night(
    "Europe/Madrid",  # 2026-10-25 03:00 becomes 02:00, at 01:00 UTC
    {
        "30 2 * * *": instants("2026-10-25", "00:30"),
        "0 2 * * *": instants("2026-10-25", "00:00"),
        "0 * * * *": instants("2026-10-25", "00:00 01:00 02:00"),
        "*/30 2 * * *": instants("2026-10-25", "00:00 00:30 01:00 01:30"),
        "0 3 * * *": instants("2026-10-25", "02:00"),
    },
    looks=instants("2026-10-25", "01:15"),
    restart_after=instants("2026-10-25", "01:00")[0],
)
HALF_AN_HOUR_BACK = Night(
    "Australia/Lord_Howe",  # 2026-04-05 02:00 becomes 01:30, at 15:00 UTC the day before
    {
        "45 1 * * *": instants("2026-04-04", "14:45"),
        "0 2 * * *": instants("2026-04-04", "15:30"),
        "*/15 1 * * *": instants("2026-04-04", "14:00 14:15 14:30 14:45 15:00 15:15"),
    },
    restart_after=instants("2026-04-04", "15:00")[0],
)
BACK_TO_YESTERDAY = Night(
    "America/Santiago",  # 2026-04-05 00:00 becomes 23:00, at 03:00 UTC
    {
        "30 23 * * *": instants("2026-04-05", "02:30"),
        "0 0 * * *": instants("2026-04-05", "04:00"),
        "0 * * * *": instants("2026-04-05", "02:00 03:00 04:00"),
    },
    looks=instants("2026-04-05", "03:30"),
    restart_after=instants("2026-04-05", "03:00")[0],
)
NO_MIDNIGHT = Night(
    "America/Santiago",  # 2026-09-06 00:00 becomes 01:00, at 04:00 UTC
    {
        "0 0 * * *": instants("2026-09-06", "04:00"),
        "30 0 * * *": instants("2026-09-06", "04:00"),
        "0 1 * * *": instants("2026-09-06", "04:00"),
        "*/30 0 * * *": (),
        "*/30 * * * *": instants("2026-09-06", "03:30 04:00 04:30"),
    },
    restart_after=instants("2026-09-06", "04:00")[0],
)
HALF_AN_HOUR_ON = Night(
    "Australia/Lord_Howe",  # 2026-10-04 02:00 becomes 02:30, at 15:30 UTC the day before
    {
        "15 2 * * *": instants("2026-10-03", "15:30"),
        "0 2 * * *": instants("2026-10-03", "15:30"),
        "*/15 2 * * *": instants("2026-10-03", "15:30 15:45"),
        "0 3 * * *": instants("2026-10-03", "16:00"),
    },
    restart_after=instants("2026-10-03", "15:30")[0],
)
NIGHTS = (
    SPRING,
    HALF_AN_HOUR_BACK,
    BACK_TO_YESTERDAY,
    NO_MIDNIGHT,
    HALF_AN_HOUR_ON,
    AUTUMN,
)
"""In the order in which a clock that only goes forward meets them."""


@dataclass
class Account:
    """What was started; `violations` are sentences, none if all is well."""

    runs: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"VIOLATED: {len(self.violations)}" if self.violations else "OK"
        return f"{self.runs} runs; {verdict}"


class Sleepers:
    """Two daemons at a server, all with one clock that the test moves."""

    def __init__(self, folder: Path, server: RunningServer, clock: MovedClock) -> None:
        self._folder = folder
        self._server = server
        self._clock = clock
        self._daemons: list[DaemonProcess] = []
        self.account = Account()

    def live_through(self, night: Night) -> Account:
        """Live through one night, in a namespace of its own."""
        names = {f"s{number}": line for number, line in enumerate(night.runs)}
        folder = self._folder / f"night-{night.stops[0]:%Y%m%d%H}"
        folder.mkdir()
        place = Site(
            folder,
            self._server.url,
            namespace=folder.name,
            core={"shutdown_grace": "1s"},
            types={"work": {"handler": WORK + "sleep"}},
            schedules={
                name: {"type": "work", "cron": line, "timezone": night.zone}
                for name, line in names.items()
            },
        )
        self._clock.put(night.stops[0] - timedelta(minutes=10))
        try:
            self._start(place)
            for stop in night.stops:
                self._meet(place, stop, sum(stop in runs for runs in night.runs.values()))
                if stop == night.restart_after:
                    self.close()
                    self._start(place)
        finally:
            self.close()
        self._judge(place, names, night)
        return self.account

    def _start(self, place: Site) -> None:
        self._daemons = [DaemonProcess(place, env=self._clock.environment) for _ in range(2)]
        for daemon in self._daemons:
            daemon.started()
            wait_until(lambda: daemon.has_said("schedules are served"), "schedules are read")  # noqa: B023

    def close(self) -> None:
        """End the daemons."""
        for daemon in self._daemons:
            if code := daemon.term():
                self.account.violations.append(f"a daemon ended with code {code} at SIGTERM")
        self._daemons = []

    def _meet(self, place: Site, stop: datetime, count: int) -> None:
        """Jump to just before an instant, and wait until it is over, and what it starts."""
        self._clock.put(stop - timedelta(seconds=BEFORE_S))
        before = self._count(place, stop)
        place.nudge()
        wait_until(lambda: self._clock.now() > stop.timestamp() + 0.5, "the instant")
        until = time.monotonic() + 5.0
        wait_until(
            lambda: self._count(place, stop) - before >= count or time.monotonic() > until,
            "its starts",
        )

    def _count(self, place: Site, stop: datetime) -> int:
        when = stop.astimezone(UTC).strftime("@%Y-%m-%dT%H:%M:%SZ")
        return sum(line.what == "start" and line.id.endswith(when) for line in place.ledger())

    def _judge(self, place: Site, names: Mapping[str, str], night: Night) -> None:
        first = night.stops[0].timestamp()
        found: dict[str, list[datetime]] = {name: [] for name in names}
        for task_id, begun in starts(place.ledger()).items():
            name, _, when = task_id.partition("@")
            instant = datetime.fromisoformat(when)
            if instant.timestamp() >= first:
                self.account.runs += len(begun)
                found[name] += [instant] * len(begun)
        for name, line in names.items():
            if sorted(found[name]) != sorted(night.runs[line]):
                told = " ".join(one.strftime("%d. %H:%M") for one in sorted(found[name]))
                self.account.violations.append(f"{line} in {night.zone} started at {told} UTC")
