"""What becomes of the instants of a schedule that nobody has fired yet. No I/O, no clock.

All instants are ms since the epoch, durations ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scheduld.schedule import CatchUp, Overlap

LATE_MS = 1_000
"""Up to this age an instant is late, not missed, and fires under every setting."""
MOST_CAUGHT_UP = 100
"""Most missed instants that `catch_up = "all"` makes up for: the newest ones."""
PACE_MS = 100
"""How far apart those are released."""
MOST_COUNTED = 1_000
"""A gap tells no higher count."""
_MOST_LATE = LATE_MS + 1
"""So many can be late: one each ms."""


class Rule(Protocol):
    """The instants of a schedule; see `scheduld.calendar`."""

    def after(self, ms: int, /) -> int | None:
        """The first instant later than `ms`; None: there is none."""

    def newest(self, after_ms: int, until_ms: int, count: int = 1, /) -> list[int]:
        """The newest `count` instants in (after, until], oldest first."""

    def count(self, after_ms: int, until_ms: int, most: int = MOST_COUNTED, /) -> int:
        """How many instants lie in (after, until], at most `most`."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Instants that are not made up for: the first, the last, how many up to a limit, why."""

    from_ms: int
    to_ms: int
    count: int
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now: record `gap`, then fire `ticks` one after the other.

    Without ticks the gap is recorded alone, and the watermark becomes its last instant.
    `again_ms`: when to decide again; None: never. `is_patient`: the tick is a missed one that
    waits until no earlier task is unfinished.
    """

    ticks: tuple[int, ...] = ()
    gap: PassedOver | None = None
    again_ms: int | None = None
    is_patient: bool = False


def decide(
    mark_ms: int,
    now_ms: int,
    rule: Rule,
    *,
    catch_up: CatchUp,
    window_ms: int,
    overlap: Overlap,
) -> Decision:
    """Decide about the instants in (watermark, now]. The past is never gone through one by one."""
    first = rule.after(mark_ms)
    if first is None or first > now_ms:
        return Decision(again_ms=first)
    missed_until = now_ms - LATE_MS - 1
    late = rule.newest(max(mark_ms, missed_until), now_ms, _MOST_LATE)
    missed: list[int] = []
    if first <= missed_until and catch_up != "none":
        since = max(mark_ms, now_ms - window_ms - 1)
        most = MOST_CAUGHT_UP if catch_up == "all" else 1
        missed = rule.newest(since, missed_until, most) if since < missed_until else []
    if missed and catch_up == "all":
        gap = _gap(rule, mark_ms, first, missed[0] - 1, "older than what is caught up with")
        return Decision((missed[0],), gap, now_ms + PACE_MS, is_patient=overlap != "allow")
    why = "catch_up is none" if catch_up == "none" else "out of the catch_up_window"
    why = "a newer one is caught up with" if missed else why
    gap = _gap(rule, mark_ms, first, missed[0] - 1 if missed else missed_until, why)
    ticks = (*missed, *late)
    last = ticks[-1] if ticks else max(now_ms, mark_ms)
    return Decision(ticks, gap, rule.after(last))


def _gap(rule: Rule, mark_ms: int, first: int, until_ms: int, why: str) -> PassedOver | None:
    """What lies behind the watermark, up to an instant."""
    if first > until_ms:
        return None
    (last,) = rule.newest(mark_ms, until_ms, 1)
    return PassedOver(first, last, rule.count(mark_ms, until_ms, MOST_COUNTED), why)
