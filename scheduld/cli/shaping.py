"""The options of `scheduld add` that control load (docs/load.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Shaping:
    """What was typed, but for what is not given."""

    priority: int | None
    key: str | None
    expires: str | None
    unique: tuple[str, ...]
    unique_text: str | None
    unique_payload: bool
    unique_for: str | None
    debounce: str | None
    debounce_max: str | None
    throttle: str | None

    @classmethod
    def pop(cls, given: dict[str, Any]) -> Shaping:
        """Take these options out of what click gives."""
        return cls(**{name: given.pop(name) for name in cls.__dataclass_fields__})

    def load(self, zone: str | None, *, has_id: bool) -> dict[str, Any]:
        """Return the options of the client's `schedule`; raises InvalidInput or WhenError."""
        ways = (bool(self.unique), self.unique_text is not None, self.unique_payload)
        if sum(ways) > 1:
            raise InvalidInput(
                "--unique, --unique-key and --unique-payload exclude each other",
                hint="--unique may be given several times, for several fields",
            )
        if self.debounce is not None and not (has_id or any(ways)):
            # The client would not see it: by then the task has an id that was made for it.
            raise InvalidInput(
                "--debounce needs --id or --unique", hint="say which adds belong together"
            )
        unique = list(self.unique) or self.unique_text or self.unique_payload or None
        if self.unique_text == "":
            unique = ""
        values = {
            "priority": self.priority,
            "key": self.key,
            "expires": _expiry(self.expires, zone),
            "unique": unique,
            "unique_for": self.unique_for,
            "debounce": self.debounce,
            "debounce_max": self.debounce_max,
            "throttle": self.throttle,
        }
        return {name: value for name, value in values.items() if value is not None}

    def words(self, load: dict[str, Any]) -> dict[str, str | bool | list[str] | None]:
        """Return the options of a command line that means the same."""
        expires = load.get("expires")
        if expires is not None and not isinstance(expires, str):
            expires = expires.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "--priority": None if self.priority is None else str(self.priority),
            "--key": self.key,
            "--expires": expires,
            "--unique": list(self.unique),
            "--unique-key": self.unique_text,
            "--unique-payload": self.unique_payload,
            "--unique-for": self.unique_for,
            "--debounce": self.debounce,
            "--debounce-max": self.debounce_max,
            "--throttle": self.throttle,
        }


def _expiry(text: str | None, zone: str | None) -> str | datetime | None:
    """Read an instant once, as --at is: a repeat, maybe tomorrow, must mean the same one."""
    if text is None:
        return None
    from scheduld.client.shaping import is_duration
    from scheduld.when import parse_when

    return text if is_duration(text) else parse_when(text, timezone=zone)


def shaping(function: F) -> F:
    """Decorate a command with the options."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS = (
    click.option(
        "--priority", type=int, metavar="N", help="-100 to 100: a point is a minute of waiting."
    ),
    click.option("--key", metavar="KEY", help="What the type's limits per key count by."),
    click.option(
        "--expires",
        metavar="WHEN|DURATION",
        help="Do not start later than this, or so long after the due time.",
    ),
    click.option(
        "--unique",
        multiple=True,
        metavar="FIELD",
        help="One at a time with this value in the payload; may be repeated.",
    ),
    click.option("--unique-key", "unique_text", metavar="TEXT", help="One at a time of this text."),
    click.option("--unique-payload", is_flag=True, help="One at a time with just this payload."),
    click.option(
        "--unique-for", metavar="DURATION", help="One in such a period, instead of at a time."
    ),
    click.option(
        "--debounce",
        metavar="DURATION",
        help="Due so long after the last add of its --id or --unique, with its payload ...",
    ),
    click.option("--debounce-max", metavar="DURATION", help="... and so long after the first."),
    click.option(
        "--throttle",
        metavar="DURATION",
        help="At most one of its --unique in such a period; others answer with that one.",
    ),
)
