"""What an add says about coming again: read, checked, and where the first due is moved to.

A plain add has none of it, and pays nothing.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduld.calendar.bounds import bound_ms
from scheduld.calendar.every import parse_every
from scheduld.calendar.period import Coming, Period, Series, coming, rule_of
from scheduld.clock import wall_ms
from scheduld.errors import InvalidInput, WhenError
from scheduld.model import instant, iso
from scheduld.when import load_zone

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, tzinfo

    from scheduld.calendar.rule import Rule
    from scheduld.client.adding import Pending, TaskSpec

_SLACK_MS = 1_000
_MOST_RUNS = 1_000_000_000


class Recurrence(NamedTuple):
    """A checked period, and where it begins: an instant, or None and ms from now.

    `missed`: how many instants of it have passed already.
    """

    period: Period
    due: tuple[int | None, int]
    missed: int

    def packed(self) -> dict[str, str]:
        """What the store is told; an anchor that is the first due goes without saying."""
        period = self.period
        if period.anchor_ms == self.due[0]:
            period = replace(period, anchor_ms=None)
        told = period.fields()
        return {**told, "missed": str(self.missed)} if self.missed else told

    def task_fields(self, due_ms: int) -> dict[str, Any]:
        """The fields of the `Task` that is added, due at `due_ms`."""
        period = self.period.begun_at(due_ms)
        series = period.series
        told = None if series is None else {"offsets": [*series.offsets], "anchor": series.anchor}
        return {
            "every": period.every,
            "until": iso(period.until_ms),
            "max_runs": period.max_runs,
            "timezone": period.zone,
            "anchor_ms": period.anchor_ms,
            "series": told,
            "runs": 0,
            "missed": self.missed,
        }


def recurrence_of(
    spec: TaskSpec,
    payload: Mapping[str, Any],
    due: tuple[int | None, int],
    *,
    timezone: str | tzinfo | None,
    series: Series | None,
) -> Recurrence | None:
    """Check what an add says about coming again; None: it comes once.

    `due` is its instant, or None and ms from now. `series` is the ladder of its type, for a task
    that says no time of its own. Raises InvalidInput or WhenError.
    """
    follows = series is not None and spec.at is None and spec.delay is None and spec.every is None
    if spec.every is None and not follows:
        for name in ("until", "max_runs"):
            if getattr(spec, name) is not None:
                raise InvalidInput(f"{name} needs every", hint='such as every="7d"')
        return None
    for name, why in _EXCLUDED.items():
        if getattr(spec, name) is not None:
            raise InvalidInput(f"{name} does not go with {_what(follows)}", hint=why)
    now_ms = wall_ms()
    period = Period(
        every=None if follows else str(parse_every(spec.every)),  # type: ignore[arg-type]
        series=series if follows else None,
        until_ms=until_ms(spec.until, timezone, now_ms),
        max_runs=check_runs(spec.max_runs),
        zone=zone_name(timezone),
    )
    if follows:
        return _on_ladder(period, payload, now_ms)
    return _on_grid(period, due, timezone, now_ms)


_EXCLUDED = {
    "debounce": "it says when the task is due, which the period does",
    "expires": "until ends the series; what is late runs once, and what it passed over does not",
}


def _what(follows: bool) -> str:
    return "the series of the type" if follows else "every"


def _on_grid(
    period: Period, due: tuple[int | None, int], timezone: str | tzinfo | None, now_ms: int
) -> Recurrence:
    at_ms, delay_ms = due
    first_ms = now_ms + delay_ms if at_ms is None else at_ms
    period = replace(period, anchor_ms=first_ms)
    try:
        rule = rule_of(period, {})
    except InvalidInput as exc:
        if period.zone is None and timezone is not None:
            exc.message += f": {timezone} is an offset"
            exc.args = (exc.message,)
        raise
    if at_ms is not None and at_ms < now_ms - _SLACK_MS:
        following_ms = rule.after(now_ms)
        if following_ms is None:
            raise WhenError(
                f"no occurrence is left: until is {iso(period.until_ms)}", hint="a later until"
            )
        return Recurrence(period, (following_ms, 0), 0)
    if period.until_ms is not None and period.until_ms < first_ms:
        raise WhenError(
            f"until is {iso(period.until_ms)}, before the first due {iso(first_ms)}",
            hint="a later until, or an earlier at",
        )
    return Recurrence(period if at_ms is not None else replace(period, anchor_ms=None), due, 0)


def _on_ladder(period: Period, payload: Mapping[str, Any], now_ms: int) -> Recurrence:
    rule = rule_of(period, payload)
    due_ms = ladder_due(period, rule, now_ms)
    return Recurrence(period, (due_ms, 0), rule.count(-1, due_ms - 1))


def ladder_due(period: Period, rule: Rule, now_ms: int) -> int:
    """The first instant of a series that is still ahead, a second of slack allowed."""
    due_ms = rule.after(now_ms - _SLACK_MS)
    if due_ms is None:
        series = period.series
        assert series is not None  # noqa: S101 - of a ladder
        bound = "" if period.until_ms is None else ", or are later than until"
        raise WhenError(
            f"all instants of the series {', '.join(series.offsets)} have passed{bound}",
            hint=f"a later {series.anchor} in the payload; --at or --now for one at a time",
        )
    return due_ms


def instants(task: Pending, now_ms: int, *, most: int) -> Coming:
    """When a task that is to be added will be due: the first `most`, and how many there are."""
    at_ms, delay_ms = task.new.at_ms, task.new.delay_ms
    due_ms = now_ms + delay_ms if at_ms is None else at_ms
    recurrence = None if task.shape is None else task.shape.recurrence
    if recurrence is None:
        return Coming([due_ms], 1)
    period = recurrence.period.begun_at(due_ms)
    return coming(period, task.payload, due_ms - 1, most=most)


def until_ms(value: str | date | None, timezone: str | tzinfo | None, now_ms: int) -> int | None:
    """Read an `until`, which is inclusive: a date goes to the end of that day in the zone.

    Raises WhenError.
    """
    if value is None:
        return None
    try:
        return bound_ms(value, timezone, is_end=True, now=instant(now_ms))
    except WhenError as exc:
        raise WhenError(f"until: {exc.message}", hint=exc.hint) from None


def check_runs(value: object) -> int | None:
    """Check a max_runs; raises InvalidInput."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_RUNS:
        raise InvalidInput(f"max_runs is a whole number from 1 to {_MOST_RUNS}")
    return value


def zone_name(timezone: str | tzinfo | None) -> str | None:
    """The IANA name of a zone, None for an offset: its clocks are not known."""
    if timezone is None:
        return None
    if isinstance(timezone, str):
        load_zone(timezone)
        return timezone
    if timezone is UTC:
        return "UTC"
    return getattr(timezone, "key", None) or getattr(timezone, "zone", None)
