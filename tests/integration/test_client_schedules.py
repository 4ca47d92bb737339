"""`client.schedules` of both clients, on a real server, at the time of a moved clock."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from scheduld import (
    AsyncClient,
    Client,
    Conflict,
    CronError,
    InvalidInput,
    NotFound,
    TaskExists,
    WhenError,
)
from scheduld.model import Keep
from scheduld.schedule import Schedule
from scheduld.store.synclink import SyncLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduld.testing import Scheduler

pytest_plugins = ["scheduld.testing.fixtures"]
BEGIN = datetime(2026, 3, 25, 9, tzinfo=UTC)
MADRID = "Europe/Madrid"


@pytest.fixture(autouse=True)
def at_ten(scheduld: Scheduler) -> None:
    """Each test begins on 25 March 2026, 10:00 in Madrid, four days before the clocks change."""
    scheduld.timezone = MADRID
    scheduld.move_to(BEGIN)
    scheduld.handle("report", lambda payload: payload)


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Ask a verb of schedules by one kind of client."""

    def blocking(verb: str, *args: Any, **options: Any) -> Any:
        with Client() as client:
            return getattr(client.schedules, verb)(*args, **options)

    def by_asyncio(verb: str, *args: Any, **options: Any) -> Any:
        async def run() -> Any:
            async with AsyncClient() as client:
                return await getattr(client.schedules, verb)(*args, **options)

        return asyncio.run(run())

    return blocking if request.param == "blocking" else by_asyncio


def _add(ask: Callable[..., Any], name: str = "daily", **options: Any) -> Any:
    return ask("add", name, "report", **{"cron": "30 2 * * *", **options})


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_add_and_get(ask: Callable[..., Any]) -> None:
    """What was added can be asked for, with every default filled in."""
    added = _add(ask, payload={"a": [1]})
    assert added.created
    assert added.definition == Schedule(
        name="daily", type="report", cron="30 2 * * *", timezone=MADRID, payload={"a": [1]}
    )
    found = ask("get", "daily")
    assert (found.state, found.origin, found.runs, found.created) == ("active", "runtime", 0, None)
    assert found.next == datetime(2026, 3, 26, 1, 30, tzinfo=UTC)
    assert [info.name for info in ask("list")] == ["daily"]
    assert ask("list", "other") == []


def test_every_setting_arrives(ask: Callable[..., Any]) -> None:
    """Each option ends in its field, whatever form of time it has."""
    added = _add(
        ask,
        cron="0 9 * * *",
        timezone=ZoneInfo("America/New_York"),
        catch_up="all",
        catch_up_window=7200,
        overlap="allow",
        max_unfinished=7,
        starts_at=date(2026, 9, 1),
        ends_at="2027-06-30",
        max_runs=9,
        jitter="5m",
        enabled=False,
        dst_gap="skip",
        dst_overlap="both",
        keep_history={"count": 5},
    )
    assert added.state == "disabled"
    assert added.definition == Schedule(
        name="daily",
        type="report",
        cron="0 9 * * *",
        timezone="America/New_York",
        catch_up="all",
        catch_up_window_ms=7_200_000,
        overlap="allow",
        max_unfinished=7,
        starts_at_ms=_ms("2026-09-01T00:00:00-04:00"),
        ends_at_ms=_ms("2027-06-30T23:59:59.999-04:00"),
        max_runs=9,
        jitter_ms=300_000,
        enabled=False,
        dst_gap="skip",
        dst_overlap="both",
        keep_history=Keep(5, 90 * 86_400_000),
    )
    other = _add(ask, "other", cron=None, every=timedelta(minutes=15))
    assert other.definition.every == "15m"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"cron": None}, InvalidInput, "a schedule needs cron or every"),
        ({"every": "1h"}, InvalidInput, "exclude each other"),
        ({"cron": "* * *"}, CronError, "3 fields where 5 are needed"),
        ({"cron": "0 0 31 2 *"}, CronError, "never fires"),
        ({"cron": 5}, InvalidInput, "cron is a text, not int"),
        ({"cron": None, "every": 0}, WhenError, "every is 0"),
        ({"cron": None, "every": "1d1h"}, WhenError, "mixes"),
        ({"timezone": "Mars"}, WhenError, "unknown time zone"),
        ({"timezone": UTC}, None, ""),
        ({"timezone": 5}, WhenError, "needs a name"),
        ({"payload": [1]}, InvalidInput, "must be a JSON object"),
        ({"payload": {"a": "x" * 300_000}}, InvalidInput, "at most"),
        ({"catch_up": "once"}, InvalidInput, "catch_up is none, latest or all"),
        ({"catch_up": "all"}, InvalidInput, "overlap"),
        ({"overlap": "drop"}, InvalidInput, "overlap is skip, queue, cancel or allow"),
        ({"max_unfinished": 0}, InvalidInput, "max_unfinished is a whole number from 1"),
        ({"max_runs": True}, InvalidInput, "max_runs is a whole number"),
        ({"starts_at": "2026-03-29 02:30"}, WhenError, "does not exist"),
        ({"ends_at": "2026-02-30"}, WhenError, "there is no day"),
        ({"starts_at": "2026-05-01", "ends_at": "2026-04-01"}, InvalidInput, "before starts_at"),
        ({"jitter": "2d"}, InvalidInput, "jitter is at most 1d"),
        ({"cron": "* * * * *", "jitter": "1m"}, InvalidInput, "jitter must be shorter"),
        ({"enabled": "no"}, InvalidInput, "enabled is True or False"),
        ({"keep_history": {"cuont": 1}}, InvalidInput, "keep_history has count and age"),
        ({"catchup": "all"}, InvalidInput, "has no setting 'catchup'"),
        ({"on_conflict": "ignore"}, InvalidInput, "on_conflict is error, keep or replace"),
    ],
)
def test_refused_adds(
    ask: Callable[..., Any], options: dict[str, Any], error: type[Exception] | None, words: str
) -> None:
    """What cannot be right is refused by name, and nothing is stored."""
    if error is None:
        assert _add(ask, **options).definition.timezone == "UTC"
        return
    with pytest.raises(error, match=words.replace("(", r"\(")):
        _add(ask, **options)
    assert ask("list") == []


@pytest.mark.parametrize("name", ["", "A", "a b", "a\n", "x" * 64, 5, None, "a@b"])
def test_refused_names(ask: Callable[..., Any], name: Any) -> None:
    """A name that is none is refused by every verb."""
    for verb in ("get", "remove", "pause", "resume", "trigger", "skips", "history", "next"):
        with pytest.raises(InvalidInput, match="is not a name"):
            ask(verb, name)
    with pytest.raises(InvalidInput, match="is not a name"):
        _add(ask, name)


def test_unknown_type_and_name(ask: Callable[..., Any]) -> None:
    """A type that nobody knows, and a schedule that is not there, name the nearest."""
    with pytest.raises(InvalidInput) as refused:
        ask("add", "daily", "reprot", cron="@daily")
    assert refused.value.hint == "did you mean report?"
    assert ask("add", "other", "reprot", cron="@daily", allow_unknown=True).created
    _add(ask)
    for verb in ("get", "remove", "pause", "resume", "trigger", "skips", "history", "next"):
        with pytest.raises(NotFound) as missing:
            ask(verb, "dialy")
        assert missing.value.hint == "did you mean daily?"


def test_conflicts(ask: Callable[..., Any]) -> None:
    """The same again changes nothing; with other settings `on_conflict` decides."""
    assert _add(ask).created
    assert _add(ask).created is False
    with pytest.raises(TaskExists, match="exists, of type report, with other settings"):
        _add(ask, cron="30 3 * * *")
    kept = _add(ask, cron="30 3 * * *", on_conflict="keep")
    assert (kept.created, kept.definition.cron) == (False, "30 2 * * *")
    replaced = _add(ask, cron="30 3 * * *", on_conflict="replace")
    assert (replaced.created, replaced.definition.cron) == (True, "30 3 * * *")


def test_another_rule_begins_anew(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """A replaced rule makes up for nothing; another payload alone keeps what was missed."""
    _add(ask)
    scheduld.move_by("2d")
    _add(ask, payload={"n": 2}, on_conflict="replace")
    assert [run.payload for run in scheduld.run_due()] == [{"n": 2}]
    scheduld.move_by("2d")
    _add(ask, cron="31 2 * * *", on_conflict="replace")
    assert scheduld.run_due() == []


def test_move_to_another_type(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """Replaced with another type it fires there, and there only; waiting tasks are cancelled."""
    scheduld.handle("other", lambda payload: payload)
    _add(ask)
    ask("trigger", "daily")
    moved = ask("add", "daily", "other", cron="30 2 * * *", on_conflict="replace")
    assert moved.type == "other"
    assert [task.outcome for task in scheduld.tasks("report")] == ["cancelled"]
    assert [run.type for run in scheduld.run_until("2026-03-26 12:00")] == ["other"]


def test_remove_and_add_again(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """A removed schedule fires no more; added again it begins with its next tick."""
    _add(ask)
    ask("trigger", "daily")
    assert ask("remove", "daily") == 1
    with pytest.raises(NotFound):
        ask("remove", "daily")
    assert scheduld.run_until("2026-03-26 12:00") == []
    assert [tick.outcome for tick in ask("history", "daily")] == ["fired", "removed"]
    _add(ask)
    assert len(scheduld.run_until("2026-03-27 12:00")) == 1


def test_next(ask: Callable[..., Any]) -> None:
    """The next ticks are told with what the clock change does, and from any time on."""
    _add(ask)
    ticks = ask("next", "daily", 5)
    assert [tick.local for tick in ticks[2:4]] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
    ]
    assert [tick.note for tick in ticks[2:4]] == ["", "02:30 does not exist, moved to 03:00"]
    (tick,) = ask("next", "daily", 1, after=date(2026, 10, 25))
    assert tick.at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert "twice" in tick.note
    for count in (0, 10**9, "5", True):
        with pytest.raises(InvalidInput, match="count is a number from 1"):
            ask("next", "daily", count)


def test_pause_and_resume(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """Paused it does not fire; resumed it goes on, and the history tells what was passed over."""
    _add(ask)
    pause = ask("pause", "daily", reason="closed")
    assert (pause.reason, pause.since_ms) == ("closed", _ms("2026-03-25T09:00+00:00"))
    assert ask("get", "daily").state == "paused"
    assert ask("pause", "daily", reason="moved").since_ms == pause.since_ms
    assert ask("get", "daily").pause.reason == "moved"
    assert scheduld.run_until("2026-03-28 12:00") == []
    resumed = ask("resume", "daily")
    assert (resumed.was_paused, resumed.passed_over) == (True, 3)
    assert ask("resume", "daily").was_paused is False
    assert len(scheduld.run_until("2026-03-29 12:00")) == 1
    gap, fired = ask("history", "daily")
    assert (gap.outcome, gap.count, gap.why) == ("gap", 3, "paused")
    assert (gap.from_ms, gap.to_ms) == (_ms("2026-03-26T01:30Z"), _ms("2026-03-28T01:30Z"))
    assert (fired.outcome, fired.tick) == ("fired", datetime(2026, 3, 29, 1, tzinfo=UTC))


def test_resume_and_catch_up(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """With catch-up what was missed in a pause is treated as `catch_up` says."""
    _add(ask)
    ask("pause", "daily")
    scheduld.move_by("3d")
    assert ask("resume", "daily", catch_up=True).passed_over == 0
    assert [run.id for run in scheduld.run_due()] == ["daily@2026-03-28T01:30:00Z"]


@pytest.mark.parametrize("reason", ["a\nb", "x" * 501, 5, "\x1b[31m"])
def test_refused_reasons(ask: Callable[..., Any], reason: Any) -> None:
    """A reason is one short line."""
    _add(ask)
    with pytest.raises(InvalidInput, match="reason is"):
        ask("pause", "daily", reason=reason)


def test_trigger(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """By hand a task is made now, with the payload that is given or the schedule's own."""
    _add(ask, payload={"a": 1}, overlap="queue")
    first, second = ask("trigger", "daily", {"b": 2}), ask("trigger", "daily")
    assert (first.outcome, second.outcome) == ("fired", "queued")
    assert ask("trigger", "daily").outcome == "coalesced"
    info = ask("get", "daily")
    assert (info.unfinished, info.is_queued, info.queued_ms) == (1, True, None)
    runs = scheduld.run_due()
    assert [(run.ref, run.payload) for run in runs] == [
        (first.ref, {"b": 2}),
        (second.ref, {"a": 1}),
    ]
    assert ask("get", "daily").next == datetime(2026, 3, 26, 1, 30, tzinfo=UTC)


def test_trigger_keeps_to_the_overlap(ask: Callable[..., Any]) -> None:
    """With `skip` a second one makes nothing, and with `allow` up to the limit."""
    _add(ask, "one")
    _add(ask, "two", overlap="allow", max_unfinished=2)
    assert [ask("trigger", "one").outcome for _ in range(2)] == ["fired", "skipped"]
    assert [ask("trigger", "two").outcome for _ in range(3)] == ["fired", "fired", "backlog"]


def test_skip(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """Dates, times and ranges are left out; the history says that somebody asked for it."""
    _add(ask)
    ask("skip", "daily", on="2026-03-26")
    ask("skip", "daily", at="2026-03-28 02:30")
    found = ask("skip", "daily", start=date(2026, 3, 30), end="2026-04-01 12:00")
    assert [(skip.from_ms, skip.to_ms) for skip in found] == [
        (_ms("2026-03-26T00:00+01:00"), _ms("2026-03-26T23:59:59.999+01:00")),
        (_ms("2026-03-28T02:30+01:00"), _ms("2026-03-28T02:30+01:00")),
        (_ms("2026-03-30T00:00+02:00"), _ms("2026-04-01T12:00+02:00")),
    ]
    assert ask("skips", "daily") == found
    assert ask("get", "daily").next == datetime(2026, 3, 27, 1, 30, tzinfo=UTC)
    assert [bool(tick.note) for tick in ask("next", "daily", 3)] == [True, False, True]
    assert len(ask("unskip", "daily", start="2026-03-31", end="2026-04-30")) == 3
    runs = scheduld.run_until("2026-04-02 12:00")
    assert [run.due.day for run in runs] == [27, 29, 31, 1, 2]
    skipped = [tick for tick in ask("history", "daily") if tick.outcome == "skipped"]
    assert [(tick.tick.day, tick.why) for tick in skipped] == [
        (26, "asked"),
        (28, "asked"),
        (30, "asked"),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "say what to skip"),
        ({"on": "2026-03-26", "at": "2026-03-26 02:30"}, "say what to skip"),
        ({"on": "2026-03-26 02:30"}, "on is a date"),
        ({"on": "26/03/2026"}, "on is a date|not a date"),
        ({"on": "2026-02-30"}, "there is no day"),
        ({"at": "2026-03-26 02:31"}, "has no tick at 2026-03-26T02:31:00"),
        ({"at": "2026-03-29 02:30"}, "does not exist"),
        ({"on": "2026-03-24"}, "past"),
        ({"start": "2026-03-26"}, "a range has a start and an end"),
        ({"start": "2026-03-28", "end": "2026-03-27"}, "ends before it begins"),
        ({"on": 5}, "on is a date"),
    ],
)
def test_refused_skips(ask: Callable[..., Any], options: dict[str, Any], words: str) -> None:
    """A skip that would take nothing out, or could mean two things, is refused."""
    _add(ask)
    with pytest.raises(InvalidInput, match=words):
        ask("skip", "daily", **options)
    assert ask("skips", "daily") == []


def test_backfill(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """Ticks that never ran become tasks, the oldest first, at their own rate, and once."""
    _add(ask)
    scheduld.run_until("2026-03-26 12:00")
    plan = ask("backfill", "daily", "2026-03-24", "2026-03-28")
    assert [(one.id[6:16], one.is_known) for one in plan.ticks] == [
        ("2026-03-24", False),
        ("2026-03-25", False),
        ("2026-03-26", True),
    ]
    assert (plan.added, plan.known, plan.dry_run) == (2, 1, True)
    assert len(scheduld.tasks(state="scheduled")) == 0
    done = ask("backfill", "daily", "2026-03-24", "2026-03-28", rate="1/m", dry_run=False)
    assert (done.added, done.known) == (2, 1)
    dues = [task.due_ms for task in scheduld.tasks(state="scheduled")]
    assert [due - _ms("2026-03-26T11:00Z") for due in dues if due] == [0, 60_000]
    assert ask("backfill", "daily", "2026-03-24", "2026-03-28", dry_run=False).added == 0
    assert len(scheduld.run_all()) == 2


def test_backfill_knows_what_is_not_kept(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """What ran is not made again when its task is pruned, as the history tells of it."""
    scheduld.handle("report", lambda payload: payload, keep_done={"age": "1m"})
    _add(ask)
    scheduld.run_until("2026-03-27 12:00")
    scheduld.move_by("1h")
    ask("trigger", "daily")
    scheduld.run_due()
    assert len(scheduld.tasks()) < 3
    assert ask("backfill", "daily", "2026-03-26", "2026-03-27").added == 0


@pytest.mark.parametrize(
    ("start", "end", "rate", "words"),
    [
        ("2026-04-01", "2026-04-02", "10/s", "is in the future"),
        ("2026-03-02", "2026-03-01", "10/s", "ends before it begins"),
        ("2026-03-01 03:00", "2026-03-01 04:00", "10/s", "has no tick"),
        ("1970-01-01", "2026-03-01", "10/s", "more than 10,000 ticks"),
        ("2026-03-01", "2026-03-02", "fast", "is no rate"),
        ("2026-03-01", "2026-03-02", 5, "must be a rate"),
        ("2026-03-01", None, "10/s", "a range has a start and an end"),
        ("x", "2026-03-02", "10/s", "2026-12-24"),
    ],
)
def test_refused_backfills(
    ask: Callable[..., Any], start: Any, end: Any, rate: Any, words: str
) -> None:
    """A range without ticks, with too many, or to come is refused."""
    _add(ask)
    with pytest.raises(InvalidInput) as refused:
        ask("backfill", "daily", start, end, rate=rate)
    assert words in f"{refused.value} {refused.value.hint}"


def test_history_in_pages(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """The newest records come first, page by page, each page the oldest first."""
    _add(ask, cron=None, every="1h")
    scheduld.run_until("2026-03-25 20:00")
    newest = ask("history", "daily", limit=3)
    before = ask("history", "daily", limit=3, before=newest[0].cursor)
    assert [tick.tick.hour for tick in before + newest] == [14, 15, 16, 17, 18, 19]
    assert {tick.outcome for tick in newest} == {"fired"}
    for bad in ("x", "5", 5):
        with pytest.raises(InvalidInput, match="cursor"):
            ask("history", "daily", before=bad)


def test_max_runs_ends_it(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """After so many tasks it has ended, and says so."""
    _add(ask, max_runs=2)
    assert len(ask("next", "daily", 5)) == 2
    assert len(scheduld.run_until("2026-04-10 12:00")) == 2
    info = ask("get", "daily")
    assert (info.state, info.next, info.runs) == ("ended", None, 2)
    assert ask("next", "daily") == []


def test_name_of_the_config(scheduld: Scheduler, ask: Callable[..., Any], tmp_path: Any) -> None:
    """A schedule of a config cannot be added or removed by hand; all else works."""
    file = tmp_path / "scheduld.toml"
    file.write_text(
        '[types.report]\nhandler = "log"\n[schedules.daily]\ntype = "report"\ncron = "@daily"\n'
    )
    scheduld.load(file)
    with pytest.raises(Conflict, match="schedule daily is in a config file"):
        _add(ask)
    with pytest.raises(Conflict, match="schedule daily is in a config file"):
        ask("remove", "daily")
    assert ask("get", "daily").origin == "config"
    assert ask("pause", "daily").reason == ""


def test_name_that_a_config_has_left(
    scheduld: Scheduler, ask: Callable[..., Any], tmp_path: Any
) -> None:
    """A schedule that no daemon has any more can be removed by hand, and its name taken."""
    file = tmp_path / "scheduld.toml"
    file.write_text(
        '[types.report]\nhandler = "log"\n[schedules.daily]\ntype = "report"\ncron = "@daily"\n'
    )
    scheduld.load(file)
    _redis(scheduld, "HSET", f"{scheduld.namespace}:{{report}}:cron:daily", "orphan", "1")
    assert ask("get", "daily").state == "orphaned"
    with pytest.raises(Conflict, match="was in a config file"):
        _add(ask)
    ask("remove", "daily")
    assert _add(ask).created


def test_half_there(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """A name whose add was interrupted is told as such, and the add or a removal mends it."""
    crons = f"{scheduld.namespace}:crons"
    _add(ask)
    key = f"{scheduld.namespace}:{{report}}:cron:daily"
    _redis(scheduld, "DEL", key)
    assert ask("get", "daily").state == "broken"
    with pytest.raises(Conflict, match="half there"):
        ask("next", "daily")
    with pytest.raises(Conflict, match="half there"):
        _add(ask, cron="30 3 * * *")
    assert _add(ask).state == "active"
    _redis(scheduld, "DEL", key)
    assert ask("remove", "daily") == 0
    assert _redis(scheduld, "HLEN", crons) == 0


def test_an_index_that_was_lost(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """What a failover took from the index of names comes back with the next add of the name."""
    _add(ask)
    _redis(scheduld, "DEL", f"{scheduld.namespace}:crons")
    assert ask("list") == []
    with pytest.raises(TaskExists):
        _add(ask, cron="30 3 * * *")
    assert [info.definition.cron for info in ask("list")] == ["30 2 * * *"]
    assert _add(ask).created is False
    _redis(scheduld, "DEL", f"{scheduld.namespace}:crons")
    assert _add(ask, cron="30 3 * * *", on_conflict="replace").definition.cron == "30 3 * * *"


def test_foreign_keys(scheduld: Scheduler, ask: Callable[..., Any]) -> None:
    """A key of another kind in the place of one schedule hides none of the others."""
    _add(ask, "good")
    _add(ask, "bad")
    key = f"{scheduld.namespace}:{{report}}:cron:bad"
    _redis(scheduld, "DEL", key)
    _redis(scheduld, "SET", key, "x")
    _redis(scheduld, "HSET", f"{scheduld.namespace}:crons", "odd\n", "x", "other", "a b c d")
    found = ask("list")
    assert [(info.name, info.state) for info in found] == [("bad", "broken"), ("good", "active")]
    with pytest.raises(Conflict, match="cannot be read"):
        ask("next", "bad")


def _redis(scheduld: Scheduler, *words: str) -> Any:
    with closing(SyncLink(scheduld.url)) as link:
        return link.commands(words)[0]
