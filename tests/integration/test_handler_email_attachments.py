"""Attachments of the handler `email`: what a payload reaches, and what it does not."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.handlers.email import MailNotSent, make
from scheduld.outcomes import Dead
from tests.support.mail import Inbox, Server, a_run, inbox, send, serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import EmailMessage
    from pathlib import Path

__all__ = ["inbox", "serve"]  # fixtures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of attachments, beside a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    place = tmp_path / "files"
    (place / "2026").mkdir(parents=True)
    (place / "report.pdf").write_bytes(b"%PDF-1.7 \xff\x00")
    (place / "2026" / "list.csv").write_text("a;b\n")
    return place


async def refused(folder: Path, attachments: Any, **options: Any) -> str:
    """The reason for which a mail with these attachments is dead, before any server is asked."""
    payload = {"to": "a@x.org", "attachments": attachments}
    with pytest.raises(Dead) as caught:
        await send("127.0.0.1:1", payload, attachments_dir=str(folder), **options)
    assert caught.value.reason.isprintable()
    assert "secret" not in caught.value.reason.replace("secret.txt", "")
    return caught.value.reason


def attached(mail: EmailMessage) -> list[tuple[str | None, str, Any]]:
    """Name, type and content of each attachment."""
    parts = list(mail.iter_attachments())
    return [(part.get_filename(), part.get_content_type(), part.get_content()) for part in parts]


async def test_files_are_attached(serve: Callable[..., Server], inbox: Inbox, folder: Path) -> None:
    """Files arrive whole, below text and HTML, with names and types of their own or told."""
    payload = {
        "to": "a@x.org",
        "text": "see below",
        "html": "<p>see below",
        "attachments": [
            "report.pdf",
            {"file": "2026/list.csv", "name": "\u00fcbersicht 2026.csv", "type": "text/x-list"},
        ],
    }
    await send(serve().address, payload, attachments_dir=str(folder))
    mail = inbox.mail()
    assert attached(mail) == [
        ("report.pdf", "application/pdf", b"%PDF-1.7 \xff\x00"),
        ("\u00fcbersicht 2026.csv", "text/x-list", "a;b\n"),
    ]
    body = mail.get_body(("plain",))
    assert body is not None
    assert body.get_content().strip() == "see below"
    assert mail.get_body(("html",)) is not None
    assert all(len(line) < 1_000 and line.isascii() for line in inbox.raw().split(b"\r\n"))


async def test_a_large_file_arrives(
    serve: Callable[..., Server], inbox: Inbox, folder: Path
) -> None:
    """Megabytes go through."""
    data = os.urandom(3_000_000)
    (folder / "big.bin").write_bytes(data)
    payload = {"to": "a@x.org", "attachments": ["big.bin"]}
    await send(serve().address, payload, attachments_dir=str(folder))
    assert attached(inbox.mail()) == [("big.bin", "application/octet-stream", data)]


@pytest.mark.parametrize(
    ("name", "arrives"),
    [
        ("a\r\nX-Evil: 1.pdf", "a__X-Evil_ 1.pdf"),
        ('a"; filename="b.exe', "a_; filename=_b.exe"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("C:\\evil.exe", "C__evil.exe"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"),
        ("=?utf-8?q?a=0D=0A?=", "=_utf-8_q_a=0D=0A_="),
        ("x" * 300 + ".pdf", "x" * 146 + ".pdf"),
    ],
)
async def test_names_are_harmless(
    serve: Callable[..., Server], inbox: Inbox, folder: Path, name: str, arrives: str
) -> None:
    """A told name cannot break a header, nor be taken for a path or for another type."""
    payload = {"to": "a@x.org", "attachments": [{"file": "report.pdf", "name": name}]}
    await send(serve().address, payload, attachments_dir=str(folder))
    assert [each[0] for each in attached(inbox.mail())] == [arrives]
    assert inbox.mail()["X-Evil"] is None


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../secret.txt",
        "2026/../../secret.txt",
        "2026/./list.csv",
        "./report.pdf",
        "2026//list.csv",
        "2026/",
        "",
        ".",
        "..",
        "report.pdf\x00.txt",
        "report\n.pdf",
        "\ud800",
        "x/" * 600 + "y",
        5,
        None,
        ["report.pdf"],
    ],
)
async def test_paths_that_are_none(folder: Path, path: Any) -> None:
    """Only a plain way below the folder is one."""
    assert "no path below the folder" in await refused(folder, [path])
    assert "no path below the folder" in await refused(folder, [{"file": path}])


async def test_links_are_not_followed(folder: Path) -> None:
    """Neither a link to a file nor one to a folder leads out, wherever it points to."""
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "here.pdf").symlink_to(folder / "report.pdf")
    (folder / "up").symlink_to(folder.parent)
    for path in ("link.txt", "here.pdf", "up/secret.txt", "up/files/report.pdf"):
        assert "is a link" in await refused(folder, [path])


async def test_what_is_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a pipe without a writer and a socket are refused, and not waited for."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(folder)  # the path of a socket must be short
        listener.bind("socket")
        for path in ("2026", "pipe", "socket"):
            assert "is no file" in await refused(folder, [path])
    assert "behind a file" in await refused(folder, ["report.pdf/x"])
    assert "too long" in await refused(folder, ["x" * 300])


async def test_a_missing_file_is_dead(folder: Path) -> None:
    """The reason names the file."""
    assert await refused(folder, ["nope.pdf"]) == "attachment 'nope.pdf' does not exist"


async def test_the_size_of_all_is_limited(folder: Path) -> None:
    """`max_attachments` counts them together; a file that grows meanwhile is not read on."""
    (folder / "a.bin").write_bytes(b"x" * 600)
    assert "more than 1024 bytes" in await refused(
        folder, ["a.bin", "a.bin"], max_attachments="1KB"
    )
    with (folder / "sparse").open("wb") as file:
        file.truncate(10**12)
    assert "more than" in await refused(folder, ["sparse"])


@pytest.mark.parametrize(
    ("attachments", "told"),
    [
        ({"file": "report.pdf"}, "must be a list"),
        (["report.pdf"] * 51, "at most 50"),
        ([{"file": "report.pdf", "nme": "x"}], "did you mean 'name'"),
        ([{"file": "report.pdf", "name": 5}], "a name that is no text"),
        ([{"file": "report.pdf", "name": " "}], "a name that is no text"),
        ([{"file": "report.pdf", "type": "pdf"}], "a type that is none"),
        ([{"file": "report.pdf", "type": "a/b\r\nX: y"}], "a type that is none"),
        ([{"file": "report.pdf", "type": "multipart/mixed"}], "a type that is none"),
        ([{"file": "report.pdf", "type": "Message/rfc822"}], "a type that is none"),
    ],
)
async def test_what_else_is_refused(folder: Path, attachments: Any, told: str) -> None:
    """Every other fault of `attachments` is dead with its reason."""
    assert told in await refused(folder, attachments)


async def test_a_folder_that_is_gone_is_a_failed_attempt(folder: Path) -> None:
    """The folder is the operator's: a mount that is missing now may be back later."""
    options = {"smtp_url": "smtp://127.0.0.1:1", "from": "a@x.org", "attachments_dir": str(folder)}
    handler = make(options)
    os.rename(folder, folder.parent / "elsewhere")
    with pytest.raises(MailNotSent, match="attachments cannot be read: No such file"):
        await handler.call({"to": "a@x.org", "attachments": ["report.pdf"]}, a_run())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_rights_is_a_failed_attempt(folder: Path) -> None:
    """Rights are the operator's matter too."""
    (folder / "report.pdf").chmod(0)
    payload = {"to": "a@x.org", "attachments": ["report.pdf"]}
    with pytest.raises(MailNotSent, match="Permission denied"):
        await send("127.0.0.1:1", payload, attachments_dir=str(folder))
