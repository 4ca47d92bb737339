"""Key names: spelled in one module, apart for every namespace, type and id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scheduld
from scheduld.errors import InvalidInput
from scheduld.store.keys import Keys, TypeKeys, decode_id, encode_id

PACKAGE = Path(scheduld.__file__).parent
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,8}", fullmatch=True)


def of_type(keys: TypeKeys, raw_id: bytes) -> list[bytes]:
    """Every key of a type, with those of one task and one replica."""
    return [*(key.encode() for key in keys.common()), keys.task(raw_id), keys.claim("r").encode()]


def test_the_names_are_the_documented_ones() -> None:
    """Other programs use these names: they are part of the interface."""
    keys = Keys("scheduld")
    email = keys.type("email")
    assert email.indexes() == (
        "scheduld:{email}:due",
        "scheduld:{email}:leased",
        "scheduld:{email}:done",
        "scheduld:{email}:dead",
    )
    assert email.common() == (
        *email.indexes(),
        "scheduld:{email}:meta",
        "scheduld:{email}:events",
    )
    assert email.task("é".encode()) == "scheduld:{email}:task:é".encode()
    assert email.claim("r1") == "scheduld:{email}:claim:r1"
    assert (keys.types, keys.nodes, keys.node("r1")) == (
        "scheduld:types",
        "scheduld:nodes",
        "scheduld:node:r1",
    )
    assert (keys.format, keys.wake) == ("scheduld:format", "scheduld:wake")


@given(NAMES, NAMES, NAMES, NAMES, st.binary(max_size=9), st.binary(max_size=9))
def test_no_two_things_share_a_key(
    space: str, other_space: str, name: str, other: str, raw_id: bytes, other_id: bytes
) -> None:
    """Whatever the names and ids, two different ones never lead to one key."""
    first = of_type(Keys(space).type(name), raw_id)
    second = of_type(Keys(other_space).type(other), other_id)
    assert len(set(first)) == len(first)
    if (space, name) != (other_space, other):
        assert not set(first) & set(second)
    elif raw_id != other_id:
        assert first[6] != second[6]


@given(NAMES, NAMES, st.binary(max_size=20))
def test_the_type_is_the_cluster_hash_tag(space: str, name: str, raw_id: bytes) -> None:
    """All keys of a type share a slot: what stands in the first braces is the type."""
    for key in of_type(Keys(space).type(name), raw_id):
        tag = re.search(rb"\{([^}]*)\}", key)
        assert tag
        assert tag[1] == name.encode()


@pytest.mark.parametrize(
    "name", ["", "a{b}c", "{}", "}{", "a:b", "A", "a b", "é", "a\n", "*", "x" * 64]
)
def test_names_that_could_change_a_key_are_refused(name: str) -> None:
    """A namespace or type with braces, colons or glob characters is no name."""
    with pytest.raises(InvalidInput, match="is not a name"):
        Keys(name)
    with pytest.raises(InvalidInput, match="is not a name"):
        Keys("ns").type(name)


@given(st.binary(max_size=40))
def test_any_stored_id_can_be_told_and_found_again(raw_id: bytes) -> None:
    """Bytes that are not UTF-8 survive the way to text and back."""
    assert encode_id(decode_id(raw_id)) == raw_id


def test_the_pattern_of_all_hashes_matches_them_alone() -> None:
    """The janitor's pattern meets the hash of every task, and none of the other keys."""
    keys = Keys("ns")
    pattern = re.escape(keys.any_task_pattern).replace(r"\*", ".*").encode()
    job = keys.type("job")
    assert re.fullmatch(pattern, job.task(b"a:{b}"))
    others = [*job.common(), job.claim("r"), keys.node("r"), keys.types, keys.nodes, keys.format]
    assert not [key for key in others if re.fullmatch(pattern, key.encode())]


def test_keys_are_spelled_in_one_module() -> None:
    """No other module and no script builds the name of a key."""
    spelled = re.compile(
        r":(?:due|leased|done|dead|meta|events|claim|task|types|nodes|node|format|wake):?[\"'*{]"
        r"|\{\{\{|\":\{"
    )
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.lua")])
        if path.relative_to(PACKAGE) != Path("store/keys.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if spelled.search(line)
    ]
    assert found == []
    assert spelled.search((PACKAGE / "store/keys.py").read_text())
