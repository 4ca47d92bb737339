"""Connections of the handler `email`: kept, made anew, secured; and no mail twice by them."""

from __future__ import annotations

import asyncio
import gc
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.handlers import smtp
from scheduld.handlers.email import MailNotSent, make
from scheduld.handlers.options import BadOptions
from tests.support.mail import PASSWORD, Inbox, Server, a_run, check_login, inbox, send, serve
from tests.support.servers import free_port, wait_until
from tests.support.tls import Certificate

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from scheduld.handlers.contract import Handler

__all__ = ["inbox", "serve"]  # fixtures
MAIL = {"to": "a@x.org", "subject": "hi"}


@dataclass
class Post:
    """A mail server that keeps count, and does at each command what it is told."""

    port: int = 0
    connections: int = 0
    mails: list[str] = field(default_factory=list)
    goodbyes: int = 0
    replies: dict[str, list[str]] = field(default_factory=dict)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def reply(self, verb: str, usual: str) -> str:
        """The reply to this command: the next that was set for it, or the usual one."""
        told = self.replies.get(verb)
        return told.pop(0) if told else usual

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with one client. The reply `hang up` closes the connection without a word."""
        self.connections += 1
        self.writers.append(writer)
        writer.write(b"220 post\r\n")
        while command := (await reader.readline()).decode().strip():
            verb = command[:4].upper()
            reply = self.reply(verb, {"DATA": "354 go", "QUIT": "221 bye"}.get(verb, "250 ok"))
            if verb == "DATA" and reply.startswith("354"):
                writer.write(f"{reply}\r\n".encode())
                mail = (await reader.readuntil(b"\r\n.\r\n")).decode()
                reply = self.reply("MAIL DATA", "250 ok")
                if not reply.startswith(("4", "5")):
                    self.mails.append(mail)
            if reply == "hang up":
                break
            if reply == "say nothing":
                continue
            writer.write(f"{reply}\r\n".encode())
            self.goodbyes += verb == "QUIT"
            if verb == "QUIT" or reply.startswith("421"):
                break
        writer.close()

    def hang_up(self) -> None:
        """Close all connections, as a server that is restarted does."""
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    def handler(self, **options: Any) -> Handler:
        """A handler that sends here."""
        told = {"smtp_url": f"smtp://127.0.0.1:{self.port}", "from": "s@x.org"}
        return make(told | options)


@asynccontextmanager
async def post(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Post]:
    """Run such a server."""
    told = Post()
    server = await asyncio.start_server(told.serve, host, 0, ssl=tls)
    told.port = server.sockets[0].getsockname()[1]
    try:
        yield told
    finally:
        told.hang_up()
        server.close()
        await server.wait_closed()


async def until(true: Callable[[], bool]) -> None:
    """Wait until `true()`, for a few seconds."""
    await asyncio.to_thread(wait_until, true, "what the server did")


async def test_mails_share_a_connection() -> None:
    """One mail after the other goes over one connection."""
    async with post() as server:
        handler = server.handler()
        for _ in range(5):
            await handler.call(MAIL, a_run())
        assert (server.connections, len(server.mails)) == (1, 5)


async def test_mails_at_once_have_connections_of_their_own() -> None:
    """No mail waits for another; of many connections a few are kept, the others say goodbye."""
    async with post() as server:
        handler = server.handler()
        await asyncio.gather(*(handler.call(MAIL, a_run(id=f"t{n}")) for n in range(12)))
        assert len(server.mails) == 12
        assert server.connections > smtp.MOST_IDLE
        await until(lambda: server.connections - server.goodbyes == smtp.MOST_IDLE)


async def test_a_connection_that_the_server_closed_is_made_anew() -> None:
    """A restart of the server between two mails costs no attempt and no second copy."""
    async with post() as server:
        handler = server.handler()
        for _ in range(3):
            await handler.call(MAIL, a_run())
            server.hang_up()
        assert (server.connections, len(server.mails)) == (3, 3)


@pytest.mark.parametrize(
    "reply", ["hang up", "421 too long idle", "450 enough", "503 no", "550 enough for today"]
)
async def test_a_server_that_is_tired_of_a_connection(reply: str) -> None:
    """Whatever it answers to the beginning of a second mail, a fresh connection is tried."""
    async with post() as server:
        handler = server.handler()
        await handler.call(MAIL, a_run())
        server.replies["MAIL"] = [reply]
        await handler.call(MAIL, a_run())
        assert (server.connections, len(server.mails)) == (2, 2)


async def test_a_kept_connection_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was cut without a word (a firewall) is given up soon, not at the timeout."""
    monkeypatch.setattr(smtp, "_PROBE_S", 0.1)
    async with post() as server:
        handler = server.handler(timeout="50s")
        await handler.call(MAIL, a_run())
        server.replies["MAIL"] = ["say nothing"]
        async with asyncio.timeout(10):
            await handler.call(MAIL, a_run())
        assert (server.connections, len(server.mails)) == (2, 2)


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA", "MAIL DATA"])
async def test_what_a_fresh_connection_says_counts(verb: str) -> None:
    """There the end of the connection is a failed attempt: no second try behind anyone's back."""
    async with post() as server:
        server.replies[verb] = ["hang up"]
        with pytest.raises(MailNotSent):
            await server.handler().call(MAIL, a_run())
        assert server.connections == 1


async def test_a_mail_that_was_handed_over_is_not_sent_again() -> None:
    """When a kept connection breaks after the mail went out, only a new attempt may repeat it."""
    async with post() as server:
        handler = server.handler()
        await handler.call(MAIL, a_run())
        server.replies["MAIL DATA"] = ["hang up"]
        with pytest.raises(MailNotSent):
            await handler.call(MAIL, a_run())
        assert (server.connections, len(server.mails)) == (1, 2)
        await handler.call(MAIL, a_run(attempt=2))
    ids = [line for mail in server.mails for line in mail.splitlines() if "Message-ID" in line]
    assert len(ids) == 3
    assert len(set(ids)) == 1


async def test_the_answer_to_a_mail_is_awaited_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` is not for the server that has the mail: giving up there sends it twice."""
    async with post() as server:
        server.replies["MAIL DATA"] = ["say nothing"]
        sending = asyncio.create_task(server.handler(timeout="50ms").call(MAIL, a_run()))
        await until(lambda: bool(server.mails))
        done, _ = await asyncio.wait([sending], timeout=0.3)
        assert not done
        server.writers[0].write(b"250 ok\r\n")
        assert "message_id" in await sending


async def test_a_refused_mail_does_not_spoil_the_next() -> None:
    """After a refusal the next mail is sent whole, with its own recipients."""
    async with post() as server:
        handler = server.handler()
        await handler.call(MAIL, a_run())
        server.replies["RCPT"] = ["450 greylisted"]
        with pytest.raises(MailNotSent, match="greylisted"):
            await handler.call(MAIL, a_run())
        await handler.call(MAIL, a_run())
        assert len(server.mails) == 2


async def test_a_cancelled_mail_takes_its_connection_along() -> None:
    """Half a conversation is not left to the next mail."""
    async with post() as server:
        handler = server.handler()
        await handler.call(MAIL, a_run())
        server.replies["RCPT"] = ["say nothing"]
        sending = asyncio.create_task(handler.call(MAIL, a_run()))
        await until(lambda: not server.replies["RCPT"])
        sending.cancel()
        await asyncio.wait([sending], timeout=5)
        assert sending.cancelled()
        await handler.call(MAIL, a_run())
        assert (server.connections, len(server.mails)) == (2, 2)


async def test_an_idle_connection_ends_with_a_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not used for a while is given back to the server."""
    monkeypatch.setattr(smtp, "IDLE_S", 0.05)
    async with post() as server:
        await server.handler().call(MAIL, a_run())
        await until(lambda: server.goodbyes == 1)


async def test_a_connection_is_not_used_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many mails a new one is made."""
    monkeypatch.setattr(smtp, "MOST_MAILS", 2)
    async with post() as server:
        handler = server.handler()
        for _ in range(4):
            await handler.call(MAIL, a_run())
        assert server.connections == 2
        await until(lambda: server.goodbyes == 2)


def test_each_loop_has_its_own_connections(recwarn: pytest.WarningsRecorder) -> None:
    """A handler serves one loop after the other, and says goodbye at the end of each."""
    port = free_port()
    handler = make({"smtp_url": f"smtp://127.0.0.1:{port}", "from": "s@x.org"})
    servers = []

    async def once() -> None:
        # No context manager: it is a generator too, and would end together with the connection.
        server = Post(port)
        servers.append(server)
        listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
        await handler.call(MAIL, a_run())
        await asyncio.get_running_loop().shutdown_asyncgens()
        server.hang_up()
        listener.close()
        await listener.wait_closed()

    for _ in range(3):
        asyncio.run(once())
    gc.collect()
    assert [server.goodbyes for server in servers] == [1, 1, 1]
    assert [str(each.message) for each in recwarn] == []


async def test_tls_from_the_beginning(tmp_path: Path) -> None:
    """smtps:// with a certificate that `ca_file` trusts; without it the mail is not sent."""
    own = Certificate(tmp_path / "own")
    async with post(tls=own.server()) as server:
        url = f"smtps://127.0.0.1:{server.port}"
        with pytest.raises(MailNotSent, match="certificate"):
            await server.handler(smtp_url=url).call(MAIL, a_run())
        assert server.mails == []
        await server.handler(smtp_url=url, ca_file=str(own.path)).call(MAIL, a_run())
        assert len(server.mails) == 1


async def test_starttls_and_login(
    serve: Callable[..., Server], inbox: Inbox, tmp_path: Path
) -> None:
    """smtp+starttls:// logs in behind TLS only; many mails need one login."""
    own = Certificate(tmp_path / "own")
    options: dict[str, Any] = {"authenticator": check_login, "auth_required": True}
    address = serve(tls_context=own.server(), require_starttls=True, **options).address
    url = f"smtp+starttls://ana:S3cr%40t%2Fpass@{address}"
    handler = make({"smtp_url": url, "from": "s@x.org", "ca_file": str(own.path)})
    for _ in range(3):
        await handler.call(MAIL, a_run())
    assert len(inbox.envelopes) == 3
    assert PASSWORD not in repr(handler)
    with pytest.raises(MailNotSent, match="certificate"):
        await send(address, MAIL, smtp_url=url)


async def test_ipv6() -> None:
    """A server at an IPv6 address."""
    async with post("::1") as server:
        handler = server.handler(smtp_url=f"smtp://[::1]:{server.port}")
        await handler.call(MAIL, a_run())
        assert len(server.mails) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"smtp_url": "smtp://x", "ca_file": "{own}"}, "needs smtp\\+starttls"),
        ({"smtp_url": "smtps://x", "ca_file": "/no/such"}, "path of a file"),
        ({"smtp_url": "smtps://x", "ca_file": "/etc/passwd"}, "no certificates"),
    ],
)
def test_a_faulty_ca_file(options: dict[str, str], told: str, tmp_path: Path) -> None:
    """A file of certificates must be one, and must be needed."""
    (tmp_path / "own.pem").touch()
    values = {key: text.format(own=tmp_path / "own.pem") for key, text in options.items()}
    with pytest.raises(BadOptions, match=told):
        make({"from": "a@x.org", **values})
