"""The unit file, the image and the compose file keep what the docs promise of them.

That they work is shown by scripts/systemd-check and scripts/image-check.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from scheduld.config.settings import DEFAULTS
from scheduld.daemon import EXIT_STUCK
from scheduld.duration import parse_duration_ms
from scheduld.errors import ConfigError

ROOT = Path(__file__).parents[2]
AFTER_GRACE_MS = 1_000 + 5_000 + 10_000
"""A stop after the grace: runs that are told to end, last verdicts, the embedded server."""


def _unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (ROOT / "systemd" / "scheduld.service").read_text().splitlines():
        if re.match(r"\w+=", line):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
        else:
            assert not line or line[0] in "#[", line
    return found


def _only(name: str) -> str:
    (value,) = _unit()[name]
    return value


def test_the_unit_is_watched_and_started_again() -> None:
    """systemd waits for READY, feeds the watchdog, restarts for ever, but not a wrong config."""
    assert (_only("Type"), _only("Restart")) == ("notify", "on-failure")
    assert parse_duration_ms(_only("WatchdogSec")) >= 10_000
    assert parse_duration_ms(_only("RestartSec")) >= 1_000
    assert _only("StartLimitIntervalSec") == "0"
    never = [int(code) for code in _only("RestartPreventExitStatus").split()]
    assert never == [ConfigError.exit_code]
    assert EXIT_STUCK not in never
    assert "ExecReload" not in _unit()


def test_a_stop_has_time_to_be_graceful() -> None:
    """systemd and compose wait longer than a stop with the default grace may take."""
    longest = DEFAULTS.shutdown_grace_ms + AFTER_GRACE_MS
    assert parse_duration_ms(_only("TimeoutStopSec")) > longest
    (grace,) = re.findall(r"stop_grace_period: (\w+)", (ROOT / "compose.yaml").read_text())
    assert parse_duration_ms(grace) > longest
    # The embedded server is a child: only the daemon may end it, after its last verdict.
    assert _only("KillMode") == "mixed"


def test_the_unit_starts_the_documented_program() -> None:
    """Program, config and state folder are those that docs/operations.md names."""
    page = (ROOT / "docs" / "operations.md").read_text()
    program, *words = _only("ExecStart").split()
    assert words == ["run", "--config", "/etc/scheduld/scheduld.toml"]
    for place in (program, words[-1], "/var/lib/" + _only("StateDirectory")):
        assert place in page
    (secrets,) = _unit()["EnvironmentFile"]
    assert secrets.removeprefix("-") in page


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DynamicUser", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("StateDirectoryMode", "0700"),
    ],
)
def test_the_unit_is_locked_down(name: str, value: str) -> None:
    """The lines that keep a handler from harming the machine are there."""
    assert _only(name) == value


def _instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_runs_the_daemon_as_nobody_special() -> None:
    """Two stages, a user that is not root, the daemon as process 1, its state in a volume."""
    said = _instructions()
    words = [word for word, _ in said]
    assert words.count("FROM") == 2
    last = dict(said[len(words) - words[::-1].index("FROM") :])
    assert int(last["USER"]) > 0
    assert (last["ENTRYPOINT"], last["CMD"]) == ('["scheduld"]', '["run"]')
    assert last["STOPSIGNAL"] == "SIGTERM"
    assert f"STATE_DIRECTORY={last['VOLUME']}" in last["ENV"]
    assert 'CMD ["/opt/scheduld/bin/image-health"]' in last["HEALTHCHECK"]


def test_the_image_gets_what_the_build_needs_and_nothing_else() -> None:
    """What pyproject.toml builds from is sent to the image builder."""
    sent = [
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    assert {"scheduld", "config", "pyproject.toml", "README.md", "LICENSE"} <= set(sent)
    assert all((ROOT / name).exists() for name in sent)
    copied = re.findall(
        r"^COPY (?:--chmod=\d+ )?(scripts/\S+)", (ROOT / "Dockerfile").read_text(), re.M
    )
    assert set(copied) <= set(sent)


@pytest.mark.parametrize("name", ["systemd-check", "image-check", "image-health"])
def test_scripts_can_be_run(name: str) -> None:
    """Each is executable and names its interpreter."""
    path = ROOT / "scripts" / name
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/")
