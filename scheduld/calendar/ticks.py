"""The next ticks of an expression, and of a rule with notes: what people look at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from scheduld.calendar.cron import CronRule
from scheduld.calendar.expression import parse
from scheduld.calendar.marks import Marked as Marked
from scheduld.calendar.marks import marked as marked
from scheduld.calendar.zones import in_zone
from scheduld.errors import WhenError
from scheduld.timezones import as_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.schedule import CronDialect, DstGap, DstOverlap

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def next_ticks(
    expr: str,
    *,
    timezone: str | tzinfo,
    after: datetime,
    dialect: CronDialect = "vixie",
    dst_gap: DstGap = "shift",
    dst_overlap: DstOverlap = "first",
) -> Iterator[datetime]:
    """Tell when a cron expression fires: aware datetimes of the zone, each later than the last.

    `timezone` is an IANA name or a tzinfo; `after` an aware datetime, and the first tick is
    strictly later. Raises CronError at once for an expression that is bad or never fires, and
    WhenError for an unknown zone or a naive `after`. Compare ticks in UTC: Python compares two
    datetimes of one zone by the wall clock.
    """
    spec = parse(expr, dialect)
    zone = as_zone(timezone)
    if zone is None:
        raise WhenError("`timezone` is needed", hint='such as "Europe/Madrid" or "UTC"')
    rule = CronRule(spec, zone, dst_gap, dst_overlap)
    return _datetimes(rule, instant_of(after), zone)


def instant_of(after: datetime) -> int:
    """The instant of an aware datetime in ms, parts of one dropped; WhenError for a naive one."""
    if not isinstance(after, datetime):
        raise WhenError(f"`after` is a datetime, not {type(after).__name__}")
    try:
        if after.utcoffset() is not None:
            return (after - _EPOCH) // timedelta(milliseconds=1)
    except (TypeError, ValueError, NotImplementedError):
        raise WhenError("the tzinfo of `after` is broken") from None
    raise WhenError(
        f"`after` {after} has no time zone", hint="give it one, such as datetime.now(UTC)"
    )


def _datetimes(rule: CronRule, after: int, zone: tzinfo) -> Iterator[datetime]:
    at = rule.after(after)
    while at is not None:
        yield in_zone(at, zone)
        at = rule.after(at)
