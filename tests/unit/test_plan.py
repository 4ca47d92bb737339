"""When a poller looks again, and whose leases it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.clock import ServerClock
from scheduld.engine.plan import DOUBT, LEAD_S, Bound, Plan
from scheduld.model import Claim, TaskType
from scheduld.store.answers import ClaimAnswer
from scheduld.store.calls import EARLY_MS, LEAD_MS, MAX_CLAIMED

LEASE_MS = 30_000
DOUBT_S = DOUBT * LEASE_MS / 1000
SERVER_MS = 1_800_000_000_000.0
A_CLAIM = Claim("a", "x", b"x", None, 1, 0, 0, False, 0, 0, 0)


@dataclass
class Poll:
    """A plan, at monotonic second 100, when the server's clock says SERVER_MS."""

    kind: TaskType = field(default_factory=lambda: TaskType(name="a", handler="h"))
    now: float = 100.0

    def __post_init__(self) -> None:
        self.plan = Plan(self.kind, LEASE_MS)
        self.server = ServerClock()
        self.server.told(SERVER_MS, at=self.now)

    def answer(
        self,
        *,
        claims: int = 0,
        due_in_ms: float | None = None,
        lease_ends_in_ms: float | None = None,
        sent_at: float | None = None,
    ) -> float:
        """Plan after an answer; returns the seconds to the next look."""
        told = ClaimAnswer(
            now_ms=SERVER_MS,
            count=claims,
            read=lambda: [A_CLAIM] * claims,
            refused=[],
            next_due_ms=None if due_in_ms is None else int(SERVER_MS + due_in_ms),
            next_lease_end_ms=(
                None if lease_ends_in_ms is None else int(SERVER_MS + lease_ends_in_ms)
            ),
        )
        at = self.now if sent_at is None else sent_at
        self.plan.answered(told, self.server, sent_at=at, now=self.now)
        return self.plan.next_at - self.now


def paced(**more: Any) -> Poll:
    """Make a poll of a type with a poll_timeout of 500 ms."""
    return Poll(TaskType(name="a", handler="h", poll_timeout_ms=500, **more))


def test_the_first_look_is_at_once() -> None:
    """A new plan is due."""
    assert Poll().plan.next_at == 0.0


def test_nothing_due_waits_for_the_empty_poll_timeout() -> None:
    """Without any task the next look is 10 s away."""
    assert Poll().answer() == 10.0


def test_the_next_due_is_met_a_little_ahead() -> None:
    """A task due in 3 s is looked for LEAD before that, not at the empty-poll timeout."""
    assert Poll().answer(due_in_ms=3_000) == pytest.approx(3 - LEAD_S)


def test_a_due_beyond_the_empty_poll_timeout_does_not_postpone() -> None:
    """The empty-poll timeout is the longest wait."""
    assert Poll().answer(due_in_ms=3_600_000) == 10.0


def test_what_is_due_already_is_looked_for_at_once() -> None:
    """More work than was taken: no pause without a poll_timeout."""
    assert Poll().answer(claims=1, due_in_ms=-5_000) == 0.0


def test_the_pace_counts_from_the_send() -> None:
    """With poll_timeout the next claim is that long after the last was sent, not answered."""
    assert paced().answer(claims=1, due_in_ms=-5_000, sent_at=99.8) == pytest.approx(0.3)


def test_an_empty_claim_sets_no_pace() -> None:
    """A task that comes due 100 ms after a claim that found none is taken at its time."""
    assert paced().answer(due_in_ms=100) == pytest.approx(0.1 - LEAD_S)


def test_a_wake_up_does_not_break_the_pace() -> None:
    """Within the pause of a paced type a wake-up waits for its end."""
    poll = paced()
    poll.answer(claims=1)
    assert poll.plan.look_at(100.0)
    assert poll.plan.next_at == pytest.approx(100.5)
    assert not poll.plan.look_at(100.2)


def test_a_wake_up_counts_only_if_it_is_sooner() -> None:
    """A later due than the planned look changes nothing."""
    poll = Poll()
    poll.answer(due_in_ms=3_000)
    assert not poll.plan.look_at(104.0)
    assert poll.plan.look_at(101.0)
    assert poll.plan.next_at == 101.0


def test_a_wake_up_during_a_claim_is_kept() -> None:
    """What is asked between send and answer may be unknown to the answer."""
    poll = Poll()
    poll.plan.sent()
    assert not poll.plan.look_at(99.9)
    assert poll.answer() == 0.0
    poll.plan.sent()
    assert poll.answer() == 10.0


def test_a_lease_is_looked_for_when_it_ends() -> None:
    """Its end must be seen before the doubt begins, after which it may be taken."""
    poll = Poll(TaskType(name="a", handler="h", empty_poll_timeout_ms=600_000))
    assert poll.answer(lease_ends_in_ms=20_000) == pytest.approx(20.001)


def test_a_lease_that_ran_out_is_looked_for_soon_but_not_again_and_again() -> None:
    """Even if it ended long ago the next look is at the end of the doubt."""
    assert Poll().answer(lease_ends_in_ms=-500_000) == pytest.approx(10.0)
    short = Poll(TaskType(name="a", handler="h", empty_poll_timeout_ms=600_000))
    assert short.answer(lease_ends_in_ms=-500_000) == pytest.approx(DOUBT_S, rel=0.05)
    assert short.answer(lease_ends_in_ms=-500_000) > DOUBT_S


@pytest.mark.parametrize(
    ("poll_timeout_ms", "free", "want", "early_ms"),
    [
        (0, 7, 7, EARLY_MS),
        (0, 9_999, MAX_CLAIMED, EARLY_MS),
        (500, 7, 3, LEAD_MS),
        (500, 2, 2, LEAD_MS),
    ],
)
def test_what_a_claim_may_take(poll_timeout_ms: int, free: int, want: int, early_ms: int) -> None:
    """All free slots, up to a call's limit; of a paced type one batch, and none ahead of time."""
    kind = TaskType(name="a", handler="h", poll_timeout_ms=poll_timeout_ms, poll_batch=3)
    plan = Plan(kind, LEASE_MS)
    assert (plan.want(free), plan.want(0), plan.early_ms) == (want, 0, early_ms)


@given(
    st.integers(0, 5_000),
    st.integers(1, 60_000),
    st.integers(0, 2),
    st.none() | st.integers(-(10**13), 10**13),
    st.none() | st.integers(-(10**13), 10**13),
    st.floats(0, 1),
)
def test_no_answer_makes_it_spin_or_sleep_too_long(
    pace_ms: int,
    empty_ms: int,
    claims: int,
    due_in_ms: int | None,
    lease_ends_in_ms: int | None,
    took_s: float,
) -> None:
    """The next look is never past, never beyond the longer of pace and empty-poll timeout."""
    kind = TaskType("a", "h", poll_timeout_ms=pace_ms, empty_poll_timeout_ms=empty_ms)
    poll = Poll(kind)
    sent_at = poll.now - took_s
    wait = poll.answer(
        claims=claims, due_in_ms=due_in_ms, lease_ends_in_ms=lease_ends_in_ms, sent_at=sent_at
    )
    assert wait <= max(empty_ms, pace_ms) / 1000 + 1e-6
    assert poll.plan.next_at >= sent_at + (pace_ms / 1000 if claims else 0) - 1e-6
    if not claims and due_in_ms is None:
        # Only work, and a lease's end, may be looked for at once; nothing makes a loop hot.
        ends_s = (lease_ends_in_ms or 0) / 1000
        rest_s = ends_s if ends_s > 0 else (DOUBT_S if lease_ends_in_ms != 0 else 0)
        assert wait >= min(empty_ms / 1000, rest_s) - 1e-6


class TestBound:
    """Leases are taken only after a time of doubt on this process's own clock."""

    def test_nothing_is_taken_at_first(self) -> None:
        """A replica that has just started, or never heard the time, takes nothing."""
        bound = Bound(LEASE_MS)
        assert bound.value_ms(1e9) == 0
        bound.told(SERVER_MS, 100.0)
        assert bound.value_ms(109.9) == 0

    def test_a_lease_is_taken_after_the_doubt(self) -> None:
        """Up to the time that the server told when the doubt began."""
        bound = Bound(LEASE_MS)
        bound.told(SERVER_MS, 100.0)
        assert bound.value_ms(111.9) == 0
        assert bound.value_ms(112.0) == int(SERVER_MS)

    def test_a_step_forward_takes_nothing_at_once(self) -> None:
        """After the server's clock jumped a day ahead, live replicas have time to renew."""
        bound = Bound(LEASE_MS)
        for second in range(60):
            bound.told(SERVER_MS + second * 1000, 100.0 + second)
        jumped = SERVER_MS + 60_000 + 86_400_000
        bound.told(jumped, 160.0)
        assert bound.value_ms(160.0) <= SERVER_MS + 60_000
        assert bound.value_ms(171.9) < jumped
        bound.told(jumped + 12_000, 172.0)
        assert bound.value_ms(172.1) >= jumped

    def test_a_freeze_takes_nothing_at_once(self) -> None:
        """After a minute without an answer the last time known counts, not the new one."""
        bound = Bound(LEASE_MS)
        bound.told(SERVER_MS, 100.0)
        assert bound.value_ms(160.0) == int(SERVER_MS)
        bound.told(SERVER_MS + 60_000, 160.0)
        assert bound.value_ms(160.0) == int(SERVER_MS)
        assert bound.value_ms(171.9) == int(SERVER_MS)
        bound.told(SERVER_MS + 72_000, 172.0)
        assert bound.value_ms(172.0) == int(SERVER_MS) + 60_000

    @given(st.lists(st.tuples(st.floats(0.001, 20), st.floats(-50_000, 50_000)), max_size=80))
    def test_it_is_always_a_time_that_was_told_before_the_doubt(
        self, steps: list[tuple[float, float]]
    ) -> None:
        """Whatever the answers and steps of the clock, it remembers few and is never newer."""
        bound, told, at, server_ms = Bound(LEASE_MS), [], 100.0, SERVER_MS
        for wait, step in steps:
            at += wait
            server_ms += wait * 1000 + step
            bound.told(server_ms, at)
            told.append((at, int(server_ms)))
            old = {ms for seen_at, ms in told if at - seen_at >= DOUBT_S}
            value = bound.value_ms(at)
            assert value == 0 or value in old
            assert len(bound._seen) <= 68
