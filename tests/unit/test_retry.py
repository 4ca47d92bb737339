"""Waits between attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.model import Backoff, RetryPolicy
from scheduld.policies.retry import wait_ms

KINDS: tuple[Backoff, ...] = ("exponential", "quadratic", "fixed", "list")
policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 100),
    backoff=st.sampled_from(KINDS),
    delays_ms=st.lists(st.integers(0, 10**9), min_size=1, max_size=5).map(tuple),
    max_delay_ms=st.integers(0, 10**9),
    jitter=st.floats(0, 10),
)
fractions = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("backoff", "delays_ms", "expected"),
    [
        ("exponential", (2_000,), [2_000, 4_000, 8_000, 16_000, 32_000]),
        ("quadratic", (2_000,), [2_000, 8_000, 18_000, 32_000, 50_000]),
        ("fixed", (2_000,), [2_000] * 5),
        ("list", (5, 60, 9), [5, 60, 9, 9, 9]),
    ],
)
def test_waits_follow_the_formula(
    backoff: Backoff, delays_ms: tuple[int, ...], expected: list[int]
) -> None:
    """The wait after the n-th failure is delay * 2^(n-1), delay * n^2, delay, or the n-th entry."""
    policy = RetryPolicy(backoff=backoff, delays_ms=delays_ms)
    assert [wait_ms(policy, failures, 0.0) for failures in range(1, 6)] == expected


def test_the_cap_comes_before_the_jitter() -> None:
    """max_delay cuts the wait; the jitter lengthens what is left by up to its part."""
    policy = RetryPolicy(delays_ms=(2_000,), max_delay_ms=10_000, jitter=0.2)
    assert wait_ms(policy, 50, 0.0) == 10_000
    assert wait_ms(policy, 50, 0.5) == 11_000
    assert wait_ms(policy, 50, 0.999_999_9) == 12_000


def test_waits_of_tasks_that_failed_together_are_spread() -> None:
    """Evenly chosen fractions spread the waits over a fifth of the wait, none of them early."""
    waits = [wait_ms(RetryPolicy(delays_ms=(10_000,)), 1, index / 1000) for index in range(1000)]
    assert min(waits) == 10_000
    assert max(waits) - min(waits) > 0.19 * 10_000
    assert len(set(waits)) > 900


@given(policies, st.integers(1, 10_000), fractions)
def test_a_wait_is_never_negative_nor_beyond_cap_and_jitter(
    policy: RetryPolicy, failures: int, fraction: float
) -> None:
    """Whatever the policy, a wait is a whole number of ms within its bounds."""
    wait = wait_ms(policy, failures, fraction)
    assert isinstance(wait, int)
    assert 0 <= wait <= round(policy.max_delay_ms * (1 + policy.jitter))
    assert wait >= wait_ms(policy, failures, 0.0)


@given(policies, st.integers(1, 1_000))
def test_without_a_list_waits_never_shrink(policy: RetryPolicy, failures: int) -> None:
    """Each further failure waits at least as long; only a list may say otherwise."""
    if policy.backoff != "list":
        assert wait_ms(policy, failures + 1, 0.0) >= wait_ms(policy, failures, 0.0)
