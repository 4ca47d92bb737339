"""A mail out of a payload: strict about what may stand in a header, no I/O.

Header values are encoded here, not by the email package: it decodes encoded words that a
payload smuggles in, and loses the quotes of folded names that hold a comma.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.header import Header
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

from scheduld.handlers.attachments import Attachment, Wanted, read_wanted
from scheduld.handlers.options import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduld.handlers.contract import Run

KEYS = ("to", "cc", "bcc", "subject", "text", "html", "reply_to", "attachments")
"""Payload keys of the handler `email`."""
MOST_RECIPIENTS = 1_000
LONGEST_SUBJECT = 900
"""Characters."""
_TOLD = 5
"""Faults of one kind that are named: what nobody reads must not keep the loop busy."""
_LONGEST_NAME = 200
_LONGEST_ADDRESS = 254

_ATOM = r"[^\s<>@,;:\"()\[\]\\.]+"
_ADDR = rf"{_ATOM}(?:\.{_ATOM})*@(?:[^\W_](?:[\w-]*\w)?\.)*[^\W_](?:[\w-]*\w)?"
_BARE = re.compile(rf"({_ADDR})")
_NAMED = re.compile(rf'(?:"((?:[^"\\]|\\.)*)" *|([^<>",;]*))<({_ADDR})>')
_MARK = re.compile(r'\\.|[",]')


class BadMail(ValueError):
    """A payload that is no mail; the message says all that is wrong with it."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One address with its display name (`""` for none)."""

    name: str
    address: str

    def header(self) -> str:
        """The mailbox as it stands in a header: the name as ASCII, the address as it is."""
        if not self.name:
            return self.address
        return f"{_phrase(self.name)} <{self.address}>"


@dataclass(frozen=True, slots=True)
class Mail:
    """A checked payload, all of it plain text."""

    to: tuple[Mailbox, ...]
    cc: tuple[Mailbox, ...]
    bcc: tuple[Mailbox, ...]
    reply_to: tuple[Mailbox, ...]
    subject: str
    text: str
    html: str
    attachments: tuple[Wanted, ...] = ()

    @property
    def recipients(self) -> list[str]:
        """Addresses of the envelope, each once, in the order given."""
        return list(dict.fromkeys(box.address for box in (*self.to, *self.cc, *self.bcc)))


class _Encoded(str):
    """A header value that is already folded ASCII (but for addresses); see the email policies:

    a value with a `name` is stored as it is, and asked to fold itself.
    """

    name: str

    def fold(self, *, policy: object) -> str:  # noqa: ARG002 - the protocol of email.policy
        return f"{self.name}: {self}\r\n"


def read_mail(payload: dict[str, Any], extra_keys: tuple[str, ...] = ()) -> Mail:
    """Check a payload, but for `extra_keys` in it; raises BadMail with every fault."""
    unknown = [key for key in payload if key not in KEYS and key not in extra_keys]
    faults = [
        f"payload key {key[:80]!r} is unknown{did_you_mean(key, KEYS)}" for key in unknown[:_TOLD]
    ]
    if len(unknown) > _TOLD:
        faults.append(f"{len(unknown) - _TOLD} more keys are unknown")
    mail = Mail(
        to=_boxes("to", payload, faults),
        cc=_boxes("cc", payload, faults),
        bcc=_boxes("bcc", payload, faults),
        reply_to=_boxes("reply_to", payload, faults),
        subject=_text("subject", payload, faults),
        text=_text("text", payload, faults),
        html=_text("html", payload, faults),
        attachments=read_wanted(payload.get("attachments"), faults),
    )
    _check_subject(mail.subject, faults)
    if not faults and not mail.recipients:
        faults.append("to is missing: a mail needs a recipient in to, cc or bcc")
    if len(mail.recipients) > MOST_RECIPIENTS:
        faults.append(f"{len(mail.recipients)} recipients, at most {MOST_RECIPIENTS} are allowed")
    if faults:
        raise BadMail("; ".join(faults))
    return mail


def parse_mailbox(text: str) -> Mailbox | None:
    """Read `a@b.c` or `Name <a@b.c>`; None if it is neither, or has a control character."""
    text = text.strip(" ")
    if len(text) > _LONGEST_NAME + _LONGEST_ADDRESS or breaks_line(text):
        return None
    if found := _BARE.fullmatch(text):
        box = Mailbox("", found[1])
    elif found := _NAMED.fullmatch(text):
        name = re.sub(r"\\(.)", r"\1", found[1]) if found[1] is not None else found[2].strip(" ")
        box = Mailbox(name, found[3])
    else:
        return None
    fits = len(box.address.encode()) <= _LONGEST_ADDRESS and len(box.name) <= _LONGEST_NAME
    return box if fits else None


def breaks_line(text: str) -> bool:
    """Whether `text` has what could end a header line, or is no UTF-8 (a lone surrogate)."""
    return any(unicodedata.category(char) in {"Cc", "Zl", "Zp", "Cs"} for char in text)


def message_id(run: Run, sender: Mailbox) -> str:
    """`Message-ID` of a task: the same for each attempt, another for each occurrence.

    The due time is part of it, since servers drop a second mail of the same id: without it
    a periodic task would be delivered once and never again.
    """
    told = f"{run.type}\0{run.id}\0{run.due.timestamp():.3f}"
    digest = hashlib.sha256(told.encode()).hexdigest()[:40]
    domain = sender.address.rpartition("@")[2]
    # A domain that is not ASCII would make the whole mail need SMTPUTF8.
    return f"<{digest}@{domain if domain.isascii() else 'scheduld.invalid'}>"


def build(
    mail: Mail, files: Iterable[Attachment], *, sender: Mailbox, identity: str, now_ms: int
) -> tuple[bytes, bool]:
    """The mail as sent, without Bcc, and whether it needs SMTPUTF8.

    `identity` is its Message-ID; `now_ms` (ms since the epoch) becomes its Date.
    """
    boxes = (sender, *mail.to, *mail.cc, *mail.bcc, *mail.reply_to)
    utf8 = not all(box.address.isascii() for box in boxes)
    # 7bit: quoted-printable or base64, which every server on the way can take.
    rules = (policy.SMTPUTF8 if utf8 else policy.SMTP).clone(cte_type="7bit")
    message = EmailMessage(policy=rules)
    for name, value in _headers(mail, sender, identity).items():
        if value:
            encoded = _Encoded(value)
            encoded.name = name
            message[name] = encoded
    message["Date"] = datetime.fromtimestamp(now_ms // 1000, UTC)
    if mail.text or not mail.html:
        message.set_content(mail.text)
    if mail.text and mail.html:
        message.add_alternative(mail.html, subtype="html")
    elif mail.html:
        message.set_content(mail.html, subtype="html")
    for file in files:
        kind, _, subkind = file.type.partition("/")
        message.add_attachment(file.data, maintype=kind, subtype=subkind, filename=file.name)
    return message.as_bytes(), utf8


def _headers(mail: Mail, sender: Mailbox, identity: str) -> dict[str, str]:
    return {
        "From": sender.header(),
        "To": _listed(mail.to),
        "Cc": _listed(mail.cc),
        "Reply-To": _listed(mail.reply_to),
        "Subject": _unstructured(mail.subject),
        "Message-ID": identity,
    }


def _listed(boxes: Iterable[Mailbox]) -> str:
    return ",\r\n ".join(box.header() for box in boxes)


def _phrase(name: str) -> str:
    if name.isascii() and "=?" not in name:
        return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return _words(name)


def _unstructured(text: str) -> str:
    # One line as it is, if it is short and no reader could take it for something else.
    if text.isascii() and "=?" not in text and text == text.strip() and len(text) <= 70:
        return text
    return _words(text)


def _words(text: str) -> str:
    """Encoded words (RFC 2047), folded; they read the same with and without SMTPUTF8."""
    return Header(text, "utf-8", maxlinelen=75, header_name="Reply-To").encode(linesep="\r\n")


def _boxes(key: str, payload: dict[str, Any], faults: list[str]) -> tuple[Mailbox, ...]:
    value = payload.get(key)
    if value is None:
        return ()
    entries = _entries(value)
    if entries is None:
        faults.append(f"{key} must be an address, or a list of addresses")
        return ()
    if len(entries) > MOST_RECIPIENTS:
        faults.append(f"{len(entries)} recipients in {key}, at most {MOST_RECIPIENTS}")
        return ()
    boxes = [(entry, parse_mailbox(entry)) for entry in entries]
    wrong = [entry[:80] for entry, box in boxes if box is None]
    faults.extend(f"{key} has {entry!r}, which is no address" for entry in wrong[:_TOLD])
    return tuple(box for _, box in boxes if box)


def _entries(value: Any) -> list[str] | None:
    """Each address of a text (split at commas outside quotes) or of a list; None for others."""
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    return None


def _split(text: str) -> list[str]:
    entries, start, quoted = [], 0, False
    for mark in _MARK.finditer(text):
        if mark[0] == '"':
            quoted = not quoted
        elif mark[0] == "," and not quoted:
            entries.append(text[start : mark.start()])
            start = mark.end()
    return [*entries, text[start:]]


def _text(key: str, payload: dict[str, Any], faults: list[str]) -> str:
    value = payload.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        faults.append(f"{key} must be a text")
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        faults.append(f"{key} has a lone surrogate, which is no UTF-8")
        return ""
    return value


def _check_subject(subject: str, faults: list[str]) -> None:
    if breaks_line(subject):
        faults.append("subject has a line break or control character")
    if len(subject) > LONGEST_SUBJECT:
        faults.append(f"subject has {len(subject)} characters, at most {LONGEST_SUBJECT}")
