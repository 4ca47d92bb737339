"""The line of each key of a TOML document."""

from __future__ import annotations

import json
from typing import Any

import tomli
from hypothesis import given
from hypothesis import strategies as st

from scheduld.config.locate import line_of, locate

SAMPLE = (
    '''\
title = "a # b [c]" # [not.a.header]
[a]
x = """
[b]
y = 1
""" ; z
'''.replace(" ; z", "")
    + """\
"q.r" = { one = 1, two = [1, 2],
  three = { "fo\\u0075r" = 4 } }
s.t . 'u' = '''
v = "'''
[a . "b c"] # comment
list = [
  "]", # ]
  '''"''',
  { k = 1 },
]
when = 1979-05-27 07:32:00
number = 1.5
[[many]]
n = 1
[[many]]
n = 2
[many.deep]
n = 3
"""
)


def test_sample() -> None:
    """Strings, comments, inline tables and arrays over several lines are seen through."""
    tomli.loads(SAMPLE)
    lines = locate(SAMPLE)
    wanted = {
        ("title",): 1,
        ("a",): 2,
        ("a", "x"): 3,
        ("a", "q.r"): 7,
        ("a", "q.r", "one"): 7,
        ("a", "q.r", "two", 1): 7,
        ("a", "q.r", "three"): 8,
        ("a", "q.r", "three", "four"): 8,
        ("a", "s"): 9,
        ("a", "s", "t", "u"): 9,
        ("a", "b c"): 11,
        ("a", "b c", "list"): 12,
        ("a", "b c", "list", 0): 13,
        ("a", "b c", "list", 1): 14,
        ("a", "b c", "list", 2, "k"): 15,
        ("a", "b c", "when"): 17,
        ("a", "b c", "number"): 18,
        ("many", 0, "n"): 20,
        ("many", 1): 21,
        ("many", 1, "n"): 22,
        ("many", 1, "deep"): 23,
        ("many", 1, "deep", "n"): 24,
    }
    assert {path: lines[path] for path in wanted} == wanted
    assert ("v",) not in lines
    assert ("b",) not in lines


def test_nearest_place_around() -> None:
    """A key that is not there has the line of its table; what has no table has none."""
    lines = locate("[a.b]\nc = 1\n")
    assert line_of(lines, ("a", "b", "missing")) == 1
    assert line_of(lines, ("a", "b", "c", "d", 0)) == 2
    assert line_of(lines, ("z",)) is None
    assert line_of(lines, ()) is None


def test_lost_walk_ends() -> None:
    """Text that is no TOML is walked without an end or an error: a place is only a help."""
    for text in ("[", "a", "a =", "= =", "a = [", "a = {", "a = {]", "]]", "[[[[", "a = [}", '"'):
        assert all(line == 1 for line in locate(text).values())
    assert locate("a = " + "[" * 5000) is not None


def written(value: Any) -> str:
    """Write a value as TOML, arrays and tables over several lines."""
    if isinstance(value, dict):
        items = (f"{json.dumps(key)} = {written(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(written(item) for item in value) + "\n]"
    if isinstance(value, str):
        return '"""\n' + json.dumps(value)[1:-1].replace("\\n", "\n") + '"""'
    return json.dumps(value)


TEXTS = st.text(st.sampled_from("ab.=[]{}#\n\"'\\ é"), max_size=6)
VALUES = st.recursive(
    st.integers(-9, 9) | st.booleans() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_every_key_has_its_line(data: dict[str, Any]) -> None:
    """Whatever a document holds, each top-level key is found on the line where it starts."""
    wanted = {}
    lines = ["# head"]
    for key, value in data.items():
        wanted[(key,)] = len("\n".join(lines).split("\n")) + 1
        lines.append(f"{json.dumps(key, ensure_ascii=False)} = {written(value)}")
    text = "\n".join(lines)
    assert tomli.loads(text) == data
    found = locate(text)
    assert {path: line for path, line in found.items() if len(path) == 1} == wanted
    for key, value in data.items():
        if isinstance(value, dict):
            assert all((key, inner) in found for inner in value)
