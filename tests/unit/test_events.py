"""Entries of the event stream, as they are read, whatever stands in them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduld.client.dead import summary, without_numbers
from scheduld.client.events import Event, _whole, is_cursor, read_entry


def entry(kinds: bytes, ids: bytes, **more: bytes) -> Any:
    """One entry as the server answers it."""
    flat = [b"e", kinds, b"ids", ids, b"node", b"r1"]
    for name, value in more.items():
        flat += [name.encode(), value]
    return b"12-3", flat


def test_an_event_a_kind() -> None:
    """One call that did several things is told as several events with one cursor."""
    added, dead = read_entry("t", entry(b"added dead", b"a b\nc", error=b"E: one\nE: two"))
    assert (added.kind, added.ids, added.more, added.errors) == ("added", ("a", "b"), 0, ())
    assert (dead.kind, dead.ids, dead.errors) == ("dead", ("c",), ("E: one", "E: two"))
    assert (dead.type, dead.at_ms, dead.node, dead.cursor) == ("t", 12, "r1", "12-3")


def test_a_count_is_told_from_an_id() -> None:
    """`+7` behind a hundred ids says how many more; anywhere else it is an id."""
    many = b" ".join(b"i%d" % number for number in range(100))
    (event,) = read_entry("t", entry(b"added", many + b" +7"))
    assert (len(event.ids), event.more) == (100, 7)
    (event,) = read_entry("t", entry(b"added", b"a +7"))
    assert (event.ids, event.more) == (("a", "+7"), 0)


@pytest.mark.parametrize(
    "odd",
    [
        entry(b"", b""),
        (b"1-1", [b"x", b"y"]),
        (b"1-1", []),
        entry(b"added", b"a\nb\nc"),
        entry(b"added done", b"a"),
        entry(b"added", b"\xff\xfe"),
    ],
)
def test_what_others_wrote(odd: Any) -> None:
    """Entries that are not ours, or hold ids that break lines, are read as far as they go."""
    for event in read_entry("t", odd):
        assert event.kind in ("added", "done")
    (event,) = read_entry("t", entry(b"added", b"\xff\xfe"))
    assert event.ids == ("\udcff\udcfe",)
    (event,) = read_entry("t", entry(b"paused", b""))
    assert event.ids == ()


def of(cursor: str) -> Event:
    """An event of a cursor."""
    return Event("t", 1, "added", (), 0, "", (), cursor)


@pytest.mark.parametrize(
    ("cursors", "limit", "count"),
    [
        (["1-0", "2-0", "3-0"], 2, 2),
        (["1-0", "2-0", "2-0"], 2, 1),
        (["1-0", "1-0", "1-0", "2-0"], 1, 3),
        (["1-0", "1-0"], 1, 2),
        (["1-0", "2-0"], 5, 2),
        ([], 5, 0),
    ],
)
def test_a_cursor_is_never_split(cursors: list[str], limit: int, count: int) -> None:
    """Who goes on behind the last event misses none: all of a cursor are there, or none."""
    assert len(_whole([of(cursor) for cursor in cursors], limit)) == count


@pytest.mark.parametrize("text", ["1h", "2026-11-30", "2026-11", "12-", "1796066566136", "-5"])
def test_a_cursor_is_told_from_a_time(text: str) -> None:
    """Milliseconds, a dash and a number; nothing that is a date, not even a part of one."""
    assert is_cursor("1796066566136-0")
    assert not is_cursor(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Timeout: after 1.5 s", "Timeout: after #.# s"),
        ("KeyError: 'user-42'", "KeyError: 'user-#'"),
        ("no task 9f2c1b9e-5d0a-4c0e-8f57-1c2d3e4f5a6b", "no task #"),
        ("object at 0x7f5a98a02cd0", "object at #"),
        ("commit 0123456789abcdef", "commit #"),
        ("example.com answered 404", "example.com answered 404"),
        ("exit code 7: row 12", "exit code 7: row #"),
        ("Status: 503, errno 111", "Status: 503, errno 111"),
        ("status 1234", "status #"),
        ("task abcdefghijklmnopqr23 failed", "task # failed"),
        ("feedback deadbeef internationalization", "feedback deadbeef internationalization"),
    ],
)
def test_errors_without_numbers(text: str, expected: str) -> None:
    """Numbers, hashes, addresses and ids are left out; words stay."""
    assert without_numbers(text) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"kind":"E","message":"a\\nb"}', "E: a b"),
        (b'{"kind":"E"}', "E"),
        (b'{"kind":"E","message":"cut"', "E: cut"),
        (b'{"kind":7,"message":[1]}', "7: [1]"),
        (b"{}", "unknown"),
        (b"[1]", "unknown"),
        (b"", "unknown"),
        (b"\xff", "unknown"),
        (b'{"message":"\\u001b[31m"}', "\\x1b[31m"),
    ],
)
def test_the_summary_of_an_error(raw: bytes, expected: str) -> None:
    """One printable line, whatever is stored."""
    assert summary(raw) == expected
