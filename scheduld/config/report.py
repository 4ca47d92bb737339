"""Collects all that is wrong with a file, and turns it into one error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduld.config.faults import BadValue, KeyPath, show_path, wrong_type
from scheduld.config.interpolate import Filled, Interpolation
from scheduld.config.keys import unknown_key, unknown_keys
from scheduld.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduld.config.source import Source

_SHORTEST_SECRET = 4
_UNTOLD = "cannot be used with the value that was filled in"


class Report:
    """The problems of one source, each with its place; none of them quotes a filled-in value."""

    def __init__(self, source: Source, env: Mapping[str, str]) -> None:
        self._source = source
        self._problems: list[Problem] = []
        self._empty: set[KeyPath] = set()
        self._fill = Interpolation(env, self._not_filled)

    def filled(self, value: Any, path: KeyPath) -> Any:
        """Return the value with `${...}` filled in; what cannot be filled in is a problem."""
        return self._fill.value(value, path)

    @property
    def filled_values(self) -> tuple[Filled, ...]:
        """All values that were filled in so far."""
        return tuple(self._fill.values)

    def _not_filled(self, path: KeyPath, fault: BadValue) -> None:
        self._add(path, fault.words)
        self._empty.add(path)

    def bad(self, path: KeyPath, fault: BadValue) -> None:
        """Add the fault of the value at `path`."""
        if _touched(path, self._empty):
            return  # what is wrong with it has been said
        is_filled = _touched(path, self._fill.filled)
        self._add(path, fault.generic if is_filled else fault.words)

    def other(self, path: KeyPath, message: str) -> None:
        """Add what another part of the program found wrong with the value at `path`."""
        secrets = (text for text in self._fill.secrets if len(text) >= _SHORTEST_SECRET)
        is_secret = path in self._fill.filled or any(secret in message for secret in secrets)
        self._add(path, _UNTOLD if is_secret else message)

    def outside(self, name: str, fault: BadValue) -> None:
        """Add the fault of a value that did not come from the file but from `name`."""
        self._problems.append(Problem(fault.words, path=name))

    def _add(self, path: KeyPath, message: str) -> None:
        place = {"file": self._source.name, "path": show_path(path)}
        self._problems.append(Problem(message, line=self._source.line(path), **place))

    def table(self, data: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return the top-level table `key`, an empty one if it is missing or no table."""
        value = data.get(key, {})
        if not isinstance(value, dict):
            self.bad((key,), wrong_type("a table", value))
            return {}
        return value

    def unknown(self, table: str, path: KeyPath, given: Mapping[str, Any]) -> None:
        """Add a problem for each key that the table `table`, standing at `path`, has not."""
        for key in unknown_keys(table, given):
            self.bad((*path, key), unknown_key(table, key, given[key]))

    def end(self) -> None:
        """Raise ConfigError if there was any problem, in the order of the file."""
        if self._problems:
            raise ConfigError(sorted(self._problems, key=lambda problem: problem.line or 0))


def _touched(path: KeyPath, paths: set[KeyPath]) -> bool:
    """Whether the value at `path`, or an item of the array there, is among the paths."""
    size = len(path)
    return any(
        other[:size] == path and all(isinstance(part, int) for part in other[size:])
        for other in paths
    )
