"""`events`, `nodes` and `export`: what happened, who works, and all there is."""

from __future__ import annotations

import json
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import Client, TaskSpec
from tests.support.cli import Cli, cli
from tests.support.servers import wait_until

if TYPE_CHECKING:
    import subprocess

    from tests.support.servers import RunningServer

__all__ = ["cli"]  # the fixture


def _add(cli: Cli, task_id: str, kind: str = "hello") -> None:
    cli("add", "--type", kind, "--id", task_id, "--at", "@4000000000").ok()


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _told(text: str) -> list[tuple[str, str, list[str]]]:
    return [(event["type"], event["kind"], event["ids"]) for event in _lines(text)]


def test_events_tell_the_oldest_first(cli: Cli) -> None:
    """Of all types, of one, or of one task by its id alone or as TYPE/ID."""
    _add(cli, "a")
    _add(cli, "a", "other")
    _add(cli, "b")
    cli("cancel", "hello/a").ok()
    all_of_them = [
        ("hello", "added", ["a"]),
        ("other", "added", ["a"]),
        ("hello", "added", ["b"]),
        ("hello", "cancelled", ["a"]),
    ]
    assert _told(cli("events", "--json").ok().out) == all_of_them
    hello = [told for told in all_of_them if told[0] == "hello"]
    assert _told(cli("events", "--type", "hello", "--json").ok().out) == hello
    of_a = [told for told in all_of_them if told[2] == ["a"]]
    assert _told(cli("events", "--id", "a", "--json").ok().out) == of_a
    both = [told for told in of_a if told[0] == "hello"]
    assert _told(cli("events", "--id", "hello/a", "--json").ok().out) == both
    lines = cli("events", "--id", "hello/a").ok().out.splitlines()
    assert [line.split()[1:4] for line in lines] == [
        ["hello", "added", "a"],
        ["hello", "cancelled", "a"],
    ]


def test_events_since(cli: Cli) -> None:
    """An instant, or a duration before now; nothing is said to be nothing."""
    _add(cli, "a")
    assert len(_told(cli("events", "--since", "1h", "--json").ok().out)) == 1
    assert len(_told(cli("events", "--since", "2020-01-01T00:00Z", "--json").ok().out)) == 1
    nothing = cli("events", "--since", "@4000000000")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no events\n")


def test_events_that_are_left_out_are_told(cli: Cli) -> None:
    """The newest so many, or with --since the first; a note says that there are more."""
    for task_id in ("a", "b", "c"):
        _add(cli, task_id)
    newest = cli("events", "--limit", "2", "--json")
    assert [ids for _, _, ids in _told(newest.out)] == [["b"], ["c"]]
    assert newest.err == "only the newest 2 are shown; --limit shows more\n"
    first = cli("events", "--limit", "2", "--since", "1h", "--json")
    assert [ids for _, _, ids in _told(first.out)] == [["a"], ["b"]]
    assert first.err == "only the first 2 are shown; --limit shows more\n"


def test_an_event_of_many_tasks_names_a_few(cli: Cli, valkey_server: RunningServer) -> None:
    """For people eight and a count, or the one that was asked for; as JSON all that are known."""
    with Client(valkey_server.url, namespace=cli.namespace) as client:
        tasks = [TaskSpec(id=f"n{number}", delay="1h") for number in range(120)]
        client.schedule_many("hello", tasks, allow_unknown=True)
    line = cli("events").ok().out
    assert line.count("\n") == 1
    assert "  added  n0 n1 n2 n3 n4 n5 n6 n7 +112 more (client-" in line
    assert "  added  n9 +119 more (client-" in cli("events", "--id", "n9").ok().out
    told = cli("events", "--json").ok().json
    assert (len(told["ids"]), told["more"]) == (100, 20)


def test_an_event_of_no_task(cli: Cli) -> None:
    """A pause concerns a type; its reason stands behind."""
    _add(cli, "a")
    cli("pause", "hello", "--reason", "the disk is full").ok()
    line = cli("events", "--type", "hello").ok().out.splitlines()[-1]
    assert re.search(r"Z  hello  paused \(client-\w+\): the disk is full$", line)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("events", "--since", "yesterday"), "'yesterday'"),
        (("events", "--since", "2020-01-01 09:00"), "has no time zone"),
        (("events", "--limit", "0"), "limit"),
        (("events", "--type", "helo"), "did you mean hello?"),
        (("events", "--type", "other", "--id", "hello/a"), "two types"),
        (("events", "--id", ""), "is empty"),
        (("events", "--follow", "--limit", "3"), "no --limit"),
        (("export", "--type", "helo"), "did you mean hello?"),
        (("export", "--state", "ded"), "did you mean dead?"),
        (("nodes", "x"), "unexpected extra argument"),
    ],
)
def test_what_cannot_be_right_is_exit_2(cli: Cli, argv: tuple[str, ...], said: str) -> None:
    """One line on stderr."""
    ran = cli(*argv)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


class Follower:
    """A process that follows the events, and what it has printed."""

    def __init__(self, cli: Cli, *words: str) -> None:
        self.process: subprocess.Popen[str] = cli.start("events", "--follow", "--json", *words)
        self.lines: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def ids(self) -> list[str]:
        """The tasks that were told so far."""
        return [task_id for event in self.lines for task_id in event["ids"]]

    def stop(self) -> tuple[int, str]:
        """Press Ctrl-C; the exit code, and what was said on stderr."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(20)
        self._thread.join(20)
        assert self.process.stderr is not None
        err = self.process.stderr.read()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code, err


def test_follow_goes_on_until_ctrl_c(cli: Cli) -> None:
    """Each event is told within moments, once; Ctrl-C is exit 130 without a word."""
    _add(cli, "old")
    follower = Follower(cli, "--since", "1h")
    wait_until(lambda: follower.ids() == ["old"], "what was there")
    for number in range(5):
        _add(cli, f"n{number}", "other" if number % 2 else "hello")
    wait_until(lambda: len(follower.ids()) == 6, "what came")
    assert follower.ids() == ["old", "n0", "n1", "n2", "n3", "n4"]
    assert follower.stop() == (130, "")


def test_follow_of_one_task(cli: Cli) -> None:
    """--id leaves out the others."""
    _add(cli, "a")
    follower = Follower(cli, "--id", "hello/a", "--since", "1h")
    wait_until(lambda: follower.ids() == ["a"], "what was there")
    _add(cli, "b")
    cli("cancel", "hello/a").ok()
    wait_until(lambda: len(follower.lines) == 2, "the cancel")
    assert [event["kind"] for event in follower.lines] == ["added", "cancelled"]
    assert follower.stop() == (130, "")


def test_follow_ends_when_nobody_reads(cli: Cli) -> None:
    """A closed pipe, as of `head`, ends it at the next event, quietly."""
    _add(cli, "a")
    with cli.start("events", "--follow", "--since", "1h") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "added" in process.stdout.readline()
        process.stdout.close()
        _add(cli, "b")
        assert (process.wait(20), process.stderr.read()) == (0, "")


def test_nodes_without_a_daemon(cli: Cli) -> None:
    """Nothing on stdout, and a hint on stderr."""
    ran = cli("nodes")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "no daemon is alive (scheduld run starts one)\n"
    assert cli("nodes", "--json").ok().out == ""


def test_nodes_tell_the_daemon(cli: Cli) -> None:
    """A daemon is listed with host, pid, version and types, until it has stopped."""
    daemon = cli.start("run")
    try:
        wait_until(lambda: cli("nodes", "--json").out, "the daemon is announced")
        (node,) = _lines(cli("nodes", "--json").ok().out)
        assert (node["pid"], node["types"]) == (daemon.pid, ["hello", "other"])
        head, line = cli("nodes").ok().out.splitlines()
        assert head.split() == ["ID", "HOST", "PID", "VERSION", "SEEN", "SCHEDULES", "TYPES"]
        assert line.split()[0] == node["id"]
        assert line.endswith("hello other")
    finally:
        daemon.terminate()
        daemon.communicate(timeout=30)
    assert cli("nodes", "--json").ok().out == ""


def test_export_prints_every_task_once(cli: Cli) -> None:
    """All types and states, the objects of `show`; or one type, or one state."""
    for number in range(120):
        _add(cli, f"n{number}")
    _add(cli, "o", "other")
    cli("cancel", "hello/n7").ok()
    tasks = _lines(cli("export").ok().out)
    refs = sorted(f"{task['type']}/{task['id']}" for task in tasks)
    assert refs == sorted(["other/o", *(f"hello/n{number}" for number in range(120))])
    assert cli("show", "other/o", "--json").ok().json in tasks
    (cancelled,) = _lines(cli("export", "--state", "cancelled").ok().out)
    assert cancelled["id"] == "n7"
    assert len(_lines(cli("export", "--type", "other", "--json").ok().out)) == 1


def test_export_into_a_pipe_that_closes(cli: Cli) -> None:
    """`export | head -1` ends quietly."""
    for number in range(30):
        _add(cli, f"n{number}")
    with cli.start("export") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(20), process.stderr.read()) == (0, "")


@pytest.mark.parametrize(
    "argv", [("list",), ("dead",), ("dead", "--group"), ("events",), ("export",)]
)
def test_a_foreign_key_is_named_by_its_type(
    cli: Cli, valkey_server: RunningServer, argv: tuple[str, ...]
) -> None:
    """Where another program's key is in the way of one of many types, the error says of which."""
    _add(cli, "a")
    with valkey_server.client() as client:
        for name in ("due", "dead", "events"):
            client.set(f"{cli.namespace}:{{other}}:{name}", "x")
    ran = cli(*argv)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "a key of type other holds another kind of value" in ran.err


@pytest.mark.parametrize(("key", "command"), [("types", "list"), ("nodes", "nodes")])
def test_a_foreign_key_of_no_type_is_named(
    cli: Cli, valkey_server: RunningServer, key: str, command: str
) -> None:
    """One that belongs to all types is told by its name."""
    _add(cli, "a")
    with valkey_server.client() as client:
        client.delete(f"{cli.namespace}:{key}")
        client.set(f"{cli.namespace}:{key}", "x")
    ran = cli(command)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"the key {cli.namespace}:{key} holds another kind of value" in ran.err
