"""Importing by name: each way it can fail has its own message, and none ends the process."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from scheduld.errors import InvalidInput
from scheduld.importer import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_numbers = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module and answers its name; no two tests share one."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> str:
        name = f"imported_by_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def refusal(path: str) -> str:
    """Message with which the path is refused."""
    with pytest.raises(InvalidInput) as caught:
        load(path)
    assert caught.value.message.isprintable()
    return caught.value.message


def test_a_callable_is_loaded() -> None:
    """`module:attribute` and `module:Class.attribute` answer the object itself."""
    assert load("itertools:chain") is itertools.chain
    assert load("itertools:chain.from_iterable")([[1], [2]]) is not None


@pytest.mark.parametrize(
    "path",
    ["", ":", "a", "a:", ":b", "a:b:c", "a b:c", "a/b:c", "a.:c", ".a:b", "a:.b", "1a:b", "a:b\n"],
)
def test_a_bad_form_is_refused(path: str) -> None:
    """What is not `package.module:callable` is told as such, and nothing is imported."""
    assert "is no import path" in refusal(path)


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("no_such_module:f", "no_such_module"),
        ("no_such.sub:f", "no_such"),
        ("os.nope:f", "os.nope"),
    ],
)
def test_a_missing_module_is_named(path: str, missing: str) -> None:
    """A module that does not exist, or its package, is named."""
    assert f"there is no module {missing!r}" in refusal(path)


def test_a_missing_import_of_the_module_is_told_as_its_own(module: Callable[[str], str]) -> None:
    """A module that exists but needs one that does not is not called missing."""
    name = module("import no_such_dependency\n")
    text = refusal(f"{name}:f")
    assert f"importing {name} failed: ModuleNotFoundError" in text
    assert "no_such_dependency" in text


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def f(:\n", "SyntaxError"),
        ("raise ImportError('needs a licence')\n", "ImportError: needs a licence"),
        ("from os import no_such_name\n", "ImportError"),
        ("raise RuntimeError('two\\nlines')\n", r"RuntimeError: two\nlines"),
        ("import sys; sys.exit(0)\n", "SystemExit: 0"),
        ("raise GeneratorExit\n", "GeneratorExit"),
        ("object().f\n", "AttributeError"),
        ("f\n", "NameError"),
    ],
)
def test_whatever_a_module_does_when_imported_is_an_error(
    module: Callable[[str], str], source: str, told: str
) -> None:
    """The original error is named with the module; sys.exit() does not end the process."""
    name = module(source)
    text = refusal(f"{name}:f")
    assert f"importing {name} failed" in text
    assert told in text


def test_an_interrupt_passes(module: Callable[[str], str]) -> None:
    """Ctrl-C during a slow import is the user's, and goes on."""
    name = module("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load(f"{name}:f")


def test_a_missing_attribute_is_named(module: Callable[[str], str]) -> None:
    """A missing attribute names module and attribute, also one of a class."""
    name = module("class Tool: pass\n")
    assert refusal(f"{name}:sned") == f"module {name!r} has no attribute 'sned'"
    assert refusal(f"{name}:Tool.sned") == f"module {name!r} has no attribute 'Tool.sned'"


def test_what_is_not_callable_is_refused(module: Callable[[str], str]) -> None:
    """A value that is no callable tells its kind."""
    name = module("f = 5\n")
    assert refusal(f"{name}:f") == f"{name}:f is not callable but int"
