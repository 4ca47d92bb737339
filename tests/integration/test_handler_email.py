"""The handler `email` against real SMTP servers on loopback."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from email.headerregistry import AddressHeader
from typing import TYPE_CHECKING

import pytest

from scheduld.handlers.email import MailNotSent
from scheduld.outcomes import Dead
from tests.support.mail import DUE, Inbox, Server, a_run, check_login, inbox, send, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["inbox", "serve"]  # fixtures
plain_login = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """A server that takes connections and never says a word."""
    writers: list[asyncio.StreamWriter] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.close()
        server.close()
        await server.wait_closed()


def addresses(header: object) -> list[tuple[str, str]]:
    """(name, address) pairs of a parsed header."""
    assert isinstance(header, AddressHeader)
    return [(each.display_name, each.addr_spec) for each in header.addresses]


async def test_a_minimal_mail_arrives(serve: Callable[..., Server], inbox: Inbox) -> None:
    """`to` alone is a mail, with From, Date and Message-ID."""
    result = await send(serve().address, {"to": "ana@example.org"})
    assert result == {"message_id": inbox.mail()["Message-ID"]}
    assert inbox.mail()["Message-ID"].endswith("@example.com>")
    assert addresses(inbox.mail()["From"]) == [("Scheduld", "noreply@example.com")]
    assert abs(inbox.mail()["Date"].datetime - datetime.now(UTC)) < timedelta(minutes=1)
    assert inbox.envelopes[0].mail_from == "noreply@example.com"
    assert inbox.envelopes[0].rcpt_tos == ["ana@example.org"]


async def test_text_beyond_ascii_arrives_whole(serve: Callable[..., Server], inbox: Inbox) -> None:
    """Subject, names, text and HTML beyond ASCII read the same after the journey, as 7-bit mail."""
    subject = "¡Feliz Navidad! " + "ñandú " * 20 + "日本"
    payload = {
        "to": ['"García, Ana" <ana@example.org>', "Jürgen <j@example.org>"],
        "reply_to": "Soporte Técnico <help@example.org>",
        "subject": subject,
        "text": "Größe: 5 µm\n.\n日本語\n",
        "html": "<p>Größe</p>\n",
    }
    await send(serve().address, payload)
    assert inbox.raw().isascii()
    assert inbox.mail()["Subject"] == subject
    names = [("García, Ana", "ana@example.org"), ("Jürgen", "j@example.org")]
    assert addresses(inbox.mail()["To"]) == names
    assert addresses(inbox.mail()["Reply-To"]) == [("Soporte Técnico", "help@example.org")]
    text = inbox.mail().get_body(("plain",))
    html = inbox.mail().get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().replace("\r\n", "\n") == payload["text"]
    assert html.get_content().replace("\r\n", "\n") == payload["html"]


async def test_a_long_mail_is_made_beside_the_loop(
    serve: Callable[..., Server], inbox: Inbox
) -> None:
    """The encoding of many lines, which takes half a second, does not keep the loop."""
    text = "\n" * 250_000
    began = time.thread_time()
    await send(serve().address, {"to": "ana@example.com", "text": text, "html": text})
    assert time.thread_time() - began < 0.25
    assert len(inbox.raw()) > 500_000


async def test_an_address_beyond_ascii_uses_smtputf8(
    serve: Callable[..., Server], inbox: Inbox
) -> None:
    """SMTPUTF8 is asked for when an address needs it, and the header holds the address as it is."""
    await send(serve(enable_SMTPUTF8=True).address, {"to": "Añá <añá@example.org>"})
    assert inbox.envelopes[0].smtp_utf8
    assert inbox.envelopes[0].rcpt_tos == ["añá@example.org"]
    assert "<añá@example.org>".encode() in inbox.raw()


async def test_an_ascii_mail_does_not_ask_for_smtputf8(
    serve: Callable[..., Server], inbox: Inbox
) -> None:
    """A name beyond ASCII is no reason for SMTPUTF8."""
    await send(serve(enable_SMTPUTF8=True).address, {"to": "Añá <a@example.org>"})
    assert not inbox.envelopes[0].smtp_utf8


async def test_bcc_is_delivered_and_not_told(serve: Callable[..., Server], inbox: Inbox) -> None:
    """Bcc recipients are in the envelope only; a repeated recipient gets one mail."""
    payload = {"to": '"A, \\"x\\"" <a@x.org>, b@x.org', "cc": ["a@x.org"], "bcc": "hidden@x.org"}
    await send(serve().address, payload)
    assert inbox.envelopes[0].rcpt_tos == ["a@x.org", "b@x.org", "hidden@x.org"]
    assert b"hidden" not in inbox.raw()
    assert b"bcc" not in inbox.raw().lower()


async def test_message_id_is_of_the_occurrence(serve: Callable[..., Server], inbox: Inbox) -> None:
    """Attempts of one task share a Message-ID; another id, or another due time, has its own."""
    address = serve().address
    runs = [
        a_run(),
        a_run(attempt=2),
        a_run(id="t2"),
        a_run(due=DUE + timedelta(days=7)),
    ]
    ids = [(await send(address, {"to": "a@x.org"}, run=run))["message_id"] for run in runs]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


async def test_encoded_words_are_not_decoded(serve: Callable[..., Server], inbox: Inbox) -> None:
    """A subject that spells an encoded line break stays the text that it is."""
    subject = "=?utf-8?q?hi=0D=0ABcc=3A_evil=40x.org?="
    await send(serve().address, {"to": f"{subject} <a@x.org>", "subject": subject})
    assert inbox.mail()["Subject"] == subject
    assert inbox.mail()["Bcc"] is None
    assert inbox.envelopes[0].rcpt_tos == ["a@x.org"]


async def test_a_5xx_reply_is_dead(serve: Callable[..., Server], inbox: Inbox) -> None:
    """A permanent refusal is dead, with the server's words on one line."""
    inbox.data = "554 5.7.1 looks like spam"
    with pytest.raises(Dead, match=r"554 5\.7\.1 looks like spam"):
        await send(serve().address, {"to": "a@x.org"})


async def test_a_4xx_reply_is_a_failed_attempt(serve: Callable[..., Server], inbox: Inbox) -> None:
    """A refusal for now is an ordinary error, with the server's words."""
    inbox.data = "451 4.3.0 come back later"
    with pytest.raises(MailNotSent, match=r"451 4\.3\.0 come back later"):
        await send(serve().address, {"to": "a@x.org"})


async def test_all_recipients_refused_for_good_is_dead(
    serve: Callable[..., Server], inbox: Inbox
) -> None:
    """No recipient left, all with 5xx: dead."""
    inbox.rcpt = {"a@x.org": "550 no such user", "b@x.org": "553 never heard of"}
    with pytest.raises(Dead, match=r"550 no such user; 553 never heard of"):
        await send(serve().address, {"to": "a@x.org, b@x.org"})


async def test_one_recipient_refused_for_now_is_a_failed_attempt(
    serve: Callable[..., Server], inbox: Inbox
) -> None:
    """No recipient left, one of them with 4xx: the next attempt may reach it."""
    inbox.rcpt = {"a@x.org": "550 no such user", "b@x.org": "450 greylisted"}
    with pytest.raises(MailNotSent, match="450 greylisted"):
        await send(serve().address, {"to": "a@x.org, b@x.org"})


async def test_a_partial_refusal_succeeds_and_is_told(
    serve: Callable[..., Server], inbox: Inbox
) -> None:
    """Who was accepted has the mail; who was refused is in the result."""
    inbox.rcpt = {"b@x.org": "550 no such user"}
    result = await send(serve().address, {"to": "a@x.org, b@x.org"})
    assert result["refused"] == {"b@x.org": "550 no such user"}
    assert inbox.envelopes[0].rcpt_tos == ["a@x.org"]


async def test_no_server_is_a_failed_attempt() -> None:
    """A refused connection is an ordinary error that names the place."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(MailNotSent, match=str(port)):
        await send(f"127.0.0.1:{port}", {"to": "a@x.org"})


async def test_a_silent_server_is_a_failed_attempt() -> None:
    """The option `timeout` ends the wait for a server that says nothing."""
    async with silent_server() as address:
        with pytest.raises(MailNotSent, match=r"[Tt]imed out"):
            await send(address, {"to": "a@x.org"}, timeout="100ms")


async def test_a_cancelled_run_does_not_wait_for_the_server() -> None:
    """Cancellation ends at once, though the server does not answer."""
    async with silent_server() as address:
        sending = asyncio.create_task(send(address, {"to": "a@x.org"}, timeout="50s"))
        done, _ = await asyncio.wait([sending], timeout=0.2)
        assert not done
        sending.cancel()
        done, _ = await asyncio.wait([sending], timeout=5)
        assert sending.cancelled()


@plain_login
async def test_login(serve: Callable[..., Server], inbox: Inbox) -> None:
    """User and password of the URL, percent-decoded, are used."""
    server = serve(authenticator=check_login, auth_required=True, auth_require_tls=False)
    url = f"smtp://ana:S3cr%40t%2Fpass@{server.address}"
    await send(server.address, {"to": "a@x.org"}, smtp_url=url)
    assert len(inbox.envelopes) == 1


@plain_login
async def test_a_refused_login_is_a_failed_attempt(
    serve: Callable[..., Server], inbox: Inbox
) -> None:
    """A wrong password is not the mail's fault: no dead task, and no password in the error."""
    server = serve(authenticator=check_login, auth_required=True, auth_require_tls=False)
    url = f"smtp://ana:wr0ng-one@{server.address}"
    with pytest.raises(MailNotSent, match="535") as caught:
        await send(server.address, {"to": "a@x.org"}, smtp_url=url)
    assert "wr0ng" not in str(caught.value)
    assert inbox.envelopes == []


@plain_login
async def test_a_missing_login_is_a_failed_attempt(serve: Callable[..., Server]) -> None:
    """530 is about our config, not about the mail."""
    server = serve(authenticator=check_login, auth_required=True, auth_require_tls=False)
    with pytest.raises(MailNotSent, match="530"):
        await send(server.address, {"to": "a@x.org"})


async def test_starttls_is_never_left_out(serve: Callable[..., Server], inbox: Inbox) -> None:
    """A server that offers no STARTTLS gets no mail from smtp+starttls://."""
    address = serve().address
    with pytest.raises(MailNotSent, match="STARTTLS"):
        await send(address, {"to": "a@x.org"}, smtp_url=f"smtp+starttls://{address}")
    assert inbox.envelopes == []
