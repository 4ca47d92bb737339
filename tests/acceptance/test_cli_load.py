"""`scheduld add` with what controls load: stored, told, and refused in one line."""

from __future__ import annotations

import json

import pytest

from tests.support.cli import Cli, cli

__all__ = ["cli"]  # the fixture

ADD = ("add", "--type", "hello")


def test_what_is_said_is_stored_and_shown(cli: Cli) -> None:
    """Priority, key and expiry are in the answer, and `show` tells them."""
    at = ("--at", "2100-01-01T00:00Z", "--expires", "90m")
    told = cli(*ADD, "--id", "a", "--priority", "-7", "--key", "acme", *at, "--json").ok().json
    shown = cli("show", "hello/a", "--json").ok().json
    for task in (told, shown):
        assert (task["priority"], task["key"]) == (-7, "acme")
        assert task["expires_ms"] == 4102444800000 + 90 * 60_000
    text = cli("show", "hello/a").ok().out
    assert "priority  -7" in text
    assert "key       acme" in text
    assert "expires   2100-01-01T01:30" in text


def test_a_clash_names_the_task(cli: Cli) -> None:
    """Exit 1 with the task that is there; `keep` answers with it, `replace` renews it."""
    unique = ("--unique", "n", "--unique", "m", "n=1", "m=2")
    cli(*ADD, "--id", "a", "--in", "1h", *unique, "x=1").ok()
    ran = cli(*ADD, *unique)
    assert (ran.code, ran.out) == (1, "")
    assert "hello/a, in state scheduled, is the same by what is to be unique" in ran.err
    assert "(--on-conflict keep answers with that one" in ran.err
    kept = cli(*ADD, "--on-conflict", "keep", *unique).ok().out.splitlines()
    assert kept[:2] == ["hello/a", "kept: it exists in state scheduled, and nothing was changed"]
    renewed = (
        cli(*ADD, "--on-conflict", "replace", "--in", "2h", "--json", *unique, "x=2").ok().json
    )
    assert (renewed["id"], renewed["created"], renewed["payload"]["x"]) == ("a", True, "2")
    cli(*ADD, "--unique-key", "n").ok()
    cli("cancel", "hello/a").ok()
    cli(*ADD, *unique).ok()


def test_debounce_says_that_it_was_put_off(cli: Cli) -> None:
    """The second add is the same task, with its payload, due later."""
    wait = ("--id", "doc", "--debounce", "1h")
    first = cli(*ADD, *wait, "rev:=1").ok().out.splitlines()
    assert first[0] == "hello/doc"
    second = cli(*ADD, *wait, "rev:=2").ok().out.splitlines()
    assert second[:2] == ["hello/doc", "put off: it has the new payload, and is due later"]
    assert second[2].startswith("due ")
    assert cli("show", "hello/doc", "--json").json["payload"] == {"rev": 2}


def test_throttle_answers_with_the_one_of_the_period(cli: Cli) -> None:
    """One task in the period, whatever became of it."""
    once = ("--throttle", "1h", "--unique-payload", "a=1")
    first = cli(*ADD, *once, "--json").ok().json
    second = cli(*ADD, *once, "--json").ok().json
    assert (first["created"], second["created"]) == (True, False)
    assert first["id"] == second["id"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--priority", "101"), "priority is a whole number from -100 to 100"),
        (("--priority", "1.5"), "'1.5' is not a valid integer"),
        (("--key", "a b"), "key 'a b' has a space"),
        (("--expires", "18:00"), "has no date"),
        (("--expires", "0s"), "expires is no time at all"),
        (("--unique", "nope"), "no field 'nope'"),
        (("--unique", "n", "--unique-key", "t"), "exclude each other"),
        (("--unique-key", ""), "unique has 0 characters"),
        (("--unique-for", "1h"), "unique_for needs unique"),
        (("--throttle", "1h"), "throttle needs unique"),
        (("--debounce", "1h"), "--debounce needs --id or --unique"),
        (("--debounce", "1h", "--id", "x", "--now", "--in", "1h"), "exclude each other"),
        (("--debounce", "1h", "--id", "x", "--on-conflict", "keep"), "decides itself"),
        (("--debounce-max", "1h"), "debounce_max needs debounce"),
    ],
)
def test_what_cannot_be_right_is_refused(cli: Cli, words: tuple[str, ...], message: str) -> None:
    """Exit 2, one line on stderr, nothing stored."""
    ran = cli(*ADD, *words, "n=1")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1
    stats = json.loads(cli("stats", "--type", "hello", "--json").ok().out)
    assert stats["scheduled"] == 0
