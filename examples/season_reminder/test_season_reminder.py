"""Tests of a series of mails, with a mail server of the test's: a spring in a second."""

import socketserver
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scheduld import WhenError, schedule_task
from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
CONFIG = Path(__file__).with_name("scheduld.toml")
MAIL = {"to": "ana@example.com", "subject": "The season starts on 29 March", "text": "See you"}


class Mailbox(socketserver.ThreadingTCPServer):
    """A mail server that keeps what it gets."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.mails: list[str] = []


class Conversation(socketserver.StreamRequestHandler):
    """One client, command by command."""

    server: Mailbox

    def handle(self) -> None:
        self.wfile.write(b"220 mailbox\r\n")
        while command := self.rfile.readline():
            if command.upper().startswith(b"DATA"):
                self.wfile.write(b"354 end with a dot\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.mails.append(b"".join(lines).decode())
            self.wfile.write(b"250 ok\r\n")


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with Mailbox() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def season(scheduld: Scheduler, mailbox: Mailbox, tmp_path: Path) -> Scheduler:
    """The example, at the end of winter, with the mail server of the test."""
    port = mailbox.server_address[1]
    (tmp_path / "scheduld.toml").write_text(CONFIG.read_text().replace(":1025", f":{port}"))
    scheduld.load(tmp_path / "scheduld.toml")
    scheduld.move_to("2027-03-01 12:00")
    return scheduld


def test_three_mails(season: Scheduler, mailbox: Mailbox) -> None:
    schedule_task("season", {**MAIL, "season_start": "2027-03-29T09:00"})

    # Nine o'clock, also on the day before the clocks are set forward, and on the day after.
    assert [run.at for run in season.run_all()] == [
        datetime(2027, 3, 22, 8, tzinfo=UTC),
        datetime(2027, 3, 28, 7, tzinfo=UTC),
        datetime(2027, 3, 29, 7, tzinfo=UTC),
    ]
    assert len(mailbox.mails) == 3
    assert all("Subject: The season starts on 29 March" in mail for mail in mailbox.mails)
    # Else a mail server would take the second for a copy of the first.
    assert len({mail.split("Message-ID: ")[1].split()[0] for mail in mailbox.mails}) == 3
    season.assert_nothing_scheduled()


def test_the_season_starts_later(season: Scheduler, mailbox: Mailbox) -> None:
    schedule_task("season", {**MAIL, "season_start": "2027-03-29T09:00"}, id="ana")
    season.run_until("2027-03-28 12:00")
    season.client.edit("season", "ana", merge={"season_start": "2027-04-12T09:00"})

    left = [run.at.strftime("%d %b") for run in season.run_all()]
    assert left == ["05 Apr", "11 Apr", "12 Apr"]
    assert len(mailbox.mails) == 5


def test_late_for_the_first(season: Scheduler, mailbox: Mailbox) -> None:
    task = schedule_task("season", {**MAIL, "season_start": "2027-03-05T09:00"})
    assert task.missed == 1
    season.run_all()
    assert len(mailbox.mails) == 2

    with pytest.raises(WhenError, match="all instants of the series"):
        schedule_task("season", {**MAIL, "season_start": "2027-01-01T09:00"})
