"""URLs out of payloads: which are taken, and that none leads to where it must not."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from scheduld.handlers.http import make
from scheduld.handlers.http_answer import CallFailed
from scheduld.handlers.options import BadOptions
from scheduld.outcomes import Dead
from tests.support.daemons import ROOT
from tests.support.tls import Certificate
from tests.support.web import a_run, hooks

if TYPE_CHECKING:
    from pathlib import Path


async def call(payload: dict[str, Any], **options: Any) -> Any:
    """Make one call through the handler, as the daemon does."""
    return await make(options).call(payload, a_run())


async def test_without_allow_hosts_a_url_is_data() -> None:
    """The payload's `url` is sent like any other key, and never asked."""
    async with hooks() as server:
        await call({"url": "http://127.0.0.1:1/"}, url=server.url)
    assert json.loads(server.got[0].body) == {"url": "http://127.0.0.1:1/"}


async def test_an_allowed_url_is_called_with_the_rest_of_the_payload() -> None:
    """The address is taken out of the body; the fixed URL is for payloads without one."""
    async with hooks() as server:
        options = {
            "url": f"{server.url}/fixed",
            "allow_hosts": [f"127.0.0.1:{server.port}"],
            "allow_private": True,
        }
        await call({"url": f"{server.url}/own?x=1#part", "a": 1}, **options)
        await call({"a": 2}, **options)
    own, fixed = server.got
    assert (own.path, json.loads(own.body)) == ("/own?x=1", {"a": 1})
    assert (fixed.path, json.loads(fixed.body)) == ("/fixed", {"a": 2})


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://evil.org/", "not in allow_hosts"),
        ("https://ok.org:8443/", "not in allow_hosts"),
        ("https://ok.org.evil.org/", "not in allow_hosts"),
        ("https://ok.org@evil.org/", "a user"),
        ("https://ana:pw@ok.org/", "a user"),
        ("https://ok.org\\@evil.org/", "no URL"),
        ("https://ok.org/\r\nX: y", "must be a URL"),
        ("https://ok.org/a b", "must be a URL"),
        ("ftp://ok.org/", "must be a URL"),
        ("file:///etc/passwd", "must be a URL"),
        ("//ok.org/", "must be a URL"),
        ("ok.org", "must be a URL"),
        ("https://[ok.org/", "no URL"),
        ("https://ok.org:99999/", "no URL"),
        ("https:///", "must be a URL"),
        ("", "must be a URL"),
        ("https://ok.org/" + "x" * 2_000, "at most 2000"),
        ("https://2130706433/", "no address that can be asked"),
        ("https://0177.0.0.1/", "no address that can be asked"),
        (5, "must be a text"),
        (None, "must be a text"),
        (["https://ok.org"], "must be a text"),
    ],
)
async def test_urls_that_are_refused(url: Any, told: str) -> None:
    """What is not allowed is dead with the reason, before anybody is asked."""
    with pytest.raises(Dead, match=told) as caught:
        await call({"url": url}, allow_hosts=["ok.org", "2130706433", "0177.0.0.1"])
    assert str(caught.value).isprintable()


async def test_a_payload_without_url_is_dead() -> None:
    """With allow_hosts alone each payload must have one."""
    with pytest.raises(Dead, match="no url"):
        await call({}, allow_hosts=["ok.org"])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "localhost.",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "127.0.0.1.",
        "\uff11\uff12\uff17.0.0.1",
    ],
)
async def test_no_spelling_leads_to_this_host(host: str) -> None:
    """Whatever the spelling and the name service make of it, nothing is connected to."""
    async with hooks("::1" if host == "[::1]" else "127.0.0.1") as server:
        with pytest.raises((Dead, CallFailed)):
            await call({"url": f"http://{host}:{server.port}/"}, allow_hosts=[f"*:{server.port}"])
        assert server.got == []


async def test_a_name_that_resolves_to_a_private_address_is_dead() -> None:
    """The reason names the place and the option that would allow it."""
    async with hooks() as server:
        url = f"http://localhost:{server.port}/?key=hunter2"
        with pytest.raises(Dead, match=r"leads to a private address.*allow_private") as caught:
            await call({"url": url}, allow_hosts=["*", f"localhost:{server.port}"])
    assert "hunter2" not in str(caught.value)


async def test_a_name_that_changes_its_address_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that is connected to is checked, not one that was looked up before."""
    answers = iter(["8.8.8.8", "127.0.0.1"])
    real = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "rebind.example":
            return real(next(answers, "127.0.0.1"), port, *args, **kwargs)
        return real(host, port, *args, **kwargs)

    async with hooks() as server:
        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        socket.getaddrinfo("rebind.example", server.port)  # somebody's check finds it public
        with pytest.raises(Dead, match="private address"):
            await call(
                {"url": f"http://rebind.example:{server.port}/"}, allow_hosts=[f"*:{server.port}"]
            )
    assert server.got == []


async def test_a_kept_connection_of_the_fixed_url_is_not_borrowed() -> None:
    """That the operator's URL reaches a private host opens no way for payloads."""
    async with hooks() as server:
        handler = make({"url": server.url, "allow_hosts": [f"127.0.0.1:{server.port}"]})
        await handler.call({}, a_run())
        with pytest.raises(Dead, match="private address"):
            await handler.call({"url": server.url}, a_run())
    assert len(server.got) == 1


async def test_a_redirect_of_an_allowed_host_leads_nowhere_else() -> None:
    """An allowed server cannot send us to the metadata address."""
    async with hooks() as server:
        place = "http://169.254.169.254/latest/meta-data/"
        server.answers["/"] = web.Response(status=307, headers={"Location": place})
        with pytest.raises(CallFailed, match="none to another place is followed"):
            await call(
                {"url": server.url}, allow_hosts=[f"127.0.0.1:{server.port}"], allow_private=True
            )


async def test_ipv6() -> None:
    """An IPv6 address works, in the fixed URL and as a pattern."""
    async with hooks("::1") as server:
        await call({}, url=server.url)
        pattern = f"[0:0::1]:{server.port}"
        await call({"url": server.url}, allow_hosts=[pattern], allow_private=True)
    assert len(server.got) == 2


async def test_certificates_are_checked(tmp_path: Path) -> None:
    """An unknown or foreign certificate is a failure; `ca_file` names one to trust."""
    own, other = Certificate(tmp_path / "own"), Certificate(tmp_path / "other", host="x.org")
    async with hooks(tls=own.server()) as server:
        with pytest.raises(CallFailed, match="certificate is not valid"):
            await call({}, url=server.url)
        assert (await call({}, url=server.url, ca_file=str(own.path)))["status"] == 200
    async with hooks(tls=other.server()) as server:
        with pytest.raises(CallFailed, match=r"certificate is not valid.*IP address mismatch"):
            await call({}, url=server.url, ca_file=str(other.path))
    async with hooks() as server:
        with pytest.raises(CallFailed, match="cannot connect"):
            await call({}, url=server.url.replace("http:", "https:"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "url is missing"),
        ({"url": "example.com/hunter2"}, "must be a URL"),
        ({"url": "ftp://ana:hunter2@example.com/"}, "must be a URL"),
        ({"url": "https://hunter2 @example.com/"}, "must be a URL"),
        ({"url": "https://[hunter2"}, "must be a URL"),
        ({"url": "https://example.com:hunter2/"}, "must be a URL"),
        ({"url": "https://example.com:0/"}, "port"),
        ({"url": "https://a.b", "method": "post"}, "must be one of POST"),
        ({"url": "https://a.b", "mehtod": "PUT"}, "did you mean 'method'"),
        ({"url": "https://a.b", "headers": {"X Y": "hunter2"}}, "no name of a header"),
        ({"url": "https://a.b", "headers": {"X": "hunter2\r\nY: z"}}, "printable ASCII"),
        ({"url": "https://a.b", "headers": {"X": "\u00e9"}}, "printable ASCII"),
        ({"url": "https://a.b", "headers": {"Host": "c.d"}}, "is taken"),
        ({"url": "https://a.b", "headers": {"Webhook-Id": "1"}}, "is taken"),
        ({"url": "https://a.b", "headers": {"X": "1", "x": "2"}}, "twice"),
        ({"url": "https://a.b", "headers": {"X": 1}}, "must be a text"),
        ({"url": "https://u:p@a.b", "headers": {"Authorization": "hunter2"}}, "one is too many"),
        ({"url": "https://a.b", "secret": "whsec_hunter2"}, "must not be empty"),
        ({"url": "https://a.b", "secret": []}, "list of texts"),
        ({"url": "https://a.b", "secret": ["hunter2", ""]}, "must not be empty"),
        ({"allow_hosts": ["https://a.b"]}, "no host"),
        ({"allow_hosts": []}, "list of texts"),
        ({"allow_hosts": "a.b"}, "list of texts"),
        ({"url": "https://a.b", "allow_private": True}, "needs allow_hosts"),
        ({"allow_hosts": ["a.b"], "allow_private": "yes"}, "true or false"),
        ({"url": "https://a.b", "timeout": 0}, "above zero"),
        ({"url": "https://a.b", "max_response": "1MB"}, "1B to 48KB"),
        ({"url": "https://a.b", "max_response": "much"}, "is no size"),
        ({"url": "https://a.b", "ca_file": "/no/such/file"}, "absolute path of a file"),
        ({"url": "https://a.b", "ca_file": "/etc/passwd"}, "no certificates"),
    ],
)
def test_faulty_options_are_refused(options: dict[str, Any], told: str) -> None:
    """Each faulty option is refused at start and named, and no value is told."""
    with pytest.raises(BadOptions, match=told) as caught:
        make(options)
    assert len(caught.value.problems) == 1
    assert "hunter2" not in str(caught.value)


def test_every_fault_of_the_options_is_told() -> None:
    """All faults are told at once."""
    with pytest.raises(BadOptions) as caught:
        make({"method": "X", "secret": "", "allow_hosts": ["/"], "timeout": "soon", "heders": {}})
    assert len(caught.value.problems) == 5


def test_a_handler_does_not_show_its_secrets() -> None:
    """The handler's repr has no secret, no header and no URL."""
    options = {"url": "https://a.b/hunter2", "secret": "hunter2", "headers": {"X": "hunter2"}}
    assert "hunter2" not in repr(make(options))


def test_a_check_without_network_opens_nothing() -> None:
    """Making the handler needs no event loop and leaves nothing to be closed."""
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "from scheduld.handlers.http import make\n"
        "make({'url': 'https://a.b'})\n"
    )
    argv = [sys.executable, "-c", code]
    ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
