"""What makes a task periodic: what is stored of it, and the rule that its instants follow.

Either `every` (a grid from the first due on) or `series` (a ladder of offsets around an instant
in the payload). Pure; all instants are ms since the epoch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from scheduld.calendar.every import parse_every
from scheduld.calendar.grid import GridRule
from scheduld.calendar.ladder import LadderRule, parse_offsets
from scheduld.calendar.marks import marked
from scheduld.calendar.rule import Bounded
from scheduld.errors import InvalidInput
from scheduld.model import instant
from scheduld.names import printable
from scheduld.when import instant_ms, load_zone

if TYPE_CHECKING:
    from collections.abc import Mapping
    from zoneinfo import ZoneInfo

    from scheduld.calendar.rule import Rule
    from scheduld.model import TaskType

FIELDS = ("every", "series", "until", "max_runs", "zone", "anchor")
"""Fields of a task's hash, and names in the load of an add, that a `Period` is made of."""

_LAST_DUE_MS = 7_289_654_399_999
"""The last instant that a task can be due at: 2200-12-31T23:59:59.999Z."""
_DATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ISO_HINT = 'write "2026-12-24T09:00", or with an offset "2026-12-24T09:00+01:00"'


@dataclass(frozen=True, slots=True)
class Series:
    """Offsets around an instant that stands in the payload under the key `anchor`.

    As text `-7d,-1d,0 season_start`.
    """

    offsets: tuple[str, ...]
    anchor: str

    def __str__(self) -> str:
        return f"{','.join(self.offsets)} {self.anchor}"

    @classmethod
    def parse(cls, text: str) -> Series:
        """Read what `str` writes; raises InvalidInput."""
        offsets, _, anchor = text.partition(" ")
        if not (offsets and anchor):
            raise InvalidInput(f"{printable(text[:60])!r} is no series of a task")
        return cls(tuple(offsets.split(",")), anchor)


def series_of(kind: TaskType) -> Series | None:
    """The ladder that the tasks of a type follow."""
    return Series(kind.series, kind.anchor) if kind.series and kind.anchor else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What is said of a periodic task; one of `every` (canonical text) and `series` is there.

    `until_ms` is inclusive. `zone` is an IANA name. `anchor_ms`: where the grid of `every`
    begins, the first due.
    """

    every: str | None = None
    series: Series | None = None
    until_ms: int | None = None
    max_runs: int | None = None
    zone: str | None = None
    anchor_ms: int | None = None

    @classmethod
    def read(cls, fields: Mapping[str, bytes | None]) -> Period | None:
        """Read the fields of a task's hash; None for one that is not periodic.

        Raises InvalidInput for what others wrote there. An `anchor` may be missing: they have no
        way to know it must be there, and the due that the task has is one.
        """
        every, series = _text(fields, "every"), _text(fields, "series")
        if every is None and series is None:
            return None
        return cls(
            every=every if series is None else None,
            series=None if series is None else Series.parse(series),
            until_ms=_number(fields, "until"),
            max_runs=_number(fields, "max_runs"),
            zone=_text(fields, "zone"),
            anchor_ms=_number(fields, "anchor"),
        )

    def fields(self) -> dict[str, str]:
        """What is stored of it: a field each for what it has, in the order of `FIELDS`."""
        values = (
            self.every,
            self.series,
            self.until_ms,
            self.max_runs,
            self.zone,
            self.anchor_ms,
        )
        pairs = zip(FIELDS, values, strict=True)
        return {name: str(value) for name, value in pairs if value is not None}

    def begun_at(self, nominal_ms: int) -> Period:
        """The same with its anchor: an instant that it is nominally due at, if it has none."""
        if self.series is not None or self.anchor_ms is not None:
            return self
        return replace(self, anchor_ms=nominal_ms)


def rule_of(period: Period, payload: Mapping[str, Any]) -> Rule:
    """The instants of a task, `until` included but not `max_runs`.

    Raises InvalidInput if there is no such rule: the payload has no instant that a series could
    be around, a calendar period has no zone, or somebody stored what makes no sense.
    """
    zone = None if period.zone is None else load_zone(period.zone)
    rule = _grid(period, zone) if period.series is None else _ladder(period.series, payload, zone)
    return rule if period.until_ms is None else Bounded(rule, None, period.until_ms)


MOST_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class Coming:
    """The next instants, and how many there are of them with the rest.

    `count` is None if there is no end, `MOST_COUNTED` for so many or more. `notes` says of those
    that a change of the clock moves what it does.
    """

    first: list[int]
    count: int | None
    notes: dict[int, str] = field(default_factory=dict)


def coming(
    period: Period, payload: Mapping[str, Any], after_ms: int, *, most: int, runs: int = 0
) -> Coming:
    """List the first instants after `after_ms`, and count all of them; `runs` have been.

    Raises InvalidInput as `rule_of`.
    """
    rule = rule_of(period, payload)
    left = None if period.max_runs is None else max(period.max_runs - runs, 0)
    wanted = most if left is None else min(most, left)
    told = ((mark.ms, mark.note) for mark in marked(rule, after_ms) if mark.ms is not None)
    pairs = list(islice(told, wanted))
    first, notes = [ms for ms, _ in pairs], {ms: note for ms, note in pairs if note}
    if period.series is None and period.until_ms is None and left is None:
        return Coming(first, None, notes)
    end_ms = _LAST_DUE_MS if period.until_ms is None else period.until_ms
    counted = min(MOST_COUNTED, MOST_COUNTED if left is None else left)
    return Coming(first, rule.count(after_ms, end_ms, counted), notes)


def _grid(period: Period, zone: ZoneInfo | None) -> Rule:
    if period.every is None or period.anchor_ms is None:
        raise InvalidInput("a period needs `every` and the instant at which it begins")
    return GridRule(parse_every(period.every), period.anchor_ms, zone)


def _ladder(series: Series, payload: Mapping[str, Any], zone: ZoneInfo | None) -> Rule:
    offsets = parse_offsets(series.offsets)
    return LadderRule(offsets, anchor_of(series.anchor, payload, zone), zone)


def anchor_of(key: str, payload: Mapping[str, Any], zone: ZoneInfo | None) -> int:
    """Read the instant that a series is around out of the payload; raises InvalidInput.

    An ISO time with an offset, or without one in `zone`. A date alone is refused: it is not said
    when on that day, and a mail at midnight is hardly ever meant.
    """
    where = f"the payload's {printable(key)}"
    if key not in payload:
        raise InvalidInput(f"{where}, which the series is around, is missing", hint=_ISO_HINT)
    value = payload[key]
    if not isinstance(value, str):
        raise InvalidInput(f"{where} is no time, but {_kind(value)}", hint=_ISO_HINT)
    text = value.strip()
    if _DATE.fullmatch(text):
        hint = f'add the time of day: "{text}T09:00"'
        raise InvalidInput(f"{where} is a date without a time", hint=hint)
    if not _DATED.fullmatch(text):
        raise InvalidInput(f"{where} is no ISO time: {printable(value[:60])!r}", hint=_ISO_HINT)
    try:
        return instant_ms(text, timezone=zone, now=instant(0), allow_past=True)
    except InvalidInput as exc:
        raise InvalidInput(f"{where}: {exc.message}", hint=exc.hint) from None


def _kind(value: object) -> str:
    kinds = {bool: "true or false", dict: "an object", list: "an array", type(None): "null"}
    return kinds.get(type(value), "a number")


def _text(fields: Mapping[str, bytes | None], name: str) -> str | None:
    raw = fields.get(name)
    return None if raw is None else raw.decode(errors="replace")


def _number(fields: Mapping[str, bytes | None], name: str) -> int | None:
    raw = fields.get(name)
    if raw is None:
        return None
    if not (raw.isdigit() and len(raw) <= 15):
        shown = printable(raw.decode(errors="replace")[:60])
        raise InvalidInput(f"the stored {name} is no number: {shown!r}")
    return int(raw)
