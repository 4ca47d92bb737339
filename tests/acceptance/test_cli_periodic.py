"""`add`, `edit`, `show` and `list` of tasks that come again: what people type and read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cli import Cli, cli

if TYPE_CHECKING:
    from tests.support.servers import RunningServer

__all__ = ["cli"]  # the fixture

SERIES = """timezone = "Europe/Madrid"
[types.season]
handler = "log"
series = ["0", "-1w", "-1d"]
anchor = "season_start"
"""
START = "season_start=2090-03-29T09:00"


@pytest.fixture
def season(cli: Cli) -> Cli:
    """The same with a zone, and a type whose tasks follow a series."""
    cli.configure(cli_url(cli), SERIES)
    return cli


def cli_url(cli: Cli) -> str:
    """The server of the config."""
    found = re.search(r'redis_url = "(.*)"', (cli.folder / "scheduld.toml").read_text())
    assert found
    return found[1]


def shown(cli: Cli, ref: str) -> dict[str, Any]:
    """A task as `show --json` tells it."""
    told: dict[str, Any] = cli("show", ref, "--json").ok().json
    return told


def facts(cli: Cli, ref: str) -> dict[str, str]:
    """A task as `show` tells it: what stands behind each label."""
    lines = cli("show", ref).ok().out.splitlines()[1:]
    return dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines)


def test_a_week_later_and_again(season: Cli) -> None:
    """The task is told with when it comes next, in the zone, and kept with all that was said."""
    at = ("--at", "2090-03-12 09:00", "--every", "1w", "--until", "2090-04-02")
    out = season("add", "--type", "hello", "--id", "w", *at).ok().out.splitlines()
    assert out[0] == "hello/w"
    assert out[1].startswith("due 2090-03-12T09:00:00+01:00 (Europe/Madrid), ")
    assert out[2] == (
        "then 2090-03-19T09:00:00+01:00, 2090-03-26T09:00:00+02:00, 2090-04-02T09:00:00+02:00"
    )
    told = shown(season, "hello/w")
    assert (told["every"], told["timezone"]) == ("7d", "Europe/Madrid")
    assert told["until"] == "2090-04-02T21:59:59.999Z"
    assert told["upcoming"] == [
        "2090-03-19T08:00:00.000Z",
        "2090-03-26T07:00:00.000Z",
        "2090-04-02T07:00:00.000Z",
    ]
    assert facts(season, "hello/w")["until"] == "2090-04-02T23:59:59.999+02:00"
    assert "every 7d" in season("list").ok().out


def test_a_dry_run_stores_nothing(season: Cli) -> None:
    """All instants, or the first ten of many and how many there are; no server is asked."""
    season.configure("redis://127.0.0.1:1/0", SERIES)
    run = ("add", "--dry-run", "--type")
    told = season(*run, "hello", "--at", "2090-01-01T09:00Z", "--every", "1d", "--max-runs", "12")
    lines = told.out.splitlines()
    assert (told.code, told.err) == (0, "nothing is stored: this was a dry run\n")
    assert (len(lines), lines[-1]) == (11, "and so on: 12 in all")
    endless = season(*run, "hello", "--every", "1m").out.splitlines()
    assert (len(endless), endless[-1]) == (11, "and so on, without an end")
    many = season(*run, "hello", "--every", "1ms", "--until", "2090-01-01").out.splitlines()
    assert many[-1] == "and so on: 1000 or more"
    one = season(*run, "hello", "--at", "2090-01-01T09:00Z", "--json")
    assert one.json == {
        "type": "hello",
        "payload": {},
        "instants": [
            {"utc": "2090-01-01T09:00:00.000Z", "local": "2090-01-01T10:00:00+01:00", "note": ""}
        ],
        "count": 1,
        "missed": 0,
    }
    assert "the config has no type 'hell'" in season(*run, "hell").err
    # Where the clock is set forward over one of them, or shows one twice.
    night = ("--at", "2090-03-25 02:30", "--every", "1d", "--max-runs", "2")
    assert (
        season(*run, "hello", *night)
        .out.splitlines()[1]
        .startswith("due 2090-03-26T03:00:00+02:00 (Europe/Madrid), 2090-03-26T01:00:00Z, in ")
    )
    told = season(*run, "hello", *night, "--json").json
    assert told["instants"][1]["note"] == "02:30 does not exist, moved to 03:00"


def test_a_series_is_told_in_full(season: Cli) -> None:
    """A task of such a type needs no time: when it is due stands in its payload."""
    out = season("add", "--type", "season", "--id", "s", START).ok().out.splitlines()
    assert out[1].startswith("due 2090-03-22T09:00:00+01:00 (Europe/Madrid)")
    assert out[2] == "then 2090-03-28T09:00:00+02:00, 2090-03-29T09:00:00+02:00"
    told = facts(season, "season/s")
    assert told["series"] == "-7d, -1d, 0 around the payload's season_start"
    assert told["then"] == "2090-03-28T09:00:00+02:00, 2090-03-29T09:00:00+02:00"
    assert shown(season, "season/s")["series"] == {
        "offsets": ["-7d", "-1d", "0"],
        "anchor": "season_start",
    }
    # The anchor moves, and what is left of the series with it; other keys move nothing.
    season("edit", "season/s", "name=Ana").ok()
    assert shown(season, "season/s")["due"] == "2090-03-22T08:00:00.000Z"
    season("edit", "season/s", "season_start=2091-06-02T09:00").ok()
    assert shown(season, "season/s")["due"] == "2091-05-26T07:00:00.000Z"
    assert facts(season, "season/s")["then"].startswith("2091-06-01T09:00:00+02:00, ")


def test_a_time_of_its_own_goes_before_the_series(season: Cli) -> None:
    """--now, --in and --at mean what they say: once, then."""
    for when in (["--now"], ["--in", "5m"], ["--at", "2090-01-01 09:00"]):
        out = season("add", "--type", "season", *when).ok().out
        assert "then" not in out
        assert shown(season, out.splitlines()[0])["series"] is None


def test_edit_changes_the_period(season: Cli) -> None:
    """Another period counts from the next due; an end can be put off, and taken away."""
    at = ("--at", "2090-01-31 09:00", "--every", "7d", "--max-runs", "2")
    season("add", "--type", "hello", "--id", "m", *at).ok()
    season("edit", "hello/m", "--every", "1mo", "--until", "2090-06-01", "--max-runs", "9").ok()
    told = shown(season, "hello/m")
    assert (told["every"], told["max_runs"], told["revision"]) == ("1mo", 9, 1)
    assert told["upcoming"] == [
        "2090-02-28T08:00:00.000Z",
        "2090-03-31T07:00:00.000Z",
        "2090-04-30T07:00:00.000Z",
        "2090-05-31T07:00:00.000Z",
    ]
    season("edit", "hello/m", "--until", "never").ok()
    assert shown(season, "hello/m")["until"] is None
    # The new grid begins where the edit moves the task to.
    season("edit", "hello/m", "--every", "1d", "--at", "2090-02-10 08:00", "a=b").ok()
    told = shown(season, "hello/m")
    assert (told["due"], told["payload"]) == ("2090-02-10T07:00:00.000Z", {"a": "b"})
    assert told["upcoming"][0] == "2090-02-11T07:00:00.000Z"
    # A task that ran once can be made to come again.
    season("add", "--type", "hello", "--id", "o", "--at", "2090-01-01 09:00").ok()
    season("edit", "hello/o", "--every", "1y", "--timezone", "Asia/Tokyo").ok()
    assert shown(season, "hello/o")["timezone"] == "Asia/Tokyo"


def test_one_occurrence_moves_and_the_grid_stays(season: Cli) -> None:
    """An edit of the due alone: what follows is where it was to be."""
    at = ("--at", "2090-01-02 09:00", "--every", "7d")
    season("add", "--type", "hello", "--id", "w", *at).ok()
    season("edit", "hello/w", "--at", "2090-01-01 20:00").ok()
    told = facts(season, "hello/w")
    assert told["moved"] == "from 2090-01-02T09:00:00+01:00"
    assert told["then"].startswith("2090-01-09T09:00:00+01:00, ")


def test_a_time_for_what_follows_a_run_is_told(season: Cli, valkey_server: RunningServer) -> None:
    """Neither the due of the run is told as the edited one, nor the grid as what is next."""
    at = ("--at", "2090-01-02 09:00", "--every", "7d")
    season("add", "--type", "hello", "--id", "w", *at).ok()
    with valkey_server.client() as redis:
        root = f"{season.namespace}:{{hello}}"
        redis.hset(f"{root}:task:w", mapping={"due": 3_787_027_200_000, "fence": 7})
        redis.zadd(f"{root}:leased", {"w": 4e12})
        redis.zrem(f"{root}:due", "w")
    out = season("edit", "hello/w", "--at", "2090-01-05 10:00").ok().out.splitlines()
    assert out[1] == "it runs now, and the change is for its next occurrence"
    assert out[2].startswith("next due 2090-01-05T10:00:00+01:00 (Europe/Madrid), ")
    told = facts(season, "hello/w")
    assert told["due"].startswith("2090-01-02T09:00")
    assert told["next"] == "2090-01-05T10:00:00+01:00"
    assert told["then"].startswith("2090-01-16T09:00:00+01:00, ")


REFUSED = [
    (["--every", "7"], "has no unit"),
    (["--every", "0d"], "is 0"),
    (["--every", "-7d"], "has a sign"),
    (["--every", "1mo12h"], "mixes"),
    (["--until", "2090-01-01"], "until needs every"),
    (["--max-runs", "3"], "max_runs needs every"),
    (["--every", "7d", "--max-runs", "0"], "max_runs"),
    (["--every", "7d", "--until", "2020-01-01"], "before the first due"),
    (["--every", "7d", "--until", "01/02/2090"], "until"),
    (["--every", "7d", "--expires", "1h"], "expires does not go with every"),
    (["--every", "7d", "--at", "2020-01-01T09:00Z"], "is past"),
    (["--every", "7d", "--timezone", "Mars/Base"], "unknown time zone"),
]


@pytest.mark.parametrize(("words", "told"), REFUSED)
def test_what_cannot_be_is_told_in_a_line(season: Cli, words: list[str], told: str) -> None:
    """Exit 2 and one line; nothing is stored."""
    ran = season("add", "--type", "hello", *words)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert ran.err.count("\n") == 1
    assert season("list").err == "no tasks\n"


def test_edits_that_cannot_be_are_told_in_a_line(season: Cli) -> None:
    """By the state of the task, which stays as it was."""
    season("add", "--type", "hello", "--id", "once", "--at", "2090-01-01 09:00").ok()
    season("add", "--type", "season", "--id", "s", START).ok()
    season("add", "--type", "hello", "--id", "e", "--in", "1h", "--expires", "1h").ok()
    season("add", "--type", "hello", "--id", "w", "--every", "7d", "--in", "1h").ok()
    before = season("list", "--json").out
    for words, code, told in (
        (["hello/once", "--until", "2091-01-01"], 1, "is not periodic"),
        (["hello/e", "--every", "1d"], 1, "expires"),
        (["season/s", "--every", "1d"], 1, "follows the series of its type"),
        (["season/s", "season_start=2091-06-02"], 2, "date without a time"),
        (["season/s", "--unset", "season_start"], 2, "is missing"),
        (["season/s", "season_start=2020-06-02T09:00"], 2, "have passed"),
        (["hello/w", "--until", "2020-01-01"], 2, "before the next due"),
        (["hello/w", "--every", "1x"], 2, "is not an interval"),
        (["hello/w", "--max-runs", "0"], 2, "max_runs"),
        (["hello/nope", "--every", "1d"], 1, "there is no task"),
    ):
        ran = season("edit", *words)
        assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1), words
        assert told in ran.err
    assert season("list", "--json").out == before


def test_a_zone_is_needed_and_said(cli: Cli) -> None:
    """Without one days are refused, hours are not; a series with an error is no way to add."""
    assert "needs a time zone" in cli("add", "--type", "hello", "--every", "7d").err
    cli("add", "--type", "hello", "--every", "168h").ok()
    cli("add", "--type", "hello", "--every", "7d", "--timezone", "UTC").ok()
    cli.configure(cli_url(cli), SERIES.replace('"-1w"', '"1w"'))
    ran = cli("add", "--type", "season", START)
    assert (ran.code, ran.out) == (2, "")
    assert "scheduld.toml:8: types.season.series: series: '1w' has no sign" in ran.err


def test_what_others_wrote_is_no_traceback(season: Cli, valkey_server: RunningServer) -> None:
    """A stored period, end or anchor that makes no sense is told where it would be used."""
    season("add", "--type", "hello", "--id", "w", "--every", "1h", "--in", "1h").ok()
    season("add", "--type", "season", "--id", "s", START).ok()
    with valkey_server.client() as redis:
        redis.hset(f"{season.namespace}:{{hello}}:task:w", mapping={"every": "x", "until": "y"})
        redis.hset(f"{season.namespace}:{{season}}:task:s", "payload", '{"season_start": 5}')
    assert facts(season, "hello/w")["then"].startswith("cannot be told: every 'x' is not an")
    assert facts(season, "season/s")["then"].startswith("cannot be told: the payload's")
    assert "upcoming" not in shown(season, "hello/w")
    assert "series" in season("list", "--type", "season").ok().out
    # An anchor that could not be read, and can be now.
    season("edit", "season/s", "season_start=2091-06-02T09:00").ok()
    assert shown(season, "season/s")["due"] == "2091-05-26T07:00:00.000Z"


def test_an_occurrence_of_a_series_moved_by_hand(season: Cli) -> None:
    """The time that the edit says, and the new anchor for what follows."""
    season("add", "--type", "season", "--id", "s", START).ok()
    at = ("--at", "2090-01-05 10:00")
    season("edit", "season/s", *at, "season_start=2090-06-02T09:00").ok()
    told = shown(season, "season/s")
    assert told["due"] == "2090-01-05T09:00:00.000Z"
    assert told["upcoming"][-1] == "2090-06-02T07:00:00.000Z"


def test_one_occurrence_is_cancelled(season: Cli) -> None:
    """`cancel --this-run` tells what is next; of a one-off it is refused, with what is right."""
    add = ("add", "--type", "hello", "--at", "2090-01-01 09:00")
    season(*add, "--id", "w", "--every", "7d", "--max-runs", "5").ok()
    assert season("cancel", "hello/w", "--this-run").ok().out == (
        "hello/w next at 2090-01-08T09:00:00+01:00\n"
    )
    told = season("cancel", "hello/w", "--this-run", "--json").ok().json
    assert (told["state"], told["due"], told["runs"]) == (
        "scheduled",
        "2090-01-15T08:00:00.000Z",
        0,
    )
    season(*add, "--id", "once").ok()
    refused = season("cancel", "hello/once", "--this-run")
    assert refused.code == 1
    assert refused.err == (
        "scheduld: hello/once is not periodic: it has one run only (cancel it without --this-run)\n"
    )
    assert shown(season, "hello/once")["state"] == "scheduled"
    assert season("cancel", "hello/w").ok().out == "hello/w cancelled\n"


def test_while_an_occurrence_runs(season: Cli, valkey_server: RunningServer) -> None:
    """An edit says that it is for the next one; a cancelled run and series are told apart."""
    argv = ("add", "--type", "hello", "--id", "w", "--at", "2090-01-01 09:00", "--every", "7d")
    season(*argv).ok()
    with valkey_server.client() as server:
        prefix = f"{season.namespace}:{{hello}}"
        server.zrem(f"{prefix}:due", "w")
        server.zadd(f"{prefix}:leased", {"w": 4_000_000_000_000})
        due = 3_786_926_400_000
        server.hset(f"{prefix}:task:w", mapping={"fence": due * 1000, "owner": "n", "due": due})
    assert season("edit", "hello/w", "n=1").ok().out.splitlines() == [
        "hello/w edited, revision 1",
        "it runs now, and the change is for its next occurrence",
    ]
    season("cancel", "hello/w", "--this-run").ok()
    first, *_, then = season("show", "hello/w").ok().out.splitlines()
    assert first.endswith(", asked to stop (this run only)")
    assert "2090-01-08T09:00:00+01:00, " in then
    season("cancel", "hello/w").ok()
    first, *_, then = season("show", "hello/w").ok().out.splitlines()
    assert first.endswith(", asked to stop")
    assert then.split() == ["then", "no", "more"]
