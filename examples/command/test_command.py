"""A test of a script: it is really run, in a folder of the test's own."""

import shutil
import tarfile
from pathlib import Path

from scheduld import schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
HERE = Path(__file__).parent


def test_backup(scheduld: Scheduler, tmp_path: Path) -> None:
    shutil.copy(HERE / "backup.sh", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("text")
    scheduld.load(HERE / "scheduld.toml", env={"PWD": str(tmp_path)})

    schedule_task("backup", {"folder": str(tmp_path / "data")}, id="nightly")
    schedule_task("backup", {"folder": "/nonexistent"}, id="wrong")
    scheduld.run_all()

    run = scheduld.assert_ran("backup", id="nightly", outcome="done", times=1)
    file = tmp_path / "backups" / "data-nightly.tar"
    assert str(file) in run.result["output"]
    with tarfile.open(file) as tar:
        assert "./file" in tar.getnames()
    scheduld.assert_ran("backup", id="wrong", times=3)
    scheduld.assert_dead("backup", id="wrong", reason="exit code 2")
