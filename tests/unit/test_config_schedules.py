"""`[schedules]` of a config file: what arrives, and what is said about each fault."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from scheduld.config.load import load
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
        every = "1d"
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
        every="1d",
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
