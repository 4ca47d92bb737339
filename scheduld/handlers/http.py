"""Built-in handler `http`: one request per task, with the payload as its JSON body.

Needs the extra `http` (aiohttp). 2xx is done; 4xx makes the task dead, but for 408, 425 and 429;
all else is a failed attempt, and a Retry-After says when the next one is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yarl import URL

from scheduld.handlers.contract import Handler
from scheduld.handlers.hosts import HostPattern, parse_pattern
from scheduld.handlers.http_answer import MOST_BODY
from scheduld.handlers.http_call import Caller, Target, login
from scheduld.handlers.options import OptionReader
from scheduld.handlers.signing import HEADERS, PREFIX, read_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OPTIONS = (
    "url",
    "method",
    "headers",
    "secret",
    "allow_hosts",
    "allow_private",
    "timeout",
    "max_response",
    "ca_file",
)
METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET", "HEAD")
DEFAULT_TIMEOUT_MS = 30_000
"""Deadline of the whole call, redirects included."""
DEFAULT_BODY = 8 * 1024
_URL = "https://api.example.com/hooks/42"
_HOSTS = '["hooks.example.com", "*.example.org:8443"]'
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TELLING = re.compile("auth|cookie|key|pass|secret|sign|token", re.IGNORECASE)
_SHORTEST = 8
_OURS = {
    *HEADERS,
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "scheduld-attempt",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


def make(options: Mapping[str, Any]) -> Handler:
    """Build the handler from OPTIONS: `url` or `allow_hosts` is required. Raises BadOptions."""
    reader = OptionReader(options, known=OPTIONS)
    allowed = _patterns(reader)
    url = _parse_url(reader, required="allow_hosts" not in options)
    method = reader.choice("method", METHODS)
    headers = _headers(reader, url)
    secrets, keys = _secrets(reader, is_list=isinstance(options.get("secret"), list))
    credentials = _credentials(url, headers, secrets)
    target = Target(
        url=url,
        method=method,
        headers=headers,
        keys=keys,
        credentials=credentials,
        secrets=credentials | _confidential(url, headers),
        allowed=allowed,
        allow_private=reader.flag("allow_private"),
        timeout_s=reader.duration_ms("timeout", DEFAULT_TIMEOUT_MS) / 1000,
        max_response=reader.size("max_response", DEFAULT_BODY, most=MOST_BODY),
        tls=reader.trust("ca_file", path) if (path := reader.file("ca_file")) else None,
    )
    if target.allow_private and "allow_hosts" not in options:
        reader.wrong("allow_private", "is about payload URLs, and needs allow_hosts")
    reader.finish()
    return Handler(call=Caller(target).run, is_async=True, takes_run=True)


def _parse_url(reader: OptionReader, *, required: bool) -> URL | None:
    # The messages never quote the URL: a mistyped one has its password anywhere.
    text = reader.text("url", example=_URL, required=required)
    if not text:
        return None
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.raw_host or " " in text or "\\" in text:
        reader.wrong("url", f"must be a URL, such as {_URL!r} (%-encode special characters)")
        return None
    if not (url.port or 0):
        reader.wrong("url", "has a port that is none")
        return None
    return url.with_fragment(None)


def _patterns(reader: OptionReader) -> tuple[HostPattern, ...]:
    texts = reader.texts("allow_hosts", example=_HOSTS, required=False)
    found = [(text, parse_pattern(text)) for text in texts]
    if any(pattern is None for _, pattern in found):
        reader.wrong(
            "allow_hosts", f"has what is no host, without scheme and path, such as {_HOSTS}"
        )
    return tuple(pattern for _, pattern in found if pattern)


def _headers(reader: OptionReader, url: URL | None) -> dict[str, str]:
    headers = reader.table("headers")
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            reader.wrong(f"headers.{name}", "is no name of a header")
        elif name.lower() in _OURS or name.lower().startswith("proxy-"):
            reader.wrong(f"headers.{name}", "is taken: it is set for each request")
        elif name.lower() == "authorization" and url is not None and login(url):
            reader.wrong(f"headers.{name}", "is there, and so is a user in url: one is too many")
        elif not (value.isascii() and value.isprintable()):
            reader.wrong(f"headers.{name}", "must be printable ASCII, on one line")
    if len({name.lower() for name in headers}) < len(headers):
        reader.wrong("headers", "has a name twice, in different cases")
    return headers


def _secrets(reader: OptionReader, *, is_list: bool) -> tuple[list[str], tuple[bytes, ...]]:
    example = f"{PREFIX}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    if is_list:
        texts = reader.texts("secret", example=f'["{example}"]')
    else:
        texts = [text] if (text := reader.text("secret", example=example)) else []
    keys = [read_secret(text) for text in texts]
    if not all(keys):
        reader.wrong("secret", f"must not be empty, and be base64 after {PREFIX!r}")
    return texts, tuple(key for key in keys if key)


def _credentials(url: URL | None, headers: Mapping[str, str], secrets: list[str]) -> frozenset[str]:
    """Texts that not even a result may repeat, should a server send them back."""
    parts = [*secrets, *(text.removeprefix(PREFIX) for text in secrets)]
    for name, value in headers.items():
        if _TELLING.search(name):
            parts += [value, *value.split()]
    if url is not None:
        parts += [url.password or "", url.raw_password or "", login(url).rpartition(" ")[2]]
    return _long(parts)


def _confidential(url: URL | None, headers: Mapping[str, str]) -> frozenset[str]:
    """Texts that may be secret, and that no error message repeats."""
    parts = [*headers.values()]
    if url is not None:
        raw = re.split("[&=]", url.raw_query_string)
        parts += [*url.query.values(), *raw, *url.parts, *url.raw_parts]
    return _long(parts)


def _long(texts: Iterable[str]) -> frozenset[str]:
    # Short ones ("1", "true") are no secrets, and would leave holes in every message.
    return frozenset(text for text in texts if len(text) >= _SHORTEST)
