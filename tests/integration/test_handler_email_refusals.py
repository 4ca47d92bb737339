"""What the handler `email` refuses before it asks any server: options and payloads."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduld.handlers.contract import Run
from scheduld.handlers.email import MailNotSent, make
from scheduld.handlers.options import BadOptions
from scheduld.model import TaskType
from scheduld.outcomes import Dead
from scheduld.registry import resolve

RUN = Run(type="email", id="t1", attempt=1, fence=7, due=datetime(2026, 12, 24, 8, tzinfo=UTC))


async def send(payload: dict[str, Any]) -> None:
    """Hand a payload to a handler whose server does not exist."""
    await make({"smtp_url": "smtp://127.0.0.1:1", "from": "a@example.com"}).call(payload, RUN)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({}, "to is missing"),
        ({"to": []}, "to is missing"),
        ({"to": "a@x.org", "subjct": "x"}, "'subject'"),
        ({"to": "a@x.org", "attachments": ["a.pdf"]}, "attachments_dir"),
        ({"to": "a@x.org", "attachments": "a.pdf"}, "must be a list"),
        ({"to": "ana"}, "'ana'"),
        ({"to": 5}, "to must be an address"),
        ({"to": "a@x.org", "text": 5}, "text must be a text"),
        ({"to": "a@x.org", "subject": "x" * 901}, "901"),
        ({"to": [f"a{n}@x.org" for n in range(1001)]}, "1001 recipients"),
    ],
)
async def test_a_payload_that_is_no_mail_is_dead(payload: dict[str, Any], told: str) -> None:
    """What can never be sent is dead at once, with the reason, before any server is asked."""
    with pytest.raises(Dead, match=told):
        await send(payload)


@pytest.mark.parametrize(
    "payload",
    [
        {f"{number:x}su": 1 for number in range(20_000)},
        {"to": "a@x.org", "attachments": [{f"fil{n:x}": 1 for n in range(400)}] * 50},
        {"to": "a," * 100_000},
        {"s" * 250_000: 1},
    ],
)
async def test_a_payload_full_of_faults_does_not_block_the_loop(payload: dict[str, Any]) -> None:
    """However many faults there are, few are looked into, as the event loop waits meanwhile."""
    began = time.process_time()
    with pytest.raises(Dead) as caught:
        await send(payload)
    assert time.process_time() - began < 0.3
    assert len(caught.value.reason) < 40_000


async def test_every_fault_of_a_payload_is_told() -> None:
    """The reason names all faults at once."""
    with pytest.raises(Dead) as caught:
        await send({"too": "x", "to": "nobody", "html": 1})
    assert all(word in caught.value.reason for word in ("too", "nobody", "html"))


@pytest.mark.parametrize(
    "payload",
    [
        {"to": "a@x.org\r\nBcc: evil@x.org"},
        {"to": ["Ana\nBcc: evil@x.org <a@x.org>"]},
        {"to": "a@x.org> SIZE=1"},
        {"to": "a@x.org", "subject": "hi\r\nBcc: evil@x.org"},
        {"to": "a@x.org", "subject": "hi\u2028Bcc: evil@x.org"},
        {"to": "a@x.org", "subject": "hi\x00"},
        {"to": "a@x.org", "reply_to": "b@x.org\nX-Evil: 1"},
        {"to": "a@x.org", "subject": "\ud800"},
        {"to": "a@x.org", "text": "\ud800"},
    ],
)
async def test_a_header_cannot_be_injected(payload: dict[str, Any]) -> None:
    """A control character or lone surrogate makes the task dead, before any server is asked."""
    with pytest.raises(Dead):
        await send(payload)


def test_every_fault_of_the_options_is_told() -> None:
    """All faulty options are told at once, with the nearest valid key."""
    with pytest.raises(BadOptions) as caught:
        make({"smtp_ur": "x", "from": "nobody", "timeout": "soon", "attachments_dir": "/no/such"})
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    assert "'smtp_url'" in text
    for key in ("smtp_url is missing", "options.from", "options.timeout", "attachments_dir"):
        assert key in text


async def test_keys_for_others_are_passed_over() -> None:
    """Those of extra_keys, and of a type with a series its anchor; no others."""
    options = {"smtp_url": "smtp://127.0.0.1:1", "from": "a@x.org", "extra_keys": ["sent"]}
    kind = TaskType("season", "email", series=("0",), anchor="season_start", options=options)
    payload = {"to": "a@x.org", "sent": 1, "season_start": "2027-01-01T09:00Z"}
    with pytest.raises(MailNotSent):  # it is a mail, and nobody listens
        await resolve(kind).call(payload, RUN)
    with pytest.raises(Dead, match="'start' is unknown"):
        await resolve(kind).call({**payload, "start": 1}, RUN)
    with pytest.raises(BadOptions, match="extra_keys must be a list"):
        resolve(replace(kind, options={**options, "extra_keys": "sent"}))


def test_an_option_of_the_wrong_kind_is_told() -> None:
    """A text is wanted as a text, a duration above zero; neither is quoted."""
    with pytest.raises(BadOptions) as caught:
        make({"smtp_url": 5, "from": "a@x.org\nX: y", "timeout": 0})
    assert len(caught.value.problems) == 3
    assert "above zero" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://ana:hunter2@mail.example.com",
        "smtp://ana:hunter2@mail.example.com",
        "smtps://ana:hunter2/x@mail.example.com",
        "smtps://ana:hunter2#x@mail.example.com",
        "smtps://ana:9?hunter2@mail.example.com",
        "smtps://hunter2@mail.example.com",
        "smtps://ana:hunter2@",
        "smtps://ana:hunter2@[mail.example.com",
        "smtps://ana:hunter2@mail.example.com:99999",
    ],
)
def test_a_faulty_url_is_refused_without_telling_it(url: str) -> None:
    """No part of the URL is in the message, wherever the password got to."""
    with pytest.raises(BadOptions) as caught:
        make({"smtp_url": url, "from": "a@x.org"})
    assert "options.smtp_url" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_handler_does_not_show_its_password() -> None:
    """The handler's repr holds no secret."""
    handler = make({"smtp_url": "smtps://ana:hunter2@mail.example.com", "from": "a@x.org"})
    assert "hunter2" not in repr(handler)
