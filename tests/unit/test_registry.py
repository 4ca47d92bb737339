"""From names to handlers: forms, arity, async, isolation, and what is refused."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from scheduld import registry
from scheduld.errors import InvalidInput
from scheduld.model import TaskType

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODULE = """
import functools

def one(payload): return ["one", payload]
def two(payload, run): return ["two", payload, run]
def named(payload, run=None): return ["named", payload, run]
def own_default(payload, retries=3): return [payload, retries]
def optional(payload=None): return [payload]
def star(*args): return list(args)
def positional(payload, run, /): return [payload, run]
async def coroutine(payload): return payload

def none(): pass
def three(payload, run, other): pass
def keyword(payload, *, needed): pass
def only_keyword(*, payload): pass
def keywords(**rest): pass
def generator(payload): yield payload
async def async_generator(payload): yield payload
number = 5

class Plain:
    def __call__(self, payload): return ["plain", payload]
    def method(self, payload, run): return ["method", payload, run]
    @staticmethod
    def static(payload): return ["static", payload]

class Async:
    async def __call__(self, payload, run): return payload

class Yielding:
    def __call__(self, payload): yield payload

plain, asynchronous, yielding = Plain(), Async(), Yielding()
method = plain.method
partial = functools.partial(lambda prefix, payload: [prefix, payload], "pre")
partial_keyword = functools.partial(lambda payload, *, needed: [payload, needed], needed=1)
async_partial = functools.partial(functools.partial(coroutine))
async_object_partial = functools.partial(asynchronous)

@functools.wraps(two)
def wrapped(*args, **kwargs): return two(*args, **kwargs)
"""

_numbers = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module and answers its name; no two tests share one."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> str:
        name = f"handlers_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(source)
        return name

    return write


def a_type(handler: str, **settings: Any) -> TaskType:
    """A task type of this handler."""
    return TaskType(name="job", handler=handler, **settings)


@pytest.mark.parametrize(
    ("attribute", "takes_run", "is_async"),
    [
        ("one", False, False),
        ("two", True, False),
        ("named", True, False),
        ("own_default", False, False),
        ("optional", False, False),
        ("star", False, False),
        ("positional", True, False),
        ("coroutine", False, True),
        ("plain", False, False),
        ("Plain.static", False, False),
        ("method", True, False),
        ("asynchronous", True, True),
        ("partial", False, False),
        ("partial_keyword", False, False),
        ("async_partial", False, True),
        ("async_object_partial", True, True),
        ("wrapped", True, False),
    ],
)
def test_forms_that_are_handlers(
    module: Callable[[str], str], attribute: str, takes_run: bool, is_async: bool
) -> None:
    """Anything that can be called with a payload, or a payload and a run, is a handler."""
    task_type = a_type(f"{module(MODULE)}:{attribute}", options={"a": 1})
    handler = registry.resolve(task_type)
    assert (handler.takes_run, handler.is_async) == (takes_run, is_async)
    assert handler.default_isolation == ("inline" if is_async else "thread")
    assert handler.options == {"a": 1}
    assert registry.check(task_type) == []
    if not is_async:
        arguments = ({"k": 1}, None) if takes_run else ({"k": 1},)
        assert {"k": 1} in handler.call(*arguments)


@pytest.mark.parametrize(
    ("attribute", "told"),
    [
        ("none", "cannot be called with a payload"),
        ("three", r"three\(payload, run, other\) cannot be called"),
        ("keyword", "cannot be called"),
        ("only_keyword", "cannot be called"),
        ("keywords", "cannot be called"),
        ("generator", "yield"),
        ("async_generator", "yield"),
        ("yielding", "yield"),
        ("number", "not callable but int"),
        ("Plain", "is a class"),
        ("Plain.method", "method without its object"),
        ("onee", "no attribute 'onee'"),
    ],
)
def test_forms_that_are_refused(module: Callable[[str], str], attribute: str, told: str) -> None:
    """What could only fail at the first run is refused at start, and says what is wrong."""
    task_type = a_type(f"{module(MODULE)}:{attribute}")
    with pytest.raises(InvalidInput, match=told):
        registry.resolve(task_type)
    (problem,) = registry.check(task_type)
    assert attribute in problem


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        ("emial", "did you mean 'email'"),
        ("zzz", "known: email, http, command, log"),
        ("htpp", "did you mean 'http'"),
        ("myapp.tasks.send", "package.module:callable"),
        ("", "there is no handler"),
        ("a\nb", r"a\\nb"),
    ],
)
def test_an_unknown_name_is_refused(handler: str, told: str) -> None:
    """A name that is no handler tells the nearest one, or the form it lacks."""
    (problem,) = registry.check(a_type(handler))
    assert problem.isprintable()
    assert re.search(told, problem)
    with pytest.raises(InvalidInput):
        registry.resolve(a_type(handler))


def test_the_options_of_a_built_in_are_checked() -> None:
    """Every fault of the options is one text."""
    problems = registry.check(a_type("email", options={"form": "x", "timeout": -1}))
    assert len(problems) == 4
    assert any("did you mean 'from'" in problem for problem in problems)


def test_built_ins_resolve() -> None:
    """Every built-in can be had by its name, runs inline and takes the run."""
    options: dict[str, dict[str, Any]] = {
        "email": {"smtp_url": "smtp://localhost", "from": "a@example.org"},
        "http": {"url": "https://example.org"},
        "command": {"argv": [sys.executable]},
        "log": {},
    }
    assert set(options) == set(registry.BUILT_IN)
    for name, values in options.items():
        handler = registry.resolve(a_type(name, options=values))
        assert handler.is_async
        assert handler.takes_run


def test_isolation_must_fit(module: Callable[[str], str]) -> None:
    """A coroutine in a thread is refused; a plain function may run inline."""
    name = module(MODULE)
    (problem,) = registry.check(a_type(f"{name}:coroutine", isolation="thread"))
    assert "runs inline" in problem
    assert registry.check(a_type("log", isolation="thread")) != []
    assert registry.check(a_type(f"{name}:coroutine", isolation="inline")) == []
    assert registry.check(a_type(f"{name}:one", isolation="inline")) == []


def test_a_callable_without_readable_parameters_is_refused() -> None:
    """A callable whose parameters Python cannot tell is refused, not tried."""
    (problem,) = registry.check(a_type("builtins:iter"))
    assert "cannot be read" in problem


def test_handlers_are_imported_only_when_used() -> None:
    """Importing the registry loads no handler and none of their libraries."""
    code = (
        "import sys, scheduld.registry\n"
        "found = {'aiosmtplib', 'aiohttp', 'yarl', 'importlib.metadata'}\n"
        "found |= {name for name in sys.modules if 'scheduld.handlers.' in name}\n"
        "found -= {'scheduld.handlers.' + name for name in ('contract', 'options', 'plugins')}\n"
        "print(sorted(found & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")
