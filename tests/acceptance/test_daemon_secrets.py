"""Neither a secret nor a second line gets into the log, the records or the process list."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.daemons import DaemonProcess, Site
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RunningServer

PASSWORD = "S3cr@t/of%redis"
ENCODED = "S3cr%40t%2Fof%25redis"
MAIL_KEY = "mail-key-9f8e7d"
FORGED = "x\n2026-01-01 INFO task x done\x1b[2J\u2028\u202e"
APP = """
import asyncio, logging, os, threading, warnings

log = logging.getLogger("app")

async def leak(payload, run):
    log.warning("options %s payload %s", run.options, payload)
    log.info("went to %s", os.environ["URL"], extra={"iban": payload["iban"]})
    warnings.warn("old key " + run.options["key"])
    threading.Thread(target=fail, args=(run.options["key"],)).start()
    asyncio.get_running_loop().call_soon(fail, run.options["key"])
    log.error("%d", "wrong arguments")
    log.error(payload["forged"])
    fail(run.options["key"] + " " + payload["forged"])

def fail(text):
    raise ValueError("refused: " + text)
"""


@pytest.fixture
def place(tmp_path: Path, redis7_server: RunningServer) -> Iterator[Site]:
    """A site whose config holds secrets, on a server that asks for a password."""
    user = f"u{secrets.token_hex(4)}"
    types: dict[str, dict[str, Any]] = {
        "work": {
            "handler": "app:leak",
            "retry": {"attempts": 2, "delay": "10ms"},
            "options": {"key": "${MAIL_KEY}", "smtp": f"smtp://me:{MAIL_KEY}2@h"},
        }
    }
    core = {"redis_url": "${URL}"}
    place = Site(tmp_path, redis7_server.url, f"n{user}", core, types)
    with place.config_path.open("a") as config:
        config.write('[log]\nmask = ["iban"]\n')
    (tmp_path / "app.py").write_text(APP)
    with redis7_server.client() as raw:
        raw.acl_setuser(
            user,
            enabled=True,
            passwords=[f"+{PASSWORD}"],
            keys=["*"],
            channels=["*"],
            categories=["+@all"],
        )
        place.user = user  # type: ignore[attr-defined]
        yield place
        raw.acl_deluser(user)


def variables(place: Site, password: str = ENCODED) -> dict[str, str]:
    """Environment of a daemon: where its secrets come from."""
    user: str = place.user  # type: ignore[attr-defined]
    url = place.url.replace("://", f"://{user}:{password}@")
    return {"URL": url, "MAIL_KEY": MAIL_KEY}


def assert_tight(text: str) -> None:
    """Hold a text against every secret, as it is and encoded."""
    for secret in (PASSWORD, ENCODED, "S3cr", MAIL_KEY, "ES91-2100", "hunter-22"):
        assert secret not in text


def test_secrets_and_forged_lines_of_a_handler(place: Site) -> None:
    """From options, payload, errors, warnings, threads and the loop: masked, a line each."""
    payload = {"iban": "ES91-2100", "password": "hunter-22", "forged": FORGED}
    with DaemonProcess(place, env=variables(place)) as daemon:
        daemon.started()
        (task_id,) = place.add("work", 1, **payload)
        wait_until(lambda: daemon.has_said("task is dead"), "the end")
        assert_tight(Path(f"/proc/{daemon.pid}/cmdline").read_text())
        assert daemon.term() == 0
    written = daemon.log_path.read_text()
    assert_tight(written)
    records = [json.loads(line) for line in written.splitlines()]
    assert written.isascii()
    assert not [record for record in records if record["event"].startswith("2026")]
    events = " ".join(record["event"] for record in records)
    assert f"went to {place.url.replace('://', f'://{place.user}:***@')}" in events  # type: ignore[attr-defined]
    for expected in ("'key': '***'", "'password': '***'", "old key ***"):
        assert expected in events
    thrown = [record["exception"] for record in records if "exception" in record]
    assert any("in a thread" in trace or "refused: ***" in trace for trace in thrown)
    with place.client() as client:
        task = client.get("work", task_id)
    assert task.error is not None
    assert task.error["message"].startswith("refused: *** x\n")
    assert_tight(json.dumps(task.error))


def test_a_wrong_password_is_told_without_it(place: Site) -> None:
    """Refused credentials are one line that names neither the right nor the wrong password."""
    with DaemonProcess(place, env=variables(place, "S3cr-wrong")) as daemon:
        wait_until(lambda: bool(daemon.log()), "a line")
        daemon.term()
    assert_tight(daemon.log_path.read_text())
    assert "credentials" in daemon.log_path.read_text()


def test_commands_do_not_tell_it_either(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check`, `stats` and `list` with a wrong password, or a URL that nobody answers."""
    env = variables(place, "S3cr-wrong")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    for words in (
        ("check",),
        ("stats", "--wait", "10ms"),
        ("list", "--json", "--wait", "10ms"),
        ("stats", "--wait", "10ms", "--redis-url", f"redis://u:{ENCODED}@127.0.0.1:1"),
        ("show", "--wait", "10ms", "--redis-url", f"redis://u:{ENCODED}@h:x", "a/b"),
    ):
        ran = place.run(*words)
        assert ran.returncode == (0 if words == ("check",) else ran.returncode)
        assert_tight(ran.stdout + ran.stderr)
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("settings", "least"), [('level = "error"', 0), ('format = "text"\nlevel = "debug"', 1)]
)
def test_level_and_format(place: Site, settings: str, least: int) -> None:
    """The settings of `[log]`; at debug each run is told with its lateness and duration."""
    with place.config_path.open("a") as config:
        config.write(settings + "\n")
    with DaemonProcess(place, env=variables(place)) as daemon:
        (task_id,) = place.add("work", 1, iban="x", password="y", forged="z")
        with place.client() as client:
            wait_until(lambda: client.get("work", task_id).state == "dead", "the end")
        daemon.term()
    lines = daemon.log_path.read_text().splitlines()
    if least:
        (end,) = (line for line in lines if "task is dead" in line)
        assert f"task=work/{task_id} attempt=2 late_ms=" in end
        assert " took_ms=" in end
    else:
        assert {json.loads(line)["level"] for line in lines} == {"error"}
