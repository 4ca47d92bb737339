"""How the payload of a command line is put together."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.cli.payloads import Collected, collect
from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

KEYS = st.text(min_size=1).filter(
    lambda key: "=" not in key and not key.endswith(":") and key == key.strip()
)


@given(KEYS, st.text())
def test_key_and_value_are_taken_as_they_are(key: str, value: str) -> None:
    """The first `=` ends the key, and everything after it is the text."""
    assert collect([f"{key}={value}"], None, None) == Collected({key: value}, from_stdin=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ('"x"', "x"), ("null", None), ("[]", []), ('{"a":{}}', {"a": {}}), (" 1.5 ", 1.5)],
)
def test_colon_equals_takes_json(text: str, value: Any) -> None:
    """KEY:=JSON is any JSON value."""
    assert collect([f"k:={text}"], '{"k": 0, "l": 0}', None).payload == {"k": value, "l": 0}


@pytest.mark.parametrize("text", ["", "x", "NaN", "1 2", "{", "'a'"])
def test_what_is_no_json_names_the_key(text: str) -> None:
    """The refusal says which key, and how to give a text."""
    with pytest.raises(InvalidInput, match="k:= is not JSON") as caught:
        collect([f"k:={text}"], None, None)
    assert caught.value.hint == "k=... takes a text"


def test_pairs_are_checked_before_stdin_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake is told before anyone types a payload."""
    stdin = io.TextIOWrapper(io.BytesIO(b"{}"))
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(InvalidInput, match="neither KEY=VALUE"):
        collect(["-", "oops"], None, None)
    assert stdin.buffer.read() == b"{}"
    assert collect(["a=1"], None, None).from_stdin is False


def test_a_closed_stdin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no stdin at all, the refusal says so."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match="stdin is closed"):
        collect(["-"], None, None)


def test_a_file_and_stdin_exclude_each_other(tmp_path: Path) -> None:
    """One payload has one source."""
    file = tmp_path / "p.json"
    file.write_text("{}")
    for text, name, entries in (("{}", str(file), []), (None, str(file), ["-"]), ("{}", "-", [])):
        with pytest.raises(InvalidInput, match="the payload is given twice"):
            collect(entries, text, name)


def test_a_file_that_never_ends_is_refused() -> None:
    """Reading is bounded, so /dev/zero does not fill the memory."""
    with pytest.raises(InvalidInput, match="file /dev/zero is larger than 16 MB"):
        collect([], None, "/dev/zero")
