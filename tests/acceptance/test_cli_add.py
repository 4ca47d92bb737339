"""`scheduld add` against a real server: what is stored, what is printed, what is refused."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.cli import Cli, cli

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.support.servers import RunningServer

__all__ = ["cli"]  # the fixture


def test_prints_type_and_id_first_then_when_it_is_due(cli: Cli) -> None:
    """The first line is TYPE/ID and nothing else, the second tells the instant three ways."""
    at = ("--at", "2100-12-24 09:00", "--timezone", "Europe/Madrid")
    ran = cli("add", "--type", "hello", "--id", "a", *at).ok()
    first, second = ran.out.splitlines()
    assert first == "hello/a"
    expected = "due 2100-12-24T09:00:00+01:00 (Europe/Madrid), 2100-12-24T08:00:00Z, in "
    assert second.startswith(expected)


def test_a_generated_id_is_really_there(cli: Cli) -> None:
    """Without --id one is made, and TYPE/ID as printed leads to the task."""
    ref = cli("add", "--type", "hello", "name=Ana").ok().out.splitlines()[0]
    task = cli("show", ref, "--json").ok().json
    assert (task["state"], task["payload"]) == ("scheduled", {"name": "Ana"})


@pytest.mark.parametrize("word", [(), ("--now",)])
def test_without_a_time_it_is_due_now(cli: Cli, word: tuple[str, ...]) -> None:
    """No time means now, as --now does, by the server's clock."""
    before = time.time_ns() // 1_000_000
    ran = cli("add", "--type", "hello", "--json", *word).ok()
    assert before <= ran.json["due_ms"] <= time.time_ns() // 1_000_000
    assert cli("add", "--type", "hello", *word).ok().out.rstrip().endswith(", now")


def test_in_counts_from_now(cli: Cli) -> None:
    """--in adds a duration to the server's clock."""
    now_ms = time.time_ns() // 1_000_000
    due_ms = cli("add", "--type", "hello", "--in", "1h30m", "--json").ok().json["due_ms"]
    assert 0 <= due_ms - now_ms - 5_400_000 < 20_000
    assert cli("add", "--type", "hello", "--in", "2h").ok().out.rstrip().endswith("in 2h")


def test_json_is_the_task_and_whether_it_was_created(cli: Cli) -> None:
    """--json prints the object of `show --json` plus `created`."""
    told = cli("add", "--type", "hello", "--id", "a", "--at", "@4000000000", "--json").ok().json
    assert told.pop("created") is True
    assert told["due"] == "2096-10-02T07:06:40.000Z"
    stored = cli("show", "hello/a", "--json").ok().json
    assert {**told, "added_ms": None} == {**stored, "added_ms": None}


def test_the_payload_is_merged_from_all_that_is_given(cli: Cli) -> None:
    """KEY=VALUE is a text, KEY:=JSON is JSON, and both go over --payload."""
    pairs = ("b=2", 'c:=[1,{"d":null}]', "a:b=x:=y", "é=ü=", "url=http://h/?q:=1")
    ran = cli("add", "--type", "hello", "--json", "--payload", '{"a":1,"b":1}', *pairs).ok()
    assert ran.json["payload"] == {
        "a": 1,
        "b": "2",
        "c": [1, {"d": None}],
        "a:b": "x:=y",
        "é": "ü=",
        "url": "http://h/?q:=1",
    }


@pytest.mark.parametrize("words", [("-",), ("--payload-file", "-"), ("--payload-file", "-", "-")])
def test_the_payload_comes_from_stdin(cli: Cli, words: tuple[str, ...]) -> None:
    """`-` and `--payload-file -` read stdin; a byte order mark is passed over."""
    ran = cli(
        "add", "--type", "hello", "--json", *words, "b=2", stdin=b'\xef\xbb\xbf{"a": "\xc3\xa9"}'
    )
    assert ran.ok().json["payload"] == {"a": "é", "b": "2"}


def test_the_payload_comes_from_a_file_or_a_pipe(cli: Cli) -> None:
    """--payload-file reads files, and pipes such as shells make of <(...)."""
    (cli.folder / "p.json").write_text('{"a": 1}\n')
    assert cli("add", "--type", "hello", "--json", "--payload-file", "p.json").json["payload"] == {
        "a": 1
    }
    reader, writer = os.pipe()
    os.write(writer, b'{"b": 2}')
    os.close(writer)
    ran = cli("add", "--type", "hello", "--json", "--payload-file", f"/dev/fd/{reader}")
    os.close(reader)
    assert ran.ok().json["payload"] == {"b": 2}


def test_an_id_that_exists_is_refused_kept_or_replaced(cli: Cli) -> None:
    """error: exit 1 naming the state; keep: exit 0, told; replace: the new payload is stored."""
    add = ("add", "--type", "hello", "--id", "a", "--at", "@4000000000")
    cli(*add, "n=1").ok()
    refused = cli(*add, "n=2")
    assert (refused.code, refused.out) == (1, "")
    assert "hello/a exists in state scheduled" in refused.err
    kept = cli(*add, "n=3", "--on-conflict", "keep").ok()
    assert kept.out.splitlines()[:2] == [
        "hello/a",
        "kept: it exists in state scheduled, and nothing was changed",
    ]
    assert cli(*add, "n=3", "--on-conflict", "keep", "--json").ok().json["created"] is False
    assert cli("show", "a", "--json").json["payload"] == {"n": "1"}
    cli(*add, "n=4", "--on-conflict", "replace").ok()
    assert cli("show", "a", "--json").json["payload"] == {"n": "4"}


def test_a_repeat_with_the_same_token_answers_like_the_first_time(cli: Cli) -> None:
    """Id and token name one add: its repeat is exit 0, and nothing is stored twice."""
    add = ("add", "--type", "hello", "--id", "a", "--token", "t1", "--at", "@4000000000", "n=1")
    first, again = cli(*add, "--json").ok(), cli(*add, "--json").ok()
    assert first.json["created"] is again.json["created"] is True
    assert cli("stats", "--type", "hello", "--json").json["scheduled"] == 1
    other = cli("add", "--type", "hello", "--id", "a", "--token", "t2")
    assert other.code == 1


def test_a_past_time_needs_allow_past(cli: Cli) -> None:
    """A past --at is exit 2 and nothing is stored; with --allow-past it is stored as it is."""
    add = ("add", "--type", "hello", "--id", "a", "--at", "2020-01-01T00:00Z")
    refused = cli(*add)
    assert refused.code == 2
    assert "--allow-past" in refused.err
    assert cli("show", "hello/a").code == 1
    assert cli(*add, "--allow-past", "--json").ok().json["due"] == "2020-01-01T00:00:00.000Z"


def test_an_unknown_type_needs_allow_unknown(cli: Cli) -> None:
    """A type that nobody knows is exit 2 with the nearest; afterwards it is known."""
    refused = cli("add", "--type", "helo")
    assert refused.code == 2
    assert "did you mean hello?" in refused.err
    cli("add", "--type", "helo", "--allow-unknown").ok()
    cli("add", "--type", "helo").ok()


def test_naive_times_are_read_in_the_zone_of_option_or_config_alone(
    cli: Cli, valkey_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--timezone goes before the config's zone; this host's zone changes nothing."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    add = ("add", "--type", "hello", "--at", "2100-01-01 09:00", "--json")
    try:
        refused = cli(*add)
        assert refused.code == 2
        assert "has no time zone" in refused.error["message"]
        cli.configure(valkey_server.url, 'timezone = "Asia/Kolkata"')
        assert cli(*add).ok().json["due"] == "2100-01-01T03:30:00.000Z"
        zone = ("--timezone", "Europe/Madrid")
        assert cli(*add, *zone).ok().json["due"] == "2100-01-01T08:00:00.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_tomorrow_is_a_day_of_the_zone(cli: Cli) -> None:
    """`tomorrow HH:MM` is on the calendar of the zone."""
    words = ("--at", "tomorrow 12:00", "--timezone", "UTC", "--json")
    days = {(datetime.now(UTC) + timedelta(days=1)).date()}
    told = cli("add", "--type", "hello", *words).ok().json["due"]
    days.add((datetime.now(UTC) + timedelta(days=1)).date())
    assert told in {f"{day}T12:00:00.000Z" for day in days}


@pytest.mark.parametrize(
    "task_id",
    [
        *("a:b", "a/b", "/", "{x}", "}{", "*?[", "../..", "-inf", "0", "dead", "é", "e\u0301"),
        *("🎄", "a\u200fb", "x" * 200, "processing", "due", "task:a", "';DROP", "$(id)", "%s"),
        "--json",
    ],
)
def test_each_id_is_its_own_task(cli: Cli, task_id: str) -> None:
    """Ids with special characters are taken as they are, and all verbs reach exactly that task."""
    for other in {"a", "b", "x", "é", "e\u0301"} - {task_id}:
        cli("add", "--type", "hello", "--id", other, "n:=0").ok()
    ran = cli("add", "--type", "hello", "--id", task_id, "n:=1").ok()
    assert ran.out.splitlines()[0] == f"hello/{task_id}"
    told = cli("show", f"hello/{task_id}", "--json").ok().json
    assert (told["id"], told["payload"]) == (task_id, {"n": 1})
    cli("cancel", f"hello/{task_id}").ok()
    states = {task["id"]: task["state"] for task in _listed(cli)}
    assert states.pop(task_id) == "cancelled"
    assert set(states.values()) == {"scheduled"}


def _listed(cli: Cli) -> list[dict[str, str]]:
    return [json.loads(line) for line in cli("list", "--json").ok().out.splitlines()]


@pytest.mark.parametrize(
    ("task_id", "shown"),
    [
        ("", "is empty"),
        ("a b", "has a space or control character"),
        ("a\n2026-01-01 INFO task x done", r"a\n2026"),
        ("a\rb", r"a\rb"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\u2028b", r"a\u2028b"),
        ("a\x85b", r"a\x85b"),
        ("x" * 201, "has 201 bytes"),
    ],
)
def test_ids_that_could_forge_lines_are_refused_in_one_line(
    cli: Cli, task_id: str, shown: str
) -> None:
    """Such an id is exit 2, and the message shows it escaped."""
    ran = cli("add", "--type", "hello", "--id", task_id)
    assert (ran.code, ran.out) == (2, "")
    assert shown in ran.err.replace("\\\\", "\\")
    assert len(ran.err.splitlines()) == 1
    assert all(char.isprintable() for char in ran.err.rstrip("\n"))


def test_a_reader_that_has_gone_is_no_failure(cli: Cli) -> None:
    """With a broken pipe on stdout the task is stored, exit 0, and stderr stays empty."""
    reader, writer = os.pipe()
    os.close(reader)
    process = cli.start("add", "--type", "hello", "--id", "a", stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    cli("show", "hello/a").ok()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_output_that_cannot_be_written_is_told_with_the_task(cli: Cli) -> None:
    """On a full disk the exit code is not 0, and the message says that the task is stored."""
    with open("/dev/full", "w") as full:
        process = cli.start("add", "--type", "hello", "--id", "a", stdout=full)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err.startswith("scheduld: hello/a is stored, but the output cannot be written")
    assert len(err.splitlines()) == 1
    cli("show", "hello/a").ok()


def test_a_process_of_its_own_reads_stdin_and_prints_for_scripts(cli: Cli) -> None:
    """`head -1` of the output of the real program is TYPE/ID."""
    process = cli.start("add", "--type", "hello", "--id", "é", "-")
    out, err = process.communicate('{"a": 1}', timeout=30)
    assert (process.returncode, err, out.splitlines()[0]) == (0, "", "hello/é")


def test_the_embedded_server_needs_nothing_but_a_folder(cli: Cli, state_dir: Path) -> None:
    """With redis_url = "embedded" tasks outlive the command that started the server."""
    cli.configure("embedded", f'state_dir = "{state_dir}"')
    ref = cli("add", "--type", "hello", "--in", "1h", "n=1").ok().out.splitlines()[0]
    assert cli("show", ref, "--json").ok().json["payload"] == {"n": "1"}


def test_many_adds_at_once_are_all_stored(cli: Cli) -> None:
    """Every id that was printed with exit code 0 is there."""
    processes: list[subprocess.Popen[str]] = [
        cli.start("add", "--type", "hello", f"n:={n}") for n in range(6)
    ]
    printed = [process.communicate(timeout=40)[0].splitlines()[0] for process in processes]
    assert {process.returncode for process in processes} == {0}
    assert {f"hello/{task['id']}" for task in _listed(cli)} == set(printed)
