"""Handlers out of other packages: entry points of the group `scheduld.handlers`.

The metadata of all installed packages is read for that, which takes milliseconds: so only for
a name that is no built-in handler.
"""

from __future__ import annotations

import contextlib
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduld.errors import InvalidInput
from scheduld.handlers.options import BadOptions
from scheduld.names import printable
from scheduld.policies.endings import safe_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from importlib.metadata import EntryPoint
    from types import ModuleType

GROUP = "scheduld.handlers"
_FORM = "its entry point must name a function make(options)"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A handler that a package offers under a name."""

    name: str
    package: str
    entry: EntryPoint

    def __str__(self) -> str:
        return f"plug-in {self.name!r} of {self.package}"

    def make(self, options: Mapping[str, Any]) -> Any:
        """Import it and have it make its handler.

        Raises BadOptions with what its ValueError says, one problem for each of its arguments,
        and InvalidInput if it does anything else that no plug-in should.
        """
        made = self._loaded()
        try:
            return made(deepcopy(dict(options)))
        except KeyboardInterrupt:
            raise
        except ValueError as exc:
            raise BadOptions([f"{self}: {text}" for text in _texts(exc)]) from exc
        except BaseException as exc:
            raise InvalidInput(f"{self} failed to make its handler: {_said(exc)}") from exc

    def _loaded(self) -> Any:
        try:
            made = self.entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as exc:
            raise InvalidInput(f"{self} does not import: {_said(exc)}") from exc
        if not callable(made):
            raise InvalidInput(f"{self} is {type(made).__name__}", hint=_FORM)
        return made


def found() -> list[Plugin]:
    """All plug-ins of the installed packages, each once, in the order of their names.

    Raises InvalidInput if the metadata of any package is broken.
    """
    from importlib import metadata  # a daemon without plug-ins starts without it

    try:
        plugins = {
            (entry.name, package): Plugin(entry.name, package, entry)
            for entry in metadata.entry_points(group=GROUP)
            for package in [_package(entry)]
        }
    except Exception as exc:
        text = f"the metadata of {_broken(metadata)} is broken: {_said(exc)}"
        raise InvalidInput(text, hint="pip check, or install it again") from exc
    return [plugins[key] for key in sorted(plugins)]


def find(name: str, plugins: Collection[Plugin]) -> Plugin | None:
    """The plug-in of this name; raises InvalidInput if two packages have one."""
    named = [plugin for plugin in plugins if plugin.name == name]
    if len(named) > 1:
        packages = " and ".join(plugin.package for plugin in named)
        raise InvalidInput(
            f"handler {name!r} is in two packages: {packages}", hint="uninstall one of them"
        )
    return named[0] if named else None


def _package(entry: EntryPoint) -> str:
    if entry.dist is None:
        return "an unknown package"
    return printable(f"{entry.dist.name} {entry.dist.version}")


def _broken(metadata: ModuleType) -> str:
    """The package whose metadata cannot be read."""
    for package in metadata.distributions():
        try:
            list(package.entry_points)
        except Exception:  # noqa: BLE001 - whatever it is, this is the one
            with contextlib.suppress(Exception):
                return printable(f"{package.name} {package.version}")
    return "an installed package"


def _texts(exc: ValueError) -> list[str]:
    if exc.args and all(isinstance(text, str) for text in exc.args):
        return [printable(text) for text in exc.args]
    return [printable(safe_text(exc)) or type(exc).__name__]


def _said(exc: BaseException) -> str:
    return printable(f"{type(exc).__name__}: {safe_text(exc)}")
