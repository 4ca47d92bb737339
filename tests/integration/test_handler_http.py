"""The handler `http` against real servers on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import hashlib
import hmac
import json
import socket
import time
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from scheduld.handlers import http_call
from scheduld.handlers.http import make
from scheduld.handlers.http_answer import CallFailed
from scheduld.outcomes import Dead, Retry
from tests.support.servers import free_port
from tests.support.web import DUE, a_run, hooks, raw_server


async def call(payload: dict[str, Any], **options: Any) -> Any:
    """Make one call through the handler, as the daemon does."""
    return await make(options).call(payload, a_run())


async def test_the_payload_is_the_body() -> None:
    """A POST with the payload as JSON, and what tells a receiver one task from another."""
    payload = {"a": [], "n": 12345678901234567, "s": "\u00f1", "o": {"x": None}}
    async with hooks() as server:
        told = await call(payload, url=f"{server.url}/in?token=1")
    (got,) = server.got
    assert told == {"status": 200, "body": "thanks"}
    assert (got.method, got.path) == ("POST", "/in?token=1")
    assert json.loads(got.body) == payload
    assert got.headers["content-type"] == "application/json"
    assert got.headers["idempotency-key"] == "hook/t1@1798099200000"
    assert got.headers["scheduld-attempt"] == "1"
    assert got.headers["user-agent"].startswith("scheduld/")
    assert not any(name.startswith("webhook-") for name in got.headers)


async def test_the_identity_is_of_the_occurrence() -> None:
    """Attempts of a task share an id; another due time or another task has its own; all ASCII."""
    async with hooks() as server:
        handler = make({"url": server.url})
        runs = [
            a_run(),
            a_run(attempt=2),
            a_run(due=DUE + timedelta(days=7)),
            a_run(id="\u00f1/\u65e5%"),
            a_run(id="%C3%B1/%E6%97%A5%"),
            a_run(id='1.1796034647.{"paid":1}'),
        ]
        for run in runs:
            await handler.call({}, run)
    first, again, *others = (got.headers["idempotency-key"] for got in server.got)
    assert first == again
    assert len({first, *others}) == 5
    assert others[1] == "hook/%C3%B1/%E6%97%A5%25@1798099200000"
    # A dot would end it in what is signed: the rest of the id would count as time and body.
    assert others[3] == 'hook/1%2E1796034647%2E{"paid":1}@1798099200000'


async def test_a_signed_request_can_be_verified() -> None:
    """id, timestamp and body are signed; the timestamp is that of the sending."""
    async with hooks() as server:
        await call({"a": 1}, url=server.url, secret="whsec_c2VjcmV0LXNlY3JldA==")
    (got,) = server.got
    stamp = got.headers["webhook-timestamp"]
    assert abs(int(stamp) - time.time()) < 30
    content = f"{got.headers['webhook-id']}.{stamp}.".encode() + got.body
    mark = hmac.new(b"secret-secret", content, hashlib.sha256).digest()
    assert got.headers["webhook-signature"] == "v1," + base64.b64encode(mark).decode()


async def test_headers_and_methods() -> None:
    """Own headers are added, may replace the type of the body, and a GET has no body."""
    headers = {"X-Api": "k", "content-type": "application/cloudevents+json"}
    async with hooks() as server:
        await call({"a": 1}, url=server.url, headers=headers)
        await call({"a": 1}, url=server.url, method="GET")
        await call({"a": 1}, url=server.url, method="DELETE")
    post, get, delete = server.got
    assert post.headers["x-api"] == "k"
    assert post.headers["content-type"] == "application/cloudevents+json"
    assert (get.method, get.body) == ("GET", b"")
    assert "content-type" not in get.headers
    assert (delete.method, delete.body) == ("DELETE", b'{"a":1}')


@pytest.mark.parametrize(
    ("written", "told"), [("ana:s%40t", b"ana:s@t"), ("ana", b"ana:"), (":s", b":s"), (":", b"")]
)
async def test_a_user_in_the_url_logs_in(written: str, told: bytes) -> None:
    """User and password of the URL, either of which may be missing, become authentication."""
    async with hooks() as server:
        await call({}, url=server.url.replace("://", f"://{written}@"))
    header = server.got[0].headers.get("authorization", "Basic ")
    assert base64.b64decode(header.removeprefix("Basic ")) == told


async def test_one_connection_serves_many_calls() -> None:
    """Calls one after the other share a connection; one that the server closed is made anew."""
    async with hooks() as server:
        server.answers["/last"] = web.Response(headers={"Connection": "close"})
        handler = make({"url": server.url})
        last = make({"url": f"{server.url}/last"})
        for _ in range(3):
            await handler.call({}, a_run())
        for _ in range(2):
            await last.call({}, a_run())
    kept, closed = server.got[:3], server.got[3:]
    assert len({got.connection for got in kept}) == 1
    assert len({got.connection for got in closed}) == 2


async def test_what_nobody_asked_for_is_no_answer() -> None:
    """A server that says more than its answer does not answer the next request with it."""
    heard, said = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readuntil(b"{}")
            for text in (b"first", b"later"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + text)
                await writer.drain()
                await heard.wait()
            said.set()
            await reader.read()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        handler = make({"url": url})
        for _ in range(2):
            assert (await handler.call({}, a_run()))["body"] == "first"
            heard.set()
            await said.wait()
            for _ in range(10):  # it is in the socket: a turn of the loop reads it
                await asyncio.sleep(0)
            said.clear()


async def test_cookies_are_not_carried_over() -> None:
    """What a server sets in one task is not sent with the next."""
    async with hooks() as server:
        server.answers["/"] = web.Response(headers={"Set-Cookie": "who=ana"})
        handler = make({"url": server.url})
        await handler.call({}, a_run())
        await handler.call({}, a_run())
    assert "cookie" not in server.got[1].headers


def test_each_loop_has_its_own_connections(recwarn: pytest.WarningsRecorder) -> None:
    """A handler serves one loop after the other, and leaves nothing open behind any of them."""
    handlers = [make({"url": f"http://127.0.0.1:{free_port()}"})]

    async def once() -> str:
        async with hooks() as server:
            # One that lives on in the next loop, and one that is garbage before this one ends.
            with pytest.raises(CallFailed):
                await handlers[0].call({}, a_run())
            told = await call({}, url=server.url)
            gc.collect()
            return str(told["body"])

    assert [asyncio.run(once()) for _ in range(3)] == ["thanks"] * 3
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


async def test_http_errors() -> None:
    """4xx is dead, 5xx a failed attempt, and Retry-After is kept; none tells the URL's query."""
    async with hooks() as server:
        server.answers["/gone"] = web.Response(status=410, text="moved\naway")
        server.answers["/down"] = web.Response(status=503)
        server.answers["/slow"] = web.Response(status=429, headers={"Retry-After": "9"})
        with pytest.raises(Dead, match=f"{server.url} answered 410: moved away"):
            await call({}, url=f"{server.url}/gone?key=hunter2hunter2")
        with pytest.raises(CallFailed, match="answered 503") as failed:
            await call({}, url=f"{server.url}/down?key=hunter2hunter2")
        with pytest.raises(Retry) as later:
            await call({}, url=f"{server.url}/slow")
    assert "hunter2" not in str(failed.value)
    assert later.value.after == 9


async def test_an_echo_tells_no_secret() -> None:
    """A server that sends back what it was sent puts no credentials into errors or results."""
    path = "/hooks/T0KEN%2FPART?key=s3cr%25et-key"
    headers = {"X-Api-Key": 'api-key-"quoted"', "X-Tenant": "tenant-of-ana"}
    echo = json.dumps(
        [path, headers, "YW5hOnMzY3JldC1wYXNz", "s3cret-pass", "whsec_c2VjcmV0LXNlY3JldA=="]
    )
    secrets = ("YW5h", "s3cret-pass", "c2VjcmV0", "api-key")
    async with hooks() as server:
        url = server.url.replace("://", "://ana:s3cret-pass@") + path
        options = {"url": url, "headers": headers, "secret": "whsec_c2VjcmV0LXNlY3JldA=="}
        server.answers["/hooks/T0KEN/PART"] = web.Response(
            text=echo, content_type="application/json"
        )
        answered = await call({}, **options)
        server.answers["/hooks/T0KEN/PART"] = web.Response(status=400, text=echo)
        with pytest.raises(Dead) as dead:
            await call({}, **options)
    assert not any(secret in json.dumps(answered) for secret in secrets)
    assert answered["body"][1]["X-Tenant"] == "tenant-of-ana"
    assert not any(part in str(dead.value) for part in (*secrets, "T0KEN", "s3cr", "tenant"))


async def test_a_long_answer_is_cut() -> None:
    """Of a long body only the beginning is read, and the status still counts."""
    async with hooks() as server:
        server.answers["/"] = web.Response(body=b"x" * 5_000_000)
        told = await call({}, url=server.url, max_response="1KB")
    assert told == {"status": 200, "body": "x" * 1024, "body_cut": True}


async def test_a_body_that_never_ends_does_not_undo_the_status() -> None:
    """The 200 is the verdict: waiting for the rest ends at the timeout, without a second call."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    async with raw_server(head, ends=False) as url:
        told = await call({}, url=url, timeout="300ms")
    assert told == {"status": 200, "body": "half", "body_cut": True}
    async with raw_server(head) as url:
        assert (await call({}, url=url))["body"] == "half"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 5_000 + b"\r\n", "no HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "no HTTP"),
    ],
)
async def test_what_is_no_answer_is_a_failed_attempt(said: bytes, told: str) -> None:
    """Garbage, endless headers and a sudden end are failures in words, never a 4xx."""
    async with raw_server(said) as url:
        with pytest.raises(CallFailed, match=told) as caught:
            await call({}, url=f"{url}/?key=hunter2")
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).isprintable()


async def test_a_silent_server_is_a_failed_attempt() -> None:
    """`timeout` ends the wait for an answer, also for one that drips."""
    async with raw_server(b"HTTP/1.1 2", ends=False) as url:
        with pytest.raises(CallFailed, match="no answer within 200ms"):
            await call({}, url=url, timeout="200ms")


async def test_no_server_is_a_failed_attempt() -> None:
    """A refused connection and an unknown name are failures that name the place."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CallFailed, match=f":{port}: cannot connect"):
        await call({}, url=f"http://127.0.0.1:{port}/x?key=hunter2")
    with pytest.raises(CallFailed, match=r"no-such-host\.invalid: cannot connect"):
        await call({}, url="http://no-such-host.invalid/")


async def test_redirects_within_the_place_are_followed() -> None:
    """307 and 308 send the same again, with the same signature."""
    async with hooks() as server:
        for status in (307, 308):
            there = {"Location": f"/there?{status}"}
            server.answers[f"/{status}"] = web.Response(status=status, headers=there)
            told = await call({"a": 1}, url=f"{server.url}/{status}", secret="s")
            assert told["status"] == 200
    first, second, third, fourth = server.got
    assert (second.path, fourth.path) == ("/there?307", "/there?308")
    for one, two in ((first, second), (third, fourth)):
        assert one.body == two.body == b'{"a":1}'
        assert one.headers["webhook-signature"] == two.headers["webhook-signature"]
        assert two.method == "POST"


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_post_does_not_become_a_get(status: int) -> None:
    """A redirect that clients follow with a GET is a failure: nothing would be delivered."""
    async with hooks() as server:
        server.answers["/"] = web.Response(status=status, headers={"Location": "/there"})
        with pytest.raises(CallFailed, match="only at 307 or 308"):
            await call({}, url=server.url)
        assert len(server.got) == 1
        await call({}, url=server.url, method="GET")
    assert server.got[-1].path == "/there"


async def test_a_host_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting has a shorter deadline of its own."""
    monkeypatch.setattr(http_call, "_CONNECT_S", 0.2)
    with closing(socket.socket()) as listener, contextlib.ExitStack() as opened:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        place = listener.getsockname()
        # Nobody accepts: after these the queue is full, and the kernel answers no more.
        for _ in range(3):
            filling = opened.enter_context(closing(socket.socket()))
            filling.setblocking(False)
            filling.connect_ex(place)
        with pytest.raises(CallFailed, match="cannot connect within 200ms"):
            await call({}, url=f"http://127.0.0.1:{place[1]}")


async def test_redirects_to_another_place_are_not_followed() -> None:
    """Another host, port or scheme is never asked, and gets no header."""
    async with hooks() as server, hooks() as other:
        places = [
            f"{other.url}/?key=hunter2",
            f"http://localhost:{server.port}/",
            f"https://127.0.0.1:{server.port}/",
            "//evil.example/",
            "file:///etc/passwd",
            "http://[broken",
        ]
        for place in places:
            server.answers["/"] = web.Response(status=307, headers={"Location": place})
            with pytest.raises(CallFailed, match="307") as caught:
                await call({}, url=server.url)
            assert "hunter2" not in str(caught.value)
    assert other.got == []
    assert len(server.got) == len(places)


async def test_a_circle_of_redirects_ends() -> None:
    """After five redirects it is a failure."""
    async with hooks() as server:
        server.answers["/"] = web.Response(status=308, headers={"Location": "/"})
        with pytest.raises(CallFailed, match="more than 5 times"):
            await call({}, url=server.url)
    assert len(server.got) == 6


async def test_a_payload_larger_than_a_megabyte_is_sent() -> None:
    """Size is the business of max_payload."""
    async with hooks() as server:
        await call({"big": "x" * 2_000_000}, url=server.url)
    assert len(server.got[0].body) > 2_000_000


async def test_a_payload_that_cannot_be_sent_is_dead() -> None:
    """A lone surrogate is no UTF-8."""
    with pytest.raises(Dead, match="surrogate"):
        await call({"a": "\ud800"}, url="http://127.0.0.1:1")


async def test_a_cancelled_call_ends_at_once() -> None:
    """Cancellation does not wait for the server."""
    async with raw_server(b"", ends=False) as url:
        calling = asyncio.create_task(call({}, url=url))
        done, _ = await asyncio.wait([calling], timeout=0.2)
        assert not done
        calling.cancel()
        done, _ = await asyncio.wait([calling], timeout=5)
        assert calling.cancelled()
