"""Names and ids."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.errors import InvalidInput
from scheduld.names import check_id, check_name, id_fault, id_time_ms, new_id, new_ids, printable
from scheduld.store.keys import Keys, decode_id, encode_id

NOW_MS = 1_800_000_000_123


@pytest.mark.parametrize("name", ["a", "0", "email", "a.b-c_d", "x" * 63, "9lives"])
def test_names(name: str) -> None:
    """Lower case letters, digits, and . _ - inside."""
    assert check_name("type", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "é",
        "a b",
        "a\n",
        "-a",
        "_a",
        ".a",
        "x" * 64,
        "a{b}",
        "a:b",
        "a*",
        "a/b",
        None,
        7,
        b"a",
    ],
)
def test_what_is_no_name(name: object) -> None:
    """It is refused in one line that says which name and the rule."""
    with pytest.raises(InvalidInput, match=r"type .* is not a name") as caught:
        check_name("type", name)
    assert caught.value.hint is not None
    assert "\n" not in caught.value.message


IDS = [
    "a:b",
    "b",
    "{x}",
    "}{",
    "*?[",
    "../..",
    "1234567890",
    "-inf",
    "+inf",
    "nan",
    unicodedata.normalize("NFC", "é"),
    unicodedata.normalize("NFD", "é"),
    "😀",
    "\u202eright-to-left",
    "processing",
    "dead",
    "lock",
    "stats",
    "due",
    "task:x",
    "x" * 200,
    "é" * 100,
    "'\"\\",
    "%s%n",
    "TYPE/ID",
]


@pytest.mark.parametrize("task_id", IDS)
def test_ids(task_id: str) -> None:
    """Anything visible within 200 bytes is an id, however odd, and stays as it is (B75)."""
    assert check_id(task_id) == task_id
    assert decode_id(encode_id(task_id)) == task_id


@pytest.mark.parametrize(
    ("task_id", "why"),
    [
        ("", "is empty"),
        (" ", "space or control"),
        ("a b", "space or control"),
        ("a\nb", "space or control"),
        ("a\rb", "space or control"),
        ("a\tb", "space or control"),
        ("a\0b", "space or control"),
        ("a\x1b[31m", "space or control"),
        ("a\x7f", "space or control"),
        ("a\x85b", "space or control"),
        ("a\u2028b", "space or control"),
        ("a\u2029b", "space or control"),
        ("a\u00a0b", "space or control"),
        ("a\u3000b", "space or control"),
        ("\ud800", "not UTF-8"),
        ("x" * 201, "has 201 bytes, at most 200"),
        ("é" * 101, "has 202 bytes, at most 200"),
        ("x" * 100_000, "has 100000 bytes"),
    ],
)
def test_what_is_no_id(task_id: str, why: str) -> None:
    """It is refused in one short line that says why."""
    with pytest.raises(InvalidInput, match=why) as caught:
        check_id(task_id)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("task_id", [None, 7, b"x", ["x"]])
def test_only_texts_are_ids(task_id: object) -> None:
    """Other kinds of values are refused, not turned into texts."""
    with pytest.raises(InvalidInput, match="a task id is a text, not"):
        check_id(task_id)


def test_no_id_of_one_type_is_a_key_of_another() -> None:
    """Pairs of types and ids have keys of their own, none of them an index."""
    keys = Keys("ns")
    found = [
        keys.type(name).task(encode_id(task_id)).decode()
        for name in ("t", "t.a")
        for task_id in IDS
    ]
    fixed = [key for name in ("t", "t.a") for key in keys.type(name).common()]
    assert len(set(found + fixed)) == len(found + fixed)


@given(st.binary(max_size=20))
def test_stored_ids_survive_decoding_even_if_broken(raw: bytes) -> None:
    """Any bytes in an index can be named and found again."""
    assert encode_id(decode_id(raw)) == raw


@given(st.text(max_size=300))
def test_a_text_is_an_id_or_has_a_fault(text: str) -> None:
    """No text makes the check fail in another way; what passes is one printable-safe word."""
    if id_fault(text) is None:
        assert 0 < len(text.encode()) <= 200
        assert text.split() == [text]


def test_generated_ids_tell_their_time_and_are_in_order() -> None:
    """20 lower-case characters; the first 9 hold the ms, so they sort by time."""
    ids = [new_id(NOW_MS + step) for step in range(50)]
    assert [id_time_ms(task_id) for task_id in ids] == [NOW_MS + step for step in range(50)]
    assert {len(task_id) for task_id in ids} == {20}
    assert len({new_id(NOW_MS) for _ in range(1_000)}) == 1_000
    assert all(
        check_id(task_id) == check_name("id", task_id) for task_id in ids if task_id[0] > "9"
    )


@pytest.mark.parametrize(
    "text", ["a" * 20, "7" * 20, "hello", "", "ABCDEFGHIJKLMNOPQRST", "x" * 21, "1" * 20]
)
def test_other_ids_tell_no_time(text: str) -> None:
    """Somebody's own words of 20 letters are not mistaken for a time."""
    assert id_time_ms(text) is None


def test_printable_escapes_what_could_forge_a_line() -> None:
    """Newlines, escapes, separators and lone surrogates are shown; ordinary text stays."""
    assert printable("a\n\r\x1b[0m\u2028\x85\ud800é 😀") == (r"a\n\r\x1b[0m\u2028\x85\ud800é 😀")


@given(st.text())
def test_printable_is_one_line_of_utf8(text: str) -> None:
    """Whatever the text, it can be written as one line."""
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    assert json.loads(json.dumps(shown.encode().decode())) == shown


def test_ids_made_at_once_are_like_those_made_one_by_one() -> None:
    """All different, of the same instant, and well formed; none if none are asked for."""
    made = new_ids(NOW_MS, 1_000)
    assert len(set(made)) == 1_000
    assert {id_time_ms(task_id) for task_id in made} == {NOW_MS}
    assert {task_id[:9] for task_id in made} == {new_id(NOW_MS)[:9]}
    assert {len(task_id) for task_id in made} == {20}
    letters = "".join(task_id[9:] for task_id in made)
    assert set(letters) == set("abcdefghijklmnopqrstuvwxyz234567")
    assert new_ids(NOW_MS, 0) == []
