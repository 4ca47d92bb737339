"""The last resort for errors, words for a shell, tables and stories: pure parts of the CLI."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduld.cli import app, common
from scheduld.cli.main import INTERRUPTED, main
from scheduld.cli.output import shell_words, table
from scheduld.cli.telling import row, story
from scheduld.errors import InvalidInput
from scheduld.model import State, Task

NOW_MS = 1_800_000_000_000


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_shell_reads_the_words_back(words: list[str]) -> None:
    """Whatever the words hold, they make one printable line, and bash splits it again."""
    line = shell_words(words)
    assert line.isprintable()
    ran = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' x {line}"], capture_output=True, check=True
    )
    assert ran.stdout.decode().split("\0")[1:-1] == words


def test_a_table_escapes_and_lines_up() -> None:
    """Columns are as wide as their widest cell on a terminal; no cell can break a line."""
    lines = table(("A", "B"), [("日本", "x"), ("a\nb\x1b[31m", "y"), ("e\u0301", "z")]).split("\n")
    assert lines == [
        "A" + " " * 13 + "B",
        "日本" + " " * 10 + "x",
        r"a\nb\x1b[31m" + " " * 2 + "y",
        "e\u0301" + " " * 13 + "z",
    ]


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"state": State.SCHEDULED}, "t/a is scheduled"),
        (
            {"state": State.SCHEDULED, "failed": 1},
            "t/a is scheduled to be tried again, after 1 failed run",
        ),
        ({"state": State.RUNNING}, "t/a is running"),
        ({"state": State.RUNNING, "started_ms": NOW_MS - 3000}, "t/a is running, started 3s ago"),
        ({"state": State.CANCELLED}, "t/a is cancelled"),
        ({"state": State.DEAD}, "t/a is dead: it is not tried again"),
    ],
)
def test_a_story_begins_with_the_state(fields: dict[str, Any], first: str) -> None:
    """The first line names the task and says where it is."""
    assert story(Task(type="t", id="a", **fields), None, NOW_MS)[0] == first


def test_a_story_tells_all_that_happened() -> None:
    """Counters, owner, result, successor and the last error are told in words."""
    task = Task(
        type="t",
        id="a",
        state=State.RUNNING,
        due_ms=NOW_MS,
        payload={"é": "\x1b"},
        attempt=3,
        failed=2,
        releases=1,
        interruptions=2,
        owner="node\n1",
        successor={"due_ms": NOW_MS + 60_000, "payload": {}},
        error={"kind": "timeout", "message": "over", "traceback": "a\nb"},
    )
    told = dict(line.strip().split("  ", 1) for line in story(task, "UTC", NOW_MS)[1:-2])
    assert {label: text.strip() for label, text in told.items()} == {
        "due": "2027-01-15T08:00:00+00:00 (UTC), 2027-01-15T08:00:00Z, now",
        "payload": r'{"é": "\u001b"}',
        "attempt": "3",
        "failed": "2 runs",
        "given back": "1 time, by a stop",
        "interrupted": "2 times, its lease ran out",
        "owner": r"node\n1",
        "successor": "takes over when this run ends: due 2027-01-15T08:01:00+00:00 (UTC), "
        "2027-01-15T08:01:00Z, in 1m, payload {}",
        "last error": "timeout: over",
    }


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"state": State.SCHEDULED, "due_ms": NOW_MS + 5000, "failed": 2}, "in 5s, 2 failed runs"),
        ({"state": State.SCHEDULED, "due_ms": NOW_MS - 5000}, "due 5s ago"),
        ({"state": State.RUNNING, "attempt": 1, "started_ms": NOW_MS}, "attempt 1, started now"),
        ({"state": State.DONE, "finished_ms": NOW_MS - 60_000}, "1m ago"),
        (
            {"state": State.DEAD, "finished_ms": NOW_MS, "error": {"message": "x" * 99}},
            "now: " + "x" * 52 + "...",
        ),
        ({"state": State.DEAD, "error": "rubbish"}, '"rubbish"'),
    ],
)
def test_a_row_says_what_happens_or_happened(fields: dict[str, Any], what: str) -> None:
    """The last cell is the distance for what waits, the run, or the end and its reason."""
    assert row(Task(type="t", id="a", **fields), None, NOW_MS)[3] == what


def test_a_bug_is_told_by_its_place_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unforeseen exception is one line and exit 1; its words, maybe a secret, are left out."""

    def broken(ctx: object) -> None:
        raise RuntimeError("S3cret")

    monkeypatch.setattr(app.cli, "invoke", broken)
    assert main(["list"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("scheduld: internal error: RuntimeError at ")
    assert "S3cret" not in err
    assert len(err.splitlines()) == 1
    assert main(["list", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["kind"] == "error"


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupted command ends quietly with the code that shells use."""

    def interrupted(ctx: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app.cli, "invoke", interrupted)
    assert main(["list"]) == INTERRUPTED == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "parts"),
    [("hello/a", ("hello", "a")), ("hello/a/b/", ("hello", "a/b/")), ("a:b", (None, "a:b"))],
)
def test_references_are_split_at_the_first_slash(text: str, parts: tuple[str | None, str]) -> None:
    """What follows the first slash is the id, whatever it holds."""
    assert common.split_ref(text) == parts


@pytest.mark.parametrize("text", ["", "/", "hello/", "/a", "A/b", "a b", "hello/a\n"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    """Empty parts, type names and ids against the rules are InvalidInput."""
    with pytest.raises(InvalidInput):
        common.split_ref(text)
