"""Command lines for people to copy: they lead to the same place, and hold no secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduld.cli.output import shell_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduld.cli.common import Common

URL_VARIABLE = "SCHEDULD_REDIS_URL"


def command_line(
    name: str,
    options: Mapping[str, str | bool | list[str] | None],
    said: Common,
    rest: Sequence[str],
) -> str:
    """Write `scheduld NAME`, its options, those of `said`, then the words of `rest`.

    A URL with a secret is left to the variable: empty, that is refused, and not another server.
    """
    hidden = hides_url(said)
    everywhere = {
        "--config": said.config,
        "--redis-url": None if hidden else said.redis_url,
        "--namespace": said.namespace,
        "--json": said.json,
    }
    parts = [
        shell_words(["scheduld", *name.split(), *_words({**options, **everywhere})]),
        f'--redis-url "${URL_VARIABLE}"' if hidden else "",
        shell_words(rest),
    ]
    return " ".join(part for part in parts if part)


def hides_url(said: Common) -> bool:
    """Whether a URL was given that cannot be printed."""
    from scheduld.config.url import mask_url, parse_redis_url

    url = said.redis_url
    return url is not None and mask_url(url) != parse_redis_url(url)


def unknown(lost: str, open_question: str, said: Common) -> str:
    """Say what is unknown, and what the command to repeat needs besides."""
    needs = f", put the Redis URL into ${URL_VARIABLE} first" if hides_url(said) else ""
    return f"{lost}, {open_question}{needs}"


def _words(options: Mapping[str, str | bool | list[str] | None]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        if isinstance(value, str):
            # In one word where the value looks like an option itself.
            words += [f"{name}={value}"] if value.startswith("-") else [name, value]
        elif isinstance(value, list):
            words += [word for item in value for word in _words({name: item})]
        elif value:
            words.append(name)
    return words
