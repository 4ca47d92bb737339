"""A mail, added in each of three ways, arrives once with its content, and tells its story."""

from __future__ import annotations

import email
import json
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email import policy
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller

from tests.support.daemons import DaemonProcess, Site
from tests.support.servers import free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aiosmtpd.smtp import SMTP, Envelope, Session

    from tests.support.servers import RunningServer

SUBJECT = "Ñandú, 24 de diciembre: 9 €, 早上好"
TEXT = "Querida Ana,\n¡feliz Navidad! 🎄\nŽluťoučký kůň.\n"
TO = "ana@example.com"


class Inbox:
    """What a mail server took."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, Envelope]] = []

    async def handle_DATA(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a mail."""
        self.taken.append((time.time(), envelope))
        return "250 OK"

    # A method: the server looks at every attribute of its handler when it starts.
    def mails(self) -> list[EmailMessage]:
        """All mails, parsed."""
        found = []
        for _, envelope in self.taken:
            assert isinstance(envelope.content, bytes)
            message = email.message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(message, EmailMessage)
            found.append(message)
        return found


class MailServer(Controller):
    """A real SMTP server on loopback, in a thread, on a port the kernel chose."""

    def __init__(self, inbox: Inbox) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(inbox, hostname="127.0.0.1", port=self._listener.getsockname()[1])

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self._listener)


@pytest.fixture
def inbox() -> Inbox:
    """Be the mail server of the config."""
    return Inbox()


@pytest.fixture
def place(tmp_path: Path, inbox: Inbox, valkey_server: RunningServer) -> Iterator[Site]:
    """Run a daemon whose type `email` sends to the inbox."""
    server = MailServer(inbox)
    server.start()
    options = {"smtp_url": f"smtp://127.0.0.1:{server.port}", "from": "S <noreply@example.com>"}
    types = {"email": {"handler": "email", "empty_poll_timeout": "30s", "options": options}}
    namespace = f"n{time.monotonic_ns()}"
    core = {"timezone": "Europe/Madrid"}
    site = Site(tmp_path, valkey_server.url, namespace=namespace, core=core, types=types)
    with DaemonProcess(site).started() as daemon:
        wait_until(lambda: site.run("stats", "--json").returncode == 0, "commands that work")
        yield site
        assert daemon.term() == 0
    server.stop()


def check_arrival(inbox: Inbox, due: float) -> None:
    """The one mail came at its time and says what was written."""
    wait_until(lambda: inbox.taken, "a mail")
    (mail,) = inbox.mails()
    assert mail["Subject"] == SUBJECT
    assert mail["To"] == TO
    assert mail["From"] == "S <noreply@example.com>"
    assert mail.get_content().replace("\r\n", "\n") == TEXT
    arrived, envelope = inbox.taken[0]
    assert envelope.rcpt_tos == [TO]
    assert envelope.mail_from == "noreply@example.com"
    # Never early; how late depends on how busy this machine is.
    assert 0 <= arrived - due < 2.0


def check_story(place: Site, task_id: str, due: float) -> None:
    """`show` tells what became of it, and nothing comes after it."""
    wait_until(lambda: place.counts("email") == (0, 0, 1, 0), "the verdict stored")
    told = place.show(f"email/{task_id}")
    assert (told["state"], told["outcome"], told["attempt"]) == ("done", "success", 1)
    assert told["due_ms"] == pytest.approx(due * 1000, abs=1)
    assert told["due_ms"] <= told["started_ms"] <= told["finished_ms"]
    text = place.run("show", f"email/{task_id}")
    assert text.returncode == 0
    assert "done" in text.stdout


def test_from_the_command_line(place: Site, inbox: Inbox) -> None:
    """`scheduld add --type email --at ...` with an instant of today."""
    at = datetime.now(UTC) + timedelta(seconds=1.5)
    words = ["--at", at.isoformat(timespec="milliseconds"), f"to={TO}"]
    ran = place.run("add", "--type", "email", *words, f"subject={SUBJECT}", f"text={TEXT}")
    assert (ran.returncode, ran.stderr) == (0, "")
    due = int(at.timestamp() * 1000) / 1000
    check_arrival(inbox, due)
    check_story(place, ran.stdout.split()[0].removeprefix("email/"), due)
    assert len(inbox.taken) == 1


def test_from_python(place: Site, inbox: Inbox) -> None:
    """`schedule_task()` in a program that finds the config in its folder."""
    code = """
import json, sys
from datetime import timedelta
from scheduld import schedule_task
payload = json.loads(sys.argv[1])
task = schedule_task("email", payload, delay=timedelta(seconds=1))
print(json.dumps([task.id, task.due_ms]))
"""
    payload = json.dumps({"to": TO, "subject": SUBJECT, "text": TEXT})
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, payload],
        cwd=place.folder,
        env=place.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    task_id, due_ms = json.loads(ran.stdout)
    check_arrival(inbox, due_ms / 1000)
    check_story(place, task_id, due_ms / 1000)
    assert len(inbox.taken) == 1


def test_from_any_other_language(place: Site, inbox: Inbox, valkey_server: RunningServer) -> None:
    """HSET, ZADD and PUBLISH, as any Redis client sends them, are an add."""
    root = f"{place.namespace}:{{email}}"
    due_ms = time.time_ns() // 1_000_000 + 700
    payload = json.dumps({"to": TO, "subject": SUBJECT, "text": TEXT}, ensure_ascii=False)
    with valkey_server.client() as client:
        client.hset(f"{root}:task:xmas", mapping={"payload": payload})
        client.zadd(f"{root}:due", {"xmas": due_ms})
        client.publish(f"{place.namespace}:wake", f"email {due_ms}")
    check_arrival(inbox, due_ms / 1000)
    check_story(place, "xmas", due_ms / 1000)
    assert len(inbox.taken) == 1


def test_a_mail_server_that_comes_late(
    tmp_path: Path, inbox: Inbox, valkey_server: RunningServer
) -> None:
    """While nobody answers the mail is tried again, then arrives once; the story has it all."""
    port = free_port()
    options = {"smtp_url": f"smtp://127.0.0.1:{port}", "from": "noreply@example.com"}
    retry = {"attempts": 50, "backoff": "fixed", "delay": "200ms"}
    types = {"email": {"handler": "email", "retry": retry, "options": options}}
    namespace = f"n{time.monotonic_ns()}"
    place = Site(tmp_path, valkey_server.url, namespace=namespace, types=types)
    with DaemonProcess(place).started():
        (task_id,) = place.add("email", to=TO, subject=SUBJECT, text=TEXT)
        wait_until(lambda: place.show(f"email/{task_id}")["failed"] >= 2, "failed attempts")
        told = place.show(f"email/{task_id}")
        assert told["state"] in {"scheduled", "running"}
        assert told["error"]["kind"] == "MailNotSent"
        late = Controller(inbox, hostname="127.0.0.1", port=port)
        late.start()
        wait_until(lambda: place.counts("email") == (0, 0, 1, 0), "the verdict stored")
        late.stop()
    told = place.show(f"email/{task_id}")
    assert told["attempt"] == told["failed"] + 1 >= 3
    assert told["error"] is None
    assert len(inbox.taken) == 1
