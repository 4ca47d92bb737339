"""`[schedules]` of a config file: what arrives, and what is said about each fault."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.config.load import load
from scheduld.errors import ConfigError
from scheduld.model import Keep
from scheduld.schedule import Schedule

if TYPE_CHECKING:
    from pathlib import Path

HEAD = '[scheduld]\ntimezone = "Europe/Madrid"\n[types.report]\nhandler = "log"\n'
TOP = f'{HEAD}[schedules.daily]\ntype = "report"\n'


def _load(folder: Path, text: str, **env: str) -> Any:
    file = folder / "scheduld.toml"
    file.write_text(text)
    return load(file, env={"HOME": "/home/ana", **env})


def _ms(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def test_defaults(tmp_path: Path) -> None:
    """Type and rule are enough; the zone is the one of `[scheduld]`."""
    config = _load(tmp_path, f'{TOP}cron = "0 7 * * *"')
    assert config.schedules == {
        "daily": Schedule(name="daily", type="report", cron="0 7 * * *", timezone="Europe/Madrid")
    }


def test_zone_without_any_is_utc(tmp_path: Path) -> None:
    """With no zone in the file a rule is read in UTC."""
    text = f'{TOP}cron = "0 7 * * *"'.replace('timezone = "Europe/Madrid"', "")
    assert _load(tmp_path, text).schedules["daily"].timezone == "UTC"


def test_every_setting_arrives(tmp_path: Path) -> None:
    """Each key of the file ends in its field, in ms."""
    config = _load(
        tmp_path,
        f"""{TOP}
        cron = "30 0 9 * * *"
        cron_dialect = "extended"
        timezone = "America/New_York"
        payload = {{ kind = "daily", list = [1, {{ a = 2 }}] }}
        catch_up = "all"
        catch_up_window = "2h"
        overlap = "allow"
        max_unfinished = 7
        starts_at = "2026-09-01 09:00"
        ends_at = 2027-06-30
        max_runs = 9
        jitter = "5m"
        enabled = false
        dst_gap = "skip"
        dst_overlap = "both"
        keep_history = {{ count = 5, age = "1d" }}
        """,
    )
    assert config.schedules["daily"] == Schedule(
        name="daily",
        type="report",
        cron="30 0 9 * * *",
        cron_dialect="extended",
        timezone="America/New_York",
        payload={"kind": "daily", "list": [1, {"a": 2}]},
        catch_up="all",
        catch_up_window_ms=7_200_000,
        overlap="allow",
        max_unfinished=7,
        starts_at_ms=_ms("2026-09-01T09:00:00-04:00"),
        ends_at_ms=_ms("2027-06-30T23:59:59.999-04:00"),
        max_runs=9,
        jitter_ms=300_000,
        enabled=False,
        dst_gap="skip",
        dst_overlap="both",
        keep_history=Keep(5, 86_400_000),
    )


@pytest.mark.parametrize(
    ("value", "starts", "ends"),
    [
        ('"2026-12-24"', "2026-12-24T00:00:00+01:00", "2026-12-24T23:59:59.999+01:00"),
        ("2026-12-24", "2026-12-24T00:00:00+01:00", "2026-12-24T23:59:59.999+01:00"),
        # The day of the change has 23 hours.
        ('"2026-03-29"', "2026-03-29T00:00:00+01:00", "2026-03-29T23:59:59.999+02:00"),
        ('"2026-12-24 09:00"', "2026-12-24T09:00:00+01:00", "2026-12-24T09:00:00+01:00"),
        ("2026-12-24T09:00:00", "2026-12-24T09:00:00+01:00", "2026-12-24T09:00:00+01:00"),
        ("2026-12-24T09:00:00Z", "2026-12-24T09:00:00+00:00", "2026-12-24T09:00:00+00:00"),
        ('"@1798099200"', "2026-12-24T08:00:00+00:00", "2026-12-24T08:00:00+00:00"),
    ],
)
def test_bounds(tmp_path: Path, value: str, starts: str, ends: str) -> None:
    """Bounds are times or dates, as texts or as dates of TOML; an end of a date is included."""
    for key, wanted in (("starts_at", starts), ("ends_at", ends)):
        found = _load(tmp_path, f'{TOP}cron = "0 7 * * *"\n{key} = {value}').schedules["daily"]
        assert getattr(found, f"{key}_ms") == _ms(wanted)


CRON = 'cron = "0 7 * * *"\n'
FAULTS = (
    ("", "", "needs cron or every"),
    (f'{CRON}every = "1h"', "every", "keep one of them"),
    ('cron = ""', "cron", "is empty"),
    ('cron = "0 7 * *"', "cron", "4 fields where 5 are needed"),
    ('cron = "0 0 7 * * *"', "cron", 'set cron_dialect = "extended"'),
    ('cron = "0 7 * * *"\ncron_dialect = "extended"', "cron", "six fields"),
    ('cron = "0 0 31 2 *"', "cron", "never fires"),
    ("cron = 5", "cron", "must be a text"),
    ('cron = "@reboot"', "cron", "at_start"),
    ('every = "15"', "every", "has no unit"),
    ('every = "1d12h"', "every", "mixes calendar units"),
    ('every = "0s"', "every", "is 0"),
    ("every = -5", "every", "duration"),
    ("every = true", "every", "must be a period, not a boolean"),
    (f'{CRON}timezone = "Europe/Madird"', "timezone", 'did you mean "Europe/Madrid"?'),
    (f'{CRON}timezone = "CET1"', "timezone", "unknown time zone"),
    (f'{CRON}cron_dialect = "quartz"', "cron_dialect", '"vixie" or "extended"'),
    (f'{CRON}payload = "x"', "payload", "must be a table"),
    (f"{CRON}payload = {{ at = 2026-01-01 }}", "payload", "cannot be stored as JSON"),
    (f"{CRON}payload = {{ n = nan }}", "payload", "JSON cannot hold"),
    (f'{CRON}catch_up = "once"', "catch_up", '"none" or "latest" or "all"'),
    (f'{CRON}catch_up = "all"', "catch_up", 'use overlap = "queue" or "allow"'),
    (f'{CRON}catch_up_window = "1mo"', "catch_up_window", "duration"),
    (f'{CRON}overlap = "replace"', "overlap", '"skip" or "queue" or "cancel" or "allow"'),
    (f"{CRON}max_unfinished = 0", "max_unfinished", "must be 1 to"),
    (f'{CRON}max_unfinished = "5"', "max_unfinished", "write it without quotes"),
    (f"{CRON}max_runs = 0", "max_runs", "must be 1 to"),
    (f'{CRON}enabled = "no"', "enabled", "must be true or false"),
    (f'{CRON}jitter = "2d"', "jitter", "must be 0s to 1d"),
    ('every = "15m"\njitter = "15m"', "jitter", "must be shorter"),
    ('cron = "*/5 * * * *"\njitter = "5m"', "jitter", "must be shorter"),
    ('every = "1d"\ndst_gap = "skip"', "dst_gap", "is for cron, not for every"),
    ('every = "1d"\ndst_overlap = "both"', "dst_overlap", "is for cron, not for every"),
    ('every = "1d"\ncron_dialect = "extended"', "cron_dialect", "is for cron, not for every"),
    (f'{CRON}starts_at = "+2h"', "starts_at", "whenever the file is read"),
    (f'{CRON}starts_at = "tomorrow 09:00"', "starts_at", "whenever the file is read"),
    (f'{CRON}starts_at = "2026-02-30"', "starts_at", "there is no day"),
    (f'{CRON}starts_at = "01/02/2026"', "starts_at", "could be 2026-02-01 or"),
    (f'{CRON}starts_at = "2026-03-29 02:30"', "starts_at", "does not exist in Europe/Madrid"),
    (f'{CRON}ends_at = "2026-10-25 02:30"', "ends_at", "happens twice in Europe/Madrid"),
    (f"{CRON}ends_at = 1e9", "ends_at", "must be a text"),
    (f'{CRON}ends_at = "9999-01-01"', "ends_at", "between 1970 and 2200"),
    (f'{CRON}starts_at = "2026-02-01"\nends_at = "2026-01-01"', "ends_at", "before starts_at"),
    (
        'cron = "0 0 29 2 *"\nstarts_at = 2026-01-01\nends_at = 2026-12-31',
        "ends_at",
        "never fires within",
    ),
    (f'{CRON}dst_gap = "jump"', "dst_gap", '"shift" or "skip"'),
    (f"{CRON}keep_history = {{ count = 0 }}", "keep_history.count", "must be 1 to"),
    (f"{CRON}keep_history.agee = 1", "keep_history.agee", "did you mean age?"),
    (f'{CRON}tz = "UTC"', "tz", "unknown key"),
    (f'{CRON}catchup = "all"', "catchup", "did you mean catch_up?"),
    (f'{CRON}run_timeout = "1m"', "run_timeout", "it belongs in [types.NAME]"),
)


@pytest.mark.parametrize(("text", "place", "words"), FAULTS)
def test_faults(tmp_path: Path, text: str, place: str, words: str) -> None:
    """Each fault is told at its key, with what would be right, and nothing else is told."""
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, f"{TOP}{text}\n")
    (problem,) = caught.value.problems
    assert problem.path == ".".join(filter(None, ("schedules.daily", place)))
    assert words in problem.message
    assert problem.line is not None
    assert problem.line >= 5


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('[schedules.a]\ntype = "reprot"\ncron = "@daily"', "a.type", "did you mean report?"),
        ('[schedules.a]\ncron = "@daily"', "a.type", "is missing"),
        ('[schedules."A b"]\ntype = "report"\ncron = "@daily"', '"A b"', "is not a name"),
        ("[schedules]\ndaily = 5", "daily", "must be a table"),
    ],
)
def test_faults_around(tmp_path: Path, text: str, place: str, words: str) -> None:
    """A type that is not there, a name that is none, and a schedule that is no table."""
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, HEAD + text)
    (problem,) = caught.value.problems
    assert problem.path == f"schedules.{place}"
    assert words in problem.message


def test_all_faults_at_once(tmp_path: Path) -> None:
    """A schedule without a type, with a bad zone and more, is told of all of it."""
    text = 'timezone = "Mars"\ncron = "a"\noverlap = 1\nends_at = "x"\nstarts = 1'
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, f"{HEAD}[schedules.daily]\n{text}\n[schedules.other]\nevery = 1")
    paths = [problem.path for problem in caught.value.problems]
    assert paths == [
        "schedules.daily.type",
        "schedules.daily.timezone",
        "schedules.daily.cron",
        "schedules.daily.overlap",
        "schedules.daily.starts",
        "schedules.other.type",
    ]


def test_payload_too_large(tmp_path: Path) -> None:
    """The payload keeps to `max_payload`."""
    text = f'{TOP}cron = "0 7 * * *"\npayload = {{ a = "{"x" * 200}" }}'
    text = text.replace("[scheduld]", "[scheduld]\nmax_payload = 100")
    with pytest.raises(ConfigError, match="at most 100 are allowed"):
        _load(tmp_path, text)


def test_secrets_in_a_schedule_are_not_told(tmp_path: Path) -> None:
    """A value that was filled in is never quoted."""
    text = f'{TOP}cron = "${{RULE}}"\ntimezone = "${{ZONE}}"\nevery = "${{ZONE}}"'
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text, RULE="geheim 0 * * *", ZONE="geheim/ort")
    assert len(caught.value.problems) >= 2
    assert "geheim" not in str(caught.value)


def test_payload_may_be_filled_in(tmp_path: Path) -> None:
    """`${...}` works in payloads."""
    config = _load(tmp_path, f'{TOP}cron = "@daily"\npayload = {{ to = "${{TO}}" }}', TO="ana")
    assert config.schedules["daily"].payload == {"to": "ana"}


def test_two_thousand_schedules_load_quickly(tmp_path: Path) -> None:
    """Thousands of schedules are checked well below the time a daemon may take to start."""
    rules = "".join(
        f'[schedules.s{number}]\ntype = "report"\ncron = "{number % 60} 7 * * mon-fri"\n'
        f'timezone = "Europe/Madrid"\njitter = "1m"\n'
        for number in range(2_000)
    )
    started = time.process_time()
    assert len(_load(tmp_path, HEAD + rules).schedules) == 2_000
    assert time.process_time() - started < 3
