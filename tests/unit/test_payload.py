"""Payloads: JSON objects, strictly."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld import payload as payload_module
from scheduld.errors import InvalidInput
from scheduld.payload import MAX_DEPTH, decode, encode, encode_json, parse, snapshot

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int) -> dict[str, Any]:
    """Make an object that is `depth` levels deep."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


@given(st.dictionaries(texts, values, max_size=5))
def test_what_goes_in_comes_out(payload: dict[str, Any]) -> None:
    """Every JSON object survives, big integers and empty lists included."""
    data = encode(payload)
    assert decode(data) == payload
    assert json.loads(data) == payload


class Text(str):
    """A text of a caller's own kind."""

    __slots__ = ()


class Number(IntEnum):
    """A number of a caller's own kind."""

    ONE = 1


@given(st.dictionaries(texts, values, max_size=5))
def test_a_snapshot_is_what_will_be_read(payload: dict[str, Any]) -> None:
    """The bytes of `encode`, and what `decode` makes of them, down to the order and the types."""
    data, copy = snapshot(payload)
    assert data == encode(payload)
    assert repr(copy) == repr(decode(data))


@pytest.mark.parametrize(
    "payload",
    [
        {"a": (1, 2)},
        {"a": Number.ONE},
        {Text("a"): Text("b")},
        {"a": {"b": ()}},
        OrderedDict(a=1, b=[]),
        OrderedDict(a=1),
        {"a": -0.0, "b": 1e300, "c": 10**30, "d": True},
    ],
)
def test_a_snapshot_holds_json_only(payload: dict[str, Any]) -> None:
    """A caller's own kinds of values are told as the plain ones that are stored."""
    data, copy = snapshot(payload)
    assert repr(copy) == repr(decode(data))
    assert type(copy) is dict


def test_a_snapshot_is_apart_from_what_was_given() -> None:
    """Changing the payload later, at any depth, changes nothing in it."""
    payloads: list[dict[str, Any]] = [{"a": 1}, {"a": {"b": [1]}}]
    for payload in payloads:
        _, copy = snapshot(payload)
        told = repr(copy)
        payload["a"] = 2
        assert repr(copy) == told
    inner = {"a": [1]}
    _, copy = snapshot(inner)
    inner["a"].append(2)
    assert copy == {"a": [1]}


@pytest.mark.parametrize(
    "payload", [None, [1], {1: 2}, {"a": float("nan")}, {"a": "\ud800"}, {"a": {"b": {3}}}]
)
def test_a_snapshot_is_refused_as_the_encoding_is(payload: Any) -> None:
    """The same error with the same words."""
    with pytest.raises(InvalidInput) as expected:
        encode(payload)
    with pytest.raises(InvalidInput) as caught:
        snapshot(payload)
    assert str(caught.value) == str(expected.value)
    with pytest.raises(InvalidInput, match="at most 5 are allowed"):
        snapshot({"a": 12345}, max_bytes=5)


def test_without_the_c_encoder_the_bytes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python whose json has none writes the same text."""
    value = {"a": [1, 2.5, None, True, "é\n"], "b": {}}
    expected = payload_module._encoder()(value)
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert payload_module._encoder()(value) == expected


def test_the_encoding_is_compact_utf8() -> None:
    """No blanks, no escapes where UTF-8 will do."""
    assert encode({"to": "ñ", "n": [1, 1.0, 12345678901234567890]}) == (
        '{"to":"ñ","n":[1,1.0,12345678901234567890]}'.encode()
    )


@pytest.mark.parametrize(
    "value",
    [
        {"a": float("nan")},
        {"a": float("-inf")},
        {1: "a"},
        {"a": {None: 1}},
        {"a": "\ud800"},
        {"\udfff": 1},
        {"a": b"bytes"},
        {"a": {1, 2}},
        {"a": datetime(2030, 1, 1, tzinfo=UTC)},
        {"a": object()},
        {"a": 10**5000},
    ],
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    """Nothing is turned into text silently."""
    with pytest.raises(InvalidInput):
        encode(value)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", [], (1,), b"{}"])
def test_only_objects_are_payloads(value: Any) -> None:
    """Anything else is refused, and named."""
    with pytest.raises(InvalidInput, match="payload must be a JSON object, not "):
        encode(value)


def test_depth_is_limited() -> None:
    """200 levels are fine, one more is not, coming in as well as going out."""
    deepest = nested(MAX_DEPTH)
    assert decode(encode(deepest)) == deepest
    with pytest.raises(InvalidInput, match="nested deeper than 200"):
        encode(nested(MAX_DEPTH + 1))
    with pytest.raises(InvalidInput, match="nested deeper than 200"):
        decode(json.dumps(nested(MAX_DEPTH + 1)).encode())


@pytest.mark.parametrize("depth", [1_000, 200_000])
def test_a_bomb_of_brackets_is_refused(depth: int) -> None:
    """Depth beyond what a parser can do is an ordinary refusal."""
    with pytest.raises(InvalidInput, match="nested deeper"):
        decode(b'{"a":' + b"[" * depth + b"]" * depth + b"}")


def test_a_value_that_holds_itself_is_refused() -> None:
    """It would never end."""
    value: dict[str, Any] = {}
    value["me"] = value
    with pytest.raises(InvalidInput, match="nested deeper"):
        encode(value)


def test_size_is_limited_in_bytes() -> None:
    """max_payload counts bytes of UTF-8, and is inclusive."""
    payload = {"a": "ñ" * 10}
    assert len(encode(payload, max_bytes=28)) == 28
    with pytest.raises(InvalidInput, match=r"has 28 bytes, at most 27 are allowed \(max_payload\)"):
        encode(payload, max_bytes=27)


def test_no_payload_is_an_empty_one() -> None:
    """A hash without the field means {}."""
    assert decode(None) == {}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON value"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": "\xc3"}', "not UTF-8"),
        (b"[]", "not a JSON object but an array"),
        (b"null", "not a JSON object but null"),
        (b"true", "not a JSON object but a boolean"),
        (b"7", "not a JSON object but a number"),
        (b'"x"', "not a JSON object but a string"),
        (b'{"a":1}{"b":2}', "not JSON"),
        (b'\xef\xbb\xbf{"a":1}', "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_stored_payloads_that_are_broken_are_named(data: bytes, why: str) -> None:
    """Each is refused in one line that says what it is."""
    with pytest.raises(InvalidInput, match=why) as caught:
        decode(data)
    assert "\n" not in caught.value.message


def test_an_escaped_lone_surrogate_is_a_text() -> None:
    """It is valid JSON, and a handler may see it."""
    assert parse('"\\ud800"') == "\ud800"


def test_any_json_value_can_be_encoded_as_a_result() -> None:
    """Results need not be objects."""
    assert encode_json([1, None, "x"]) == b'[1,null,"x"]'
