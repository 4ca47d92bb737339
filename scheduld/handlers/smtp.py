"""Connections to a mail server: made, used for one mail after the other, given up when broken."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiosmtplib

from scheduld import clock
from scheduld.handlers.kept import PerLoop

if TYPE_CHECKING:
    import ssl

MOST_IDLE = 4
"""Idle connections kept for one task type; more are made while more mails are sent at once."""
MOST_MAILS = 100
"""Mails over one connection: some servers refuse to take more."""
IDLE_S = 10.0
"""An idle connection is kept so long."""
FINAL_S = 600.0
"""Longest wait for the answer to a mail that was handed over, by RFC 5321: who gives up before
that sends it twice. The type's run_timeout ends it earlier."""
_PROBE_S = 5.0
_GOODBYE_S = 1.0
_TROUBLE = (aiosmtplib.SMTPException, OSError)


@dataclass(frozen=True, slots=True)
class Server:
    """A mail server and how it is talked to. `timeout_s` is the deadline of each step."""

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    timeout_s: float = 30.0

    def client(self, local_hostname: str | None) -> aiosmtplib.SMTP:
        """Return a client that is not connected yet."""
        return aiosmtplib.SMTP(
            hostname=self.host,
            port=self.port,
            username=self.user,
            password=self.password,
            local_hostname=local_hostname,
            timeout=self.timeout_s,
            use_tls=self.scheme == "smtps",
            # Never "if the server offers it": who is in between can take the offer away.
            start_tls=self.scheme == "smtp+starttls",
            tls_context=self.tls,
        )


@dataclass(frozen=True, slots=True)
class Envelope:
    """A mail as it is sent: addresses, bytes, and whether it needs SMTPUTF8."""

    sender: str
    recipients: list[str]
    data: bytes
    utf8: bool

    @property
    def encoding(self) -> str:
        """Encoding of the addresses."""
        return "utf-8" if self.utf8 else "ascii"


@dataclass(slots=True)
class _Line:
    """One connection, and what has gone over it."""

    client: aiosmtplib.SMTP
    mails: int = 0
    idle_since: float = 0.0


class Mailer:
    """Sends mails to one server, each over a connection of its own or one that is idle."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._idle = PerLoop(_Idle, _Idle.close)
        self._local_hostname: str | None = None

    async def send(self, envelope: Envelope) -> dict[str, aiosmtplib.SMTPResponse]:
        """Send one mail; returns the replies of those recipients that were refused.

        Raises SMTPException or OSError if it was not sent, or if nobody knows.
        """
        idle = await self._idle.get()
        line = await self._begun(idle, envelope)
        client = line.client
        try:
            refused = await _name_recipients(client, envelope)
            await client.data(envelope.data, timeout=max(FINAL_S, self._server.timeout_s))
        except BaseException:
            # Not with a QUIT, which would have to be waited for.
            client.close()
            raise
        line.mails += 1
        idle.keep(line)
        return refused

    async def _begun(self, idle: _Idle, envelope: Envelope) -> _Line:
        """Find a connection on which the mail is begun.

        Whatever is wrong with a kept one, nothing of the mail was said on it: the server may have
        closed it, or be tired of it. Only what a fresh one answers is about the mail.
        """
        line = idle.take()
        if line is not None:
            try:
                await _begin(line.client, envelope, min(_PROBE_S, self._server.timeout_s))
            except _TROUBLE:
                line.client.close()
            except BaseException:
                line.client.close()
                raise
            else:
                return line
        client = self._server.client(self._local_hostname)
        try:
            await client.connect()
            # The look-up of this host's name can take seconds: once is enough.
            self._local_hostname = client.local_hostname
            await _begin(client, envelope, self._server.timeout_s)
        except BaseException:
            client.close()
            raise
        return _Line(client)


class _Idle:
    """The connections of one event loop that wait for the next mail, the newest last."""

    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def take(self) -> _Line | None:
        """Return the newest that is still open."""
        while self._lines:
            line = self._lines.pop()
            if line.client.is_connected:
                return line
            line.client.close()
        return None

    def keep(self, line: _Line) -> None:
        """Keep a connection for the next mail, for a while."""
        if line.mails >= MOST_MAILS or len(self._lines) >= MOST_IDLE:
            self._leave(line)
            return
        line.idle_since = clock.monotonic()
        self._lines.append(line)
        self._watch()

    async def close(self) -> None:
        """Take leave of the server on all connections."""
        if self._timer is not None:
            self._timer.cancel()
        for line in self._lines:
            self._leave(line)
        self._lines.clear()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def _watch(self) -> None:
        if self._timer is None and self._lines:
            oldest = self._lines[0].idle_since
            self._timer = asyncio.get_running_loop().call_at(oldest + IDLE_S, self._look)

    def _look(self) -> None:
        self._timer = None
        limit = clock.monotonic() - IDLE_S
        while self._lines and self._lines[0].idle_since <= limit:
            self._leave(self._lines.pop(0))
        self._watch()

    def _leave(self, line: _Line) -> None:
        task = asyncio.get_running_loop().create_task(_leave(line.client))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


async def _begin(client: aiosmtplib.SMTP, envelope: Envelope, timeout_s: float) -> None:
    if client.is_ehlo_or_helo_needed:
        # Asked now: what the server can do decides how the mail begins.
        try:
            await client.ehlo(timeout=timeout_s)
        except aiosmtplib.SMTPHeloError:
            await client.helo(timeout=timeout_s)
    if envelope.utf8 and not client.supports_extension("smtputf8"):
        raise aiosmtplib.SMTPNotSupported("SMTPUTF8 is not supported by this server")
    options = ["SMTPUTF8"] if envelope.utf8 else []
    if client.supports_extension("size"):
        options.append(f"SIZE={len(envelope.data)}")
    await client.mail(
        envelope.sender, options=options, encoding=envelope.encoding, timeout=timeout_s
    )


async def _name_recipients(
    client: aiosmtplib.SMTP, envelope: Envelope
) -> dict[str, aiosmtplib.SMTPResponse]:
    """Name all recipients; raises SMTPRecipientsRefused if none was accepted."""
    refused: list[aiosmtplib.SMTPRecipientRefused] = []
    for address in envelope.recipients:
        try:
            await client.rcpt(address, encoding=envelope.encoding)
        except aiosmtplib.SMTPRecipientRefused as exc:
            refused.append(exc)
    if len(refused) == len(envelope.recipients):
        raise aiosmtplib.SMTPRecipientsRefused(refused)
    return {exc.recipient: aiosmtplib.SMTPResponse(exc.code, exc.message) for exc in refused}


async def _leave(client: aiosmtplib.SMTP) -> None:
    # The mails are accepted: whatever happens to the goodbye cannot undo that.
    with contextlib.suppress(*_TROUBLE):
        await client.quit(timeout=_GOODBYE_S)
    client.close()
