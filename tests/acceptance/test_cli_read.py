"""`list`, `show`, `stats`, `cancel`, `requeue`: what is told about tasks, and their ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cli import Cli, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from tests.support.servers import RunningServer

__all__ = ["cli"]  # the fixture
FIELDS = [
    *("type", "id", "state", "due", "due_ms", "added_ms", "payload", "attempt", "failed"),
    *("releases", "interruptions", "fence", "revision", "every", "until", "max_runs"),
    *("timezone", "schedule", "tick_ms", "runs", "missed"),
    *("anchor_ms", "grid_ms", "next_ms", "ends", "series", "owner", "started_ms", "cancelling"),
    *("finished_ms", "outcome", "result", "progress", "log", "successor", "error"),
    *("priority", "key", "expires_ms", "waits_until_ms"),
]


@pytest.fixture
def server(valkey_server: RunningServer) -> Iterator[redis.Redis]:
    """A plain client, for what other programs may write."""
    with valkey_server.client() as client:
        yield client


def _add(cli: Cli, task_id: str, *words: str, kind: str = "hello") -> None:
    cli("add", "--type", kind, "--id", task_id, "--at", "@4000000000", *words).ok()


def _key(cli: Cli, name: str, kind: str = "hello") -> str:
    return f"{cli.namespace}:{{{kind}}}:{name}"


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_show_json_has_every_field(cli: Cli) -> None:
    """The object has all the documented fields, the absent ones null."""
    _add(cli, "a", 'n:=[{"x":12345678901234567890}]')
    told = cli("show", "hello/a", "--json").ok().json
    assert list(told) == FIELDS
    assert told["payload"] == {"n": [{"x": 12345678901234567890}]}
    assert (told["due"], told["due_ms"]) == ("2096-10-02T07:06:40.000Z", 4_000_000_000_000)


def test_a_bare_id_is_looked_up_in_all_types(cli: Cli) -> None:
    """It is found in any type; if several have it, exit 2 names them."""
    _add(cli, "a", kind="other")
    assert cli("show", "a", "--json").ok().json["type"] == "other"
    _add(cli, "a")
    refused = cli("show", "a")
    assert refused.code == 2
    assert "hello/a, other/a" in refused.err
    assert cli("cancel", "a").code == 2


@pytest.mark.parametrize("command", ["show", "cancel", "requeue"])
@pytest.mark.parametrize("ref", ["hello/nope", "nope", "hello/nope/x", "new-type/a"])
def test_a_task_that_is_not_there_is_exit_1(cli: Cli, command: str, ref: str) -> None:
    """Not found: exit 1, one line that names it."""
    ran = cli(command, ref)
    assert (ran.code, ran.out) == (1, "")
    hint = " (there is no task type 'new-type': known: hello, other)"
    assert ran.err == f"scheduld: there is no task {ref}{hint if 'new-type' in ref else ''}\n"
    assert cli(command, ref, "--json").error["kind"] == "not_found"


def test_show_tells_the_story_of_a_dead_task(cli: Cli, server: redis.Redis) -> None:
    """Of a dead task the reason, the failed runs and the traceback are told, line by line."""
    error = {
        "kind": "exception",
        "message": "ValueError: no\nway",
        "traceback": "one\ntwo\x1b[2J\n",
    }
    server.hset(
        _key(cli, "task:d"),
        mapping={"payload": '{"a": "\\u001b[31m"}', "failed": 3, "error": json.dumps(error)},
    )
    server.zadd(_key(cli, "dead"), {"d": 1_700_000_000_000})
    ran = cli("show", "hello/d").ok()
    lines = ran.out.splitlines()
    assert lines[0] == "hello/d is dead: it is not tried again"
    told = {label: rest for label, _, rest in (line.strip().partition("  ") for line in lines)}
    assert told["payload"].strip() == r'{"a": "\u001b[31m"}'
    assert told["failed"].strip() == "3 runs"
    assert told["ended"].strip().startswith("2023-11-14T22:13:20Z, ")
    assert told["last error"].strip() == r"exception: ValueError: no\nway"
    assert lines[-2:] == ["    | one", r"    | two\x1b[2J"]


def test_ids_of_other_programs_cannot_forge_lines(cli: Cli, server: redis.Redis) -> None:
    """`list` escapes what plain Redis commands brought in; its JSON is valid."""
    forged = "a\nhello/b  done\r\x1b[2J\x85\u2028"
    server.zadd(_key(cli, "due"), {forged: 4_000_000_000_000})
    server.hset(_key(cli, f"task:{forged}"), "payload", "{}")
    out = cli("list", "--type", "hello").ok().out
    assert len(out.splitlines()) == 2
    assert all(char.isprintable() for char in out.replace("\n", ""))
    (task,) = _lines(cli("list", "--type", "hello", "--json").ok().out)
    assert task["id"] == forged


def test_broken_records_are_shown(cli: Cli, server: redis.Redis) -> None:
    """A payload that is no JSON object, and an error that is no object, end no command."""
    server.hset(_key(cli, "task:x"), mapping={"payload": "[1]", "error": '"boom"', "failed": "1"})
    server.zadd(_key(cli, "due"), {"x": 1e20})
    assert "cannot be read" in cli("show", "hello/x").ok().out
    assert cli("show", "hello/x", "--json").ok().json["payload"] is None
    cli("list").ok()


def test_list_is_a_table_for_people_and_one_object_a_line(cli: Cli) -> None:
    """The columns line up, wide characters included; the earliest task comes first."""
    _add(cli, "second")
    cli("add", "--type", "hello", "--id", "日本", "--at", "@3000000000").ok()
    head, *rows = cli("list").ok().out.splitlines()
    assert [row.split()[:2] for row in rows] == [
        ["hello/日本", "scheduled"],
        ["hello/second", "scheduled"],
    ]
    assert head.split() == ["TASK", "STATE", "DUE", "WHAT"]
    assert head.index("STATE") == rows[1].index("scheduled") == rows[0].index("scheduled") + 2
    assert [task["id"] for task in _lines(cli("list", "--json").ok().out)] == ["日本", "second"]


def test_list_chooses_by_type_and_state(cli: Cli) -> None:
    """--type and --state narrow the list down."""
    _add(cli, "a")
    _add(cli, "b")
    _add(cli, "c", kind="other")
    cli("cancel", "hello/b").ok()

    def listed(*words: str) -> list[str]:
        return [task["id"] for task in _lines(cli("list", "--json", *words).ok().out)]

    assert listed("--type", "hello", "--state", "scheduled") == ["a"]
    assert listed("--state", "cancelled") == ["b"]
    assert listed("--type", "other") == ["c"]
    assert listed("--state", "dead") == []


def test_a_list_that_is_cut_says_so(cli: Cli) -> None:
    """--limit is held, and a note on stderr tells that there may be more."""
    for task_id in "abc":
        _add(cli, task_id)
    ran = cli("list", "--limit", "2", "--json")
    assert (ran.code, len(_lines(ran.out))) == (0, 2)
    assert (
        ran.err == "only the first 2 scheduled tasks of type hello are shown; --limit shows more\n"
    )


def test_an_empty_list_prints_nothing_on_stdout(cli: Cli) -> None:
    """Scripts that count lines count none."""
    ran = cli("list")
    assert (ran.code, ran.out, ran.err) == (0, "", "no tasks\n")
    assert cli("list", "--json").ok().out == ""


def test_stats_count_each_type(cli: Cli) -> None:
    """A row and an object a type, with the next due time."""
    _add(cli, "a")
    _add(cli, "b")
    cli("cancel", "b").ok()
    hello, other = _lines(cli("stats", "--json").ok().out)
    assert (hello["type"], hello["scheduled"], hello["done"]) == ("hello", 1, 1)
    assert hello["next_due"] == "2096-10-02T07:06:40.000Z"
    assert (other["type"], other["next_due"]) == ("other", None)
    head, row, _ = cli("stats").ok().out.splitlines()
    assert head.split()[:5] == ["TYPE", "SCHEDULED", "RUNNING", "DONE", "DEAD"]
    assert row.split()[:5] == ["hello", "1", "0", "1", "0"]


def test_stats_of_an_unknown_type(cli: Cli) -> None:
    """A type that nobody knows has no numbers; one of the config has, before its first task."""
    _add(cli, "a")
    wrong = cli("stats", "--type", "helo")
    assert (wrong.code, wrong.out) == (2, "")
    assert "no task type 'helo' (did you mean hello?)" in wrong.err
    assert cli("stats", "--type", "other", "--json").ok().json["scheduled"] == 0


def test_what_a_list_leaves_out_is_told_by_state(cli: Cli) -> None:
    """The limit holds for each state: what is all there is not said to be cut."""
    for task_id in "abc":
        _add(cli, task_id)
    cli("cancel", "a").ok()
    ran = cli("list", "--limit", "2")
    assert len(ran.out.splitlines()) == 4
    assert (
        ran.err == "only the first 2 scheduled tasks of type hello are shown; --limit shows more\n"
    )
    cli("list", "--limit", "3").ok()


def test_cancel_and_requeue_end_and_revive(cli: Cli) -> None:
    """Each prints TYPE/ID and the new state; refused by the state is exit 1 with a hint."""
    _add(cli, "a")
    refused = cli("requeue", "hello/a")
    assert refused.code == 1
    assert "hello/a is scheduled and cannot be requeued" in refused.err
    assert cli("cancel", "hello/a").ok().out == "hello/a cancelled\n"
    assert cli("cancel", "hello/a", "--json").ok().json["state"] == "cancelled"
    assert cli("requeue", "a").ok().out == "hello/a scheduled\n"
    assert cli("show", "a", "--json").ok().json["state"] == "scheduled"


def test_cancel_of_what_is_done_is_exit_1(cli: Cli, server: redis.Redis) -> None:
    """A run that has ended cannot be cancelled any more."""
    server.hset(_key(cli, "task:d"), mapping={"payload": "{}", "outcome": "success"})
    server.zadd(_key(cli, "done"), {"d": 1_700_000_000_000})
    refused = cli("cancel", "hello/d", "--json")
    assert refused.code == 1
    assert refused.error["kind"] == "conflict"
    assert refused.error["hint"] == "requeue it to run it again"


def test_a_running_task_is_told_cancelled_and_followed(cli: Cli, server: redis.Redis) -> None:
    """A running one shows who runs it; cancel says cancelling, a replacement waits for its end."""
    _add(cli, "r")
    server.zrem(_key(cli, "due"), "r")
    server.zadd(_key(cli, "leased"), {"r": 4_000_000_000_000})
    server.hset(
        _key(cli, "task:r"),
        mapping={"fence": 1_700_000_000_000_000, "owner": "node-1", "due": 1_600_000_000_000},
    )
    out = cli("show", "r").ok().out
    assert out.startswith("hello/r is running, started ")
    assert "node-1" in out
    replace = ("add", "--type", "hello", "--id", "r", "--on-conflict", "replace", "n=2")
    assert "the new task takes over when that run ends" in cli(*replace).ok().out
    assert 'payload {"n": "2"}' in cli("show", "r").ok().out
    assert cli("cancel", "r").ok().out == "hello/r cancelling\n"
    assert "asked to stop" in cli("show", "r").ok().out.splitlines()[0]
    assert "asked to stop" in cli("list", "--state", "running").ok().out


def test_options_may_stand_before_the_command(cli: Cli) -> None:
    """Shared options count on both sides, the later one wins; one without meaning is refused."""
    _add(cli, "a")
    assert cli("--json", "show", "a").ok().json["id"] == "a"
    assert cli("--namespace", "elsewhere", "show", "a", "--namespace", cli.namespace).code == 0
    assert cli("show", "--json", "a").ok().json["id"] == "a"
    refused = cli("--wait", "1s", "check")
    assert refused.code == 2
    assert "check takes no --wait" in refused.err


def test_url_and_namespace_are_enough(
    cli: Cli, valkey_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a config file, --redis-url or $SCHEDULD_REDIS_URL lead to the server."""
    _add(cli, "a")
    (cli.folder / "scheduld.toml").unlink()
    assert cli("show", "a").code == 2
    names = ("--namespace", cli.namespace)
    cli("show", "a", "--redis-url", valkey_server.url, *names).ok()
    monkeypatch.setenv("SCHEDULD_REDIS_URL", valkey_server.url)
    cli("show", "a", *names).ok()
