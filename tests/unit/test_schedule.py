"""Definitions as they are stored: written, and read again whatever stands there."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from scheduld.model import Keep
from scheduld.schedule import Schedule
from scheduld.store.cronanswers import CronRecord

FULL = Schedule(
    name="s",
    type="a",
    cron="0 7 * * *",
    cron_dialect="extended",
    timezone="Europe/Madrid",
    payload={"list": [], "big": 12345678901234567, "word": "ñ"},
    catch_up="all",
    catch_up_window_ms=5,
    overlap="cancel",
    max_unfinished=3,
    starts_at_ms=-1,
    ends_at_ms=9,
    max_runs=2,
    jitter_ms=7,
    enabled=False,
    dst_gap="skip",
    dst_overlap="both",
    keep_history=Keep(count=1, age_ms=2),
)


def stored(text: str) -> Schedule | None:
    """What a record says its schedule is, with this as its definition."""
    return CronRecord("s", {"definition": text.encode()}, 0, "hash", 0).schedule


def with_value(key: str, value: Any) -> str:
    """A definition in which one value is another one."""
    return json.dumps({**json.loads(FULL.to_json()), key: value})


def test_a_definition_reads_back_as_it_was_written() -> None:
    """With every value set, with none, and with what a newer version has added."""
    assert stored(FULL.to_json()) == FULL
    assert stored('{"type":"a"}') == Schedule(name="s", type="a")
    keep = {"count": 1, "age_ms": 2, "bytes": 3}
    assert stored(json.dumps({**json.loads(with_value("keep_history", keep)), "new": {}})) == FULL
    for key in json.loads(FULL.to_json()):
        assert stored(with_value(key, None)) is None or key in {
            item.name for item in fields(Schedule) if item.default is None
        }


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "5", "null", '"x"', "{}", "[" * 100_000, '{"type":' * 9_999, "\udcff"],
    ids=range(10),
)
def test_what_is_no_definition_is_none(text: str) -> None:
    """Whatever somebody writes there, no reader of many schedules fails by one of them."""
    raw = text.encode(errors="surrogateescape")
    assert CronRecord("s", {"definition": raw}, 0, "hash", 0).schedule is None
    assert CronRecord("s", {}, 0, "none", 0).schedule is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("type", None),
        ("type", 5),
        ("cron", ["0 7 * * *"]),
        ("every", 90),
        ("timezone", []),
        ("payload", 5),
        ("payload", [["a", 1]]),
        ("starts_at_ms", "x"),
        ("ends_at_ms", 1.5),
        ("max_runs", True),
        ("jitter_ms", "5"),
        ("enabled", "no"),
        ("enabled", 1),
        ("catch_up", "sometimes"),
        ("overlap", []),
        ("cron_dialect", "quartz"),
        ("dst_gap", {}),
        ("keep_history", 5),
        ("keep_history", {"count": 1}),
        ("keep_history", {"count": "x", "age_ms": 1}),
    ],
)
def test_a_value_of_another_kind_makes_it_none(key: str, value: Any) -> None:
    """It cannot be fired as somebody meant it, and must not break whoever reads it."""
    assert stored(with_value(key, value)) is None
