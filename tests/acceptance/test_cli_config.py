"""`config diff`: what another config would change, and never a secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cli import Cli, cli

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cli"]  # the fixture
OLD = """
[scheduld]
redis_url = "redis://ana:hunter2@localhost:6390/0"
lease = "60s"
[types.hello]
handler = "log"
run_timeout = "60s"
retry = { attempts = 3 }
at_start = { key = "hunter2" }
[types.mail]
handler = "email"
[types.mail.options]
smtp_url = "smtp://ana:hunter2@localhost"
from = "ana@example.com"
[types.bye]
handler = "log"
"""
RESTART = "scheduld: a daemon takes the new config when it is restarted\n"


@pytest.fixture
def old(cli: Cli) -> Path:
    """The config in force."""
    path = cli.folder / "scheduld.toml"
    path.write_text(OLD)
    return path


def _with(cli: Cli, *changes: tuple[str, str]) -> str:
    text = OLD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (cli.folder / "new.toml").write_text(text)
    return "new.toml"


def _lines(cli: Cli, *changes: tuple[str, str]) -> list[str]:
    ran = cli("config", "diff", _with(cli, *changes))
    assert (ran.code, ran.err) == (0, RESTART)
    return ran.out.splitlines()


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ('lease = "60s"', 'lease = "90s"', '[scheduld] lease: "60s" -> "90s"'),
        ('lease = "60s"', "lease = 61", '[scheduld] lease: "60s" -> 61'),
        ('lease = "60s"', "", '[scheduld] lease: "60s" -> "30s" (default)'),
        ("attempts = 3", "attempts = 4", "[types.hello] retry.attempts: 3 -> 4"),
        ("attempts = 3", "attempts = 5", "[types.hello] retry.attempts: 3 -> 5"),
        (
            "retry = { attempts = 3 }",
            "retry = { attempts = 3, jitter = 0 }",
            "[types.hello] retry.jitter: 0.2 (default) -> 0",
        ),
        (
            "retry = { attempts = 3 }",
            "retry = { attempts = 3 }\nmax_running = 1",
            "[types.hello] max_running: none (default) -> 1",
        ),
        (
            "[types.hello]",
            '[log]\nmask = ["a"]\n[types.hello]',
            '[log] mask: [] (default) -> ["a"]',
        ),
        ("[types.bye]", "[types.new]", "[types.new]: added"),
    ],
)
def test_a_change_is_told_in_the_words_of_the_files(
    cli: Cli, old: Path, before: str, after: str, line: str
) -> None:
    """A key, the old and the new value as they are written, or the default in its place."""
    assert line in _lines(cli, (before, after))


def test_a_removed_type_keeps_its_tasks(cli: Cli, old: Path) -> None:
    """What happens to the tasks of a type that goes is said."""
    lines = _lines(cli, ('[types.bye]\nhandler = "log"\n', ""))
    assert lines == ["[types.bye]: removed; its tasks stay, and nobody works on them"]


def test_a_default_that_follows_another_key_is_a_change(cli: Cli, old: Path) -> None:
    """A shorter lease makes the default of redis_timeout shorter as well."""
    assert '[scheduld] redis_timeout: "2s" (default) -> "1s" (default)' in _lines(
        cli, ('lease = "60s"', 'lease = "6s"')
    )


def test_another_notation_is_no_difference(cli: Cli, old: Path) -> None:
    """The same values, order and comments aside, say so; exit 0."""
    new = _with(
        cli,
        ('lease = "60s"', 'lease = "1m" # a minute\nnamespace = "scheduld"'),
        ("retry = { attempts = 3 }", "retry.attempts = 3"),
    )
    ran = cli("config", "diff", new).ok()
    assert ran.out == "no difference\n"
    assert cli("config", "diff", new, "--json").ok().out == ""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (
            "ana:hunter2@localhost:6390",
            "ana:hunter3@localhost:6390",
            ['[scheduld] redis_url: changed, "redis://localhost:6390/0"'],
        ),
        (
            "ana:hunter2@localhost:6390",
            "ana:hunter3@else:6390",
            ['[scheduld] redis_url: "redis://localhost:6390/0" -> "redis://else:6390/0"'],
        ),
        (
            "smtp://ana:hunter2@",
            "smtp://ana:hunter3@",
            ["[types.mail] options.smtp_url: changed, (hidden)"],
        ),
        (
            'from = "ana@example.com"',
            'from = "ana@example.com"\ntimeout = "3s"',
            ["[types.mail] options.timeout: added (hidden)"],
        ),
        (
            'at_start = { key = "hunter2" }',
            'at_start = { key = "hunter3" }',
            ["[types.hello] at_start: changed, (hidden)"],
        ),
    ],
)
def test_no_secret_is_shown(cli: Cli, old: Path, before: str, after: str, lines: list[str]) -> None:
    """Options, payloads and passwords are only said to be different, in JSON too."""
    assert _lines(cli, (before, after)) == lines
    told = cli("config", "diff", "new.toml", "--json").ok().out
    assert "hunter" not in told


def test_what_is_filled_in_is_not_shown(
    cli: Cli, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`${NAME}` is shown as it stands there; the same value in another way is the same."""
    monkeypatch.setenv("RUN_TIMEOUT", "77s")
    change = ('run_timeout = "60s"', 'run_timeout = "${RUN_TIMEOUT}"')
    assert _lines(cli, change) == ['[types.hello] run_timeout: "60s" -> "${RUN_TIMEOUT}"']
    monkeypatch.setenv("RUN_TIMEOUT", "1m")
    assert cli("config", "diff", "new.toml").ok().out == "no difference\n"


def test_json_has_one_change_a_line(cli: Cli, old: Path) -> None:
    """What changed, where, both values, and that it takes a restart."""
    new = _with(cli, ("attempts = 3", "attempts = 4"), ("[types.bye]", "[types.new]"))
    out = cli("config", "diff", new, "--json").ok().out
    changed, removed, added = map(json.loads, out.splitlines())
    assert changed == {
        "change": "changed",
        "table": "types.hello",
        "key": "retry.attempts",
        "old": {"value": 3, "default": False, "hidden": False},
        "new": {"value": 4, "default": False, "hidden": False},
        "restart": True,
    }
    nothing: dict[str, Any] = {"key": None, "old": None, "new": None, "restart": True}
    assert removed == {"change": "removed", "table": "types.bye", **nothing}
    assert added == {"change": "added", "table": "types.new", **nothing}


def test_a_faulty_config_is_told_as_check_tells_it(cli: Cli, old: Path) -> None:
    """Every problem of NEW with its line, exit 2; so for the config in force, and with --json."""
    new = _with(cli, ('handler = "log"', 'handler = "lgo"'), ("attempts = 3", "attempts = 0"))
    refused = cli("config", "diff", new)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == cli("check", "--config", new).err
    assert len(refused.err.splitlines()) == 3
    assert cli("config", "diff", new, "--json").error["kind"] == "config"
    assert cli("config", "diff", "scheduld.toml", "--config", "nowhere.toml").code == 2


def test_a_type_whose_name_has_a_dot(cli: Cli, old: Path) -> None:
    """The dot is part of the name, which is quoted as in the file."""
    old.write_text(OLD.replace("types.bye", 'types."a.b"'))
    change = (
        '[types.bye]\nhandler = "log"',
        '[types."a.b"]\nhandler = "log"\nrun_timeout = "5s"',
    )
    assert _lines(cli, change) == ['[types."a.b"] run_timeout: "1m" (default) -> "5s"']


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["config"], "missing command"),
        (["config", "dif", "x"], "no such command 'dif'"),
        (["config", "diff"], "missing argument 'NEW'"),
        (["config", "diff", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["config", "diff", "."], "cannot be read"),
        (["config", "diff", "new.toml", "--redis-url", "x"], "no such option"),
        (["--namespace", "x", "config", "diff", "new.toml"], "config takes no --namespace"),
    ],
)
def test_misuse_is_one_line(cli: Cli, argv: list[str], said: str) -> None:
    """Exit 2, and what would be right."""
    ran = cli(*argv)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


SCHEDULES = """
[schedules.daily]
type = "hello"
cron = "0 7 * * *"
payload = { token = "hunter2" }
[schedules.gone]
type = "hello"
every = "1h"
"""


def _schedules(cli: Cli, *changes: tuple[str, str]) -> str:
    path = cli.folder / "scheduld.toml"
    path.write_text(OLD + SCHEDULES)
    text = OLD + SCHEDULES
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (cli.folder / "new.toml").write_text(text)
    return "new.toml"


def test_schedules_and_their_next_times(cli: Cli) -> None:
    """What is added, changed and removed is told, and which next times move; no payload."""
    new = _schedules(
        cli,
        ('cron = "0 7 * * *"', 'cron = "0 8 * * *"\nstarts_at = 2100-01-01'),
        ("hunter2", "hunter3"),
        ("[schedules.gone]", "[schedules.new]"),
        ('every = "1h"', 'every = "1d"\nstarts_at = "2100-01-01"'),
    )
    ran = cli("config", "diff", new)
    assert (ran.code, ran.err) == (0, RESTART)
    *lines, moved, first = ran.out.splitlines()
    assert "[schedules.gone]: removed; 10 minutes later its waiting tasks are cancelled" in lines
    assert "[schedules.new]: added" in lines
    assert '[schedules.daily] cron: "0 7 * * *" -> "0 8 * * *"' in lines
    assert '[schedules.daily] starts_at: none (default) -> "2100-01-01"' in lines
    assert "[schedules.daily] payload: changed, (hidden)" in lines
    assert moved.startswith('[schedules.daily] next: "')
    assert moved.endswith('T07:00:00+00:00" -> "2100-01-01T08:00:00+00:00"')
    assert first == '[schedules.new] next: "2100-01-01T00:00:00+00:00"'
    assert "hunter" not in ran.out.replace("hunter2@", "")
    told = [json.loads(line) for line in cli("config", "diff", new, "--json").out.splitlines()]
    assert [(one["change"], one["table"]) for one in told if one["key"] == "next"] == [
        ("changed", "schedules.daily"),
        ("added", "schedules.new"),
    ]


def test_a_zone_moves_every_schedule_that_has_none(cli: Cli) -> None:
    """A setting of another table that moves the next time of a schedule is told there."""
    new = _schedules(cli, ("[scheduld]", '[scheduld]\ntimezone = "Asia/Tokyo"'))
    lines = cli("config", "diff", new).out.splitlines()
    assert lines[0] == '[scheduld] timezone: none (default) -> "Asia/Tokyo"'
    assert lines[1].startswith('[schedules.daily] next: "')
    assert lines[1].endswith('T07:00:00+09:00"')


def test_a_switched_off_schedule_has_no_next(cli: Cli) -> None:
    """`enabled = false` takes the next time away."""
    new = _schedules(cli, ('every = "1h"', 'every = "1h"\nenabled = false'))
    lines = cli("config", "diff", new).out.splitlines()
    assert lines[0] == "[schedules.gone] enabled: true (default) -> false"
    assert lines[1].endswith('" -> none')


def test_other_settings_of_a_schedule_move_nothing(cli: Cli) -> None:
    """A change that moves no next time tells none."""
    new = _schedules(cli, ('every = "1h"', 'every = "60m"\noverlap = "queue"'))
    lines = cli("config", "diff", new).out.splitlines()
    assert lines == ['[schedules.gone] overlap: "skip" (default) -> "queue"']
