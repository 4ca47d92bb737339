"""What cannot be right is one line on stderr and exit 2 or 3: never a traceback or a secret."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.cli import Cli, cli

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cli"]  # the fixture
ADD = ("add", "--type", "hello")
BAD = [
    ((), "missing command"),
    (("lst",), "did you mean list?"),
    (("retry", "hello/a"), "did you mean requeue?"),
    (("Ärger",), "there is no command"),
    (("add",), "missing option '--type'"),
    (("add", "--type"), "requires an argument"),
    (("add", "--type", "Hello World"), "is not a name"),
    (("add", "--type", ""), "is not a name"),
    ((*ADD, "--every", "7d"), "needs a time zone"),
    ((*ADD, "--tokn", "x"), "did you mean --token?"),
    ((*ADD, "--at", "09:00"), "'09:00'"),
    ((*ADD, "--at", "01/02/2100"), "'01/02/2100'"),
    ((*ADD, "--at", "nan"), "'nan'"),
    ((*ADD, "--at", ""), "''"),
    ((*ADD, "--at", "1e400"), "1e400"),
    ((*ADD, "--at", "-1"), "-1"),
    ((*ADD, "--at", "10000-01-01"), "10000-01-01"),
    ((*ADD, "--at", "9999-12-31T23:59:59Z"), "2200"),
    ((*ADD, "--at", "1969-12-31T00:00:00Z", "--allow-past"), "1970"),
    ((*ADD, "--at", "2100-02-30T00:00Z"), "no real date"),
    ((*ADD, "--at", "2100-01-01 09:00"), "has no time zone"),
    ((*ADD, "--at", "2026-03-08T02:30", "--timezone", "America/New_York"), "does not exist"),
    ((*ADD, "--now", "--timezone", "Europe/Madird"), "Europe/Madrid"),
    ((*ADD, "--in", "5"), "--in '5' has no unit"),
    ((*ADD, "--in", "-5s"), "has a sign"),
    ((*ADD, "--in", "1mo"), "calendar unit"),
    ((*ADD, "--in", "1h", "--now"), "exclude each other"),
    ((*ADD, "--in", "1h", "--at", "@4000000000"), "exclude each other"),
    ((*ADD, "--on-conflict", "merge"), "'merge'"),
    ((*ADD, "--token", ""), "token"),
    ((*ADD, "--token", "x" * 65), "token"),
    ((*ADD, "--payload", "{"), "--payload: is not JSON"),
    ((*ADD, "--payload", "[1]"), "--payload is not a JSON object"),
    ((*ADD, "--payload", ""), "it is empty"),
    ((*ADD, "--payload", '{"a": NaN}'), "NaN is not a JSON value"),
    ((*ADD, "--payload", "[" * 100_000), "--payload"),
    ((*ADD, "--payload", '{"a": "\\ud800"}'), "lone surrogate"),
    ((*ADD, "--payload", "{}", "-"), "given twice"),
    ((*ADD, "-", "-"), "given twice"),
    ((*ADD, "--payload-file", "nope.json"), "nope.json cannot be read: No such file"),
    ((*ADD, "--payload-file", "."), "cannot be read: Is a directory"),
    ((*ADD, "--payload-file", "a\0b"), "cannot be read"),
    ((*ADD, "word"), "neither KEY=VALUE nor KEY:=JSON"),
    ((*ADD, "=x"), "neither KEY=VALUE nor KEY:=JSON"),
    ((*ADD, ":=1"), "neither KEY=VALUE nor KEY:=JSON"),
    ((*ADD, "a:=x"), "a:= is not JSON"),
    ((*ADD, "a=1", "a=2"), "'a' is given twice"),
    ((*ADD, "a=\udce9"), "argument 4 is not UTF-8"),
    ((*ADD, "a=" + "x" * 300_000), "at most 262144"),
    ((*ADD, "--wait", "soon"), "--wait 'soon'"),
    ((*ADD, "--namespace", "A B"), "namespace"),
    ((*ADD, "--redis-url", ""), "--redis-url"),
    ((*ADD, "--config", ""), "--config"),
    ((*ADD, "--config", "nope.toml"), "nope.toml"),
    (("show",), "missing argument"),
    (("show", "a", "b"), "unexpected extra argument"),
    (("show", ""), "is empty"),
    (("show", "/a"), "type '' is not a name"),
    (("show", "hello/"), "is empty"),
    (("show", "Hello/a"), "is not a name"),
    (("show", "a\nb"), r"a\nb"),
    (("list", "--limit", "0"), "limit is a number"),
    (("list", "--limit", "x"), "not a valid integer"),
    (("list", "--state", "finished"), "is no state"),
    (("list", "--type", "A"), "is not a name"),
    (("run", "hello/a"), "did you mean run-now hello/a? What has ended: requeue hello/a"),
    (("run", "now"), "takes no task"),
    (("check", "--wait", "1s"), "no such option '--wait'"),
    (("version", "--config", "x"), "no such option '--config'"),
]


@pytest.mark.parametrize(("argv", "said"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_bad_input_is_one_line_and_exit_2(cli: Cli, argv: tuple[str, ...], said: str) -> None:
    """Nothing is printed on stdout, and the one line on stderr says what is wrong."""
    ran = cli(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("scheduld: ")
    assert said in ran.err.replace("\\\\", "\\")
    assert len(ran.err.splitlines()) == 1
    assert "Traceback" not in ran.err
    told = cli(*argv, "--json") if argv and argv[-1] != "--type" else cli("--json", *argv)
    assert told.code == 2
    assert set(told.error) == {"kind", "message", "hint"}
    assert cli("list", "--json").ok().out == ""


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b'{"name": "Jos\xe9"}', "stdin is not UTF-8: byte 0xe9 in line 1"),
        ('{"a": 1}'.encode("utf-16"), "stdin is UTF-16"),
        (b" " * (16 * 1024 * 1024 + 1), "stdin is larger than 16 MB"),
        (b"\x00", "stdin: is not JSON"),
    ],
)
def test_payloads_that_cannot_be_read_are_refused(cli: Cli, data: bytes, said: str) -> None:
    """Encodings, size and emptiness each have their own words."""
    ran = cli(*ADD, "-", stdin=data)
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


def test_several_faults_of_a_config_are_one_line_of_a_client_command(cli: Cli) -> None:
    """All of them stand in the line, each with its place."""
    cli.configure("embedded", 'lease = "x"\nmax_payload = "y"')
    ran = cli("list")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert "scheduld.toml:5: scheduld.lease" in ran.err
    assert "scheduld.toml:6: scheduld.max_payload" in ran.err


def test_redis_away_is_exit_3_after_the_wait(cli: Cli, tmp_path: Path) -> None:
    """--wait is how long a command waits, then exit 3 in one line; nothing was sent."""
    url = f"unix://{tmp_path}/nobody.sock"
    started = time.monotonic()
    for command in ((*ADD, "n=1"), ("list",), ("show", "a"), ("cancel", "hello/a"), ("stats",)):
        ran = cli(*command, "--redis-url", url, "--wait", "0.2s")
        assert (ran.code, ran.out) == (3, "")
        assert len(ran.err.splitlines()) == 1
        assert ran.err.startswith("scheduld: Redis cannot be reached")
    assert time.monotonic() - started < 10
    assert cli("list", "--redis-url", url, "--wait", "0s", "--json").error["kind"] == "unreachable"


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:S3cr%40t@127.0.0.1:1/0",
        "redis://:S3cr%40t@127.0.0.1:1",
        "redis://u:S3cr@t#@127.0.0.1:1",
        "redis://u:S3cr@t/x@127.0.0.1:1",
        "rediss://u:S3cr%40t@127.0.0.1:1/0",
        "redis://127.0.0.1:1/0?password=S3cr%40t",
        "http://u:S3cr%40t@host",
        "S3cr@t",
    ],
)
def test_a_password_in_the_url_is_never_printed(
    cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the secret nor its encoded form is in any output, wherever the URL came from."""
    words = (*ADD, "--wait", "0.1s")
    runs = [cli(*words, "--redis-url", url), cli(*words, "--redis-url", url, "--json")]
    runs += [cli("check", "--redis-url", url), cli("check", "--json", "--redis-url", url)]
    monkeypatch.setenv("SCHEDULD_REDIS_URL", url)
    runs.append(cli(*words))
    monkeypatch.delenv("SCHEDULD_REDIS_URL")
    cli.configure(url)
    runs += [cli(*words), cli("check"), cli("check", "--json")]
    for ran in runs:
        assert "S3cr" not in ran.out + ran.err
        assert "Traceback" not in ran.err
    assert runs[0].code in (2, 3)
