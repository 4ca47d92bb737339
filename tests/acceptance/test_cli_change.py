"""`edit`, `run-now`, `pause`, `resume`, and `requeue`, `cancel` of several tasks."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from tests.support.cli import Cli, cli

__all__ = ["cli"]  # the fixture


def _add(cli: Cli, task_id: str = "a", *words: str, kind: str = "hello") -> None:
    cli("add", "--type", kind, "--id", task_id, "--at", "@4000000000", *words).ok()


def _task(cli: Cli, ref: str = "hello/a") -> dict[str, Any]:
    told: dict[str, Any] = cli("show", ref, "--json").ok().json
    return told


@pytest.mark.parametrize(
    ("words", "payload"),
    [
        (["b=2"], {"a": {"x": 1, "y": 2}, "b": "2"}),
        (["b:=2"], {"a": {"x": 1, "y": 2}, "b": 2}),
        (['a:={"x": 3}'], {"a": {"x": 3, "y": 2}}),
        (["a:=null", "c=1"], {"c": "1"}),
        (["--unset", "a"], {}),
        (["--unset", "nope", "b="], {"a": {"x": 1, "y": 2}, "b": ""}),
        (["--payload", '{"z": 1}'], {"z": 1}),
        (["--payload", "{}"], {}),
        (["--payload", '{"z": 1}', "z=2", "y:=[]"], {"z": "2", "y": []}),
    ],
)
def test_edit_changes_the_payload(cli: Cli, words: list[str], payload: dict[str, Any]) -> None:
    """Keys are merged into what is stored, or a payload takes its place; the due time stays."""
    _add(cli, "a", 'a:={"x": 1, "y": 2}')
    out = cli("edit", "hello/a", *words).ok().out.splitlines()
    assert out[0] == "hello/a edited, revision 1"
    assert out[1].startswith("due 2096-10-02T07:06:40Z, in ")
    told = _task(cli)
    assert (told["payload"], told["revision"]) == (payload, 1)
    assert told["due_ms"] == 4_000_000_000_000


def test_edit_takes_a_payload_from_stdin_and_from_a_file(cli: Cli) -> None:
    """As `add` does; the file may be "-"."""
    _add(cli)
    cli("edit", "hello/a", "-", "b=2", stdin=b'{"a": 1}').ok()
    assert _task(cli)["payload"] == {"a": 1, "b": "2"}
    (cli.folder / "p.json").write_text('{"c": 3}')
    cli("edit", "a", "--payload-file", "p.json").ok()
    assert _task(cli)["payload"] == {"c": 3}


@pytest.mark.parametrize(
    ("words", "due"),
    [
        (["--at", "2100-01-01 09:00", "--timezone", "Asia/Tokyo"], "2100-01-01T00:00:00.000Z"),
        (["--at", "2100-01-01T00:00:00.001Z", "n=1"], "2100-01-01T00:00:00.001Z"),
    ],
)
def test_edit_moves_the_due_time(cli: Cli, words: list[str], due: str) -> None:
    """Alone, or together with the payload in one step."""
    _add(cli)
    told = cli("edit", "hello/a", *words, "--json").ok().json
    assert (told["due"], told["revision"]) == (due, 1)
    assert _task(cli)["due"] == due


@pytest.mark.parametrize("words", [["--in", "90m"], ["--at", "+90m"], ["--now"]])
def test_edit_counts_from_now(cli: Cli, words: list[str]) -> None:
    """--in, --at + and --now are read on the server's clock, when it is edited."""
    _add(cli)
    _add(cli, "clock")
    now_ms = cli("stats", "--type", "hello", "--json").ok().json["now_ms"]
    due_ms = cli("edit", "hello/a", *words, "--json").ok().json["due_ms"]
    wanted = 0 if words == ["--now"] else 5_400_000
    assert 0 <= due_ms - now_ms - wanted < 10_000


def test_an_edit_of_an_old_revision_is_refused(cli: Cli) -> None:
    """--if-revision is exit 1 where somebody else was faster, and says both numbers."""
    _add(cli)
    cli("edit", "hello/a", "n=1", "--if-revision", "0").ok()
    refused = cli("edit", "hello/a", "n=2", "--if-revision", "0")
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert re.search(r"\b1\b.*\b0\b|\b0\b.*\b1\b", refused.err)
    assert _task(cli)["payload"] == {"n": "1"}
    cli("edit", "hello/a", "n=2", "--if-revision", "1").ok()


def test_show_tells_the_revision(cli: Cli) -> None:
    """Of a task that was edited, and of no other."""
    _add(cli)
    assert "revision" not in cli("show", "hello/a").ok().out
    cli("edit", "hello/a", "n=1").ok()
    cli("edit", "hello/a", "n=2").ok()
    assert re.search(r"^  revision +2 edits$", cli("show", "hello/a").ok().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing is to be changed"),
        (["--timezone", "UTC"], "nothing is to be changed"),
        (["--in", "1h", "--now"], "exclude each other"),
        (["--at", "2001-01-01T00:00Z"], "past"),
        (["--at", "soon"], "'soon'"),
        (["--in", "soon"], "--in 'soon'"),
        (["--if-revision", "x", "n=1"], "not a valid integer"),
        (["--if-revision", "-1", "n=1"], "revision"),
        (["--payload", "[]"], "not a JSON object"),
        (["--payload", "{}", "--unset", "a"], "--unset is for the stored payload"),
        (["--unset", "a", "a=1"], "'a' is set and unset"),
        (["n"], "neither KEY=VALUE nor KEY:=JSON"),
        (["n:=" + "1" * 300_000], "n:="),
        (["n=" + "1" * 300_000], "at most 262144"),
        (["--every", "7d"], "needs a time zone"),
    ],
)
def test_an_edit_that_cannot_be_right(cli: Cli, words: list[str], said: str) -> None:
    """Exit 2, one line, and the task is as it was."""
    _add(cli)
    before = _task(cli)
    ran = cli("edit", "hello/a", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err
    assert _task(cli) == before


def test_an_edit_into_the_past_runs_at_once(cli: Cli) -> None:
    """With --allow-past only."""
    _add(cli)
    told = cli("edit", "hello/a", "--at", "@1000000000", "--allow-past", "--json").ok().json
    assert told["due_ms"] < cli("stats", "--type", "hello", "--json").json["now_ms"]


def test_run_now_makes_a_task_due(cli: Cli) -> None:
    """Prints TYPE/ID and "due now"; what has ended, or is not there, is exit 1."""
    _add(cli)
    _add(cli, "b")
    assert cli("run-now", "hello/a", "b").ok().out == "hello/a due now\nhello/b due now\n"
    told = _task(cli)
    assert (told["state"], told["revision"]) == ("scheduled", 0)
    assert told["due_ms"] <= cli("stats", "--type", "hello", "--json").json["now_ms"]
    cli("cancel", "hello/a").ok()
    refused = cli("run-now", "hello/a")
    assert refused.code == 1
    assert "requeue" in refused.err


@pytest.mark.parametrize("command", ["cancel", "run-now", "requeue"])
def test_of_several_tasks_the_refused_ones_are_told(cli: Cli, command: str) -> None:
    """Those that can be done are done, each of the others is a line on stderr; exit 1."""
    for task_id in ("a", "b"):
        _add(cli, task_id)
        if command == "requeue":
            cli("cancel", f"hello/{task_id}").ok()
    ran = cli(command, "hello/a", "hello/nope", "hello/b", "nope")
    assert ran.code == 1
    assert [line.split()[0] for line in ran.out.splitlines()] == ["hello/a", "hello/b"]
    assert ran.err == "scheduld: there is no task hello/nope\nscheduld: there is no task nope\n"


def test_of_several_tasks_all_are_done_though_nobody_reads(cli: Cli) -> None:
    """With a broken pipe on stdout none is left out, for the exit code is 0."""
    for task_id in ("a", "b", "c"):
        _add(cli, task_id)
    with cli.start("cancel", "hello/a", "hello/b", "hello/c") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(20), process.stderr.read()) == (0, "")
    states = [_task(cli, f"hello/{task_id}")["state"] for task_id in ("a", "b", "c")]
    assert states == ["cancelled"] * 3


def test_of_several_tasks_a_misspelt_one_ends_the_command(cli: Cli) -> None:
    """A usage error is not passed over: exit 2, and what stands before it is done."""
    _add(cli)
    ran = cli("cancel", "hello/a", "Hello/b", "hello/c")
    assert (ran.code, ran.out) == (2, "hello/a cancelled\n")


def test_a_paused_type_is_told_everywhere(cli: Cli) -> None:
    """The reason is told by stats, list and show, to people; JSON of tasks stays as it is."""
    _add(cli)
    _add(cli, kind="other")
    assert cli("pause", "hello", "--reason", "the disk is full").ok().out == (
        "hello paused: the disk is full\n"
    )
    told = r"scheduld: hello is paused \([^\n]+, by \S+@\S+\): the disk is full\n"
    for argv in (("stats",), ("list",), ("show", "hello/a"), ("list", "--type", "hello")):
        ran = cli(*argv)
        assert ran.code == 0
        assert re.fullmatch(told, ran.err), argv
        assert "paused" not in cli(*argv, "--json").ok().err
    for argv in (("show", "other/a"), ("list", "--type", "other"), ("stats", "--type", "other")):
        cli(*argv).ok()
    assert cli("resume", "hello").ok().out == "hello resumed\n"
    assert cli("resume", "hello").ok().out == "hello was not paused\n"
    cli("stats").ok()


def test_pause_and_resume_in_json(cli: Cli) -> None:
    """Type, reason, who and since when; whether it was paused."""
    _add(cli)
    told = cli("pause", "hello", "--json").ok().json
    assert list(told) == ["type", "reason", "who", "since_ms", "since"]
    assert (told["type"], told["reason"]) == ("hello", "")
    assert re.fullmatch(r"[^@]+@.+", told["who"])
    again = cli("pause", "hello", "--reason", "why", "--json").ok().json
    assert (again["reason"], again["since_ms"]) == ("why", told["since_ms"])
    assert cli("stats", "--type", "hello", "--json").ok().json["paused"] is True
    assert cli("resume", "hello", "--json").ok().json == {"type": "hello", "was_paused": True}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("pause",), "missing argument"),
        (("pause", "helo"), "did you mean hello?"),
        (("resume", "helo"), "did you mean hello?"),
        (("pause", "Hello"), "is not a name"),
        (("pause", "hello/a"), "is not a name"),
        (("pause", "hello", "--reason", "x" * 10_000), "reason is one line"),
        (("pause", "hello", "--reason", "a\nb"), "reason is one line"),
    ],
)
def test_a_pause_that_cannot_be_right(cli: Cli, argv: tuple[str, ...], said: str) -> None:
    """Exit 2 and one line."""
    ran = cli(*argv)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("edit", "a", "n=1"), "hello/a is edited"),
        (("run-now", "a", "a"), "2 of them done"),
        (("cancel", "a"), "it is done"),
        (("requeue", "gone"), "it is done"),
        (("requeue", "--dead", "--type", "hello"), "0 requeued"),
        (("purge", "--type", "hello", "--state", "scheduled", "--yes"), "1 removed"),
        (("pause", "hello"), "hello is paused"),
        (("resume", "hello"), "hello is not paused"),
    ],
)
def test_a_change_on_a_full_disk_is_told(cli: Cli, argv: tuple[str, ...], said: str) -> None:
    """What cannot be printed was done all the same, and a script must not take it as refused."""
    cli("add", "--type", "hello", "--id", "a", "--at", "@4000000000").ok()
    if "gone" in argv:
        cli("add", "--type", "hello", "--id", "gone", "--at", "@4000000000").ok()
        cli("cancel", "gone").ok()
    with open("/dev/full", "w") as full, cli.start(*argv, stdout=full) as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"{said}, but the output cannot be written" in err
    assert err.count("\n") == 1
