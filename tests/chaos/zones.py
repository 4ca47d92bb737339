"""All zones of the tz database: their changes, and cron around them, against a minute scan.

Run with the host in three time zones, and with both copies of the database that Python may
find: the system's, and that of the package `tzdata`. None of it may make a difference.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from scheduld.calendar.zones import wall_clock
from scheduld.errors import WhenError
from scheduld.timezones import load_zone
from tests.support.cron_checks import check_around, ms
from tests.support.cron_oracle import changes

ROOT = Path(__file__).parents[2]
HOSTS = ("UTC", "America/St_Johns", "Pacific/Apia")
COPIES = {"system": "/usr/share/zoneinfo", "package": ""}
FIRST, LAST = 1970, 2037


def _shape(zone: ZoneInfo) -> tuple[timedelta | None, ...]:
    """The offsets of a zone week by week: names for the same zone have the same."""
    start = datetime(FIRST, 1, 1, tzinfo=UTC)
    weeks = range((LAST - FIRST + 1) * 53)
    return tuple((start + timedelta(weeks=week)).astimezone(zone).utcoffset() for week in weeks)


def _check_zone(zone: ZoneInfo, dice: random.Random, number: int) -> int:
    """Compare one zone; returns how many changes it has."""
    moments = changes(zone, FIRST, LAST)
    start, end = ms(datetime(FIRST, 1, 1, tzinfo=UTC)), ms(datetime(LAST + 1, 1, 1, tzinfo=UTC))
    found = [stretch.end for stretch in wall_clock(zone).changes(start, end)]
    # The scan sees minutes; two changes there have been at other seconds.
    seen = [-(-instant // 60_000) * 60_000 for instant in found]
    assert seen == [ms(moment) for moment in moments], zone
    whole = [m for m in moments if ms(m) in found and _in_minutes(zone, m)]
    for moment in dice.sample(whole, min(number, len(whole))):
        check_around(zone, moment, dice, 3, is_long=True)
    return len(moments)


def _in_minutes(zone: ZoneInfo, moment: datetime) -> bool:
    """Whether the offsets on both sides are whole minutes, as those of the scan must be."""
    sides = (moment - timedelta(days=2), moment + timedelta(days=2))
    offsets = [side.astimezone(zone).utcoffset() for side in sides]
    return all(offset is not None and offset.seconds % 60 == 0 for offset in offsets)


def _one_run(seed: int, number: int) -> None:
    dice = random.Random(seed)
    shapes: dict[tuple[timedelta | None, ...], ZoneInfo] = {}
    names = sorted(available_timezones())
    for name in names:
        try:
            zone = load_zone(name)
        except WhenError:
            continue  # the tables of leap seconds, and what is no place
        shapes.setdefault(_shape(zone), zone)
    total = sum(_check_zone(zone, dice, number) for zone in shapes.values())
    print(f"{len(names)} names, {len(shapes)} different zones, {total} changes")  # noqa: T201


def _run(host: str, copy: str, options: argparse.Namespace) -> tuple[str, int, str]:
    command = [sys.executable, "-m", "tests.chaos.zones", "--alone"]
    command += ["--seed", str(options.seed), "--changes", str(options.changes)]
    environment = {**os.environ, "TZ": host, "PYTHONTZPATH": COPIES[copy]}
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return f"host {host}, database of the {copy}", ran.returncode, ran.stdout + ran.stderr


def main() -> int:
    """Run all combinations; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--changes", type=int, default=3, help="changes a zone to look at closely")
    parser.add_argument("--alone", action="store_true", help="as this process is, once")
    options = parser.parse_args()
    if options.alone:
        _one_run(options.seed, options.changes)
        return 0
    print(f"seed {options.seed}")  # noqa: T201
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pairs = [(host, copy) for host in HOSTS for copy in COPIES]
        runs = pool.map(lambda pair: _run(pair[0], pair[1], options), pairs)
        failed = 0
        for told, code, output in runs:
            print(f"{told}: {output.strip()}", flush=True)  # noqa: T201
            failed += code != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
