"""The options of an add that most adds have none of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime, timedelta


class LoadOptions(TypedDict, total=False):
    """The options of an add that control load; docs/load.md."""

    priority: int
    """-100 to 100; a point is worth a minute of waiting."""
    key: str | None
    """What the limits per key of the type count by: a customer, an account."""
    expires: str | datetime | timedelta | float | None
    """Not started later: an instant, or a duration (seconds) from the due."""
    unique: bool | str | Sequence[str] | None
    """One at a time: of this payload (True), this text, or these fields of the payload."""
    unique_for: str | timedelta | float | None
    """One in such a period from the add on, ended or not. None: until it has ended."""
    debounce: str | timedelta | float | None
    """Due so long after the last add of the same id or `unique`, with the newest payload."""
    debounce_max: str | timedelta | float | None
    """... and no later than so long after the first."""
    throttle: str | timedelta | float | None
    """At most one of the same `unique` in such a period; others are answered with that."""


class PeriodOptions(TypedDict, total=False):
    """The options of an add that make a task come again; docs/periodic.md."""

    every: str | timedelta | float | None
    """Period from the due time on: "7d", "1mo", "90m"; a number is seconds."""
    until: str | date | None
    """Not due later than this: an instant, or a date, to the end of that day."""
    max_runs: int | None
    """Ended after so many occurrences."""


class AddOptions(LoadOptions, PeriodOptions, total=False):
    """All of them."""
