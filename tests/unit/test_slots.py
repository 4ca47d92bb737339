"""Slots per type and per replica."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduld.policies.slots import Slots

NAMES = "abcd"
limits = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 8), min_size=1)
moves = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans(), st.integers(1, 9)), max_size=60)


def test_a_type_has_its_own_slot_and_the_shared_ones() -> None:
    """Of five slots for two types, one may take four, and the other keeps one."""
    slots = Slots(5, {"a": 100, "b": 100})
    assert slots.free("a") == 4
    slots.take("a", 4)
    assert (slots.free("a"), slots.free("b")) == (0, 1)
    slots.take("b", 1)
    assert (slots.free("a"), slots.free("b")) == (0, 0)
    slots.give("a", 1)
    assert (slots.free("a"), slots.free("b")) == (1, 1)


def test_a_types_own_limit_holds_while_slots_are_free() -> None:
    """A type with concurrency 2 gets two of a hundred slots."""
    slots = Slots(100, {"a": 2})
    slots.take("a", 1)
    assert slots.free("a") == 1
    slots.take("a", 1)
    assert (slots.free("a"), slots.used("a")) == (0, 2)


def test_as_many_types_as_slots_have_one_each() -> None:
    """Without a slot to share, every type runs one task."""
    slots = Slots(3, {"a": 5, "b": 5, "c": 5})
    for name in "abc":
        assert slots.free(name) == 1
        slots.take(name, 1)
    assert [slots.free(name) for name in "abc"] == [0, 0, 0]


@given(limits, st.integers(0, 12), moves)
def test_limits_hold_and_nobody_starves(
    limits: dict[str, int], more: int, moves: list[tuple[str, bool, int]]
) -> None:
    """Whoever takes what is free, in any order, never gets beyond a limit or another's slot."""
    total = len(limits) + more
    slots = Slots(total, limits)
    for name, takes, count in moves:
        if name not in limits:
            continue
        if takes:
            slots.take(name, min(count, slots.free(name)))
        else:
            slots.give(name, min(count, slots.used(name)))
        assert sum(slots.used(each) for each in limits) <= total
        for each, limit in limits.items():
            assert slots.used(each) <= limit
            assert slots.free(each) >= (1 if slots.used(each) == 0 else 0)
