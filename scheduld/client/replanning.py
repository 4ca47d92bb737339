"""Edits of periodic tasks: another period or end, and ladders whose anchor moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scheduld import payload as codec
from scheduld.calendar.every import parse_every
from scheduld.calendar.period import FIELDS, Period, Series, anchor_of, rule_of
from scheduld.client.periods import check_runs, ladder_due, until_ms, zone_name
from scheduld.errors import Conflict, InvalidInput, WhenError
from scheduld.model import iso
from scheduld.when import load_zone

if TYPE_CHECKING:
    from datetime import date, timedelta, tzinfo

    from scheduld.store.answers import RawTask
    from scheduld.store.usercalls import Edit

NEVER = "never"


@dataclass(frozen=True, slots=True)
class Replan:
    """What an edit says about coming again, as far as it can be checked without the task.

    `until` may be NEVER: no end any more. `timezone` is the call's, `default_zone` the config's;
    that of the task goes before the latter.
    """

    every: str | None = None
    until: str | date | None = None
    max_runs: int | None = None
    timezone: str | tzinfo | None = None
    default_zone: str | None = None

    @classmethod
    def checked(
        cls,
        every: str | timedelta | float | None,
        until: str | date | None,
        max_runs: object,
        timezone: str | tzinfo | None,
        default_zone: str | None,
    ) -> Replan:
        """Check what was given; raises InvalidInput or WhenError."""
        text = None if every is None else str(parse_every(every))
        return cls(text, until, check_runs(max_runs), timezone, default_zone)


class Replanning:
    """One edit of one task, as it was read."""

    def __init__(self, ref: str, raw: RawTask, step: Edit) -> None:
        self._ref = ref
        self._raw = raw
        self._step = step
        self._now_ms = int(raw.now_ms)
        self._is_running = raw.lease_end_ms is not None and "early" not in raw.fields

    def edit(self, replan: Replan | None) -> Edit:
        """Complete the edit: what is stored of the period, and when the task is due.

        It is for the task as it was read. Raises Conflict, InvalidInput or WhenError.
        """
        try:
            period = Period.read(self._raw.fields)
        except InvalidInput as exc:
            raise Conflict(
                f"{self._ref}: {exc.message}", hint="cancel it, and add it anew"
            ) from None
        if replan is not None:
            return self._replanned(period, replan)
        if period is None or period.series is None or self._step.payload is None:
            return self._step
        return self._moved_ladder(period, period.series)

    def _replanned(self, old: Period | None, replan: Replan) -> Edit:
        new = self._changed(old, replan)
        due_ms = self._next_due_ms()
        if replan.every is not None:
            new = replace(new, anchor_ms=due_ms)
        rule_of(new.begun_at(due_ms), self._payload())
        if new.until_ms is not None and new.until_ms < due_ms and not self._is_running:
            raise WhenError(
                f"until is {iso(new.until_ms)}, before the next due {iso(due_ms)}",
                hint="a later until; cancel ends the series",
            )
        lines, step = _difference(old, new), self._step
        is_moved = step.at_ms is not None or step.delay_ms is not None
        if replan.every is not None and is_moved:
            step = replace(step, at_ms=due_ms, delay_ms=None)  # exactly where the grid begins
        if replan.every is not None and not self._is_running:
            # The occurrence that waits is the first of the new grid.
            lines["grid"] = str(due_ms) if is_moved else ""
        revision = step.if_revision
        if revision is None:
            revision = _number(self._raw.fields.get("revision"))
        packed = "\n".join(f"{name}={value}" for name, value in lines.items())
        return replace(step, period=packed, if_revision=revision)

    def _changed(self, old: Period | None, replan: Replan) -> Period:
        zone = replan.timezone or (old.zone if old else None) or replan.default_zone
        if old is None:
            if replan.every is None:
                raise Conflict(f"{self._ref} is not periodic", hint="every makes it so")
            if "schedule" in self._raw.fields:
                raise Conflict(
                    f"{self._ref} was made by a schedule, which says when it comes again",
                    hint="change the schedule, or add another task",
                )
            if "expires" in self._raw.fields:
                raise Conflict(
                    f"{self._ref} expires, which does not go with every", hint="add another task"
                )
            old = Period()
        elif old.series is not None and replan.every is not None:
            raise Conflict(
                f"{self._ref} follows the series of its type",
                hint=f"another {old.series.anchor} in its payload moves it",
            )
        runs = _number(self._raw.fields.get("runs"))
        if replan.max_runs is not None and replan.max_runs <= runs:
            raise Conflict(f"{self._ref} has run {runs} times", hint="cancel ends the series")
        is_endless = replan.until == NEVER
        until = None if is_endless else until_ms(replan.until, zone, self._now_ms)
        kept = None if is_endless else old.until_ms
        return replace(
            old,
            every=replan.every or old.every,
            until_ms=kept if until is None else until,
            max_runs=replan.max_runs or old.max_runs,
            zone=zone_name(zone) if replan.every or replan.timezone else old.zone,
        )

    def _moved_ladder(self, period: Period, series: Series) -> Edit:
        """Move what is left of a series to where the new payload's anchor has it."""
        step = self._step
        zone = None if period.zone is None else load_zone(period.zone)
        payload = self._payload()
        rule = rule_of(period, payload)
        try:
            before = codec.decode(self._raw.fields.get("payload"))
            is_moved = anchor_of(series.anchor, before, zone) != anchor_of(
                series.anchor, payload, zone
            )
        except InvalidInput:
            is_moved = True  # it could not be read, and can be now
        if not is_moved or self._is_running or step.at_ms is not None or step.delay_ms is not None:
            # What follows a run, or an occurrence moved by hand, is computed at its end.
            return step
        due_ms = ladder_due(period, rule, self._now_ms)
        return replace(step, at_ms=due_ms, period=f"grid={due_ms}")

    def _payload(self) -> dict[str, Any]:
        data = self._step.payload
        return codec.decode(self._raw.fields.get("payload") if data is None else data)

    def _next_due_ms(self) -> int:
        """When the next occurrence is due, or the one that runs was."""
        step, raw = self._step, self._raw
        if step.at_ms is not None:
            return step.at_ms
        if step.delay_ms is not None:
            return self._now_ms + step.delay_ms
        if "due" in raw.fields:
            return _number(raw.fields["due"])
        return self._now_ms if raw.due_ms is None else raw.due_ms


def _difference(old: Period | None, new: Period) -> dict[str, str]:
    """The fields that change; an empty text for one that goes."""
    before, after = {} if old is None else old.fields(), new.fields()
    return {name: after.get(name, "") for name in FIELDS if after.get(name) != before.get(name)}


def _number(raw: bytes | None) -> int:
    return int(raw) if raw is not None and raw.isdigit() else 0
