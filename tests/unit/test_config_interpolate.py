"""`${VAR}` and `${file:/path}` in texts of the config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scheduld.config.load import load
from scheduld.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "geheim-4711"


def options(tmp_path: Path, text: str, **env: str) -> Any:
    """Load a config with these options and return them."""
    file = tmp_path / "scheduld.toml"
    file.write_text(f'[types.a]\nhandler = "log"\n[types.a.options]\n{text}')
    return load(file, env={"HOME": "/home/ana", **env}).types["a"].options


def test_filled_in_everywhere(tmp_path: Path) -> None:
    """Texts are filled in however deep they are; keys and other values are left alone."""
    (tmp_path / "secret").write_text(f"{SECRET}\n\n")
    text = f"""
    plain = "a $VAR $$ {{VAR}}"
    one = "${{VAR}}"
    two = "<${{VAR}}|${{EMPTY}}|${{VAR}}>"
    escaped = "$${{VAR}} $$${{VAR}}"
    file = "${{file:{tmp_path}/secret}}"
    deep = [{{ "${{VAR}}" = ["${{VAR}}", 1, true] }}]
    """
    assert options(tmp_path, text, VAR="x", EMPTY="") == {
        "plain": "a $VAR $$ {VAR}",
        "one": "x",
        "two": "<x||x>",
        "escaped": "${VAR} $${VAR}",
        "file": f"{SECRET}\n",
        "deep": [{"${VAR}": ["x", 1, True]}],
    }


def test_not_filled_in_twice(tmp_path: Path) -> None:
    """What a value brings in is not looked at again."""
    assert options(tmp_path, 'a = "${VAR}"', VAR="${HOME} $${") == {"a": "${HOME} $${"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NOT_SET}", "environment variable NOT_SET is not set"),
        ("${file:/no/such}", 'file "/no/such" cannot be read: No such file or directory'),
        ("${file:/tmp}", 'file "/tmp" cannot be read: Is a directory'),
        ("${file:/dev/zero}", 'file "/dev/zero" cannot be read: it is no regular file'),
        ("${file:/a\\u0000}", "cannot be read"),
        ("${file:relative}", "starts neither"),
        ("${}", "starts neither"),
        ("${geheim-4711}", "starts neither"),
        ("geheim-4711${", "starts neither"),
        ("${ HOME }", "starts neither"),
        ("${BYTES}", "environment variable BYTES is not UTF-8"),
    ],
)
def test_faults(tmp_path: Path, text: str, words: str) -> None:
    """What cannot be filled in is one problem, at its place, quoting no text."""
    with pytest.raises(ConfigError) as caught:
        options(tmp_path, f'key = "{text}"', BYTES="\udcff")
    (problem,) = caught.value.problems
    assert words in problem.message
    assert (problem.line, problem.path) == (4, "types.a.options.key")
    assert SECRET not in str(problem)


def test_file_of_other_bytes(tmp_path: Path) -> None:
    """A file that is not UTF-8 or too large is refused."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        options(tmp_path, f'key = "${{file:{secret}}}"')
    secret.write_bytes(b"x" * 70_000)
    with pytest.raises(ConfigError, match="is larger than 64 KB"):
        options(tmp_path, f'key = "${{file:{secret}}}"')


def test_handler_checks_do_not_leak(tmp_path: Path) -> None:
    """A message of a handler that quotes a filled-in value is replaced."""
    file = tmp_path / "scheduld.toml"
    file.write_text('[types.a]\nhandler = "${H}"\noptions = { a = "${S}", b = "${S}" }\n')
    said = ["no module x", f"options.a: cannot use {SECRET!r}", "options.c: is missing"]
    with pytest.raises(ConfigError) as caught:
        load(file, env={"HOME": "/", "H": "x", "S": SECRET}, check_handlers=lambda _: said)
    assert [problem.message for problem in caught.value.problems] == [
        "cannot be used with the value that was filled in",
        "cannot be used with the value that was filled in",
        "is missing",
    ]


def test_paths_and_names_are_no_secrets(tmp_path: Path) -> None:
    """What the shell sets for everybody may be told; what was filled in beside it may not."""
    file = tmp_path / "scheduld.toml"
    file.write_text(
        '[types.a]\nhandler = "log"\noptions = { a = "${HOME}/a", b = "${HOME}/${S}" }\n'
    )
    filled = load(file, env={"HOME": "/home/ana", "S": SECRET}).filled
    assert [(one.text, one.pieces) for one in filled] == [
        (f"/home/ana/{SECRET}", frozenset({SECRET}))
    ]
