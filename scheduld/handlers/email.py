"""Built-in handler `email`: one mail per task, over SMTP.

A 5xx reply to the mail makes the task dead with the server's words. All else (4xx, no
connection, a refused login) is a failed attempt: it may be over at the next one.
"""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

import aiosmtplib
import structlog

from scheduld import clock
from scheduld.errors import ScheduldError
from scheduld.handlers.attachments import Attachment, BadAttachment, load
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
from scheduld.handlers.smtp import Envelope, Mailer, Server
from scheduld.names import printable
from scheduld.outcomes import Dead

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

OPTIONS = (
    "smtp_url",
    "from",
    "timeout",
    "ca_file",
    "attachments_dir",
    "max_attachments",
    "extra_keys",
)
DEFAULT_TIMEOUT_MS = 30_000
"""Deadline of each step of the conversation with the server."""
DEFAULT_ATTACHMENTS = 10 * 1024**2
"""Bytes of all attachments of a mail; a third more as they are sent. Many servers take 25 MB."""
_MOST_ATTACHMENTS = 100 * 1024**2
_PORTS = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
_EXAMPLE = "smtp+starttls://user:password@mail.example.com:587"
_REPLY_CHARS = 1_000
_MUCH = 16_000
"""Characters from which on a mail is made in a thread."""
# "Log in first" is about our config, not about the mail.
_LOGIN_CODES = {530, 534, 535, 538}


class MailNotSent(ScheduldError):
    """The mail server could not be reached, or does not take the mail now."""

    kind = "mail_not_sent"


def make(options: Mapping[str, Any]) -> Handler:
    """Build the handler from OPTIONS; `smtp_url` and `from` are required. Raises BadOptions."""
    reader = OptionReader(options, known=OPTIONS)
    url = reader.text("smtp_url", example=_EXAMPLE, required=True)
    timeout_s = reader.duration_ms("timeout", DEFAULT_TIMEOUT_MS) / 1000
    server = _parse_url(reader, url, timeout_s) if url else None
    sender = _parse_sender(reader)
    folder = reader.folder("attachments_dir", example="/var/lib/app/attachments")
    limit = reader.size("max_attachments", DEFAULT_ATTACHMENTS, most=_MOST_ATTACHMENTS)
    extra = reader.texts("extra_keys", example='["season_start"]', required=False)
    reader.finish()
    assert server is not None  # noqa: S101 - finish() raises otherwise
    assert sender is not None  # noqa: S101
    work = _Sender(Mailer(server), sender, folder, limit, tuple(extra))
    return Handler(call=work.run, is_async=True, takes_run=True)


def _parse_sender(reader: OptionReader) -> Mailbox | None:
    example = "Scheduld <noreply@example.com>"
    text = reader.text("from", example=example, required=True)
    sender = parse_mailbox(text) if text else None
    if text and sender is None:
        reader.wrong("from", f"must be one address, such as {example!r}")
    return sender


def _parse_url(reader: OptionReader, url: str, timeout_s: float) -> Server | None:
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
    return Server(
        parts.scheme,
        parts.hostname or "",
        port or _PORTS[parts.scheme],
        user,
        password,
        _tls(reader, parts.scheme),
        timeout_s,
    )


def _tls(reader: OptionReader, scheme: str) -> ssl.SSLContext | None:
    """What to trust instead of the system's authorities; None for these."""
    path = reader.file("ca_file")
    if not path:
        return None
    if scheme == "smtp":
        reader.wrong("ca_file", "needs smtp+starttls:// or smtps://")
        return None
    return reader.trust("ca_file", path)


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


@dataclass(frozen=True, slots=True)
class _Sender:
    mailer: Mailer
    sender: Mailbox
    attachments_dir: str
    max_attachments: int
    extra_keys: tuple[str, ...]

    async def run(self, payload: dict[str, Any], run: Run) -> dict[str, Any]:
        """Send one mail; answers its `message_id`, and who was `refused` if others were not."""
        mail = _checked(payload, self.extra_keys)
        identity = message_id(run, self.sender)
        files = await self._files(mail)
        if files or len(mail.text) + len(mail.html) > _MUCH:
            # A second of encoding, if it has many lines: not in the loop.
            envelope = await asyncio.to_thread(self._envelope, mail, identity, files)
        else:
            envelope = self._envelope(mail, identity, files)
        try:
            refused = await self.mailer.send(envelope)
        except (aiosmtplib.SMTPException, OSError) as exc:
            raise _judge(exc) from exc
        if not refused:
            return {"message_id": identity}
        structlog.get_logger("scheduld.handler.email").warning(
            "mail refused for some recipients", type=run.type, id=run.id, refused=len(refused)
        )
        replies = {address: _reply(*reply) for address, reply in refused.items()}
        return {"message_id": identity, "refused": replies}

    async def _files(self, mail: Mail) -> list[Attachment]:
        if not mail.attachments:
            return []
        if not self.attachments_dir:
            raise Dead("attachments need the option attachments_dir, which is not set")
        try:
            return await asyncio.to_thread(
                load, self.attachments_dir, mail.attachments, self.max_attachments
            )
        except BadAttachment as exc:
            raise Dead(printable(str(exc))) from None
        except OSError as exc:
            text = f"the attachments cannot be read: {exc.strerror or exc}"
            raise MailNotSent(printable(text)) from exc

    def _envelope(self, mail: Mail, identity: str, files: list[Attachment]) -> Envelope:
        now_ms = clock.wall_ms()
        data, utf8 = build(mail, files, sender=self.sender, identity=identity, now_ms=now_ms)
        return Envelope(self.sender.address, mail.recipients, data, utf8)


def _checked(payload: dict[str, Any], extra_keys: tuple[str, ...]) -> Mail:
    try:
        return read_mail(payload, extra_keys)
    except BadMail as exc:
        raise Dead(str(exc)) from None


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
