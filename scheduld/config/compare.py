"""What differs between two configs, in the keys of the file, and without a secret."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BeforeValidator

from scheduld.config.faults import show_path
from scheduld.config.table import Table
from scheduld.config.url import mask_url
from scheduld.config.values import Duration, Durations, Size, show_bytes
from scheduld.duration import format_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduld.config.load import Loaded

_MISSING = object()
_PRIVATE = ("at_start", "payload")
"""Keys, besides the options of a type, whose values may be secrets of the user's."""


@dataclass(frozen=True, slots=True)
class Side:
    """A value as it stands in the file, `${NAME}` not filled in, or the default in its place.

    `value` is None where it is hidden, because it may be a secret.
    """

    value: Any
    is_default: bool = False
    is_hidden: bool = False

    def __str__(self) -> str:
        if self.is_hidden:
            return "(hidden)"
        text = "none"
        if self.value is not None:
            text = json.dumps(self.value, ensure_ascii=False, default=str)
        return f"{text} (default)" if self.is_default else text


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: a whole table (`key` is None), or a key that both tables can have.

    `old` is None for what is added, `new` for what is removed.
    """

    what: Literal["added", "changed", "removed"]
    table: str
    key: str | None = None
    old: Side | None = None
    new: Side | None = None


@dataclass(frozen=True, slots=True)
class _Value:
    """What a key means, and how it is shown."""

    value: Any
    side: Side


def compare(old: Loaded, new: Loaded) -> list[Change]:
    """List what `new` does otherwise; the same value written in another way is no difference."""
    places = [*old.tables, *(place for place in new.tables if place not in old.tables)]
    return [change for place in places for change in _table(place, old, new)]


def _table(place: str, old: Loaded, new: Loaded) -> Iterator[Change]:
    shown = show_path(_path(place))
    if place not in new.tables:
        yield Change("removed", shown)
    elif place not in old.tables:
        yield Change("added", shown)
    else:
        before, after = _values(place, old), _values(place, new)
        for key in [*before, *(key for key in after if key not in before)]:
            one, other = before.get(key), after.get(key)
            if one is None and other is not None:
                yield Change("added", shown, key, new=other.side)
            elif one is not None and other is None:
                yield Change("removed", shown, key, old=one.side)
            elif one and other and one.value != other.value:
                yield Change("changed", shown, key, one.side, other.side)


def _path(place: str) -> tuple[str, ...]:
    # Names of types may have dots.
    return tuple(place.split(".", 1))


def _values(place: str, loaded: Loaded) -> dict[str, _Value]:
    """Return each key of a table, by its path below the table."""
    written: Any = loaded.source.data
    for part in _path(place):
        written = written.get(part, {})
    values = dict(_keys((), loaded.tables[place], written))
    if place == "scheduld":
        # What is in force can come from elsewhere than from the file.
        config = loaded.config
        url = _Value(config.redis_url, Side(mask_url(config.redis_url), "redis_url" not in written))
        timeout = _Value(config.redis_timeout_ms, values["redis_timeout"].side)
        if timeout.side.is_default:
            timeout = _Value(timeout.value, Side(format_ms(timeout.value), is_default=True))
        values |= {"redis_url": url, "redis_timeout": timeout}
    return values


def _keys(
    above: tuple[str, ...], table: Table, written: Mapping[str, Any]
) -> Iterator[tuple[str, _Value]]:
    for key, setting in type(table).model_fields.items():
        value = getattr(table, key)
        given = written.get(key, _MISSING)
        path = (*above, key)
        if isinstance(value, Table):
            yield from _keys(path, value, {} if given is _MISSING else given)
        elif key == "options":
            for name, option in value.items():
                yield show_path((*path, name)), _Value(option, Side(None, is_hidden=True))
        elif given is _MISSING:
            side = Side(_default(setting.metadata, value), is_default=True)
            yield show_path(path), _Value(value, side)
        else:
            # Dates of TOML are none of JSON.
            shown = str(given) if isinstance(given, date) else given
            side = Side(None, is_hidden=True) if key in _PRIVATE else Side(shown)
            yield show_path(path), _Value(value, side)


def _default(metadata: list[Any], value: Any) -> Any:
    """Return a default as it could stand in a file; None if there is none."""
    parser = next((item.func for item in metadata if isinstance(item, BeforeValidator)), None)
    if value is not None and isinstance(parser, Duration | Durations):
        return format_ms(value)
    if value is not None and isinstance(parser, Size):
        return show_bytes(value)
    return value
