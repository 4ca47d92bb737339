"""What is to be fired of a schedule now, as the calls that do it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduld.calendar.of_schedule import tick_id_of
from scheduld.policies.catch_up import decide
from scheduld.policies.jitter import jitter_ms
from scheduld.store.croncalls import Gap, Tick

if TYPE_CHECKING:
    from scheduld.engine.timetable import Entry


class Planned(NamedTuple):
    """One call about a schedule, and when to look at it again once that is done."""

    entry: Entry
    tick: Tick
    again_ms: int | None

    @property
    def until_ms(self) -> int:
        """The instant that must have come for it."""
        if self.tick.tick_ms is not None:
            return self.tick.tick_ms
        return self.tick.gap.to_ms if self.tick.gap is not None else self.tick.mark_ms


def ticks_of(entry: Entry, now_ms: int) -> tuple[list[Planned], int | None]:
    """Decide by what was fired last; without calls the second value says when to look again.

    Raises what the rule raises.
    """
    schedule = entry.schedule
    decision = decide(
        entry.mark_ms,
        now_ms,
        entry.rule,
        catch_up=schedule.catch_up,
        window_ms=schedule.catch_up_window_ms,
        overlap=schedule.overlap,
    )
    gap = None
    if (passed := decision.gap) is not None:
        gap = Gap(passed.from_ms, passed.to_ms, passed.count, passed.why)
    calls: list[Tick] = []
    mark_ms = entry.mark_ms
    for tick_ms in decision.ticks:
        calls.append(
            Tick(
                schedule.name,
                entry.digest,
                mark_ms,
                tick_ms=tick_ms,
                due_ms=tick_ms + _jitter(entry, tick_ms),
                raw_id=tick_id_of(schedule, tick_ms).encode(),
                is_patient=decision.is_patient,
                gap=None if calls else gap,
            )
        )
        mark_ms = tick_ms
    if gap is not None and not calls:
        calls.append(Tick(schedule.name, entry.digest, mark_ms, gap=gap))
    # Those before the last one leave the schedule due.
    agains = [now_ms] * (len(calls) - 1) + [decision.again_ms]
    planned = [Planned(entry, call, again) for call, again in zip(calls, agains, strict=False)]
    return planned, decision.again_ms


def _jitter(entry: Entry, tick_ms: int) -> int:
    most_ms = entry.schedule.jitter_ms
    if not most_ms:
        return 0
    return jitter_ms(entry.name, tick_ms, most_ms, entry.rule.after(tick_ms))
