"""`dead`, `requeue --dead` and `purge`: many tasks at once, and never by mistake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.cli import ending
from tests.support.cli import Cli, cli
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from tests.support.servers import RunningServer

__all__ = ["cli"]  # the fixture
DIED = 1_700_000_000_000
REFUSED = "exception: ConnectionRefusedError: 10.0.0.{} refused"
BROKEN = "payload: has no key 'to'"


@pytest.fixture
def server(valkey_server: RunningServer) -> Iterator[redis.Redis]:
    """A plain client, which writes dead tasks without running them."""
    with valkey_server.client() as client:
        yield client


@pytest.fixture
def graves(cli: Cli, server: redis.Redis) -> Cli:
    """Three dead tasks of hello, two of them by the same error, and one of other."""
    for number, (kind, task_id, error) in enumerate(
        [
            ("hello", "a", REFUSED.format(1)),
            ("hello", "b", BROKEN),
            ("other", "o", BROKEN),
            ("hello", "c", REFUSED.format(23)),
        ]
    ):
        cli("add", "--type", kind, "--id", "live", "--at", "@4000000000", "--on-conflict", "keep")
        key = f"{cli.namespace}:{{{kind}}}:"
        name, _, message = error.partition(": ")
        told = {"kind": name, "message": message, "traceback": None}
        task = f"{key}task:{task_id}"
        server.hset(task, mapping={"payload": "{}", "failed": 5, "error": json.dumps(told)})
        server.zadd(f"{key}dead", {task_id: DIED + number})
    return cli


def _ids(out: str) -> list[str]:
    return [json.loads(line)["id"] for line in out.splitlines()]


def _states(cli: Cli, *refs: str) -> list[str]:
    return [cli("show", ref, "--json").ok().json["state"] for ref in refs]


def test_dead_lists_the_newest_first(graves: Cli) -> None:
    """For people with the reason; as JSON one task a line; of one type, or of all."""
    out = graves("dead", "--type", "hello").ok().out.splitlines()
    assert out[0].split() == ["TASK", "DIED", "FAILED", "ERROR"]
    assert [line.split()[0] for line in out[1:]] == ["hello/c", "hello/b", "hello/a"]
    assert out[2].endswith("  5       payload: has no key 'to'")
    assert _ids(graves("dead", "--json").ok().out) == ["c", "o", "b", "a"]


def test_dead_can_be_filtered_and_limited(graves: Cli) -> None:
    """--error is a part of "KIND: MESSAGE", in any case; --limit says that there may be more."""
    assert _ids(graves("dead", "--error", "connectionREFUSED", "--json").ok().out) == ["c", "a"]
    assert _ids(graves("dead", "--error", "payload: has", "--json").ok().out) == ["o", "b"]
    ran = graves("dead", "--type", "hello", "--limit", "1", "--json")
    assert (_ids(ran.out), ran.err) == (
        ["c"],
        "only the newest 1 are shown; --limit shows more\n",
    )
    nothing = graves("dead", "--error", "nope")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no dead tasks\n")


def test_dead_counts_by_error(graves: Cli) -> None:
    """Errors that differ in numbers only are one group; an example leads to the rest."""
    out = graves("dead", "--group", "--type", "hello").ok().out.splitlines()
    assert out[0].split() == ["COUNT", "TYPE", "NEWEST", "EXAMPLE", "ERROR"]
    assert [line.split()[0] for line in out[1:]] == ["2", "1"]
    first, *rest = map(json.loads, graves("dead", "--group", "--json").ok().out.splitlines())
    assert (first["type"], first["count"], first["example_id"]) == ("hello", 2, "c")
    assert first["newest_ms"] == DIED + 3
    assert first["newest"] == "2023-11-14T22:13:20.003Z"
    assert [(group["type"], group["count"]) for group in rest] == [("hello", 1), ("other", 1)]


def test_groups_of_some_are_told_as_such(graves: Cli) -> None:
    """Where --limit leaves dead tasks out, the counts are not those of all."""
    ran = graves("dead", "--group", "--limit", "2", "--json")
    assert sum(json.loads(line)["count"] for line in ran.out.splitlines()) == 3
    assert ran.err == "only the newest 2 of type hello are counted; --limit counts more\n"


def test_what_dies_after_the_count_is_not_requeued_without_yes(
    graves: Cli, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One dead task needs no --yes; another one that dies meanwhile stays dead."""
    count = ending._counted

    def count_then_die(*args: Any) -> tuple[int, bool]:
        counted = count(*args)
        server.zadd(f"{graves.namespace}:{{other}}:dead", {"late": DIED + 9})
        server.hset(f"{graves.namespace}:{{other}}:task:late", "payload", "{}")
        return counted

    monkeypatch.setattr(ending, "_counted", count_then_die)
    assert graves("requeue", "--dead", "--type", "other").ok().out == "1 requeued\n"
    assert _states(graves, "other/o", "other/late") == ["scheduled", "dead"]


def test_requeue_of_many_tells_how_many_first(graves: Cli) -> None:
    """Without --yes nothing is done, exit 2; with it all of the type are scheduled."""
    asked = graves("requeue", "--dead", "--type", "hello")
    assert (asked.code, asked.out) == (2, "")
    assert asked.err == (
        "scheduld: 3 dead tasks of type hello would be requeued, none is (--yes does it)\n"
    )
    assert _states(graves, "hello/a", "hello/b", "hello/c") == ["dead"] * 3
    assert graves("requeue", "--dead", "--type", "hello", "--yes").ok().out == "3 requeued\n"
    assert _states(graves, "hello/a", "hello/b", "hello/c", "other/o") == [
        *["scheduled"] * 3,
        "dead",
    ]
    assert graves("requeue", "--dead", "--type", "hello").ok().out == "0 requeued\n"


def test_requeue_by_error_and_with_a_limit(graves: Cli) -> None:
    """One task needs no --yes; the oldest go first."""
    requeue = ("requeue", "--dead", "--type", "hello")
    assert "2 dead tasks" in graves(*requeue, "--error", "REFUSED").err
    assert graves(*requeue, "--error", "refused", "--limit", "1").ok().out == "1 requeued\n"
    assert _states(graves, "hello/a", "hello/b", "hello/c") == ["scheduled", "dead", "dead"]
    told = graves(*requeue, "--error", "has no key", "--json").ok().json
    assert told == {"type": "hello", "requeued": 1, "canary": None}


def test_a_canary_that_succeeds_lets_the_rest_go(graves: Cli, server: redis.Redis) -> None:
    """One task goes first; its success, by a real daemon, schedules the others."""
    # A daemon removes what has died so long ago.
    died_ms = graves("stats", "--type", "hello", "--json").ok().json["now_ms"] - 1000
    server.zadd(f"{graves.namespace}:{{hello}}:dead", dict.fromkeys("abc", died_ms))
    with graves.start("run") as daemon:
        try:
            ran = graves("requeue", "--dead", "--type", "hello", "--canary", "--yes").ok()
            assert ran.out == "hello/a succeeded\n3 requeued\n"
            wait_until(
                lambda: _states(graves, "hello/a", "hello/b", "hello/c") == ["done"] * 3, "all run"
            )
        finally:
            daemon.terminate()


def test_a_canary_that_does_not_succeed_keeps_the_rest(graves: Cli) -> None:
    """Without a daemon it waits, and then nothing else is scheduled; exit 1 says so."""
    requeue = ("requeue", "--dead", "--type", "hello", "--canary")
    refused = graves(*requeue, "--canary-wait", "50ms", "--yes")
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "the canary hello/a is scheduled after 0.05 s" in refused.err
    assert _states(graves, "hello/a", "hello/b", "hello/c") == ["scheduled", "dead", "dead"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("requeue", "--dead", "--type", "hello", "--canary-wait", "1s"), "is for --canary"),
        (
            ("requeue", "--dead", "--type", "hello", "--canary", "--canary-wait", "x"),
            "--canary-wait 'x'",
        ),
        (("requeue",), "there is no TYPE/ID"),
        (("requeue", "--dead"), "--dead needs --type"),
        (("requeue", "--dead", "--type", "hello", "hello/a"), "--dead takes no TYPE/ID"),
        (("requeue", "hello/a", "--canary"), "--canary is for --dead"),
        (("requeue", "hello/a", "--type", "hello"), "--type is for --dead"),
        (("requeue", "--dead", "--type", "hello", "--limit", "0"), "limit"),
        (("requeue", "--dead", "--type", "helo", "--yes"), "did you mean hello?"),
        (("dead", "--type", "helo"), "did you mean hello?"),
        (("dead", "--limit", "0"), "limit"),
        (("dead", "--group", "--error", "x"), "exclude each other"),
        (("purge", "--state", "done"), "missing option '--type'"),
        (("purge", "--type", "hello"), "missing option '--state'"),
        (
            ("purge", "--type", "hello", "--state", "running", "--yes"),
            "tasks that run are not purged",
        ),
        (("purge", "--type", "hello", "--state", "ded"), "did you mean dead?"),
        (("purge", "--type", "helo", "--state", "dead", "--yes"), "did you mean hello?"),
        (("purge", "--type", "hello", "--state", "dead", "--older-than", "x"), "--older-than 'x'"),
        (("purge", "--type", "hello", "--state", "dead", "--older-than", "-1d"), "--older-than"),
    ],
)
def test_what_cannot_be_right_is_exit_2(graves: Cli, argv: tuple[str, ...], said: str) -> None:
    """One line, and nothing is done."""
    ran = graves(*argv)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err
    assert _states(graves, "hello/a", "hello/b", "hello/c") == ["dead"] * 3


def test_purge_tells_how_many_first(graves: Cli) -> None:
    """Without --yes nothing is removed, exit 2; with it only the state and type that was said."""
    purge = ("purge", "--type", "hello", "--state", "dead")
    asked = graves(*purge)
    assert (asked.code, asked.out) == (2, "")
    assert asked.err == (
        "scheduld: 3 dead tasks of type hello would be removed, none is (--yes does it)\n"
    )
    assert graves(*purge, "--json").error["kind"] == "not_confirmed"
    assert _states(graves, "hello/a") == ["dead"]
    assert graves(*purge, "--yes", "--json").ok().json == {
        "type": "hello",
        "state": "dead",
        "removed": 3,
    }
    assert graves("show", "hello/a").code == 1
    assert _states(graves, "other/o", "hello/live") == ["dead", "scheduled"]
    assert graves(*purge).ok().out == "0 removed\n"


def test_purge_by_age(graves: Cli) -> None:
    """--older-than leaves what ended later."""
    graves("add", "--type", "hello", "--id", "new", "--in", "1h").ok()
    graves("cancel", "hello/new").ok()
    purge = ("purge", "--type", "hello", "--older-than", "1d", "--yes")
    assert graves(*purge, "--state", "cancelled").ok().out == "0 removed\n"
    assert graves(*purge, "--state", "dead").ok().out == "3 removed\n"
    assert _states(graves, "hello/new") == ["cancelled"]
