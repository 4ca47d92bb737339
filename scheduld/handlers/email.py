"""Built-in handler `email`: one mail per task, over SMTP.

A 5xx reply to the mail makes the task dead with the server's words. All else (4xx, no
connection, a refused login) is a failed attempt: it may be over at the next one.
"""

from __future__ import annotations

import contextlib
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

import aiosmtplib
import structlog

from scheduld import clock
from scheduld.errors import ScheduldError
from scheduld.handlers.contract import Handler, Run
from scheduld.handlers.message import (
    BadMail,
    Mail,
    Mailbox,
    build,
    message_id,
    parse_mailbox,
    read_mail,
)
from scheduld.handlers.options import OptionReader
from scheduld.names import printable
from scheduld.outcomes import Dead

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS = ("smtp_url", "from", "timeout")
DEFAULT_TIMEOUT_MS = 30_000
"""Deadline of each step of the conversation with the server."""
_PORTS = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
_EXAMPLE = "smtp+starttls://user:password@mail.example.com:587"
_GOODBYE = 1.0
_REPLY_CHARS = 1_000
# "Log in first" is about our config, not about the mail.
_LOGIN_CODES = {530, 534, 535, 538}


class MailNotSent(ScheduldError):
    """The mail server could not be reached, or does not take the mail now."""

    kind = "mail_not_sent"


@dataclass(frozen=True, slots=True)
class _Server:
    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def client(self, timeout_ms: int, local_hostname: str | None) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname=self.host,
            port=self.port,
            username=self.user,
            password=self.password,
            local_hostname=local_hostname,
            timeout=timeout_ms / 1000,
            use_tls=self.scheme == "smtps",
            # Never "if the server offers it": who is in between can take the offer away.
            start_tls=self.scheme == "smtp+starttls",
        )


def make(options: Mapping[str, Any]) -> Handler:
    """Build the handler from `smtp_url`, `from` (both required) and `timeout`.

    Raises BadOptions.
    """
    reader = OptionReader(options, known=OPTIONS, later=("attachments_dir",))
    url = reader.text("smtp_url", example=_EXAMPLE, required=True)
    server = _parse_url(reader, url) if url else None
    sender = _parse_sender(reader)
    timeout_ms = reader.duration_ms("timeout", DEFAULT_TIMEOUT_MS)
    reader.finish()
    assert server is not None  # noqa: S101 - finish() raises otherwise
    assert sender is not None  # noqa: S101
    return Handler(call=_Sender(server, sender, timeout_ms).run, is_async=True, takes_run=True)


def _parse_sender(reader: OptionReader) -> Mailbox | None:
    example = "Scheduld <noreply@example.com>"
    text = reader.text("from", example=example, required=True)
    sender = parse_mailbox(text) if text else None
    if text and sender is None:
        reader.wrong("from", f"must be one address, such as {example!r}")
    return sender


def _parse_url(reader: OptionReader, url: str) -> _Server | None:
    # The messages never quote the URL: a mistyped one has its password anywhere.
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        reader.wrong("smtp_url", f"is no URL, such as {_EXAMPLE!r} (%-encode special characters)")
        return None
    fault = _url_fault(parts)
    if fault:
        reader.wrong("smtp_url", fault)
        return None
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return _Server(parts.scheme, parts.hostname or "", port or _PORTS[parts.scheme], user, password)


def _url_fault(parts: SplitResult) -> str | None:
    if parts.scheme not in _PORTS:
        return f"must start with {', '.join(f'{scheme}://' for scheme in _PORTS)}"
    if not parts.hostname or parts.path not in {"", "/"} or parts.query or parts.fragment:
        return f"must be like {_EXAMPLE!r} (%-encode special characters in user and password)"
    if (parts.username is None) != (parts.password is None) or parts.username == "":
        return "must have both a user and a password, or neither"
    if parts.username and parts.scheme == "smtp" and not _is_local(parts.hostname):
        return "would send the password readable to all: use smtp+starttls:// or smtps://"
    return None


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class _Sender:
    server: _Server
    sender: Mailbox
    timeout_ms: int
    local_hostname: str | None = None

    async def run(self, payload: dict[str, Any], run: Run) -> dict[str, Any]:
        """Send one mail; answers its `message_id`, and who was `refused` if others were not."""
        mail = _checked(payload)
        identity = message_id(run, self.sender)
        refused = await self._send(mail, identity)
        if not refused:
            return {"message_id": identity}
        structlog.get_logger("scheduld.handler.email").warning(
            "mail refused for some recipients", type=run.type, id=run.id, refused=len(refused)
        )
        return {"message_id": identity, "refused": refused}

    async def _send(self, mail: Mail, identity: str) -> dict[str, str]:
        data, utf8 = build(mail, sender=self.sender, identity=identity, now_ms=clock.wall_ms())
        client = self.server.client(self.timeout_ms, self.local_hostname)
        try:
            await client.connect()
            # The look-up of this host's name can take seconds: once is enough.
            self.local_hostname = client.local_hostname
            refused, _ = await client.sendmail(
                self.sender.address,
                mail.recipients,
                data,
                mail_options=["SMTPUTF8"] if utf8 else [],
            )
            await _leave(client)
        except (aiosmtplib.SMTPException, OSError) as exc:
            raise _judge(exc) from exc
        finally:
            # Not `async with client`: it would wait for an answer to QUIT when cancelled.
            client.close()
        return {address: _reply(*reply) for address, reply in refused.items()}


def _checked(payload: dict[str, Any]) -> Mail:
    try:
        return read_mail(payload)
    except BadMail as exc:
        raise Dead(str(exc)) from None


async def _leave(client: aiosmtplib.SMTP) -> None:
    # The mail is accepted: whatever happens to the goodbye cannot undo that.
    with contextlib.suppress(aiosmtplib.SMTPException, OSError):
        await client.quit(timeout=_GOODBYE)


def _judge(exc: Exception) -> Exception:
    """Choose between dead and a failed attempt."""
    if isinstance(exc, aiosmtplib.SMTPRecipientsRefused):
        replies = [_reply(each.code, each.message) for each in exc.recipients]
        text = "every recipient refused: " + "; ".join(dict.fromkeys(replies))[:_REPLY_CHARS]
        final = all(_is_final(each.code) for each in exc.recipients)
        return Dead(text) if final else MailNotSent(text)
    if isinstance(exc, aiosmtplib.SMTPResponseException):
        text = f"the mail server answered {_reply(exc.code, exc.message)}"
        login = isinstance(exc, aiosmtplib.SMTPAuthenticationError)
        return Dead(text) if _is_final(exc.code) and not login else MailNotSent(text)
    return MailNotSent(f"mail not sent: {_line(str(exc)) or type(exc).__name__}")


def _is_final(code: int) -> bool:
    return 500 <= code <= 599 and code not in _LOGIN_CODES


def _reply(code: int, text: str) -> str:
    return f"{code} {_line(text)}"


def _line(text: str) -> str:
    return printable(" ".join(text.split()))[:_REPLY_CHARS]
