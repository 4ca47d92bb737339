"""Parsers of single values: what TOML gives in, the value the program uses out.

Each is called with one value and raises BadValue for what the setting cannot be. `kind` says
in a few words what is accepted; the settings table of the docs shows it.
"""

from __future__ import annotations

import math
import os
import pwd
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scheduld.config.faults import BadValue, wrong_type
from scheduld.config.settings import LEASE_PER_TIMEOUT
from scheduld.config.url import parse_redis_url
from scheduld.duration import UNITS_MS, format_ms, parse_duration_ms
from scheduld.errors import InvalidInput
from scheduld.model import Rate
from scheduld.names import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

HOUR = UNITS_MS["h"]
DAY = UNITS_MS["d"]
LONGEST = 3_650 * DAY
MB = 1024**2
GB = 1024**3
_DURATION_HINT = 'use a duration such as "500ms", "10s" or "1h30m", or a number of seconds'
_UNITS = {"": 1, "B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_RATE = re.compile(r"\s*(\d{1,9})\s*/\s*(\w{1,40})\s*", re.ASCII)
_RATE_HINT = 'a number of starts and a period: "100/m", "5/10s"'
MOST_STARTS = 100_000
"""The newest starts of a rate are kept, one by one."""
_SIZE = re.compile(r"(\d{1,12})(B|KB|MB|GB|)", re.ASCII)


def show_bytes(value: int) -> str:
    """Write a number of bytes as the one unit that fits: 2048 is `2KB`."""
    unit = next(unit for unit in ("GB", "MB", "KB", "B") if value % _UNITS[unit] == 0)
    return f"{value // _UNITS[unit]}{unit}"


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration within bounds, in milliseconds."""

    minimum: int
    maximum: int = LONGEST

    @property
    def kind(self) -> str:
        """What is accepted."""
        return f"duration, {format_ms(self.minimum)} to {format_ms(self.maximum)}"

    def __call__(self, value: object) -> int:
        """Return the duration in milliseconds."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise wrong_type("a duration", value)
        try:
            value_ms = parse_duration_ms(value, what="duration")
        except InvalidInput as exc:
            generic = f"is no duration; {_DURATION_HINT}"
            raise BadValue(exc.message, hint=exc.hint or _DURATION_HINT, generic=generic) from None
        if not self.minimum <= value_ms <= self.maximum:
            raise BadValue(f"must be {format_ms(self.minimum)} to {format_ms(self.maximum)}")
        return value_ms


@dataclass(frozen=True, slots=True)
class Durations:
    """One duration, or an array of them: the waits of `backoff = "list"`."""

    one: Duration
    kind = "duration, or an array of 1 to 100"

    def __call__(self, value: object) -> int | tuple[int, ...]:
        """Return one duration, or a tuple of several, in milliseconds."""
        if not isinstance(value, list):
            return self.one(value)
        if not 1 <= len(value) <= 100:
            raise BadValue("must have 1 to 100 durations")
        return tuple(self.one(item) for item in value)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    minimum: int
    maximum: int

    @property
    def kind(self) -> str:
        """What is accepted."""
        return f"whole number, {self.minimum} to {self.maximum}"

    def __call__(self, value: object) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type("a whole number", value, quoted=True)
        if not self.minimum <= value <= self.maximum:
            raise BadValue(f"must be {self.minimum} to {self.maximum}")
        return value


@dataclass(frozen=True, slots=True)
class Fraction:
    """A finite number within bounds."""

    minimum: float
    maximum: float

    @property
    def kind(self) -> str:
        """What is accepted."""
        return f"number, {self.minimum:g} to {self.maximum:g}"

    def __call__(self, value: object) -> float:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type("a number", value, quoted=True)
        if not math.isfinite(value) or not self.minimum <= value <= self.maximum:
            raise BadValue(f"must be {self.minimum:g} to {self.maximum:g}")
        return float(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What is accepted."""
        return " or ".join(f'"{word}"' for word in self.words)

    def __call__(self, value: object) -> str:
        """Return the word."""
        if not isinstance(value, str):
            raise wrong_type(self.kind, value)
        if value not in self.words:
            raise BadValue(f"must be {self.kind}")
        return value


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes within bounds."""

    minimum: int
    maximum: int

    @property
    def kind(self) -> str:
        """What is accepted."""
        return f"size, {show_bytes(self.minimum)} to {show_bytes(self.maximum)}"

    def __call__(self, value: object) -> int:
        """Return the number of bytes."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise wrong_type("a size", value)
        match = _SIZE.fullmatch(value if isinstance(value, str) else f"{value:d}"[:13])
        if not match:
            raise BadValue("is no size", hint='use "256KB", "1MB" or a number of bytes')
        size = int(match[1]) * _UNITS[match[2]]
        if not self.minimum <= size <= self.maximum:
            raise BadValue(f"must be {show_bytes(self.minimum)} to {show_bytes(self.maximum)}")
        return size


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    kind = "text"

    def __call__(self, value: object) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise wrong_type("a text", value)
        if not value.strip():
            raise BadValue("is empty")
        return value


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts, none of them empty."""

    kind = "array of texts"

    def __call__(self, value: object) -> tuple[str, ...]:
        """Return the texts."""
        if not isinstance(value, list):
            raise wrong_type("an array of texts", value)
        return tuple(Text()(item) for item in value)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """So many starts in a period: "100/m", "5/10s"."""

    kind = 'rate, such as "100/m" or "5/10s"'

    def __call__(self, value: object) -> Rate:
        """Return the rate."""
        if not isinstance(value, str):
            raise wrong_type('a rate, such as "100/m"', value)
        match = _RATE.fullmatch(value)
        if not match:
            raise BadValue("is no rate", hint=_RATE_HINT)
        count, period = Whole(1, MOST_STARTS)(int(match[1])), match[2]
        if not period[0].isdigit():
            period = f"1{period}"
        try:
            period_ms = Duration(1, DAY)(period)
        except BadValue as exc:
            raise BadValue(f"has a wrong period: {exc}", hint=_RATE_HINT) from None
        return Rate(count, period_ms)


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A Redis URL or `embedded`; no message ever quotes it."""

    kind = '"embedded" or a Redis URL'

    def __call__(self, value: object) -> str:
        """Return the URL as the Redis client takes it."""
        return parse_redis_url(Text()(value))


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a namespace or a task type."""

    what: str
    kind = "name"

    def __call__(self, value: object) -> str:
        """Return the name."""
        text = Text()(value)
        try:
            return check_name(self.what, text)
        except InvalidInput as exc:
            generic = f"is no name; {exc.hint}"
            raise BadValue(exc.message, hint=exc.hint, generic=generic) from None


@dataclass(frozen=True, slots=True)
class Zone:
    """The name of a time zone."""

    kind = "time zone"

    def __call__(self, value: object) -> str:
        """Return the name of the zone."""
        # Zone data is loaded for the few who set one: client commands start faster without.
        from scheduld.when import load_zone

        text = Text()(value)
        try:
            load_zone(text)
        except InvalidInput as exc:
            raise BadValue(exc.message, hint=exc.hint, generic="is no time zone") from None
        return text


@dataclass(frozen=True, slots=True)
class Folder:
    """An absolute path."""

    kind = "absolute path"

    def __call__(self, value: object) -> Path:
        """Return the path."""
        text = Text()(value)
        if not text.startswith("/") or "\0" in text:
            raise BadValue("must be an absolute path", hint='"${HOME}/..." is one, "~" is not')
        return Path(text)


def redis_timeout_ms(given_ms: int | None, default_ms: int, lease_ms: int) -> int:
    """Choose the deadline of a call to Redis: as given, else the default cut to the lease.

    Raises BadValue if the one given is longer than a lease allows.
    """
    longest_ms = lease_ms // LEASE_PER_TIMEOUT
    if given_ms is None:
        return min(default_ms, longest_ms)
    if given_ms > longest_ms:
        raise BadValue(f"must be at most lease/{LEASE_PER_TIMEOUT}")
    return given_ms


def default_state_dir(env: Mapping[str, str]) -> Path:
    """Return where state goes unless `state_dir` says: of systemd, else of the user."""
    given = env.get("STATE_DIRECTORY", "").split(":")[0]
    if given.startswith("/"):
        return Path(given)
    home = env.get("XDG_STATE_HOME", "")
    if home.startswith("/"):
        return Path(home, "scheduld")
    user = env.get("HOME", "")
    return Path(user if user.startswith("/") else _home(), ".local/state/scheduld")


def _home() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:  # a container with a user id that has no name
        return "/"


REDIS_URL = RedisUrl()
REDIS_TIMEOUT = Duration(10, HOUR)
NAMESPACE = Name("namespace")
TYPE_NAME = Name("type")
ZONE = Zone()
STATE_DIR = Folder()
LEASE = Duration(500, DAY)
MAX_PAYLOAD = Size(2, 4 * 1024 * 1024)
DURABLE = Choice(("memory", "disk", "replica"))
APPENDFSYNC = Choice(("everysec", "always"))
