"""A good config file becomes a `Config`; handlers are checked by the caller's hook."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduld.config.load import load
from scheduld.config.settings import DEFAULTS
from scheduld.errors import ConfigError
from scheduld.model import Keep, RetryPolicy, TaskType

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.config.settings import Config

HOME = {"HOME": "/home/ana"}
SMALL = '[types.hello]\nhandler = "log"\n'


@pytest.fixture
def loads(tmp_path: Path) -> Callable[..., Config]:
    """Load a config from a text."""

    def load_text(text: str, **more: object) -> Config:
        file = tmp_path / "scheduld.toml"
        file.write_text(text)
        env = more.pop("env", HOME)
        return load(file, env=env, **more)  # type: ignore[arg-type]

    return load_text


def test_defaults(loads: Callable[..., Config], tmp_path: Path) -> None:
    """A file with one type and its handler is a whole config."""
    config = loads(SMALL)
    assert config.types["hello"] == TaskType(name="hello", handler="log")
    assert config.path == str(tmp_path / "scheduld.toml")
    assert config.redis_url == "embedded"
    assert config.state_dir == Path("/home/ana/.local/state/scheduld")
    for name in ("redis_timeout_ms", "lease_ms", "concurrency", "max_payload", "appendfsync"):
        assert getattr(config, name) == getattr(DEFAULTS, name)


def test_every_setting_arrives(loads: Callable[..., Config]) -> None:
    """Each key of the file ends in its field, in ms and bytes."""
    config = loads(
        """
        [scheduld]
        redis_url = "valkey://cache:6380/2"
        redis_timeout = 0.25
        namespace = "shop"
        timezone = "Europe/Madrid"
        state_dir = "/srv/state"
        concurrency = 7
        lease = "2s"
        shutdown_grace = "0s"
        max_payload = 1000
        [embedded]
        appendfsync = "always"
        [types.email]
        handler = "myapp.tasks:send"
        poll_timeout = "100ms"
        poll_batch = 20
        empty_poll_timeout = "500ms"
        run_timeout = 5
        concurrency = 3
        isolation = "thread"
        retry = { attempts = 2, backoff = "list", delay = ["1s", 2], max_delay = "2s", jitter = 0 }
        max_interruptions = 9
        keep_done = { count = 5 }
        keep_dead = { age = "1h30m" }
        options = { deep = { numbers = [1, 2.5] } }
        """
    )
    assert config.redis_url == "redis://cache:6380/2"
    assert (config.redis_timeout_ms, config.lease_ms, config.shutdown_grace_ms) == (250, 2000, 0)
    assert (config.namespace, config.timezone) == ("shop", "Europe/Madrid")
    assert (config.state_dir, config.concurrency) == (Path("/srv/state"), 7)
    assert (config.max_payload, config.appendfsync) == (1000, "always")
    assert config.types["email"] == TaskType(
        name="email",
        handler="myapp.tasks:send",
        poll_timeout_ms=100,
        poll_batch=20,
        empty_poll_timeout_ms=500,
        run_timeout_ms=5000,
        concurrency=3,
        isolation="thread",
        retry=RetryPolicy(2, "list", (1000, 2000), 2000, 0.0),
        max_interruptions=9,
        keep_done=Keep(5, 86_400_000),
        keep_dead=Keep(100_000, 5_400_000),
        options={"deep": {"numbers": [1, 2.5]}},
    )


@pytest.mark.parametrize(("lease", "timeout_ms"), [("6s", 1000), ("12s", 2000), ("1h", 2000)])
def test_default_timeout_follows_the_lease(
    loads: Callable[..., Config], lease: str, timeout_ms: int
) -> None:
    """The default of `redis_timeout` is two seconds, but no more than a sixth of the lease."""
    assert loads(f'[scheduld]\nlease = "{lease}"\n{SMALL}').redis_timeout_ms == timeout_ms


def test_url_of_the_command_line_goes_first(loads: Callable[..., Config]) -> None:
    """`--redis-url` goes before the environment, which goes before the file."""
    text = f'[scheduld]\nredis_url = "redis://file"\n{SMALL}'
    env = {**HOME, "SCHEDULD_REDIS_URL": "redis://env"}
    assert loads(text).redis_url == "redis://file"
    assert loads(text, env=env).redis_url == "redis://env"
    assert loads(text, env=env, redis_url="redis://argument").redis_url == "redis://argument"


def test_overridden_url_need_not_be_filled_in(loads: Callable[..., Config]) -> None:
    """A URL of the file that nobody uses may name a variable that nobody set."""
    text = f'[scheduld]\nredis_url = "${{NOT_SET}}"\n{SMALL}'
    assert loads(text, redis_url="redis://argument").redis_url == "redis://argument"


@pytest.mark.parametrize("text", ["", "http://:geheim@h", "redis+sentinel://:geheim@h"])
def test_bad_url_from_outside(loads: Callable[..., Config], text: str) -> None:
    """A bad URL of the environment is a problem that names the variable, not the URL."""
    with pytest.raises(ConfigError) as caught:
        loads(SMALL, env={**HOME, "SCHEDULD_REDIS_URL": text})
    (problem,) = caught.value.problems
    assert (problem.path, problem.file, problem.line) == ("$SCHEDULD_REDIS_URL", None, None)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("env", "state_dir"),
    [
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", **HOME}, "/var/lib/a"),
        ({"XDG_STATE_HOME": "/x", **HOME}, "/x/scheduld"),
        ({"XDG_STATE_HOME": "relative", **HOME}, "/home/ana/.local/state/scheduld"),
    ],
)
def test_default_state_dir(
    loads: Callable[..., Config], env: dict[str, str], state_dir: str
) -> None:
    """State goes where systemd says, else where the user keeps state."""
    assert loads(SMALL, env=env).state_dir == Path(state_dir)


def test_state_dir_without_a_home(loads: Callable[..., Config]) -> None:
    """Where the environment names no home, the one of the account counts."""
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert loads(SMALL, env={"LANG": "C"}).state_dir == Path(home, ".local/state/scheduld")


def test_repr_shows_no_secret(loads: Callable[..., Config]) -> None:
    """Neither the password of the URL nor the options of a type are in the repr."""
    config = loads(
        f'[scheduld]\nredis_url = "redis://ana:geheim@h/1"\n{SMALL}options = {{ key = "geheim" }}'
    )
    assert "geheim" in config.redis_url
    assert "geheim" not in repr(config)
    assert "redis://h/1" in repr(config)
    assert "hello" in repr(config)


def test_handlers_are_checked_in_place(loads: Callable[..., Config]) -> None:
    """What the hook says stands at the handler, or at the option it names."""
    text = '[types.a]\nhandler = "x"\n[types.a.options]\nport = 1\n'
    said = ["there is no handler x", "options.port must be a text", "options: no host"]
    with pytest.raises(ConfigError) as caught:
        loads(text, check_handlers=lambda _: said)
    found = [(problem.line, problem.path, problem.message) for problem in caught.value.problems]
    assert found == [
        (2, "types.a.handler", "there is no handler x"),
        (3, "types.a.options", "no host"),
        (4, "types.a.options.port", "must be a text"),
    ]


def test_handler_is_checked_beside_other_faults(loads: Callable[..., Config]) -> None:
    """A type with a bad setting still gets its handler checked: all problems at once."""
    seen: list[TaskType] = []

    def check(found: TaskType) -> list[str]:
        seen.append(found)
        return ["wrong arity"]

    with pytest.raises(ConfigError) as caught:
        loads('[types.a]\nhandler = "x"\nrun_timeout = 0\npoll_batch = 2', check_handlers=check)
    assert [problem.line for problem in caught.value.problems] == [2, 3]
    assert (seen[0].run_timeout_ms, seen[0].poll_batch) == (60_000, 2)


def test_problems_come_in_the_order_of_the_file(loads: Callable[..., Config]) -> None:
    """All problems of all tables are told at once, sorted by line, each with its file."""
    text = '[types.a]\n\n[embedded]\nappendfsync = "no"\n[scheduld]\nlease = -1\n[typs]\n'
    with pytest.raises(ConfigError) as caught:
        loads(text)
    problems = caught.value.problems
    assert [problem.line for problem in problems] == [1, 4, 6, 7]
    assert {Path(problem.file or "").name for problem in problems} == {"scheduld.toml"}
    assert caught.value.exit_code == 2
