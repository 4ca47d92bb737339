"""Finding, reading and parsing the file: whatever is wrong there, it is told in words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduld.config import source
from scheduld.config.light import client_settings
from scheduld.config.load import load
from scheduld.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENV = {"HOME": "/home/ana"}
SMALL = '[types.hello]\nhandler = "log"\n'
NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without a config, on a machine without one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source, "SYSTEM_PLACE", str(tmp_path / "etc" / "scheduld.toml"))
    return tmp_path


def refused(read: Callable[[], object]) -> ConfigError:
    """Return the error that reading ends with."""
    with pytest.raises(ConfigError) as caught:
        read()
    return caught.value


def test_search_order(place: Path) -> None:
    """Argument, environment, working folder, its config folder, the system: the first is used."""
    files = [place / name for name in ("a.toml", "b.toml", *source.LOCAL_PLACES)]
    files.append(Path(source.SYSTEM_PLACE))
    for number, file in enumerate(files):
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'[types.from-{number}]\nhandler = "log"\n')
    named = {**ENV, "SCHEDULD_CONFIG": str(files[1])}
    assert list(load(files[0], env=named).types) == ["from-0"]
    assert list(load(env=named).types) == ["from-1"]
    for number, file in list(enumerate(files))[2:]:
        assert list(load(env=ENV).types) == [f"from-{number}"]
        file.unlink()
    assert "no config file found" in str(refused(lambda: load(env=ENV)))


def test_nowhere_a_file(place: Path) -> None:
    """Without a file the places that were searched are told, and how to name one."""
    for read in (load, client_settings):
        error = refused(lambda read=read: read(env=ENV))  # type: ignore[misc]
        assert f"./scheduld.toml, ./config/scheduld.toml, {source.SYSTEM_PLACE}" in str(error)
        assert "--config" in (error.hint or "")


@pytest.mark.parametrize("env", [{"SCHEDULD_CONFIG": ""}, {"SCHEDULD_CONFIG": "missing.toml"}])
def test_named_file_must_be_there(place: Path, env: dict[str, str]) -> None:
    """A file that is named is used or refused, never replaced by one that lies about."""
    (place / "scheduld.toml").write_text(SMALL)
    assert "is empty" in str(error := refused(lambda: load(env=env))) or "No such" in str(error)


def test_file_of_everybody_is_skipped(place: Path) -> None:
    """A file of the working folder that anybody can write to is skipped, and that is told."""
    file = place / "scheduld.toml"
    file.write_text(SMALL)
    file.chmod(0o666)
    assert "./scheduld.toml was skipped: everybody can write" in str(refused(lambda: load(env=ENV)))
    (place / "config").mkdir()
    (place / "config" / "scheduld.toml").write_text(SMALL)
    config = load(env=ENV)
    assert config.path == str(place / "config" / "scheduld.toml")
    assert "./scheduld.toml was skipped" in config.notes[0]
    assert load(file, env=ENV).path == str(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("kind", ["file", "link"])
def test_file_of_another_user_is_skipped(place: Path, kind: str) -> None:
    """A file, or a link to a file, that another user put into the working folder is skipped."""
    file = place / "scheduld.toml"
    if kind == "file":
        file.write_text(SMALL)
    else:
        (place / "mine.toml").write_text(SMALL)
        file.symlink_to("mine.toml")
    assert load(env=ENV).types
    os.chown(file, NOBODY, NOBODY, follow_symlinks=False)
    assert "belongs to another user" in str(refused(lambda: load(env=ENV)))
    settings = client_settings(env=ENV, redis_url="redis://h")
    assert (settings.path, settings.type_names) == (None, None)
    assert "skipped" in settings.notes[0]


def test_dangling_link_is_told(place: Path) -> None:
    """A link to nothing in the working folder is named, not passed over."""
    (place / "scheduld.toml").symlink_to("missing.toml")
    assert "cannot be read (No such file" in str(refused(lambda: load(env=ENV)))


@pytest.fixture
def not_root() -> Iterator[None]:
    """Be a user without privileges for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(before)


def test_unreadable_file(tmp_path: Path, not_root: None) -> None:
    """A file without permission is named with the reason."""
    error = refused(lambda: load("/proc/1/environ", env=ENV))
    assert str(error) == "/proc/1/environ: cannot be read: Permission denied"


def nothing(file: Path) -> None:
    """Make no file at all."""


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody can give up what only root has")
def test_system_file_out_of_reach(
    place: Path, monkeypatch: pytest.MonkeyPatch, not_root: None
) -> None:
    """A system file in a folder that may not be entered is named, not taken for missing."""
    monkeypatch.setattr(source, "SYSTEM_PLACE", "/proc/1/cwd/scheduld.toml")
    error = refused(lambda: load(env=ENV))
    assert str(error) == "/proc/1/cwd/scheduld.toml: cannot be read: Permission denied"


def pipe(file: Path) -> None:
    """Make a pipe, which would make a careless reader wait for ever."""
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (nothing, "cannot be read: No such file or directory"),
        (lambda file: file.mkdir(), "cannot be read: Is a directory"),
        (pipe, "cannot be read: it is no regular file"),
        (lambda file: file.write_bytes(b"#" * 5_000_000), "cannot be read: it is larger than"),
        (lambda file: file.write_bytes(b'a = 1\nb = "caf\xe9"\n'), ":2: is not UTF-8"),
        (lambda file: file.write_bytes(SMALL.encode("utf-16")), ":1: is not UTF-8"),
        (lambda file: file.write_text("a = 1\na = 2\n"), ":2: no valid TOML: Cannot overwrite"),
        (lambda file: file.write_text("[a]\n[a]\n"), ":2: no valid TOML: Cannot declare"),
        (lambda file: file.write_text("[a]\nb = \n"), ":2: no valid TOML: Invalid value (column 5"),
        (lambda file: file.write_text("[types.hello]\nhand"), ":2: no valid TOML"),
        (lambda file: file.write_text('a = """\nx'), "no valid TOML"),
        (lambda file: file.write_text("a = " + "[" * 9000), "nested too deeply"),
        (lambda file: file.write_text("a = " + "9" * 9000), "too many digits"),
        (lambda file: file.write_text("a = 1\x00"), ":1: no valid TOML"),
        (lambda file: file.write_text(""), "there is no task type"),
        (lambda file: file.write_text("\n\n# nothing\n"), "there is no task type"),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    """No file at fault ends in a traceback or in defaults: name, line and reason are told."""
    file = tmp_path / "scheduld.toml"
    make(file)
    error = refused(lambda: load(file, env=ENV))
    assert words in str(error)
    assert str(file) in str(error)
    assert error.exit_code == 2
    assert len(error.problems) == 1


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "no\nline"])
def test_names_that_no_file_has(name: str) -> None:
    """An impossible file name is refused in one line."""
    error = refused(lambda: load(name, env=ENV))
    assert "cannot be read" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("mark", ["\ufeff", "\t", "\r\n"])
def test_harmless_oddities(tmp_path: Path, mark: str) -> None:
    """A byte order mark, tabs and Windows line ends are accepted; lines are still right."""
    file = tmp_path / "scheduld.toml"
    file.write_bytes((mark + SMALL.replace("\n", "\r\n")).encode())
    assert list(load(file, env=ENV).types) == ["hello"]
    file.write_bytes((mark + SMALL.replace("\n", "\r\n") + "typo = 1").encode())
    (problem,) = refused(lambda: load(file, env=ENV)).problems
    assert problem.line == 3 + mark.count("\n")
