"""What client commands read of the config."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scheduld.config import source
from scheduld.config.light import client_settings
from scheduld.config.load import load
from scheduld.config.settings import DEFAULTS, Settings
from scheduld.errors import ConfigError

ENV = {"HOME": "/home/ana"}
TEXT = """
[scheduld]
redis_url = "redis://:geheim@file/1"
namespace = "shop"
timezone = "Europe/Madrid"
state_dir = "/srv/state"
lease = "6s"
max_payload = "1KB"
[embedded]
appendfsync = "always"
[types.email]
handler = "no.such:module"
[types.email.options]
password = "${NOT_SET}"
[types.sms]
unknown = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file whose types are not usable here."""
    file = tmp_path / "scheduld.toml"
    file.write_text(TEXT)
    return file


def test_reads_the_connection_only(file: Path) -> None:
    """The settings of clients are read; types are named, not checked or filled in."""
    settings = client_settings(file, env=ENV)
    assert settings.redis_url == "redis://:geheim@file/1"
    assert (settings.namespace, settings.timezone) == ("shop", "Europe/Madrid")
    assert (settings.lease_ms, settings.redis_timeout_ms) == (6000, 1000)
    assert (settings.max_payload, settings.appendfsync) == (1024, "always")
    assert settings.state_dir == Path("/srv/state")
    assert settings.type_names == frozenset({"email", "sms"})
    assert settings.path == str(file)
    assert "geheim" not in repr(settings)


def test_same_as_the_daemon(file: Path) -> None:
    """Client and daemon read the same values from the same file."""
    file.write_text(TEXT.partition("[types.email.options]")[0])
    full, light = load(file, env=ENV), client_settings(file, env=ENV)
    shared = [field.name for field in dataclasses.fields(Settings)]
    assert {name: getattr(light, name) for name in shared} == {
        name: getattr(full, name) for name in shared
    }


def test_only_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file, a URL is enough: the rest are defaults and no type is known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source, "SYSTEM_PLACE", str(tmp_path / "none.toml"))
    env = {**ENV, "SCHEDULD_REDIS_URL": "valkey://env"}
    settings = client_settings(env=env)
    assert (settings.redis_url, settings.path, settings.type_names) == ("redis://env", None, None)
    assert settings.namespace == DEFAULTS.namespace
    assert client_settings(env=env, redis_url="embedded").redis_url == "embedded"
    with pytest.raises(ConfigError, match=r"^\$SCHEDULD_REDIS_URL: is no Redis URL"):
        client_settings(env={**ENV, "SCHEDULD_REDIS_URL": "geheim"})
    with pytest.raises(ConfigError, match=r"^--redis-url: is empty"):
        client_settings(env=env, redis_url="")


def test_types_of_another_kind(file: Path) -> None:
    """A `types` that is no table has no names; whoever runs them will refuse it."""
    file.write_text("types = 5\n")
    assert client_settings(file, env=ENV).type_names == frozenset()


def test_starts_without_the_model() -> None:
    """Importing it loads neither pydantic nor the date libraries, which cost start-up time."""
    code = (
        "import sys, scheduld.config.light\n"
        "print(sorted({'pydantic', 'dateutil', 'zoneinfo', 'difflib', 'redis'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_durability_that_no_embedded_server_has(tmp_path: Path) -> None:
    """It has no replica: daemon and clients say so, unless the URL from outside is another's."""
    file = tmp_path / "scheduld.toml"
    file.write_text('[scheduld]\ndurable = "replica"\n[types.a]\nhandler = "log"\n')
    for read in (load, client_settings):
        with pytest.raises(ConfigError, match="the embedded server has no replica"):
            read(file, env=ENV)
        assert read(file, env=ENV, redis_url="redis://r1").durable == "replica"


def with_types(tmp_path: Path, types: str) -> Path:
    """A file with some types."""
    file = tmp_path / "ladders.toml"
    file.write_text(f'[scheduld]\nredis_url = "redis://x"\n{types}')
    return file


def test_ladders_are_read(tmp_path: Path) -> None:
    """Adds go by them: in canonical form and in the order of time, and nothing else of a type."""
    types = """
    [types]
    a.series = ["0", "-1w"]
    a.anchor = "${KEY}"
    b = { handler = 5 }
    c = 7
    """
    settings = client_settings(with_types(tmp_path, types), env={**ENV, "KEY": "starts at"})
    assert {name: str(series) for name, series in settings.series.items()} == {
        "a": "-7d,0 starts at"
    }


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('series = ["-7d"]', "types.a.series: needs anchor"),
        ('anchor = "x"', "types.a.anchor: needs series"),
        ('series = ["7d"]\nanchor = "x"', "types.a.series: series: '7d' has no sign"),
        ('series = ["-7d"]\nanchor = ["x"]', "types.a.anchor: must be a text, not an array"),
        ('series = "${NO}"\nanchor = "x"', "types.a.series: environment variable NO is not set"),
    ],
)
def test_a_broken_ladder_stops_a_client(tmp_path: Path, table: str, told: str) -> None:
    """Else it would add at once what was to come at several times."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        client_settings(with_types(tmp_path, f"[types.a]\n{table}\n"), env=ENV)
