"""The commands about schedules: what they print, what they refuse, and their exit codes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import Client
from tests.support.cli import Cli, Ran, cli

if TYPE_CHECKING:
    from tests.support.servers import RunningServer

__all__ = ["cli"]  # the fixture
ADD = ("cron", "add", "daily", "--type", "hello", "--cron", "0 7 * * *")
SCHEDULE = '[schedules.report]\ntype = "hello"\ncron = "0 9 * * mon"\n'


@pytest.fixture(autouse=True)
def in_madrid(cli: Cli, valkey_server: RunningServer) -> None:
    """The config names a zone."""
    cli.configure(valkey_server.url, 'timezone = "Europe/Madrid"')


def _configured(cli: Cli, text: str = SCHEDULE) -> None:
    path = cli.folder / "scheduld.toml"
    path.write_text(path.read_text() + text)


def _refused(ran: Ran, code: int, *words: str) -> None:
    """One line on stderr that says what is wrong and what would be right; nothing else."""
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.count("\n") == 1
    for word in words:
        assert word in ran.err


def _json_lines(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_add_tells_when_it_fires(cli: Cli) -> None:
    """An add prints the name, the rule in words, and the next three runs."""
    name, words, *coming = cli(*ADD).ok().out.splitlines()
    assert (name, words) == ("daily", "fires at 07:00 (Europe/Madrid)")
    assert len(coming) == 3
    assert all(re.match(r"next: \d{4}-\d\d-\d\dT07:00:00\+0[12]:00  ", line) for line in coming)


def test_add_takes_every_setting(cli: Cli, valkey_server: RunningServer) -> None:
    """All options arrive, and the payload is put together as `add` does."""
    options = [
        "--catch-up=all",
        "--catch-up-window=2h",
        "--overlap=allow",
        "--max-unfinished=7",
        "--max-runs=9",
        "--starts-at=2100-01-01",
        "--ends-at=2100-12-31",
        "--jitter=5m",
        "--dst-gap=skip",
        "--dst-overlap=both",
        "--timezone=UTC",
        "--disabled",
        "--dialect=extended",
    ]
    cron = ("--cron", "0 0 7 * * 5L")
    cli("cron", "add", "x", "--type", "hello", *cron, *options, "kind=daily", "n:=[1]").ok()
    with Client(valkey_server.url, namespace=cli.namespace) as client:
        found = client.schedules.get("x").definition
    assert found is not None
    assert found.payload == {"kind": "daily", "n": [1]}
    assert (found.catch_up, found.catch_up_window_ms, found.overlap) == ("all", 7_200_000, "allow")
    assert (found.max_unfinished, found.max_runs, found.jitter_ms) == (7, 9, 300_000)
    assert (found.dst_gap, found.dst_overlap, found.timezone) == ("skip", "both", "UTC")
    assert (found.enabled, found.cron_dialect) == (False, "extended")
    assert found.ends_at_ms == 4_133_980_799_999


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("add", "x", "--type", "hello"), 2, ("needs cron or every", "such as")),
        (("add", "x", "--cron", "@daily"), 2, ("--type",)),
        (("add", "A b", "--type", "hello", "--cron", "@daily"), 2, ("is not a name",)),
        (("add", "x", "--type", "hallo", "--cron", "@daily"), 2, ("did you mean hello?",)),
        (("add", "x", "--type", "hello", "--cron", "0 0 7 * * *"), 2, ("extended",)),
        (("add", "x", "--type", "hello", "--cron", "0 0 31 2 *"), 2, ("never fires",)),
        (("add", "x", "--type", "hello", "--every", "15"), 2, ("has no unit",)),
        (("add", "x", "--type", "hello", "--every", "1h", "--timezone", "Mars"), 2, ("IANA",)),
        (("add", "x", "--type", "hello", "--every", "1h", "kind"), 2, ("KEY=VALUE",)),
        (("add", "x", "--type", "hello", "--every", "1h", "--overlap", "no"), 2, ("skip",)),
        (("next",), 2, ("what is to fire?", "--cron")),
        (("next", "daily", "--cron", "@daily"), 2, ("has its own rule",)),
        (("next", "dialy"), 1, ("did you mean daily?",)),
        (("next", "--cron", "@daily", "--count", "1000000000"), 2, ("1 to 100000",)),
        (("next", "--cron", "@daily", "--count", "0"), 2, ("1 to 100000",)),
        (("next", "--cron", "@daily", "--every", "1h"), 2, ("exclude each other",)),
        (("next", "--every", "1h", "--dialect", "vixie"), 2, ("--dialect is of --cron",)),
        (("next", "--cron", "@daily", "--after", "2026-03-29 02:30"), 2, ("does not exist",)),
        (("next", "--cron", "a\x1b[31mb"), 2, ("has a control character",)),
        (("next", "--cron", "@daily", "--timezone", "a\x1b[31m"), 2, (r"\x1b",)),
        (("pause", "dialy"), 1, ("did you mean daily?",)),
        (("pause", "daily", "--reason", "a\nb"), 2, ("one line",)),
        (("resume", "nope"), 1, ("there is no schedule nope",)),
        (("trigger", "dialy"), 1, ("did you mean daily?",)),
        (("trigger", "daily", "--payload", "[1]"), 2, ("not a JSON object",)),
        (("skip", "daily"), 2, ("--on, --at, and --from with --to",)),
        (("skip", "daily", "--from", "2100-01-01"), 2, ("go together",)),
        (("skip", "daily", "--on", "2100-01-01", "--at", "+1h"), 2, ("say what to skip",)),
        (("skip", "daily", "--at", "2100-01-01 07:01"), 2, ("has no tick at", "its next tick")),
        (("skip", "daily", "--on", "2001-01-01"), 2, ("is past",)),
        (("backfill", "daily"), 2, ("--from",)),
        (("backfill", "daily", "--from", "1970-01-01", "--to", "2026-01-01"), 2, ("10,000",)),
        (("backfill", "daily", "--from", "2100-01-01", "--to", "2100-01-02"), 2, ("future",)),
        (
            ("backfill", "daily", "--from", "2026-01-01", "--to", "2026-01-02", "--rate", "x"),
            2,
            ("is no rate",),
        ),
        (("history", "dialy"), 1, ("did you mean daily?",)),
        (("history", "daily", "--limit", "0"), 2, ("limit is a number",)),
        (("remove", "dialy"), 1, ("did you mean daily?",)),
        (("show", "dialy"), 1, ("did you mean daily?",)),
        (("delete", "daily"), 2, ("did you mean remove?",)),
        (("lst",), 2, ("did you mean list?",)),
    ],
)
def test_refusals(cli: Cli, argv: tuple[str, ...], code: int, words: tuple[str, ...]) -> None:
    """What is wrong is told in one line, with what would be right."""
    cli(*ADD).ok()
    _refused(cli("cron", *argv), code, *words)


def test_errors_as_json(cli: Cli) -> None:
    """With --json an error is an object on stderr."""
    error = cli("cron", "show", "nope", "--json").error
    assert (error["kind"], error["message"]) == ("not_found", "there is no schedule nope")
    error = cli("cron", "next", "--cron", "x", "--json").error
    assert error["kind"] == "cron"


def test_the_same_add_again(cli: Cli) -> None:
    """It changes nothing; another rule needs --on-conflict."""
    cli(*ADD).ok()
    assert "kept: it exists, and nothing was changed" in cli(*ADD).ok().out
    other = (*ADD[:-1], "0 8 * * *")
    _refused(cli(*other), 1, "exists", "--on-conflict replace takes its place")
    assert "kept" in cli(*other, "--on-conflict", "keep").ok().out
    assert "fires at 08:00" in cli(*other, "--on-conflict", "replace").ok().out
    told = cli(*other, "--json").ok().json
    assert (told["name"], told["created"], told["definition"]["cron"]) == (
        "daily",
        False,
        "0 8 * * *",
    )


def test_next_without_a_server(cli: Cli) -> None:
    """A rule needs no server; clock changes have their notes."""
    cli.configure("redis://localhost:1/0", 'timezone = "Europe/Madrid"')
    argv = ("cron", "next", "--cron", "30 2 * * *", "--count", "3")
    words, *lines = cli(*argv, "--after", "2026-03-28").ok().out.splitlines()
    assert words == "fires at 02:30 (Europe/Madrid)"
    assert lines == [
        "2026-03-28T02:30:00+01:00  2026-03-28T01:30:00Z",
        "2026-03-29T03:00:00+02:00  2026-03-29T01:00:00Z  02:30 does not exist, moved to 03:00",
        "2026-03-30T02:30:00+02:00  2026-03-30T00:30:00Z",
    ]
    told = _json_lines(cli(*argv, "--after", "2026-10-25", "--json").ok())
    assert told[0] == {
        "utc": "2026-10-25T00:30:00.000Z",
        "local": "2026-10-25T02:30:00+02:00",
        "note": "02:30 happens twice, runs the first time only",
    }
    ran = cli(*argv, "--after", "2026-03-28 12:00", "--dst-gap", "skip").ok()
    assert ran.out.splitlines()[1] == "-  2026-03-29 02:30 does not exist, skipped"
    every = cli("cron", "next", "--every", "6h", "--after", "2026-01-01", "--count", "1", "--json")
    assert every.ok().json["utc"] == "2025-12-31T23:00:00.000Z"


def test_next_many(cli: Cli) -> None:
    """Thousands of ticks are printed as they come."""
    ran = cli("cron", "next", "--cron", "* * * * *", "--count", "5000", "--json").ok()
    times = [tick["utc"] for tick in _json_lines(ran)]
    assert len(times) == 5_000
    assert times == sorted(set(times))


def test_next_of_a_rule_that_ends(cli: Cli) -> None:
    """What fires no more says so."""
    cli(*ADD, "--ends-at", "2001-01-01").ok()
    ran = cli("cron", "next", "daily")
    assert (ran.code, ran.err) == (0, "it fires no more\n")


def test_list_and_show(cli: Cli) -> None:
    """Schedules are listed with what keeps them from firing; --json has all of it."""
    assert cli("cron", "list").err.startswith("no schedules (")
    cli(*ADD).ok()
    cli("cron", "pause", "daily", "--reason", "closed").ok()
    cli("cron", "add", "off", "--type", "other", "--every", "1d", "--disabled").ok()
    head, daily, off = cli("cron", "list").ok().out.splitlines()
    assert head.split() == ["NAME", "TYPE", "RULE", "NEXT", "LAST", "WHAT"]
    assert "paused: closed; no daemon works on its type; added at run time" in daily
    assert off.split()[:5] == ["off", "other", "every", "1d", "Europe/Madrid"]
    assert "disabled" in off
    assert len(cli("cron", "list", "--type", "other").ok().out.splitlines()) == 2
    told = _json_lines(cli("cron", "list", "--json").ok())
    assert [(one["name"], one["state"]) for one in told] == [
        ("daily", "paused"),
        ("off", "disabled"),
    ]
    assert told[0]["pause"]["reason"] == "closed"
    lines = cli("cron", "show", "daily").ok().out.splitlines()
    assert lines[0] == "daily is paused"
    assert any("paused" in line and "closed" in line for line in lines[1:])
    assert cli("cron", "show", "daily", "--json").ok().json == told[0]


def test_schedules_of_the_config(cli: Cli) -> None:
    """Before a daemon takes them up they are listed and told, and cannot be added by hand."""
    _configured(cli)
    assert "no daemon has taken it up yet" in cli("cron", "list").ok().out
    assert _json_lines(cli("cron", "list", "--json").ok())[0]["state"] == "new"
    ran = cli("cron", "next", "report", "--count", "1")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "this is what the config says" in ran.err
    assert ran.out.startswith("fires at 09:00 when the day is a Monday (Europe/Madrid)\n")
    _refused(cli("cron", "pause", "report"), 1, "no daemon has taken it up yet")
    argv = ("cron", "add", "report", "--type", "hello", "--every", "1h")
    _refused(cli(*argv), 1, "is in a config file")


def test_list_tells_differences(cli: Cli) -> None:
    """A schedule of run time in the place of one of the config is told."""
    cli("cron", "add", "report", "--type", "hello", "--every", "1h").ok()
    _configured(cli)
    ran = cli("cron", "list")
    assert ran.code == 0
    assert "report was added at run time; the one of the config does not run" in ran.err
    assert "the config has it otherwise" in cli("cron", "next", "report").err
    _configured(cli, "[schedules.x]\n")
    assert "not compared with the config" in cli("cron", "list").err


def test_steering(cli: Cli) -> None:
    """Pause, resume, trigger and skip say what they did and when it fires next."""
    cli(*ADD, "kind=daily", "--overlap", "queue").ok()
    assert cli("cron", "pause", "daily").ok().out == "daily paused\n"
    lines = cli("cron", "resume", "daily").ok().out.splitlines()
    assert (lines[0], lines[-1][:6]) == ("daily resumed", "next: ")
    assert cli("cron", "resume", "daily").ok().out.startswith("daily was not paused\n")
    assert cli("cron", "resume", "daily", "--json").ok().json == {
        "schedule": "daily",
        "was_paused": False,
        "passed_over": 0,
    }
    (ref,) = cli("cron", "trigger", "daily", "extra:=1").ok().out.splitlines()
    assert ref.startswith("hello/daily@manual-")
    assert cli("show", ref, "--json").ok().json["payload"] == {"kind": "daily", "extra": 1}
    second = cli("cron", "trigger", "daily", "--payload", "{}", "--json").ok().json
    assert second["outcome"] == "queued"
    _refused(cli("cron", "trigger", "daily"), 1, "no task was made (coalesced)")
    out = cli("cron", "skip", "daily", "--on", "2100-12-24").ok().out.splitlines()
    assert out[0] == "skips what is on 2100-12-24"
    out = cli("cron", "skip", "daily", "--at", "2100-12-25 07:00").ok().out.splitlines()
    assert out[1] == "skips what is at 2100-12-25T07:00:00+01:00"
    told = cli("cron", "skip", "daily", "--on", "2100-12-24", "--undo", "--json").ok().json
    assert [skip["from"] for skip in told["skips"]] == ["2100-12-25T06:00:00.000Z"]


def test_backfill_shows_first(cli: Cli) -> None:
    """Without --yes nothing is added, and the exit code is 2; ticks that ran are told apart."""
    cli(*ADD).ok()
    argv = ("cron", "backfill", "daily", "--from", "2026-01-01", "--to", "2026-01-02")
    ran = cli(*argv)
    assert ran.code == 2
    assert ran.err == "scheduld: 2 tasks would be added, none is (--yes does it)\n"
    assert ran.out.count("would be added") == 2
    assert cli(*argv, "--yes").ok().out == "2 added\n"
    assert cli(*argv, "--yes").ok().out == "0 added, 2 existed, or ran before\n"
    longer = ("cron", "backfill", "daily", "--from", "2026-01-01", "--to", "2026-04-30")
    ran = cli(*longer)
    assert ran.out.count("exists, or ran before") == 2
    assert "... and 70 more" in ran.out
    told = cli(*longer, "--json")
    assert (told.code, told.json["added"], told.json["dry_run"]) == (2, 118, True)
    assert "nothing to add" in cli(*argv).ok().out


def test_history(cli: Cli) -> None:
    """What became of ticks is told in a table, and as JSON; of a removed one too."""
    cli(*ADD).ok()
    assert cli("cron", "history", "daily").err == "no ticks yet\n"
    cli("cron", "trigger", "daily").ok()
    cli("cron", "trigger", "daily")
    ran = cli("cron", "history", "daily").ok()
    head, fired, skipped = ran.out.splitlines()
    assert head.split() == ["AT", "TICK", "OUTCOME", "LATE", "WHAT"]
    assert fired.endswith(": by hand")
    assert "skipped" in skipped
    assert "an earlier task was unfinished" in skipped
    ran = cli("cron", "history", "daily", "--limit", "1", "--json")
    assert [one["outcome"] for one in _json_lines(ran)] == ["skipped"]
    assert "only the newest 1 are shown" in ran.err
    assert cli("cron", "remove", "daily").ok().out == "daily removed, 1 task cancelled\n"
    ran = cli("cron", "history", "daily")
    assert ran.out.splitlines()[-1].endswith("removed by hand")
    assert "schedule daily was removed" in ran.err


def test_what_no_daemon_has(cli: Cli, valkey_server: RunningServer) -> None:
    """A schedule that is orphaned has no next run: it does not fire, and the reason is told."""
    cli(*ADD).ok()
    with Client(valkey_server.url, namespace=cli.namespace) as client:
        link = client._link or client._connected()
        key = f"{cli.namespace}:{{hello}}:cron:daily"
        link.commands(("HSET", key, "origin", "config", "orphan", "1000"))
    row = cli("cron", "list").ok().out.splitlines()[1]
    assert re.search(r"Europe/Madrid  orphaned +no daemon has it in its config any more; ", row)
    lines = cli("cron", "show", "daily").ok().out
    assert "orphaned  no daemon has it in its config since 1970-01-01T" in lines
    assert "next" not in lines
    assert "does not fire" in cli("cron", "next", "daily", "--count", "1").err


def test_what_no_daemon_fires(cli: Cli, valkey_server: RunningServer) -> None:
    """A tick that nobody has fired is told, also while a daemon that was killed still counts."""
    cli("cron", "add", "pulse", "--type", "hello", "--every", "1s").ok()
    assert cli("cron", "show", "pulse", "--json").ok().json["overdue_ms"] is None
    with Client(valkey_server.url, namespace=cli.namespace) as client:
        link = client._link or client._connected()
        key = f"{cli.namespace}:{{hello}}:cron:pulse"
        link.commands(("HSET", key, "mark", "1700000000500"))
    assert cli("cron", "show", "pulse", "--json").ok().json["overdue_ms"] == 1_700_000_001_000
    assert re.search(r"overdue: a tick was due \d+d .*ago", cli("cron", "list").ok().out)
    assert ": no daemon fires it" in cli("cron", "show", "pulse").ok().out
    cli("cron", "pause", "pulse").ok()
    assert "overdue" not in cli("cron", "list").ok().out


def test_a_gap_of_one_tick(cli: Cli, valkey_server: RunningServer) -> None:
    """It is told without an end, which would be its beginning."""
    cli(*ADD).ok()
    with Client(valkey_server.url, namespace=cli.namespace) as client:
        link = client._link or client._connected()
        key = f"{cli.namespace}:{{hello}}:ticks:daily"
        gap = ("o", "gap", "from", "86400000", "to", "86400000", "n", "1", "why", "paused")
        link.commands(("XADD", key, "*", *gap))
    assert cli("cron", "history", "daily").ok().out.endswith("gap            1 tick: paused\n")


def test_away(cli: Cli) -> None:
    """Without Redis the exit code is 3, after --wait."""
    cli.configure("redis://localhost:1/0")
    for argv in (("list",), ("pause", "x"), ("trigger", "x"), ("remove", "x"), ("next", "x")):
        ran = cli("cron", *argv, "--wait", "0s")
        assert ran.code == 3
        assert ran.err.count("\n") == 1


def test_check_tells_the_next_runs(cli: Cli) -> None:
    """`check` says of each schedule when it fires, and its next three runs."""
    _configured(
        cli, f"{SCHEDULE}enabled = false\n[schedules.pulse]\ntype = 'hello'\nevery = '1h'\n"
    )
    lines = cli("check").ok().out.splitlines()
    assert lines[0].endswith(", 2 types, 2 schedules")
    assert lines[1:3] == [
        "report fires at 09:00 when the day is a Monday (Europe/Madrid)",
        "  it is not enabled, and does not fire",
    ]
    assert len([line for line in lines if line.startswith("  next: ")]) == 3
    told = cli("check", "--json").ok().json["schedules"]
    assert (told["report"], len(told["pulse"])) == ([], 3)


def test_hostile_stored_values_are_escaped(cli: Cli, valkey_server: RunningServer) -> None:
    """What others wrote into Redis cannot forge lines or colours."""
    cli(*ADD).ok()
    with Client(valkey_server.url, namespace=cli.namespace) as client:
        link = client._link or client._connected()
        key = f"{cli.namespace}:{{hello}}:cron:daily"
        link.commands(("HSET", key, "paused", "1000", "pause_reason", "a\n\x1b[31mb"))
        link.commands(("HSET", key, "skips", "x-y 5-6", "last", "zzz", "queued", "nonsense"))
    for argv in (("list",), ("show", "daily"), ("next", "daily"), ("history", "daily")):
        ran = cli("cron", *argv)
        assert ran.code == 0
        assert "\x1b" not in ran.out + ran.err
    with Client(valkey_server.url, namespace=cli.namespace) as client:
        link = client._link or client._connected()
        link.commands(("HSET", key, "definition", '{"type": "x"}'))
    assert "broken" in cli("cron", "list").ok().out
    assert cli("cron", "next", "daily").code == 1
