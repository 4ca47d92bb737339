"""Tests of a plug-in: its options, and what it does, without installing it."""

from pathlib import Path

import pytest
from scheduld_jot import make

from scheduld import schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")


def test_a_line_is_written_once(scheduld: Scheduler, tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    scheduld.load(CONFIG, handlers={"note": make({"file": str(file)})})
    schedule_task("note", {"text": "Water the plants"}, id="n1")
    (run,) = scheduld.run_all()
    assert run.result == "written"
    assert file.read_text().count("Water the plants") == 1


def test_faulty_options_are_all_told() -> None:
    with pytest.raises(ValueError, match="fiel is unknown") as caught:
        make({"fiel": "notes.jsonl"})
    assert len(caught.value.args) == 2
