"""From a task type's `handler` to something that can be called: the only dynamic import.

What code runs is decided here, from the local config alone, never by what is in Redis.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import TYPE_CHECKING, Any

from scheduld.errors import InvalidInput
from scheduld.handlers import plugins
from scheduld.handlers.contract import Handler
from scheduld.handlers.options import BadOptions, did_you_mean
from scheduld.importer import load
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduld.model import TaskType

BUILT_IN = ("email", "http", "command", "log")
"""Names of the built-in handlers; each is a module with `make(options)`."""
_EXTRAS = {"http": "aiohttp"}
"""What some built-in handlers need that is not installed with scheduld itself, but by an extra of
the same name as the handler."""
_FORMS = "it is `def f(payload)` or `def f(payload, run)`"


def resolve(task_type: TaskType, found: Any = None) -> Handler:
    """Find, import and check the handler of a task type; `found`: the callable itself.

    Raises InvalidInput for an unknown name, a module that does not import, a callable of
    the wrong form, or an isolation it cannot run in; BadOptions lists all faulty options.
    """
    name = task_type.handler
    if found is not None:
        handler = _from_callable(name, found, task_type)
    elif ":" in name:
        handler = _from_callable(name, load(name), task_type)
    elif name in BUILT_IN:
        handler = _built_in(name).make(_options(task_type))
    else:
        handler = _from_plugin(name, task_type)
    if task_type.isolation == "thread" and handler.is_async:
        raise InvalidInput(
            f"handler {name!r} is async, and runs inline, not in a thread",
            hint='isolation = "inline", or leave it out',
        )
    return handler


def resolve_predicate(task_type: TaskType, found: Any = None) -> Handler | None:
    """Find, import and check the reschedule predicate of a task type, if it has one.

    `found`: the callable itself. Raises InvalidInput as `resolve` does.
    """
    path = task_type.reschedule_if
    if path is None and found is None:
        return None
    return _from_callable(str(path), load(str(path)) if found is None else found, task_type)


def check(task_type: TaskType) -> list[str]:
    """All that keeps the handler of a task type from working, one text each; empty if it works."""
    problems: list[str] = []
    try:
        resolve(task_type)
    except BadOptions as exc:
        problems += exc.problems
    except InvalidInput as exc:
        problems.append(_told(exc))
    try:
        resolve_predicate(task_type)
    except InvalidInput as exc:
        problems.append(f"reschedule_if: {_told(exc)}")
    return problems


def _told(fault: InvalidInput) -> str:
    return f"{fault.message} ({fault.hint})" if fault.hint else fault.message


def notes() -> list[str]:
    """What is wrong with installed plug-ins that no task type needs to use, for a user to see."""
    try:
        found = plugins.found()
    except InvalidInput as exc:
        return [exc.message]
    return [
        f"{plugin} is not used: {plugin.name!r} is the name of a built-in handler"
        for plugin in found
        if plugin.name in BUILT_IN
    ]


def _options(task_type: TaskType) -> Mapping[str, Any]:
    """The options of a built-in handler: a mail is told that the anchor is none of its keys."""
    options, extra = task_type.options, task_type.options.get("extra_keys", [])
    if task_type.anchor is None or task_type.handler != "email" or not isinstance(extra, list):
        return options
    return {**options, "extra_keys": [*extra, task_type.anchor]}


def _built_in(name: str) -> Any:
    needed = _EXTRAS.get(name)
    try:
        if needed:
            importlib.import_module(needed)
        return importlib.import_module(f"scheduld.handlers.{name}")
    except ImportError as exc:
        if needed is None:
            raise
        why = (
            "is not installed" if exc.name == needed else f"does not import: {printable(str(exc))}"
        )
        raise InvalidInput(
            f"handler {name!r} needs {needed}, which {why}",
            hint=f"pip install 'scheduld[{name}]'",
        ) from exc


def _from_plugin(name: str, task_type: TaskType) -> Handler:
    if "." in name:
        raise InvalidInput(
            f"handler {name!r} has no colon", hint="package.module:callable names one of yours"
        )
    offered = plugins.found()
    plugin = plugins.find(name, offered)
    if plugin is None:
        known = (*BUILT_IN, *dict.fromkeys(each.name for each in offered))
        raise InvalidInput(
            f"there is no handler {name!r}{did_you_mean(name, known)}",
            hint="a built-in name, that of an installed plug-in, or package.module:callable",
        )
    made = plugin.make(task_type.options)
    if isinstance(made, Handler):
        return made
    if not callable(made):
        raise InvalidInput(f"{plugin} made no handler but {type(made).__name__}", hint=_FORMS)
    return _from_callable(f"what {plugin} made", made, task_type)


def _from_callable(path: str, found: Any, task_type: TaskType) -> Handler:
    if inspect.isclass(found):
        raise InvalidInput(f"{path} is a class", hint="name a function, or an object of the class")
    if _any(found, inspect.isgeneratorfunction) or _any(found, inspect.isasyncgenfunction):
        raise InvalidInput(f"{path} is a generator: it has `yield`", hint=_FORMS)
    takes_run = _takes_run(path, found)
    is_async = _any(found, inspect.iscoroutinefunction)
    return Handler(found, is_async=is_async, takes_run=takes_run, options=task_type.options)


def _any(found: Any, test: Callable[[Any], bool]) -> bool:
    """Whether `test` holds for a callable itself, or for the `__call__` of its class."""
    while isinstance(found, functools.partial):
        found = found.func
    return test(found) or test(type(found).__call__)


def _takes_run(path: str, found: Any) -> bool:
    """Whether a callable wants the run too; raises InvalidInput if neither form fits."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        raise InvalidInput(f"the parameters of {path} cannot be read", hint=_FORMS) from None
    places = [param for param in signature.parameters.values() if param.kind in _PLACED]
    if places and places[0].name == "self":
        raise InvalidInput(f"{path} is a method without its object", hint=_FORMS)
    if _fits(signature, 1):
        # A second parameter with a default is the handler's own, unless it is called run.
        return len(places) > 1 and places[1].name == "run"
    if _fits(signature, 2):
        return True
    raise InvalidInput(f"{path}{signature} cannot be called with a payload", hint=_FORMS)


_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _fits(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
