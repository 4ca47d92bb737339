"""Which values of a config are secrets: what was filled in, what stands under telling keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from scheduld.observe.masking import Masker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduld.config.faults import KeyPath
    from scheduld.config.settings import Config

# What is filled in there is no secret: hosts and names should stay readable in the log.
_OPEN_TABLES = ("scheduld", "embedded", "log")
_DATA_OF_TYPES = ("options", "at_start")


def masker_for(config: Config) -> Masker:
    """Make the masker that knows the secrets of a config."""
    by_key = Masker(config.log.mask)
    secrets = set(url_secrets(config.redis_url))
    for filled in config.filled:
        if _may_be_secret(filled.path):
            secrets.update(_of_filled(filled.text, filled.pieces))
    for kind in config.types.values():
        secrets.update(_of_data(kind.options, by_key))
        secrets.update(_of_data(kind.at_start or {}, by_key))
    return Masker(config.log.mask, secrets)


def url_secrets(url: str) -> Iterator[str]:
    """Find the password of a URL, as it is written and decoded, and secret parameters."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))
    for key, value in parse_qsl(parts.query):
        if Masker().hides(key, value):
            yield value


def _may_be_secret(path: KeyPath) -> bool:
    if path[0] == "types":
        return len(path) > 2 and path[2] in _DATA_OF_TYPES
    return path[0] not in _OPEN_TABLES


def _of_filled(text: str, pieces: frozenset[str]) -> Iterator[str]:
    scheme, is_url, _ = text.partition("://")
    if is_url and not scheme.lower().startswith("http"):
        # Of a server's URL the password; of a web address, such as a hook, any part.
        yield from url_secrets(text)
    else:
        yield text
        yield from pieces


def _of_data(value: Any, by_key: Masker) -> Iterator[str]:
    if isinstance(value, str):
        if "://" in value:
            yield from url_secrets(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if by_key.hides(key, item):
                yield from _texts(item)
            yield from _of_data(item, by_key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _of_data(item, by_key)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
