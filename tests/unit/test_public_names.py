"""The public names: few, sorted, lazy, and the same in both clients."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scheduld
import scheduld.testing
from scheduld import AsyncClient, Client, schedule_task
from scheduld.client.adding import LOAD_OPTIONS, PERIOD_OPTIONS

ROOT = Path(__file__).parents[2]
ITERATORS = {"export", "follow"}
"""The verbs that give one thing after the other, and send nothing before they are asked."""
HEAVY = ("redis", "pydantic", "asyncio", "structlog", "click", "aiosmtplib", "tomli", "zoneinfo")


def _verbs(client: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(client, inspect.isfunction)
    return {name: inspect.signature(verb) for name, verb in found if not name.startswith("_")}


def test_names_are_sorted_and_complete() -> None:
    """`__all__` is sorted without repeats, equals `dir()`, and what type checkers are told."""
    assert sorted(set(scheduld.__all__)) == scheduld.__all__ == dir(scheduld)
    source = Path(scheduld.__file__).read_text()
    imported = source.partition("if TYPE_CHECKING:")[2].partition("__all__")[0]
    told = set(re.findall(r"\b([A-Za-z_]+)\b(?=,|$)", imported.replace("import ", ","), re.M))
    assert told >= set(scheduld.__all__) - {"__version__"}


@pytest.mark.parametrize("name", scheduld.__all__)
def test_a_name_comes_from_its_home(name: str) -> None:
    """Each name can be imported, is the object of the module that defines it, and is documented."""
    value = getattr(scheduld, name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+.*", value)
        return
    assert getattr(importlib.import_module(value.__module__), name) is value
    assert value.__module__.startswith("scheduld.")
    assert inspect.getdoc(value)


def test_other_names_are_refused() -> None:
    """A name that is not public is an AttributeError that names it."""
    unknown = "Server"
    with pytest.raises(AttributeError, match="no attribute 'Server'"):
        getattr(scheduld, unknown)
    for name in set(vars(scheduld)) - set(scheduld.__all__):
        loaded = vars(scheduld)[name]
        assert (
            name.startswith("_")
            or inspect.ismodule(loaded)
            or name
            in {
                "annotations",
                "import_module",
                "TYPE_CHECKING",
                "Any",
            }
        ), name


def _loaded_by(code: str) -> set[str]:
    script = (
        f"import sys, json; before = set(sys.modules); {code}; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return set(json.loads(ran.stdout))


def test_nothing_is_loaded_before_it_is_used() -> None:
    """Importing the package, and the outcomes that handlers need, loads no library at all."""
    assert {name for name in _loaded_by("import scheduld") if "scheduld" in name} == {
        "scheduld",
        "scheduld.version",
    }
    outcomes = _loaded_by("from scheduld import Dead, Retry, Snooze, Run, ScheduldError")
    assert not outcomes & set(HEAVY)
    assert {name for name in outcomes if name.startswith("scheduld.")} == {
        "scheduld.version",
        "scheduld.errors",
        "scheduld.outcomes",
        "scheduld.handlers",
        "scheduld.handlers.contract",
    }


def test_both_clients_have_the_same_verbs() -> None:
    """Verbs, parameters, defaults and docstrings are the same; those of asyncio are awaited."""
    blocking, aio = _verbs(Client), _verbs(AsyncClient)
    assert blocking.keys() - {"close"} == aio.keys() - {"aclose"}
    for name in blocking.keys() - {"close"}:
        assert blocking[name].parameters == aio[name].parameters, name
        answers = str(aio[name].return_annotation).removeprefix("Async" * (name in ITERATORS))
        assert blocking[name].return_annotation == answers, name
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name)) == (name not in ITERATORS)
        assert not inspect.iscoroutinefunction(getattr(Client, name)), name
        assert inspect.getdoc(getattr(Client, name)) == inspect.getdoc(getattr(AsyncClient, name))
    assert inspect.signature(Client) == inspect.signature(AsyncClient)


def test_schedule_task_takes_what_schedule_takes() -> None:
    """`schedule_task` has the parameters of `Client.schedule`, in the same order."""
    verb = inspect.signature(Client.schedule)
    without_self: list[Any] = list(verb.parameters.values())[1:]
    assert list(inspect.signature(schedule_task).parameters.values()) == without_self


def test_the_page_names_every_verb_argument_and_error() -> None:
    """docs/python-api.md has a row for each verb, argument of an add, and error."""
    rows = re.findall(r"^\| (.+?) \|", (ROOT / "docs" / "python-api.md").read_text(), re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)[^`]*`", row)}
    errors = {
        name
        for name in scheduld.__all__
        if isinstance(getattr(scheduld, name), type)
        and issubclass(getattr(scheduld, name), scheduld.ScheduldError)
    }
    arguments = set(inspect.signature(schedule_task).parameters) - {"options"}
    arguments |= {*LOAD_OPTIONS, *PERIOD_OPTIONS}
    wanted = set(_verbs(Client)) | {"aclose"} | arguments | errors - {"ScheduldError"}
    assert wanted <= told, wanted - told


def test_the_test_kit_is_loaded_when_it_is_used() -> None:
    """Its fixtures cost a suite nothing until a test asks for them; its names are its homes'."""
    loaded = _loaded_by("import scheduld.testing, scheduld.errors")
    assert not loaded & set(HEAVY)
    for name in scheduld.testing.__all__:
        value = getattr(scheduld.testing, name)
        assert getattr(importlib.import_module(value.__module__), name) is value
        assert inspect.getdoc(value)
    with pytest.raises(AttributeError, match="no attribute 'Daemon'"):
        getattr(scheduld.testing, "Daemon")  # noqa: B009 - no such name for the type checker


def test_the_page_names_all_of_the_test_kit() -> None:
    """docs/testing.md tells each method, argument and field of a scheduler, and of a run."""
    page = (ROOT / "docs" / "testing.md").read_text()
    public = [name for name in dir(scheduld.testing.Scheduler) if not name.startswith("_")]
    fields = scheduld.testing.RunRecord.__dataclass_fields__
    missing = [name for name in (*public, *fields) if not re.search(rf"\b{name}\b", page)]
    assert not missing
