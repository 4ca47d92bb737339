"""One HTTP call: where it goes, what is sent, which redirects are followed."""

from __future__ import annotations

import base64
import io
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import aiohttp
from yarl import URL

from scheduld import clock
from scheduld.duration import format_ms
from scheduld.errors import InvalidInput
from scheduld.handlers.hosts import is_public
from scheduld.handlers.http_answer import Answer, CallFailed, hidden, judge, without
from scheduld.handlers.kept import PerLoop
from scheduld.handlers.signing import sign
from scheduld.names import printable
from scheduld.outcomes import Dead
from scheduld.payload import encode_json
from scheduld.version import __version__

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from aiohttp.tracing import Trace

    from scheduld.handlers.contract import Run
    from scheduld.handlers.hosts import HostPattern

MOST_REDIRECTS = 5
_IDLE_S = 4.0
"""An idle connection is kept so long: many servers close theirs after five seconds, and a request
that crosses with that would be a failed attempt."""
_CONNECT_S = 10.0
_MOST_STALE = 100
_LONGEST_URL = 2_000
_IN_ONE = 256 * 1024
_BODILESS = ("GET", "HEAD")
# Not "%": `a%2Fb` and `a/b` must stay two identities.
_AS_IT_IS = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


@dataclass(frozen=True, slots=True)
class Target:
    """The options of a task type, checked.

    `secrets` must not be in any message, `credentials`, which are among them, in no result.
    """

    url: URL | None = field(repr=False)
    method: str
    headers: Mapping[str, str] = field(repr=False)
    keys: tuple[bytes, ...] = field(repr=False)
    credentials: frozenset[str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    allowed: tuple[HostPattern, ...]
    allow_private: bool
    timeout_s: float
    max_response: int
    tls: ssl.SSLContext | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes


class PrivateAddress(PermissionError):
    """A payload's URL leads to an address that is not of the open internet."""


class Caller:
    """Sends the requests of one task type, over connections that it keeps."""

    def __init__(self, target: Target) -> None:
        self._target = target
        # Apart: what a connection of the fixed URL may reach, a payload's URL may not.
        self._fixed = PerLoop(partial(_open, target, is_guarded=False), _close)
        self._guarded = PerLoop(partial(_open, target, is_guarded=True), _close)

    async def run(self, payload: dict[str, Any], run: Run) -> dict[str, Any]:
        """Send one request; the answer is the result."""
        target = self._target
        url, payload, is_payloads = _address(target, payload)
        is_guarded = is_payloads and not target.allow_private
        session = await (self._guarded if is_guarded else self._fixed).get()
        request = _request(target, url, payload, run)
        where = str(url.origin())
        try:
            answer = await _follow(session, request, target)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as exc:
            # Without the cause: its text may have the URL with what its query holds.
            _refuse(exc, where, target)
        answer = without(answer, target.credentials)
        return judge(answer, where=where, now_ms=clock.wall_ms(), secrets=target.secrets)


class _Connector(aiohttp.TCPConnector):
    """Asks nothing on a kept connection on which the server has said more than its answer:

    that would be taken for the answer to the next request, which the server may never have read.
    """

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        for _ in range(_MOST_STALE):
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()
        raise aiohttp.ServerDisconnectedError


def _open(target: Target, *, is_guarded: bool) -> aiohttp.ClientSession:
    connector = _Connector(
        limit=0,  # the type's concurrency is the limit
        ssl=target.tls or True,
        keepalive_timeout=_IDLE_S,
        socket_factory=_public_socket if is_guarded else None,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),  # tasks share nothing
        auto_decompress=False,
    )


async def _close(session: aiohttp.ClientSession) -> None:
    await session.close()


def _public_socket(found: tuple[Any, ...]) -> socket.socket:
    """Make the socket for an address that was looked up, at the last moment before it is used."""
    family, kind, proto, _, place = found
    if not is_public(str(place[0])):
        raise PrivateAddress("it leads to a private address")
    return socket.socket(family, kind, proto)


def _address(target: Target, payload: dict[str, Any]) -> tuple[URL, dict[str, Any], bool]:
    """The URL, what of the payload is sent, and whether the URL was the payload's."""
    if target.allowed and "url" in payload:
        rest = {key: value for key, value in payload.items() if key != "url"}
        return _payload_url(target, payload["url"]), rest, True
    if target.url is None:
        raise Dead("the payload has no url, and the options have none")
    return target.url, payload, False


def _payload_url(target: Target, text: Any) -> URL:
    if not isinstance(text, str) or len(text) > _LONGEST_URL:
        raise Dead(f"payload url must be a text of at most {_LONGEST_URL} characters")
    try:
        url = URL(text)
        host, port = url.raw_host, url.port
    except ValueError:
        raise Dead("payload url is no URL") from None
    is_clean = text.isprintable() and not {" ", "\\"} & set(text)
    if not is_clean or url.scheme not in ("http", "https") or not host or not port:
        raise Dead("payload url must be a URL that starts with https:// or http://")
    if url.raw_user is not None or url.raw_password is not None:
        raise Dead("payload url has a user or a password: those belong into the options")
    default = {"http": 80, "https": 443}[url.scheme]
    if not any(each.matches(host, port, default_port=default) for each in target.allowed):
        raise Dead(f"payload url leads to {_place(url)}, which is not in allow_hosts")
    return url.with_fragment(None)


def _request(target: Target, url: URL, payload: dict[str, Any], run: Run) -> _Request:
    try:
        body = b"" if target.method in _BODILESS else encode_json(payload)
    except InvalidInput as exc:
        raise Dead(exc.message) from None
    identity = _identity(run)
    headers = {
        "User-Agent": f"scheduld/{__version__}",
        "Accept-Encoding": "identity",
        **({} if target.method in _BODILESS else {"Content-Type": "application/json"}),
    }
    given = {name.lower() for name in target.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in given}
    headers |= target.headers
    headers |= {"Idempotency-Key": identity, "Scheduld-Attempt": str(run.attempt)}
    if told := login(url):
        headers["Authorization"] = told
    if target.keys:
        now_s = int(clock.wall_ms() // 1000)
        headers |= sign(target.keys, identity=identity, now_s=now_s, body=body)
    return _Request(target.method, url.with_user(None), headers, body)


def login(url: URL) -> str:
    """Basic authentication by what stands before the host of a URL; `""` if nothing does."""
    if url.raw_user is None and not url.raw_password:
        return ""
    both = f"{url.user or ''}:{url.password or ''}".encode()
    return f"Basic {base64.b64encode(both).decode('ascii')}"


def _identity(run: Run) -> str:
    """`TYPE/ID@DUE` in ASCII, DUE in ms: the same for each attempt, another for each occurrence.

    With the id alone a receiver that remembers what it has had would take a periodic task once.
    Without a dot, as what is signed is ID.TIMESTAMP.BODY: who may choose ids would else choose
    what stands behind the id too.
    """
    told = quote(f"{run.type}/{run.id}@{round(run.due.timestamp() * 1000)}", safe=_AS_IT_IS)
    return told.replace(".", "%2E")


async def _follow(session: aiohttp.ClientSession, request: _Request, target: Target) -> Answer:
    """Send, and follow redirects within the same scheme, host and port."""
    deadline = clock.monotonic() + target.timeout_s
    for _ in range(MOST_REDIRECTS + 1):
        answer = await _send(session, request, target, deadline - clock.monotonic())
        if answer.status not in (301, 302, 303, 307, 308) or "Location" not in answer.headers:
            return answer
        request = _redirected(request, answer)
    raise CallFailed(f"{request.url.origin()} redirects more than {MOST_REDIRECTS} times")


def _redirected(request: _Request, answer: Answer) -> _Request:
    where = f"{request.url.origin()} answered {answer.status}"
    try:
        url = request.url.join(URL(answer.headers["Location"]))
        is_here = url.origin() == request.url.origin()
    except ValueError:
        raise CallFailed(f"{where} with a Location that is no URL") from None
    if not is_here:
        raise CallFailed(f"{where}, a redirect to {_place(url)}: none to another place is followed")
    url = url.with_user(None).with_fragment(None)
    if request.method in _BODILESS or answer.status in (307, 308):
        return _Request(request.method, url, request.headers, request.body)
    # Clients turn the others into a GET, such as of a login page, whose 200 says that nothing was
    # delivered.
    raise CallFailed(f"{where}: a {request.method} is sent again only at 307 or 308")


async def _send(
    session: aiohttp.ClientSession, request: _Request, target: Target, seconds: float
) -> Answer:
    timeout = aiohttp.ClientTimeout(total=max(seconds, 0.001), sock_connect=_connect_s(target))
    async with session.request(
        request.method,
        request.url,
        data=_body(request.body),
        headers=request.headers,
        allow_redirects=False,
        timeout=timeout,
    ) as response:
        body, is_whole = await _read(response, target.max_response)
        return Answer(response.status, response.headers, body, is_whole)


def _connect_s(target: Target) -> float:
    return min(_CONNECT_S, target.timeout_s)


def _body(data: bytes) -> bytes | io.BytesIO | None:
    # What is large goes out in parts: as one write it would keep the loop from other things.
    return io.BytesIO(data) if len(data) > _IN_ONE else data or None


async def _read(response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
    """The body up to `limit` bytes, and whether that is all of it."""
    body = bytearray()
    try:
        while len(body) <= limit:
            part = await response.content.read(limit + 1 - len(body))
            if not part:
                return bytes(body), True
            body += part
    except (aiohttp.ClientError, OSError, TimeoutError):
        # The status is the server's word on the request; what it adds may be lost.
        pass
    response.close()  # what is left of the answer is in the way of the next one
    return bytes(body[:limit]), False


def _refuse(exc: Exception, where: str, target: Target) -> NoReturn:
    """Say what went wrong, without the URL."""
    if isinstance(exc, aiohttp.ClientConnectorError) and isinstance(exc.os_error, PrivateAddress):
        raise Dead(
            f"payload url {where}: {exc.os_error}, which is not allowed (allow_private)"
        ) from None
    if isinstance(exc, aiohttp.InvalidURL):
        raise Dead(f"{where} is no address that can be asked") from None
    raise CallFailed(f"{where}: {_words(exc, target)}") from None


def _words(exc: Exception, target: Target) -> str:
    match exc:
        case aiohttp.ConnectionTimeoutError():
            text = f"cannot connect within {format_ms(round(_connect_s(target) * 1000))}"
        case TimeoutError():
            return f"no answer within {format_ms(round(target.timeout_s * 1000))}"
        case aiohttp.ClientConnectorCertificateError():
            text = f"its certificate is not valid: {exc.certificate_error}"
        case aiohttp.ClientConnectorError():
            text = f"cannot connect: {exc.os_error.strerror or exc.os_error}"
        case aiohttp.ServerDisconnectedError() | ConnectionError():
            text = "it closed the connection without an answer"
        case aiohttp.ClientResponseError():
            text = f"its answer is no HTTP: {exc.message.partition(chr(10))[0].rstrip(': ')}"
        case aiohttp.ClientPayloadError():
            text = "its answer is broken"
        case _:
            text = f"the request failed: {type(exc).__name__}"
    return printable(" ".join(hidden(text, target.secrets).split()))[:300]


def _place(url: URL) -> str:
    return printable(str(url.origin()))[:200]
