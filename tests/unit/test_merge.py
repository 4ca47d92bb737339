"""JSON merge patches, by the examples of RFC 7396 and a few of our own."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from scheduld.policies.merge import merge


@pytest.mark.parametrize(
    ("value", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": {"x": 1}}, {}, {"a": {"x": 1}}),
    ],
)
def test_a_patch_changes_what_it_names(value: Any, patch: Any, merged: Any) -> None:
    """Neither the value nor the patch is touched, and a second time changes nothing more."""
    before = copy.deepcopy((value, patch))
    assert merge(value, patch) == merged
    assert (value, patch) == before
    assert merge(merged, patch) == merged
