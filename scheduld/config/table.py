"""One table of a config file: how it is checked, and what is said about a fault in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from scheduld.config.faults import BadValue, KeyPath, wrong_type
from scheduld.config.keys import unknown_key

T = TypeVar("T", bound=BaseModel)
_REQUIRED = {"handler": 'such as handler = "log"', "type": "name one of [types]"}


class Table(BaseModel):
    """A table of the file: no key too many, no value of another type, nothing quoted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )


@dataclass(frozen=True, slots=True)
class Checked(Generic[T]):
    """A table after its check: what is usable of it, and what is not.

    `table` has the defaults in place of the keys in `bad`; it is None if one of those has no
    default. The paths of `faults` start at the table.
    """

    table: T | None
    faults: list[tuple[KeyPath, BadValue]]
    bad: frozenset[str]


def check(model: type[T], name: str, data: Mapping[str, Any]) -> Checked[T]:
    """Check the data of one table, called `name` in messages about misplaced keys."""
    try:
        return Checked(model.model_validate(data), [], frozenset())
    except ValidationError as exc:
        errors = exc.errors(include_input=False, include_url=False)
    faults = [(error["loc"], _fault(name, error, data)) for error in errors]
    bad = frozenset(str(path[0]) for path, _ in faults)
    rest = {key: value for key, value in data.items() if key not in bad}
    try:
        return Checked(model.model_validate(rest), faults, bad)
    except ValidationError:  # a key without a default is bad or missing
        return Checked(None, faults, bad)


def _fault(name: str, error: ErrorDetails, data: Mapping[str, Any]) -> BadValue:
    *around, key = error["loc"]
    kind = error["type"]
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, BadValue):
        return cause
    if kind == "missing":
        return BadValue("is missing", hint=_REQUIRED.get(str(key)))
    value: Any = data
    for part in error["loc"]:
        value = value[part]
    if kind == "extra_forbidden":
        return unknown_key(".".join([name, *map(str, around)]), str(key), value)
    if kind in {"model_type", "dict_type"}:
        return wrong_type("a table", value)
    return BadValue(error["msg"])
