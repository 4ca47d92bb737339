"""The files that describe the settings agree with the model."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli

from scheduld.config.keys import SCHEDULE, TABLES, nearest
from scheduld.config.load import load
from scheduld.config.model import MODELS
from scheduld.config.settings import DEFAULTS
from scheduld.model import TaskType
from scheduld.registry import check
from scheduld.schedule import Schedule

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "config" / "reference.toml"
STARTER = ROOT / "config" / "starter.toml"
ENV = {"HOME": "/home/ana"}


def test_known_keys_are_those_of_the_model() -> None:
    """The list of keys that clients use names the keys of the model, in its order."""
    assert {name: tuple(model.model_fields) for name, model in MODELS.items()} == {
        name: keys for name, keys in TABLES.items() if name
    }


def test_reference_lists_the_defaults() -> None:
    """Each value of the reference is the default."""
    config = load(REFERENCE, env=ENV)
    same = {field.name for field in dataclasses.fields(config)} - {
        "path",
        "state_dir",
        "types",
        "schedules",
    }
    assert {name: getattr(config, name) for name in same} == {
        name: getattr(DEFAULTS, name) for name in same
    }
    assert config.types["example"] == TaskType(name="example", handler="log")
    assert config.schedules["example"] == Schedule(
        name="example", type="example", cron="0 7 * * mon-fri"
    )


def test_reference_lists_every_setting() -> None:
    """Every key is there, commented out only where there is no fixed default."""
    text = REFERENCE.read_text()
    listed = tomli.loads(text)
    commented = set(re.findall(r"^# (\w+) = ", text, re.MULTILINE))
    for name, model in MODELS.items():
        table: dict[str, Any] = listed
        for part in name.replace("NAME", "example").split("."):
            table = table[part]
        fields = model.model_fields
        without = {key for key, field in fields.items() if field.default is None}
        if name == SCHEDULE:
            # One of the two must be there, so it cannot be commented out.
            assert "cron" in table
            assert "or every = " in text
            without -= {"cron", "every"}
            table = {key: value for key, value in table.items() if key != "cron"}
            fields = {key: field for key, field in fields.items() if key not in {"cron", "every"}}
        assert set(table) == set(fields) - without
        assert without <= commented


@pytest.mark.parametrize("file", [REFERENCE, STARTER])
def test_switched_on_examples_load(file: Path, tmp_path: Path) -> None:
    """A file with all its examples switched on is a valid config."""
    text = re.sub(r"^# (?=\w+ = |\[types|\[schedules)", "", file.read_text(), flags=re.MULTILINE)
    text = text.replace("myapp.tasks:goes_on", "tests.support.predicates:count")
    copy = tmp_path / "scheduld.toml"
    copy.write_text(text)
    config = load(copy, env=ENV, check_handlers=check)
    assert config.timezone == "Europe/Madrid"
    if file == REFERENCE:
        assert config.types["example"].concurrency == 10
    else:
        assert config.types["email"].options["smtp_url"] == "smtp://localhost:1025"
        assert config.schedules["good-morning"].cron == "0 7 * * mon-fri"


def test_starter_runs_as_it_is() -> None:
    """The starter needs nothing from outside: embedded server, built-in handler."""
    config = load(STARTER, env=ENV, check_handlers=check)
    assert config.redis_url == "embedded"
    assert {name: found.handler for name, found in config.types.items()} == {"hello": "log"}
    assert config.schedules == {}


def test_settings_table_is_up_to_date() -> None:
    """The table of the docs is what the generator makes of the model."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "config_table.py"), "--check"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = (ROOT / "docs" / "configuration.md").read_text()
    for name, model in MODELS.items():
        assert f"### `[{name}]`" in page
        assert all(f"| `{key}` |" in page for key in model.model_fields)


def test_every_setting_is_described() -> None:
    """No setting comes without words in the table."""
    for model in MODELS.values():
        assert all(field.description for field in model.model_fields.values())


@pytest.mark.parametrize(
    ("word", "wanted"), [("tiemout", "timeout"), ("TIMEOUT", "timeout"), ("zzz", None)]
)
def test_nearest_word(word: str, wanted: str | None) -> None:
    """The most similar word is found whatever its case, and none if none is similar."""
    assert nearest(word, ["lease", "timeout"]) == wanted
