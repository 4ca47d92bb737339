"""Every example, run as its first lines say, with the embedded server."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.client.blocking import Client
from tests.support.kit import run_pytest
from tests.support.servers import READY_S, free_port, redis_program, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RUN_BY_A_TEST = {
    "hello",
    "email",
    "season_reminder",
    "until_season",
    "http",
    "command",
    "python",
    "adding",
    "plugin",
    "schedule",
}


class Example:
    """A copy of one example in a folder of its own, and commands in it."""

    def __init__(self, name: str, home: Path) -> None:
        self.folder = home / name
        self.socket = home / "scheduld" / "server.sock"
        shutil.copytree(EXAMPLES / name, self.folder)
        self._env = {**os.environ, "PYTHONPATH": str(ROOT), "PWD": str(self.folder)}
        self._client = Client(config=str(self.folder / "scheduld.toml"))

    def run(self, *argv: str) -> str:
        """Run a program here; returns what it printed, and fails if it did."""
        ran = subprocess.run(
            argv, cwd=self.folder, env=self._env, capture_output=True, text=True, timeout=READY_S
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def scheduld(self, *argv: str) -> str:
        """Run a command of scheduld."""
        return self.run(sys.executable, "-m", "scheduld", *argv)

    def refused(self, *argv: str) -> str:
        """Run a command of scheduld that must end with 2; returns what it said on stderr."""
        argv = (sys.executable, "-m", "scheduld", *argv)
        ran = subprocess.run(
            argv, cwd=self.folder, env=self._env, capture_output=True, text=True, timeout=READY_S
        )
        assert ran.returncode == 2, ran.stderr
        return ran.stderr + ran.stdout

    def install(self) -> None:
        """Install the example as a package, with nothing from the network."""
        place = self.folder.parent / "site-packages"
        offline = ("--no-index", "--no-build-isolation", "--no-deps", "--quiet")
        pip = (sys.executable, "-m", "pip", "--isolated", "install", *offline)
        self.run(*pip, "--target", str(place), str(self.folder))
        self._env["PYTHONPATH"] = f"{place}:{ROOT}"

    def add(self, *argv: str) -> str:
        """Add a task; returns TYPE/ID."""
        return self.scheduld("add", *argv).splitlines()[0]

    def show(self, ref: str) -> dict[str, Any]:
        """Read a task, as `show --json` does but within this process."""
        return self._client.get(*ref.split("/")).to_dict()

    def close(self) -> None:
        """Leave the embedded server, which ends with its last user."""
        self._client.close()

    def ended(self, ref: str, state: str = "done") -> dict[str, Any]:
        """Wait until a task is in a state; returns it."""
        wait_until(lambda: self.show(ref)["state"] == state, f"{ref} {state}")
        return self.show(ref)

    @contextmanager
    def started(self, *argv: str, sign: str) -> Iterator[Path]:
        """Run a program beside the test, once it has said `sign`; gives the file of its output."""
        said = self.folder / f"{Path(argv[-1]).name}.out"
        with said.open("w") as file:
            process = subprocess.Popen(
                argv, cwd=self.folder, env=self._env, stdout=file, stderr=subprocess.STDOUT
            )
        try:
            wait_until(lambda: sign in said.read_text() or process.poll() is not None, sign)
            assert process.poll() is None, said.read_text()
            yield said
        finally:
            process.terminate()
            process.wait(READY_S)

    @contextmanager
    def daemon(self) -> Iterator[Path]:
        """Run the daemon; it must have ended well by then."""
        with self.started(sys.executable, "-m", "scheduld", "run", sign='"started"') as log:
            yield log
        assert '"stopped"' in log.read_text()


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """The example whose name the test has: test_NAME."""
    for name in ("SCHEDULD_CONFIG", "SCHEDULD_REDIS_URL", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    # pytest's own folders can be too deep for the path of a socket.
    with tempfile.TemporaryDirectory(prefix="scheduld-") as home:
        monkeypatch.setenv("XDG_STATE_HOME", home)
        example = Example(request.node.name.removeprefix("test_"), Path(home))
        yield example
        example.close()


def test_all_examples_are_run_and_listed() -> None:
    """Each folder of examples/ has tests here, and a line in its README."""
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    listed = set(re.findall(r"^\| \[(\w+)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    assert folders == listed == RUN_BY_A_TEST


def test_each_has_tests_of_its_own(tmp_path: Path) -> None:
    """The tests beside the examples, which use the test kit, are right."""
    folder = shutil.copytree(EXAMPLES, tmp_path / "examples")
    assert {path.parent.name for path in folder.glob("*/test_*.py")} == RUN_BY_A_TEST
    count = sum(
        len(re.findall(r"^(?:async )?def test_", path.read_text(), re.MULTILINE))
        for path in folder.glob("*/test_*.py")
    )
    assert f"{count} passed" in run_pytest(folder)


def test_hello(example: Example) -> None:
    """A task of the type `log` writes its message, on time."""
    with example.daemon() as log:
        ref = example.add("--type", "hello", "--in", "300ms", "message=A little later")
        told = example.ended(ref)
        assert told["started_ms"] >= told["due_ms"]
        assert "A little later" in log.read_text()


def test_email(example: Example) -> None:
    """A mail reaches the mail server, once, and its Message-ID is the result."""
    port = str(free_port())
    config = example.folder / "scheduld.toml"
    config.write_text(config.read_text().replace(":1025", f":{port}"))
    printer = (sys.executable, "smtp_printer.py", port)
    with example.started(*printer, sign="listening") as printed, example.daemon():
        words = ("to=ana@example.com", "subject=Hello", "text=See you tomorrow")
        ref = example.add("--type", "email", "--now", *words)
        result = example.ended(ref)["result"]
        mail = printed.read_text()
        assert 'From: "Reminders" <noreply@example.com>\nTo: ana@example.com\n' in mail
        assert "\nSubject: Hello\n" in mail
        assert "\n\nSee you tomorrow\n" in mail
        assert mail.count(result["message_id"]) == 1


def test_season_reminder(example: Example) -> None:
    """What is left of a series arrives as a mail on the day; what has passed is missed."""
    port = str(free_port())
    config = example.folder / "scheduld.toml"
    config.write_text(config.read_text().replace(":1025", f":{port}"))
    printer = (sys.executable, "smtp_printer.py", port)
    far = "season_start=2100-03-29T09:00"
    planned = example.scheduld("add", "--type", "season", "--dry-run", far, "to=ana@example.com")
    assert re.findall(r"^due (\S+)", planned, re.MULTILINE) == [
        "2100-03-22T09:00:00+01:00",
        "2100-03-28T09:00:00+02:00",
        "2100-03-29T09:00:00+02:00",
    ]
    with example.started(*printer, sign="listening") as printed, example.daemon():
        starts = datetime.now(UTC) + timedelta(seconds=2)
        words = (f"season_start={starts.isoformat()}", "to=ana@example.com", "subject=It starts")
        ref = example.add("--type", "season", *words)
        told = example.ended(ref)
        assert (told["runs"], told["missed"]) == (1, 2)
        assert told["started_ms"] >= starts.timestamp() * 1000 - 1
        wait_until(lambda: "\nSubject: It starts\n" in printed.read_text(), "the mail")
        assert printed.read_text().count("Message-ID") == 1


def test_until_season(example: Example) -> None:
    """Reminders come until the season starts, and the payload counts them."""
    with example.daemon():
        starts = datetime.now(UTC) + timedelta(seconds=5)
        words = (f"season_start={starts.isoformat()}", "to=ana@example.com")
        ref = example.add("--type", "news", "--every", "400ms", *words)
        told = example.ended(ref)
        assert told["runs"] >= 2
        assert told["payload"]["sent"] == told["runs"] - 1
        assert told["result"] == f"reminder {told['runs']}"
        assert [line["text"].split()[1] for line in told["log"]] == [
            str(number + 1) for number in range(told["runs"])
        ]


def test_http(example: Example) -> None:
    """A signed request arrives once; a payload's URL may not lead into the own network."""
    port = str(free_port())
    config = example.folder / "scheduld.toml"
    config.write_text(config.read_text().replace(":8000", f":{port}"))
    receiver = (sys.executable, "receiver.py", port)
    with example.started(*receiver, sign="listening") as printed, example.daemon():
        ref = example.add("--type", "paid", "--now", "order:=42")
        assert example.ended(ref)["result"] == {"status": 200, "body": "thanks"}
        (line,) = printed.read_text().splitlines()[1:]
        assert line.startswith(f"{ref}@")
        assert line.endswith(' {"order":42}')
        ref = example.add("--type", "hook", "--now", f"url=http://127.0.0.1:{port}/customers/7")
        assert "private address" in example.ended(ref, "dead")["error"]["message"]
        assert len(printed.read_text().splitlines()) == 2


def test_plugin(example: Example) -> None:
    """Without the package its handler is unknown; installed, it checks its options and runs."""
    assert "there is no handler 'jot'" in example.refused("check")
    example.install()
    example.scheduld("check")
    with example.daemon():
        ref = example.add("--type", "note", "--now", "text=Water the plants")
        assert example.ended(ref)["result"] == "written"
        dead = example.add("--type", "note", "--now")
        assert example.ended(dead, "dead")["error"]["message"] == "the payload has no text"
    (line,) = (example.folder / "notes.jsonl").read_text().splitlines()
    assert json.loads(line)["text"] == "Water the plants"
    config = example.folder / "scheduld.toml"
    config.write_text(config.read_text().replace("file =", "fiel = 1\nfile = 5 #"))
    said = example.refused("check")
    assert said.count("plug-in 'jot' of scheduld-jot 1.0: ") == 2
    assert "scheduld.toml:" in said
    assert "Traceback" not in said


def test_command(example: Example) -> None:
    """The script packs the folder of the payload; one that is missing is a failed attempt."""
    with example.daemon():
        ref = example.add("--type", "backup", "--now", "--id", "b1", f"folder={example.folder}")
        told = example.ended(ref)
        file = example.folder / "backups" / "command-b1.tar"
        assert str(file) in told["result"]["output"]
        with tarfile.open(file) as tar:
            assert "./backup.sh" in tar.getnames()
        ref = example.add("--type", "backup", "--now", "folder=/nonexistent")
        wait_until(lambda: example.show(ref)["failed"] == 2, "two attempts failed")
        assert "exit code 2" in example.show(ref)["error"]["message"]


def test_python(example: Example) -> None:
    """Retry counts attempts, Snooze does not, Dead ends at once; the exact handler stores once."""
    with example.daemon():
        fetched = example.add("--type", "fetch", "--now", "url=https://example.com")
        opens_at = datetime.now(UTC) + timedelta(seconds=1)
        opened = example.add("--type", "open", "--now", f"opens_at={opens_at.isoformat()}")
        dead = example.add("--type", "fetch", "--now")
        priced = example.add("--type", "price", "--now", "name=bread", "cents:=250")
        assert example.ended(fetched)["result"] == {"url": "https://example.com", "attempts": 3}
        told = example.ended(opened)
        assert (told["failed"], told["result"]) == (0, "open")
        assert told["finished_ms"] >= opens_at.timestamp() * 1000
        told = example.ended(dead, "dead")
        assert (told["failed"], told["error"]["message"]) == (1, "the payload has no url")
        assert example.ended(priced)["result"] == "stored"
    with closing(sqlite3.connect(example.folder / "prices.db")) as db:
        assert db.execute("SELECT name, cents FROM prices").fetchall() == [("bread", 250)]


def test_adding(example: Example) -> None:
    """Tasks from Python and from redis-cli run alike."""
    redis_cli = Path(redis_program()).with_name("redis-cli")
    with example.daemon() as log:
        printed = example.run(sys.executable, "add.py").splitlines()
        assert printed[0].startswith("hello/")
        assert printed[1].startswith("refused: hello/welcome-42 exists in state ")
        assert printed[2].startswith("100 added, ")
        ref = example.run("./add.sh", str(redis_cli), "-s", str(example.socket)).split()[-1]
        assert example.ended(ref)["payload"] == {"message": "added with redis-cli"}
        wait_until(lambda: log.read_text().count('"number ') == 100, "all ran")
        wait_until(lambda: '"event": "soon"' in log.read_text(), "the later one ran")
        for message in ("now", "soon", "once", "added with redis-cli"):
            assert log.read_text().count(f'"event": "{message}"') == 1
        assert log.read_text().count('"event": "twice"') == 0
    left = [json.loads(line) for line in example.scheduld("list", "--json").splitlines()]
    waiting = [task["payload"]["message"] for task in left if task["state"] == "scheduled"]
    assert waiting == ["in a while", "merry"]


def test_schedule(example: Example) -> None:
    """Ticks become tasks; the commands of its first lines work."""
    assert "3 schedules" in example.scheduld("check")
    with example.daemon() as log:
        wait_until(lambda: log.read_text().count('"event": "pulse"') >= 2, "it fires")
        assert "0 7 * * mon-fri" in example.scheduld("cron", "list")
        told = example.scheduld("cron", "history", "pulse", "--json").splitlines()
        ticks = [json.loads(line) for line in told]
        assert {tick["outcome"] for tick in ticks} == {"fired"}
        assert len({tick["tick"] for tick in ticks}) == len(ticks)
        skipped = example.scheduld("cron", "skip", "weekday-report", "--on", "2100-12-24")
        assert skipped.startswith("skips what is on 2100-12-24")
        ref = example.scheduld("cron", "trigger", "weekday-report", "kind=special").split()[0]
        assert example.ended(ref)["result"] == "special report of today"
