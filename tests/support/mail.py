"""Mail servers on loopback, and sending through the handler `email`."""

from __future__ import annotations

import email
import socket
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from scheduld.handlers.contract import Run
from scheduld.handlers.email import make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DUE = datetime(2026, 12, 24, 8, tzinfo=UTC)
PASSWORD = "S3cr@t/pass"


class Inbox:
    """What a server took, and the replies it is told to give."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.rcpt: dict[str, str] = {}
        self.data = "250 OK"

    async def handle_RCPT(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient, unless a reply was set for it."""
        reply = self.rcpt.get(address, "250 OK")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Keep the mail, unless another reply was set."""
        if self.data.startswith("250"):
            self.envelopes.append(envelope)
        return self.data

    # Methods: the server looks at every attribute of its handler when it starts.
    def raw(self) -> bytes:
        """The bytes of the only mail."""
        assert len(self.envelopes) == 1
        content = self.envelopes[0].content
        assert isinstance(content, bytes)
        return content

    def mail(self) -> EmailMessage:
        """The only mail, parsed."""
        message = email.message_from_bytes(self.raw(), policy=policy.default)
        assert isinstance(message, EmailMessage)
        return message


class Server(Controller):
    """A server in a thread of its own, on a port the kernel chose."""

    def __init__(self, inbox: Inbox, **options: Any) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        super().__init__(inbox, hostname="127.0.0.1", port=port, **options)

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self._listener)

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"


def check_login(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: LoginPassword
) -> AuthResult:
    """Accept the user `ana` with PASSWORD."""
    good = data.login == b"ana" and data.password == PASSWORD.encode()
    return AuthResult(success=good, handled=good)


@pytest.fixture
def inbox() -> Inbox:
    """An empty inbox."""
    return Inbox()


@pytest.fixture
def serve(inbox: Inbox) -> Iterator[Callable[..., Server]]:
    """Starts servers that fill the inbox."""
    running: list[Server] = []

    def start(**options: Any) -> Server:
        server = Server(inbox, **options)
        server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


def a_run(*, id: str = "t1", attempt: int = 1, due: datetime = DUE) -> Run:  # noqa: A002
    """A run of a task of type `email`."""
    return Run(type="email", id=id, attempt=attempt, fence=7, due=due)


async def send(
    address: str, payload: dict[str, Any], *, run: Run | None = None, **options: Any
) -> dict[str, Any]:
    """Send one mail through the handler, as the daemon does."""
    told = {"smtp_url": f"smtp://{address}", "from": "Scheduld <noreply@example.com>"} | options
    handler = make(told)
    result = await handler.call(payload, run or a_run())
    assert isinstance(result, dict)
    return result
