"""How long to wait before a failed run is tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduld.model import RetryPolicy

_MOST_DOUBLINGS = 40  # beyond every max_delay, and far from what a number can hold


def wait_ms(policy: RetryPolicy, failures: int, fraction: float) -> int:
    """Ms to wait after the `failures`-th failed run (from 1); `fraction` is random in [0, 1).

    exponential: delay * 2^(n-1); quadratic: delay * n^2; fixed: delay; list: the n-th delay,
    the last one repeated. Capped at `max_delay_ms`, then lengthened by up to `jitter` of
    itself, so that what failed together does not come back together, and never early.
    """
    base = _base_ms(policy, failures)
    capped = min(base, policy.max_delay_ms)
    return round(capped * (1 + policy.jitter * fraction))


def _base_ms(policy: RetryPolicy, failures: int) -> int:
    delays = policy.delays_ms
    first: int = delays[0]
    match policy.backoff:
        case "exponential":
            doublings: int = min(failures - 1, _MOST_DOUBLINGS)
            return first << doublings
        case "quadratic":
            return first * failures * failures
        case "list":
            return delays[min(failures, len(delays)) - 1]
        case _:
            return first
