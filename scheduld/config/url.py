"""Redis URLs: checked before anything connects, and shown without their secrets."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from scheduld.config.faults import BadValue

EMBEDDED = "embedded"
_SCHEMES = {
    "redis": "redis",
    "rediss": "rediss",
    "unix": "unix",
    "valkey": "redis",
    "valkeys": "rediss",
}
_LATER = ("redis+sentinel", "redis+cluster")
_PLAIN_PARAMETERS = frozenset({"db", "client_name"})
_SECRET_PARAMETERS = frozenset({"username", "password"})
_TLS_PARAMETERS = frozenset(
    {"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"}
)
_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
_HINT = 'use "embedded", redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH'
_ESCAPES = "write / ? # @ and % in a password as %2F %3F %23 %40 %25"


def _fault(message: str, hint: str = _HINT) -> BadValue:
    return BadValue(message, hint=hint)


def parse_redis_url(text: str) -> str:
    """Return the URL as the Redis client takes it, `valkey://` written as `redis://`.

    Raises BadValue, which never quotes the URL, for what cannot be connected to.
    """
    if text == EMBEDDED:
        return text
    if not text or any(char.isspace() or not char.isprintable() for char in text):
        raise _fault("is empty or has spaces or control characters")
    scheme, mark, rest = text.partition("://")
    scheme = scheme.lower()
    if mark and scheme in _LATER:
        raise _fault(f"{scheme}:// is not in this version")
    if not mark or scheme not in _SCHEMES:
        raise _fault("is no Redis URL")
    parts = _split(f"{_SCHEMES[scheme]}://{rest}")
    _check_place(parts)
    _check_parameters(parts)
    return urlunsplit(parts) if parts.scheme != "unix" else f"unix://{rest}"


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # The reason is left out on purpose: it quotes the part, often a password.
        raise _fault("has a malformed host or port", _ESCAPES) from None
    if port == 0:
        raise _fault("has port 0", "ports are 1 to 65535")
    if parts.fragment or "#" in text:
        raise _fault('has a "#"', _ESCAPES)
    return parts


def _check_place(parts: SplitResult) -> None:
    if parts.scheme == "unix":
        if not parts.path.strip("/"):
            raise _fault("names no socket", "use unix:///PATH/OF/SOCKET")
        if parts.hostname:
            raise _fault("has a relative socket path", "use unix:///PATH/OF/SOCKET")
        return
    if not parts.hostname or not _HOST.fullmatch(parts.hostname):
        raise _fault("names no host, or a malformed one", _ESCAPES)
    if not re.fullmatch(r"/?|/\d{1,4}", parts.path, re.ASCII):
        raise _fault("has a path that is no database number", f"such as /0; {_ESCAPES}")


def _check_parameters(parts: SplitResult) -> None:
    known = _PLAIN_PARAMETERS | _SECRET_PARAMETERS
    if parts.scheme == "rediss":
        known |= _TLS_PARAMETERS
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise _fault("has malformed parameters", _ESCAPES) from None
    if any(name not in known for name, _ in pairs):
        names = ", ".join(sorted(known))
        raise _fault("has a parameter that is not known", f"known are {names}")
    if any(name == "db" and not re.fullmatch(r"\d{1,4}", value, re.ASCII) for name, value in pairs):
        raise _fault("has a db that is no number", "such as ?db=0")


def mask_url(url: str) -> str:
    """Return the URL for people to see: without user, password and secret parameters.

    Of what is no valid URL nothing is shown, since any part of it may be a secret.
    """
    try:
        url = parse_redis_url(url)
    except BadValue:
        return "(hidden)"
    if url == EMBEDDED:
        return url
    parts = urlsplit(url)
    pairs = [pair for pair in parse_qsl(parts.query) if pair[0] not in _SECRET_PARAMETERS]
    place = parts.netloc.rpartition("@")[2]
    query = urlencode(pairs, safe="/")
    return f"{parts.scheme}://{place}{parts.path}" + (f"?{query}" if query else "")
