"""Tasks that come again, by both clients: what is stored, answered, and changed by an edit."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from scheduld import Client, Conflict, InvalidInput, TaskSpec
from scheduld.store import usercalls
from tests.integration.test_client_operating import Asker
from tests.support.store import valkey_store as valkey_store

if TYPE_CHECKING:
    from tests.support.store import Store

FIRST = datetime(2090, 1, 1, 9, tzinfo=ZoneInfo("Europe/Madrid"))
FIRST_MS = 3_786_940_800_000
DAY_MS = 86_400_000


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, fast_store: Store) -> Asker:
    """One client of each kind; every test that asks runs with both."""
    return Asker(request.param, fast_store)


def stored(ask: Asker, task_id: str) -> dict[str, str]:
    """The hash of a task, without what every task may have."""
    fields: dict[bytes, bytes] = ask.store.redis.hgetall(ask.store.type.task(task_id.encode()))  # type: ignore[assignment]
    told = {name.decode(): value.decode() for name, value in fields.items()}
    return {name: told[name] for name in told if name not in ("payload", "token", "edited")}


def test_what_is_stored_is_what_is_answered(ask: Asker) -> None:
    """The zone is that of the datetime, the anchor the first due."""
    task = ask("schedule", "job", {"a": 1}, id="w", at=FIRST, every="1w", until=date(2090, 2, 1))
    assert stored(ask, "w") == {
        "every": "7d",
        "until": "3789673199999",
        "zone": "Europe/Madrid",
        "anchor": str(FIRST_MS),
    }
    assert (task.every, task.timezone, task.due) == ("7d", "Europe/Madrid", FIRST)
    assert (task.until, task.max_runs) == ("2090-02-01T22:59:59.999Z", None)
    assert (task.runs, task.missed) == (0, 0)
    assert ask("get", "job", "w") == replace(task, created=None)


def test_a_delay_begins_the_grid_at_the_servers_now(ask: Asker) -> None:
    """What the store answers as due is where the grid begins."""
    task = ask("schedule", "job", delay=3600, every=90, max_runs=3)
    assert stored(ask, task.id) == {
        "every": "1m30s",
        "max_runs": "3",
        "zone": "UTC",
        "anchor": str(task.due_ms),
    }
    assert ask("get", "job", task.id) == replace(task, created=None)


def test_many_at_once(ask: Asker) -> None:
    """Each has its own period, or none."""
    week, once = ask("schedule_many", "job", [TaskSpec(at=FIRST, every="7d"), TaskSpec(at=FIRST)])
    assert (week.every, week.timezone, once.every) == ("7d", "Europe/Madrid", None)
    assert stored(ask, once.id) == {}


def test_a_repeat_is_the_same_add(ask: Asker) -> None:
    """By id and token; another add of the id is refused, kept or replaced as ever."""
    said: dict[str, Any] = {"id": "w", "token": "t", "at": FIRST, "every": "7d"}
    ask("schedule", "job", **said)
    assert ask("schedule", "job", **said).every == "7d"
    kept = ask("schedule", "job", id="w", every="1h", on_conflict="keep")
    assert (kept.created, kept.every) == (False, "7d")
    assert ask("schedule", "job", id="w", at=FIRST, on_conflict="replace").every is None
    assert stored(ask, "w") == {}


def test_an_edit_changes_what_it_names(ask: Asker) -> None:
    """Another period begins at the next due; what is not named stays."""
    ask("schedule", "job", {"a": 1}, id="w", at=FIRST, every="7d", max_runs=5)
    task = ask("edit", "job", "w", every="1d", until="2090-03-01", timezone="Asia/Tokyo")
    assert (task.every, task.max_runs, task.revision) == ("1d", 5, 1)
    assert (task.timezone, task.anchor_ms) == ("Asia/Tokyo", FIRST_MS)
    assert task.until == "2090-03-01T14:59:59.999Z"
    task = ask("edit", "job", "w", until="never", merge={"b": 2})
    assert (task.until, task.payload, task.revision) == (None, {"a": 1, "b": 2}, 2)
    task = ask("edit", "job", "w", every=timedelta(hours=1), delay="1h")
    assert (task.every, task.anchor_ms) == ("1h", task.due_ms)
    # The zone of the task goes before the client's.
    assert ask("edit", "job", "w", until="2090-03-01").until == "2090-03-01T14:59:59.999Z"


def test_an_edit_is_of_the_task_that_was_read(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another edit comes between, it is made anew, and nothing of either is lost."""
    ask("schedule", "job", id="w", at=FIRST, every="7d", max_runs=5)
    real, others = usercalls.edit, [FIRST + timedelta(days=1)]

    def edit(*args: Any) -> Any:
        if others:
            at = others.pop()
            with Client(ask.store.server.url, namespace=ask.store.namespace) as client:
                client.edit("job", "w", at=at)
        return real(*args)

    monkeypatch.setattr(usercalls, "edit", edit)
    task = ask("edit", "job", "w", every="1d")
    assert (task.revision, task.due_ms) == (2, FIRST_MS + DAY_MS)
    assert task.anchor_ms == FIRST_MS + DAY_MS
    with pytest.raises(Conflict, match="has revision 2, not 1"):
        ask("edit", "job", "w", every="2d", if_revision=1)


def test_what_an_edit_cannot_be(ask: Asker) -> None:
    """In one line, and the task stays as it is."""
    ask("schedule", "job", id="w", at=FIRST, every="7d")
    ask("schedule", "job", id="once", at=FIRST)
    before = stored(ask, "w")
    for said, error, words in (
        ({"every": "7"}, InvalidInput, "no unit"),
        ({"max_runs": 0}, InvalidInput, "max_runs"),
        ({"until": "2090-01-01T07:00Z"}, InvalidInput, "before the next due"),
        ({}, InvalidInput, "nothing to edit"),
    ):
        with pytest.raises(error, match=words):
            ask("edit", "job", "w", **said)
    with pytest.raises(Conflict, match="is not periodic"):
        ask("edit", "job", "once", max_runs=3)
    ask.store.redis.hset(ask.store.type.task(b"w"), "runs", 4)
    with pytest.raises(Conflict, match="has run 4 times"):
        ask("edit", "job", "w", max_runs=4)
    assert stored(ask, "w") == {**before, "runs": "4"}


def test_foreign_rubbish_is_told(ask: Asker) -> None:
    """Whatever somebody wrote into the fields of a task, reading it goes on."""
    ask("schedule", "job", id="w", at=FIRST, every="7d")
    key = ask.store.type.task(b"w")
    ask.store.redis.hset(key, mapping={"until": "soon", "anchor": b"\xff", "max_runs": "many"})
    task = ask("get", "job", "w")
    assert (task.every, task.until, task.max_runs) == ("7d", None, None)
    with pytest.raises(Conflict, match="the stored until is no number"):
        ask("edit", "job", "w", every="1d")
    ask.store.redis.hset(key, "series", "x")
    assert ask("get", "job", "w").series == {"offsets": ["x"], "anchor": ""}


LADDER = b"-7d,-1d,0 season_start"
START = {"season_start": "2090-03-29T09:00"}


@pytest.fixture
def season(ask: Asker) -> Asker:
    """A type whose daemons have told that its tasks follow a series; the client has no config."""
    ask.store.redis.hset(ask.store.type.meta, "series", LADDER)
    return ask


def test_a_client_without_a_config_follows_the_series(season: Asker) -> None:
    """What says no time is due when the series says, priorities and all."""
    task = season("schedule", "job", START, id="s", timezone="Europe/Madrid", priority=5)
    assert task.series == {"offsets": ["-7d", "-1d", "0"], "anchor": "season_start"}
    assert (task.due_ms, task.priority) == (FIRST_MS + 80 * DAY_MS, 5)
    assert season("get", "job", "s") == replace(task, created=None)
    # In the zone of the client, and by a repeat of the same add.
    for _ in range(2):
        task = season("schedule", "job", START, id="u", token="t")
        assert (task.due_ms, task.timezone) == (FIRST_MS + 80 * DAY_MS + 3_600_000, "UTC")


def test_a_time_goes_before_a_series_that_the_store_tells(season: Asker) -> None:
    """Now, later, or by a period of its own."""
    for said in ({"delay": 0}, {"delay": "1h"}, {"at": FIRST}, {"every": "1h", "delay": 5}):
        task = season("schedule", "job", {}, **said)
        assert season("get", "job", task.id).series is None


def test_of_many_each_is_refused_alone(season: Asker) -> None:
    """Those without the anchor in their payload; the others are stored."""
    good, bad, timed = season("schedule_many", "job", [START, {}, TaskSpec(delay=60)])
    assert (good.created, good.missed, timed.created) == (True, 0, True)
    assert isinstance(bad, InvalidInput)
    assert "the payload's season_start, which the series is around, is missing" in str(bad)
    with pytest.raises(InvalidInput, match="have passed"):
        season("schedule", "job", {"season_start": "2020-01-01T09:00"})
    assert len(season("list", "job")) == 2


def test_rubbish_in_the_place_of_a_series_is_passed_over(ask: Asker) -> None:
    """Whoever wrote it there: tasks are due as if there were none."""
    ask.store.redis.hset(ask.store.type.meta, "series", b"\xffrubbish")
    assert ask("schedule", "job", START).series is None
    ask.store.redis.hset(ask.store.type.meta, "series", b"-7x season_start")
    with pytest.raises(InvalidInput, match="is not an interval"):
        ask("schedule", "job", START)


def test_a_task_of_a_schedule_does_not_come_again_by_itself(ask: Asker) -> None:
    """Its schedule says when, and would wait for its end for ever."""
    ask("schedule", "job", id="x", delay="1h")
    ask.store.redis.hset(ask.store.task_key("x"), mapping={"schedule": "daily", "tick": "5"})
    with pytest.raises(Conflict, match="made by a schedule, which says when it comes again"):
        ask("edit", "job", "x", every="1h")
    ask.store.redis.hdel(ask.store.task_key("x"), "schedule", "tick")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("cron", "client.schedules.add"),
        ("untill", "did you mean until?"),
        ("dely", "did you mean delay?"),
        ("x", "there are priority, key"),
    ],
)
def test_a_keyword_that_is_no_option(ask: Asker, option: str, hint: str) -> None:
    """It is named as people wrote it, with where it belongs or what was meant."""
    options: dict[str, Any] = {option: "0 7 * * *"}
    with pytest.raises(TypeError, match=f"a task has no option '{option}' .*{hint}"):
        ask("schedule", "job", **options)
