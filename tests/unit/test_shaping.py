"""What an add says about load: read, packed, and refused in one line if it cannot be right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduld.client.adding import LOAD_OPTIONS, PERIOD_OPTIONS, TaskSpec, prepare
from scheduld.client.options import AddOptions, LoadOptions, PeriodOptions
from scheduld.errors import InvalidInput

NEVER = datetime(2100, 1, 1, tzinfo=UTC)


def packed(on_conflict: str = "error", **fields: Any) -> dict[str, str]:
    """The lines of a task's packed load, by name."""
    spec = TaskSpec(**{"payload": {"a": 1, "b": [2]}, **fields})
    task = prepare(
        spec, timezone="UTC", allow_past=False, max_payload=9_999, on_conflict=on_conflict
    )
    return dict(line.split("=", 1) for line in task.new.load.splitlines())


def test_options_fields_and_names_agree() -> None:
    """The options of the verbs are fields of TaskSpec, under the same names and types."""
    options = {name: ref.__forward_arg__ for name, ref in AddOptions.__annotations__.items()}
    assert (*LoadOptions.__annotations__, *PeriodOptions.__annotations__) == tuple(options)
    assert tuple(options) == (*LOAD_OPTIONS, *PERIOD_OPTIONS)
    assert {name: TaskSpec.__annotations__[name] for name in options} == options


def test_nothing_said_is_nothing_sent() -> None:
    """A plain task has no load, however its spec was made."""
    assert packed() == packed(priority=0, unique=False, key=None) == {}
    spec = TaskSpec.plain({}, None, None, None, None)
    assert not spec.is_shaped
    assert spec == TaskSpec(payload={})
    assert spec.named().load() == {}


def test_what_is_said_is_sent() -> None:
    """Each option as the store reads it: durations in ms, instants in ms of the epoch."""
    assert packed(priority=-7, key="k=1") == {"priority": "-7", "key": "k=1"}
    assert packed(expires="1m") == packed(expires=60) == {"expires_after": "60000"}
    assert packed(expires=timedelta(seconds=60)) == {"expires_after": "60000"}
    assert (
        packed(expires=NEVER) == packed(expires="2100-01-01 00:00") == {"expires": "4102444800000"}
    )
    load = packed(unique="x", throttle="5s")
    assert (load["unique_for"], load["on_conflict"]) == ("5000", "keep")
    assert packed(id="x", debounce=1, debounce_max="1m") == {
        "debounce": "1000",
        "debounce_max": "60000",
    }


def test_unique_means_the_same_whatever_the_order() -> None:
    """What is compared is the JSON value: keys in any order, lists in theirs, 1 is not "1"."""

    def digest(unique: Any, **payload: Any) -> str:
        return packed(unique=unique, payload=payload)["unique"]

    assert digest(True, a=1, b={"c": 2, "d": 3}) == digest(True, b={"d": 3, "c": 2}, a=1)
    assert digest(["a", "b"], a=1, b=2, c=3) == digest(("b", "a"), c=4, b=2, a=1)
    different = [
        digest(True, a=1),
        digest(True, a="1"),
        digest(True, a=True),
        digest(["a"], a=1),
        digest("a", a=1),
        digest('{"a":1}', a=1),
        digest(["b"], b=[1, 2]),
        digest(["b"], b=[2, 1]),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"priority": 101}, "priority is a whole number from -100 to 100, not 101"),
        ({"priority": True}, "not True"),
        ({"priority": 1.0}, "not 1.0"),
        ({"priority": "high"}, "not 'high'"),
        ({"priority": None}, "not None"),
        ({"key": ""}, "key '' is empty"),
        ({"key": "a b"}, "space or control character"),
        ({"key": "a\nunique=x"}, "space or control character"),
        ({"key": "x" * 201}, "201 bytes"),
        ({"key": 7}, "key is a text, not int"),
        ({"expires": "yesterday"}, "expires 'yesterday' is not a duration"),
        ({"expires": "2001-01-01 00:00"}, "is past"),
        ({"expires": "2100-01-01 00:00", "at": NEVER}, "expires is not after the due time"),
        ({"expires": "+1m", "delay": "1h"}, "expires is not after the due time"),
        ({"expires": 0}, "expires is no time at all"),
        ({"expires": -1}, "expires is negative"),
        ({"expires": datetime(2100, 1, 1)}, ""),  # noqa: DTZ001 - read in the client's zone
        ({"unique": ["c"]}, "no field 'c' to be unique in"),
        ({"unique": []}, "a list of payload fields, not list"),
        ({"unique": ""}, "0 characters"),
        ({"unique": {"a"}}, "not set"),
        ({"unique": 5}, "not int"),
        ({"unique_for": "1h"}, "unique_for needs unique"),
        ({"throttle": "1h"}, "throttle needs unique"),
        ({"throttle": "1h", "unique": "x", "unique_for": "1h"}, "cannot be given both"),
        ({"throttle": "soon", "unique": "x"}, "throttle 'soon'"),
        ({"debounce": "1s"}, "debounce needs unique or id"),
        ({"debounce": "1s", "id": "x", "delay": 5}, "debounce says when the task is due"),
        ({"debounce": "0s", "id": "x"}, "debounce is no time at all"),
        ({"debounce": "1h", "id": "x", "debounce_max": "1s"}, "shorter than debounce"),
        ({"debounce_max": "1s"}, "debounce_max needs debounce"),
        ({"debounce": "1s", "unique": "x", "throttle": "1s"}, "cannot be given both"),
        ({"debounce": "1s", "unique": "x", "on_conflict": "keep"}, "decides itself"),
    ],
)
def test_what_cannot_be_right_is_refused(fields: dict[str, Any], message: str) -> None:
    """One line that names the option and what is wrong with it, before anything is sent."""
    if not message:
        assert packed(**fields) == {"expires": "4102444800000"}
        return
    with pytest.raises(InvalidInput) as caught:
        packed(**fields)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
