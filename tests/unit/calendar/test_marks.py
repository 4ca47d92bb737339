"""Notes on what changes of the clock do to ticks."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from scheduld.calendar.cron import CronRule
from scheduld.calendar.every import parse_every
from scheduld.calendar.expression import parse
from scheduld.calendar.grid import GridRule
from scheduld.calendar.ladder import LadderRule, parse_offsets
from scheduld.calendar.rule import Bounded, Rule
from scheduld.calendar.ticks import marked

if TYPE_CHECKING:
    from scheduld.schedule import DstGap, DstOverlap

MADRID = ZoneInfo("Europe/Madrid")
SPRING, AUTUMN = "2026-03-28T12:00+01:00", "2026-10-24T12:00+02:00"


def ms(text: str) -> int:
    """The instant of an ISO text."""
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def told(rule: Rule, after: str, count: int, zone: ZoneInfo = MADRID) -> list[str]:
    """The next entries: local time and offset, or a dash, and the note."""
    found = []
    for instant, note in islice(marked(rule, ms(after)), count):
        local = "-"
        if instant is not None:
            local = datetime.fromtimestamp(instant / 1_000, zone).strftime("%d.%m. %H:%M%z")
        found.append(f"{local} {note}".strip())
    return found


@pytest.mark.parametrize(
    ("expr", "gap", "expected"),
    [
        ("30 2 * * *", "shift", ["29.03. 03:00+0200 02:30 does not exist, moved to 03:00"]),
        (
            "0,30 2 * * *",
            "shift",
            [
                "29.03. 03:00+0200 02:00 and 1 more do not exist, run once at 03:00",
                "30.03. 02:00+0200",
            ],
        ),
        (
            "30 2 * * *",
            "skip",
            ["- 2026-03-29 02:30 does not exist, skipped", "30.03. 02:30+0200"],
        ),
        (
            "*/30 2 * * *",
            "shift",
            ["- 2026-03-29 02:00 to 02:30 do not exist, 2 ticks skipped", "30.03. 02:00+0200"],
        ),
        (
            "0 * * * *",
            "shift",
            ["28.03. 13:00+0100"],
        ),
        ("0 3 * * *", "shift", ["29.03. 03:00+0200"]),
        (
            "0 2-3 * * *",
            "shift",
            ["29.03. 03:00+0200 02:00 does not exist, runs together with 03:00"],
        ),
    ],
)
def test_gaps(expr: str, gap: DstGap, expected: list[str]) -> None:
    """A moved tick says from where; a date on which nothing fires has an entry of its own."""
    assert told(CronRule(parse(expr), MADRID, gap), SPRING, len(expected)) == expected


@pytest.mark.parametrize(
    ("expr", "overlap", "expected"),
    [
        (
            "30 2 * * *",
            "first",
            ["25.10. 02:30+0200 02:30 happens twice, runs the first time only"],
        ),
        (
            "30 2 * * *",
            "second",
            ["25.10. 02:30+0100 02:30 happens twice, runs the second time only"],
        ),
        (
            "30 2 * * *",
            "both",
            [
                "25.10. 02:30+0200 02:30 happens twice, this is the first time",
                "25.10. 02:30+0100 02:30 happens twice, this is the second time",
                "26.10. 02:30+0100",
            ],
        ),
        (
            "*/45 2 * * *",
            "first",
            [
                "25.10. 02:00+0200 02:00 happens twice, this is the first time",
                "25.10. 02:45+0200 02:45 happens twice, this is the first time",
                "25.10. 02:00+0100 02:00 happens twice, this is the second time",
                "25.10. 02:45+0100 02:45 happens twice, this is the second time",
                "26.10. 02:00+0100",
            ],
        ),
    ],
)
def test_overlaps(expr: str, overlap: DstOverlap, expected: list[str]) -> None:
    """A tick in a repeated hour says which of the two it is."""
    rule = CronRule(parse(expr), MADRID, dst_overlap=overlap)
    assert told(rule, AUTUMN, len(expected)) == expected


def test_grids_and_ladders_are_marked_too() -> None:
    """With days of the calendar they are moved as fixed jobs are; elapsed time has no notes."""
    daily = GridRule(parse_every("1d"), ms("2026-03-20T02:30+01:00"), MADRID)
    assert told(daily, SPRING, 2) == [
        "29.03. 03:00+0200 02:30 does not exist, moved to 03:00",
        "30.03. 02:30+0200",
    ]
    assert told(daily, AUTUMN, 1) == [
        "25.10. 02:30+0200 02:30 happens twice, runs the first time only"
    ]
    hourly = GridRule(parse_every("1h"), 0, MADRID)
    assert all(note == "" for _, note in islice(marked(hourly, ms(AUTUMN)), 30))
    ladder = LadderRule(parse_offsets(["-1d", "0"]), ms("2026-03-30T02:30+02:00"), MADRID)
    assert told(ladder, SPRING, 9) == [
        "29.03. 03:00+0200 02:30 does not exist, moved to 03:00",
        "30.03. 02:30+0200",
    ]


def test_the_date_line_takes_a_day() -> None:
    """The day that Samoa skipped is shown as skipped, for each kind of rule."""
    apia = ZoneInfo("Pacific/Apia")
    after = "2011-12-29T12:00-10:00"
    skipped = "- 2011-12-30 10:00 does not exist, skipped"
    grid = GridRule(parse_every("1d"), ms("2011-12-01T10:00-10:00"), apia)
    for rule in (CronRule(parse("0 10 * * *"), apia), grid):
        assert told(rule, after, 2, apia) == [skipped, "31.12. 10:00+1400"]
    hourly = told(CronRule(parse("0 * * * *"), apia), "2011-12-29T23:30-10:00", 2, apia)
    assert hourly[0] == "- 2011-12-30 00:00 to 23:00 do not exist, 24 ticks skipped"


def test_bounds_hide_what_lies_outside() -> None:
    """Nothing is told of a change before the start, nor after the end."""
    inner = CronRule(parse("30 2 * * *"), MADRID, "skip")
    after = Bounded(inner, ms("2026-03-29T12:00+02:00"), ms("2026-04-01T00:00+02:00"))
    assert told(after, SPRING, 5) == ["30.03. 02:30+0200", "31.03. 02:30+0200"]
