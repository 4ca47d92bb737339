"""Handlers out of other packages: how they are found, made, and what is wrong with them."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import Handler, registry
from scheduld.errors import InvalidInput
from scheduld.handlers.options import BadOptions
from scheduld.model import TaskType

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_numbers = itertools.count()

MODULE = """
from scheduld import Handler

def echo(options):
    def run(payload, run):
        return [options, run.options, payload]
    return run

def asynchronous(options):
    async def run(payload):
        return payload
    return run

def ready(options):
    return Handler(call=lambda payload: payload, is_async=False, takes_run=False)

def greedy(options):
    options["x"].clear()
    options.clear()
    return lambda payload: payload

def picky(options):
    raise ValueError("room is missing, such as '#ops'", "colour must be a text")

class Refused(ValueError):
    def __str__(self):
        return "2 options are wrong"

def validated(options):
    raise Refused

class Mute(Exception):
    def __str__(self):
        raise RuntimeError

def mute(options):
    raise Mute

def bare(options):
    raise ValueError

def broken(options):
    return options["no such key"]

def leaving(options):
    raise SystemExit(3)

def wordless(options):
    return None

def classy(options):
    return dict

def arity(options):
    return lambda: None

number = 5
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Puts a package with these entry points on the path, as pip would; answers its module."""

    def put(source: str = MODULE, *, package: str = "acme", **entries: str) -> str:
        folder = tmp_path / f"site{next(_numbers)}"
        folder.mkdir()
        module = f"plugin_of_test_{next(_numbers)}"
        (folder / f"{module}.py").write_text(source)
        info = folder / f"{package}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = [f"{name} = {module}:{target}" for name, target in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[scheduld.handlers]", *lines]))
        monkeypatch.syspath_prepend(folder)
        return module

    return put


def a_type(handler: str, **settings: Any) -> TaskType:
    """A task type of this handler."""
    return TaskType(name="job", handler=handler, **settings)


def test_forms_of_plugins(install: Callable[..., str]) -> None:
    """What `make` returns is a function, sync or async, with or without the run, or a Handler."""
    install(a="echo", b="asynchronous", c="ready")
    found = [registry.resolve(a_type(name, options={"x": 1})) for name in "abc"]
    assert [handler.is_async for handler in found] == [False, True, False]
    assert [handler.takes_run for handler in found] == [True, False, False]
    assert found[0].options == {"x": 1}
    assert all(isinstance(handler, Handler) for handler in found)
    assert registry.notes() == []


def test_a_plugin_gets_a_copy_of_its_options(install: Callable[..., str]) -> None:
    """What it does to them is not seen by anybody else."""
    install(greedy="greedy")
    kind = a_type("greedy", options={"x": [1]})
    registry.resolve(kind)
    assert kind.options == {"x": [1]}


def test_faulty_options_are_problems_of_the_config(install: Callable[..., str]) -> None:
    """Each argument of the ValueError is a problem, told with the plug-in and its package."""
    install(picky="picky", bare="bare")
    problems = registry.check(a_type("picky"))
    assert problems == [
        "plug-in 'picky' of acme 1.2: room is missing, such as '#ops'",
        "plug-in 'picky' of acme 1.2: colour must be a text",
    ]
    assert registry.check(a_type("bare")) == ["plug-in 'bare' of acme 1.2: ValueError"]
    with pytest.raises(BadOptions):
        registry.resolve(a_type("picky"))


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("broken", r"failed to make its handler: KeyError: 'no such key'"),
        ("leaving", r"failed to make its handler: SystemExit: 3"),
        ("validated", r": 2 options are wrong$"),
        ("mute", r"failed to make its handler: Mute: \(its text cannot be read\)"),
        ("wordless", r"made no handler but NoneType"),
        ("classy", r"is a class"),
        ("arity", r"cannot be called with a payload"),
        ("number", r"is int \(its entry point must name a function make\(options\)\)"),
        ("absent", r"does not import: AttributeError"),
    ],
)
def test_faulty_plugins_are_named(install: Callable[..., str], target: str, told: str) -> None:
    """Whatever a plug-in does, check tells its name and its package in one line."""
    install(acme=target)
    (problem,) = registry.check(a_type("acme"))
    assert "plug-in 'acme' of acme 1.2" in problem
    assert re.search(told, problem)
    with pytest.raises(InvalidInput):
        registry.resolve(a_type("acme"))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('line\\nline')", "RuntimeError: line\\nline"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_a_plugin_that_does_not_import(install: Callable[..., str], source: str, told: str) -> None:
    """A package that is broken is a problem of the types that use it, not a traceback."""
    install(source, acme="make")
    (problem,) = registry.check(a_type("acme"))
    assert problem.startswith("plug-in 'acme' of acme 1.2 does not import: ")
    assert told in problem
    assert registry.check(a_type("log")) == []


def test_two_packages_with_one_name(install: Callable[..., str]) -> None:
    """Neither is preferred; both packages are named."""
    install(chat="echo", package="acme")
    install(chat="echo", package="zeta")
    (problem,) = registry.check(a_type("chat"))
    assert "acme 1.2 and zeta 1.2" in problem
    assert "uninstall one" in problem


def test_a_built_in_name_cannot_be_taken(install: Callable[..., str]) -> None:
    """The built-in stays what it is, and the package that tries is reported."""
    install(log="echo", chat="echo")
    assert "scheduld.handlers.log" in registry.resolve(a_type("log")).call.__module__
    assert registry.notes() == [
        "plug-in 'log' of acme 1.2 is not used: 'log' is the name of a built-in handler"
    ]


def test_broken_metadata_is_told(install: Callable[..., str], tmp_path: Path) -> None:
    """One package that was installed badly is no traceback, and no matter for other types."""
    install(chat="echo")
    (file,) = tmp_path.glob("site*/*.dist-info/entry_points.txt")
    file.write_text("[scheduld.handlers]\nno equals sign\n")
    (problem,) = registry.check(a_type("chat"))
    assert problem.startswith("the metadata of acme 1.2 is broken")
    assert registry.notes() == [problem.partition(" (")[0]]
    assert registry.check(a_type("log")) == []


def test_a_typo_is_told_the_nearest_plugin(install: Callable[..., str]) -> None:
    """Names of plug-ins are among those that could have been meant."""
    install(telegram="echo")
    (problem,) = registry.check(a_type("telegrm"))
    assert "did you mean 'telegram'" in problem


def test_a_coroutine_of_a_plugin_does_not_run_in_a_thread(install: Callable[..., str]) -> None:
    """The same rules as for functions of one's own."""
    install(slow="asynchronous")
    (problem,) = registry.check(a_type("slow", isolation="thread"))
    assert "runs inline" in problem


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """`http` without aiohttp is a problem of the config, with the words to install it."""
    monkeypatch.setitem(__import__("sys").modules, "aiohttp", None)
    (problem,) = registry.check(a_type("http", options={"url": "https://example.org"}))
    assert problem == (
        "handler 'http' needs aiohttp, which is not installed (pip install 'scheduld[http]')"
    )
