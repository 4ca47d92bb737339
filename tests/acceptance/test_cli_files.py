"""`init`, `check`, `run` and `version`: from an empty folder to a daemon that runs a task."""

from __future__ import annotations

import signal
import stat
import sys

from scheduld.version import __version__
from tests.support.cli import Cli, cli
from tests.support.servers import wait_until

__all__ = ["cli"]  # the fixture


def test_init_writes_a_config_that_is_valid_and_private(cli: Cli) -> None:
    """The file is readable by its owner alone, `check` accepts it, and the next steps are told."""
    (cli.folder / "scheduld.toml").unlink()
    out = cli("init").ok().out
    assert out.splitlines()[0] == "wrote scheduld.toml"
    assert "scheduld run" in out
    assert "scheduld add --type hello --now message=Hello" in out
    written = cli.folder / "scheduld.toml"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert "starter.toml" not in written.read_text()
    assert cli("check").ok().out == f"OK: {written}, 1 type\n"


def test_init_overwrites_only_if_forced(cli: Cli) -> None:
    """An existing file is exit 1 and stays as it is; --force replaces it and its mode."""
    file = cli.folder / "my config.toml"
    file.write_text("mine")
    refused = cli("init", "my config.toml")
    assert (refused.code, file.read_text()) == (1, "mine")
    assert "my config.toml exists already (--force" in refused.err
    out = cli("init", "my config.toml", "--force").ok().out
    assert "scheduld run --config 'my config.toml'" in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "scheduld list --config 'my config.toml'" in file.read_text()
    assert sorted(path.name for path in cli.folder.iterdir()) == [file.name, "scheduld.toml"]


def test_init_says_why_it_cannot_write(cli: Cli) -> None:
    """A folder that is not there, or a folder in place of the file, is one line and exit 2."""
    (cli.folder / "folder").mkdir()
    for words, said in (
        (("no/such/x.toml",), "No such file or directory"),
        (("folder", "--force"), "it is a folder"),
        (("",), "No such file"),
    ):
        ran = cli("init", *words)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err


def test_check_lists_every_problem_with_its_line(cli: Cli) -> None:
    """Each problem is a line `file:line: path: message`, or an object; exit 2."""
    with (cli.folder / "scheduld.toml").open("a") as file:
        file.write('retrry = {}\n[types.bad]\nhandler = "no_such_module:f"\n')
    ran = cli("check")
    assert (ran.code, ran.out) == (2, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith("scheduld.toml:10: types.other.retrry: ")
    assert lines[1].startswith("scheduld.toml:12: types.bad.handler: there is no module")
    assert len(lines) == 2
    told = cli("check", "--json")
    assert (told.code, told.err, told.json["ok"]) == (2, "", False)
    assert [set(problem) for problem in told.json["problems"]] == [
        {"file", "line", "path", "message"}
    ] * 2
    assert told.json["problems"][1]["line"] == 12


def test_check_needs_no_redis(cli: Cli) -> None:
    """With a server that is away, and with --json, a good file is good."""
    cli.configure("redis://127.0.0.1:1")
    assert cli("check", "--json").ok().json == {
        "ok": True,
        "problems": [],
        "schedules": {},
    }
    assert cli("check", "--config", "scheduld.toml").ok().out.endswith("2 types\n")


def test_check_without_a_config_says_where_it_looked(cli: Cli) -> None:
    """No file at all is exit 2 with the places."""
    (cli.folder / "scheduld.toml").unlink()
    ran = cli("check")
    assert ran.code == 2
    assert "./scheduld.toml" in ran.err


def test_handlers_come_from_the_current_folder_but_shadow_nothing(cli: Cli) -> None:
    """A module of the folder is found, after all that is installed; what it prints is not ours."""
    (cli.folder / "json.py").write_text("raise SystemExit('shadowed')\n")
    (cli.folder / "cli_test_tasks.py").write_text("print('noise')\ndef f(payload): pass\n")
    with (cli.folder / "scheduld.toml").open("a") as file:
        file.write('[types.mine]\nhandler = "cli_test_tasks:f"\n')
    try:
        ran = cli("check", "--json")
    finally:
        sys.modules.pop("cli_test_tasks", None)
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert ran.err == "noise\n"


def test_run_runs_a_task_and_ends_at_a_signal(cli: Cli) -> None:
    """The daemon takes a task that `add` stored, and SIGTERM ends it with exit 0."""
    (cli.folder / "cli_run_tasks.py").write_text("def f(payload): return payload['n'] * 2\n")
    with (cli.folder / "scheduld.toml").open("a") as file:
        file.write('[types.mine]\nhandler = "cli_run_tasks:f"\n')
    daemon = cli.start("run")
    try:
        cli("add", "--type", "mine", "--id", "a", "n:=21").ok()
        shown = ("show", "mine/a", "--json")
        wait_until(lambda: cli(*shown).json["state"] == "done", "the task is done")
        assert cli(*shown).json["result"] == 42
        assert cli("show", "mine/a").ok().out.startswith("mine/a is done\n")
        daemon.send_signal(signal.SIGTERM)
        _, err = daemon.communicate(timeout=30)
        assert daemon.returncode == 0, err
    finally:
        daemon.kill()
        daemon.communicate()


def test_run_with_a_bad_config_lists_the_problems(cli: Cli) -> None:
    """`run` ends with exit 2 before anything starts."""
    cli.configure("embedded", 'lease = "x"\nmax_payload = "y"')
    ran = cli("run")
    assert (ran.code, ran.out) == (2, "")
    assert [line.split(": ")[0] for line in ran.err.splitlines()] == [
        "scheduld.toml:5",
        "scheduld.toml:6",
    ]


def test_version_tells_what_is_in_use(cli: Cli) -> None:
    """`--version` is one line; `version` adds Python, redis-py and the embedded server."""
    assert cli("--version").ok().out == f"scheduld {__version__}\n"
    told = cli("version", "--json").ok().json
    assert (told["scheduld"], told["python"]) == (__version__, sys.version.split()[0])
    assert set(told) == {"scheduld", "python", "redis_py", "embedded_server"}
    lines = cli("version").ok().out.splitlines()
    assert lines[0].split() == ["scheduld", __version__]


def test_a_config_that_is_skipped_is_told(cli: Cli) -> None:
    """A file that anybody could write is not used, and a note says so where another one is."""
    file = cli.folder / "scheduld.toml"
    (cli.folder / "config").mkdir()
    (cli.folder / "config" / "scheduld.toml").write_text(file.read_text())
    file.chmod(0o666)
    ran = cli("list", "--json")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("scheduld: ./scheduld.toml was skipped: everybody can write to it")
