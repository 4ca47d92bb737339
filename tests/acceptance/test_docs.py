"""The pages of docs/ do what they say: their code blocks are run, in order, in a fresh folder.

The words after the language say how:

    toml FILE, python FILE   written to that file
    sh                       run; it must end with 0, or with N if it is `sh exit N`
    sh daemon                started beside the rest, until the end of the page
    sh until                 repeated until it prints what the next `output` says
    python                   run
    output                   what the block before has printed; `...` stands for anything
    text                     not run, like every other language
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduld import registry
from scheduld.handlers import command, message
from scheduld.model import TaskType
from tests.support.servers import READY_S, redis_program, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
RUN = (
    "quickstart.md",
    "cli.md",
    "handlers.md",
    "built-in-handlers.md",
    "python-api.md",
    "python-operating.md",
    "wire-format.md",
    "operations.md",
    "observability.md",
    "processes.md",
    "testing.md",
    "load.md",
    "cron.md",
    "schedules.md",
    "moving.md",
    "periodic.md",
)
_BLOCK = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")


@dataclass
class Reader:
    """Somebody who does what a page says, in a folder of their own."""

    home: Path
    printed: str = ""
    pending: str | None = None
    background: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.folder = self.home / "work"
        self.folder.mkdir()
        programs = self.home / "bin"
        programs.mkdir()
        self._program("scheduld", f'exec "{sys.executable}" -m scheduld "$@"')
        self._program("python", f'exec "{sys.executable}" "$@"')
        # Where the page means a Redis on this host, it is the embedded server.
        redis_cli = Path(redis_program()).with_name("redis-cli")
        socket = self.home / "scheduld" / "server.sock"
        self._program("redis-cli", f'exec "{redis_cli}" -s "{socket}" "$@"')
        kept = {name: text for name, text in os.environ.items() if not name.startswith("SCHEDULD")}
        self.env = {
            **kept,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(self.home),
            "SCHEDULD_REDIS_URL": "embedded",
        }

    def _program(self, name: str, body: str) -> None:
        path = self.home / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def do(self, language: str, words: str, code: str) -> None:
        """Do what one block says."""
        if self.pending is not None:
            assert language == "output", f"`sh until` needs an output: {self.pending}"
            self._until(self.pending, code)
        elif language == "output":
            assert matches(code, self.printed), f"expected:\n{code}\nprinted:\n{self.printed}"
        elif language in ("toml", "python") and words:
            (self.folder / words).write_text(code)
        elif language == "python":
            self._run([sys.executable, "-W", "error", "-c", code])
        elif (language, words) == ("sh", "daemon"):
            self._start(code)
        elif (language, words) == ("sh", "until"):
            self.pending = code
        elif language == "sh":
            self._run(["sh", "-euc", code], int(words.removeprefix("exit ") or 0))

    def _run(self, argv: list[str], expected: int | None = 0) -> None:
        ran = subprocess.run(
            argv,
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=READY_S,
        )
        self.printed = ran.stdout
        assert expected in (None, ran.returncode), f"{argv[-1]}\n{ran.stdout}"

    def _until(self, code: str, expected: str) -> None:
        self.pending = None
        deadline = time.monotonic() + READY_S
        while True:
            self._run(["sh", "-euc", code], expected=None)
            if matches(expected, self.printed):
                return
            if time.monotonic() > deadline:
                pytest.fail(f"expected:\n{expected}\nprinted:\n{self.printed}")

    def _start(self, code: str) -> None:
        log = self.home / "daemon.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                ["sh", "-euc", f"exec {code}"],
                cwd=self.folder,
                env=self.env,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.background.callback(_end, process, log)
        wait_until(lambda: '"started"' in log.read_text(), f"{code}: {log.read_text()}")


def _end(process: subprocess.Popen[bytes], log: Path) -> None:
    process.terminate()
    assert process.wait(READY_S) == 0, log.read_text()


def matches(expected: str, printed: str) -> bool:
    """Whether a text is what a page shows; runs of spaces count as one."""
    wanted = ".*?".join(re.escape(part) for part in _squeezed(expected).split("..."))
    return re.fullmatch(wanted, _squeezed(printed), re.DOTALL) is not None


def _squeezed(text: str) -> str:
    return re.sub(r" +", " ", text).strip()


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Language, words after it, and code of each block of a page."""
    return _BLOCK.findall((DOCS / page).read_text())


@pytest.fixture
def reader() -> Iterator[Reader]:
    """A reader with an empty folder."""
    # pytest's own folders can be too deep for the path of a socket.
    with tempfile.TemporaryDirectory(prefix="scheduld-") as home:
        reader = Reader(Path(home))
        with reader.background:
            yield reader


@pytest.mark.parametrize("page", RUN)
def test_a_page_does_what_it_says(page: str, reader: Reader) -> None:
    """Every block of the page ends as it says, and prints what it shows."""
    for language, words, code in blocks(page):
        reader.do(language, words, code)
    assert reader.pending is None


def test_what_is_not_run_says_so() -> None:
    """Pages beyond those that are run have no blocks that look as if they were."""
    for page in set(PAGES) - set(RUN):
        languages = {language for language, _, _ in blocks(page)}
        assert languages <= {"text", "toml", "mermaid"}, page
    assert sum(len(blocks(page)) for page in RUN) > 30


def test_output_is_really_compared() -> None:
    """A text that differs does not match; `...` stands for anything, spaces for one."""
    assert matches("a ... d\n", "a  b\nc d")
    assert not matches("a ... d", "a b c")
    assert not matches("a", "a b")


def test_links_lead_somewhere() -> None:
    """Every link of the pages and of the README to a file or heading of the repository is right."""
    pages = [DOCS / name for name in PAGES]
    for page in (*pages, ROOT / "README.md", ROOT / "examples" / "README.md"):
        for target, heading in _LINK.findall(_BLOCK.sub("", page.read_text())):
            if "://" in target:
                continue
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{page.name}: {target}"
            if heading:
                assert heading in _anchors(path), f"{page.name}: {target}#{heading}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_option_of_a_built_in_is_told(name: str) -> None:
    """The table of a built-in handler in its page has its options, and no others."""
    _, _, section = (DOCS / "built-in-handlers.md").read_text().partition(f"## Built-in: `{name}`")
    told = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    # What a handler says of an option that no name is near to: those that it knows.
    kind = TaskType(name="a", handler=name, options={"zzzzzz": 1})
    known = re.search(r"known: ([^)]+)\)", "; ".join(registry.check(kind)))
    assert known is not None
    assert told == known[1].split(", ")


def test_the_payload_of_a_mail_is_told() -> None:
    """The page names each payload key of `email`, and the variables of `command`."""
    page = (DOCS / "built-in-handlers.md").read_text()
    assert all(f"`{key}`" in page for key in message.KEYS)
    assert f"only `{' '.join(command.INHERITED)}`" in page


def test_the_index_names_every_page() -> None:
    """docs/index.md links to each of the other pages."""
    linked = {target for target, _ in _LINK.findall((DOCS / "index.md").read_text())}
    assert set(PAGES) - {"index.md"} <= linked


def test_pages_are_short() -> None:
    """No page that people read from top to bottom is longer than 250 lines."""
    for name in PAGES:
        if name not in ("configuration.md", "decisions.md"):
            assert (DOCS / name).read_text().count("\n") <= 250, name


def test_a_missing_program_is_not_passed_over(reader: Reader) -> None:
    """A block that fails, fails the page."""
    with pytest.raises(AssertionError):
        reader.do("sh", "", "scheduld no-such-command\n")
    reader.do("sh", "exit 2", "scheduld no-such-command\n")
    assert shutil.which("scheduld", path=reader.env["PATH"]) is not None
