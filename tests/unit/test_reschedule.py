"""What follows an occurrence, computed: next due, payload, end. Nothing is stored here."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduld.engine.reschedule import ends_occurrence, of_what_is_over, with_next
from scheduld.model import Claim, Verdict, VerdictKind
from scheduld.outcomes import Again, Dead, Retry
from scheduld.policies.endings import Failed, GivenBack, Raised, Returned, TimedOut
from scheduld.policies.reschedule import GOES_ON, Answer, answer

MADRID = ZoneInfo("Europe/Madrid")
NOW = 1_790_000_000_000
HOUR = 3_600_000


def ms(text: str) -> int:
    """An instant in Madrid, in ms."""
    return round(datetime.fromisoformat(text).replace(tzinfo=MADRID).timestamp() * 1000)


def claim_of(due_ms: int = NOW, payload: bytes | None = b"{}", **fields: Any) -> Claim:
    """Make a claim of a periodic task; `fields` are of its hash."""
    stored = {name: str(value).encode() for name, value in fields.items()}
    return Claim("t", "x", b"x", payload, 7, due_ms, due_ms, fields=stored or None)


@dataclass
class Told:
    """What a verdict says of what follows, read as the store reads it."""

    verdict: Verdict

    def __getitem__(self, name: str) -> str | None:
        """A line's value."""
        lines = dict(line.split(b"=", 1) for line in self.verdict.told.split(b"\n"))
        value = lines.get(name.encode())
        return None if value is None else value.decode()


def told(
    claim: Claim, said: Answer = GOES_ON, now_ms: float | None = None, kind: str = "done"
) -> Told:
    """End the occurrence of a claim."""
    result = Verdict(claim.raw_id, claim.fence, VerdictKind(kind), detail="", reason="")
    now_ms = claim.due_ms + 5 if now_ms is None else now_ms
    return Told(with_next(claim, result, said, now_ms=now_ms, max_payload=200))


def test_a_weekly_task_keeps_its_time_of_day() -> None:
    """Over the change to summer time 09:00 stays 09:00, and until is the last instant (B58)."""
    fields: dict[str, Any] = {
        "every": "7d",
        "zone": "Europe/Madrid",
        "anchor": ms("2026-03-15 09:00"),
    }
    dues, due = [], ms("2026-03-15 09:00")
    until = datetime.fromisoformat("2026-04-12T07:00:00+00:00").timestamp() * 1000
    while True:
        dues.append(due)
        following = told(claim_of(due, until=round(until), **fields))
        if following["ends"]:
            break
        due = int(following["at"] or 0)
    assert following["ends"] == "until"
    assert dues == [
        ms(f"2026-{day} 09:00") for day in ("03-15", "03-22", "03-29", "04-05", "04-12")
    ]


def test_a_month_end_does_not_drift() -> None:
    """The day of the first due is kept where the month has it."""
    fields: dict[str, Any] = {
        "every": "1mo",
        "zone": "UTC",
        "anchor": 1_769_850_000_000,
    }  # 31 January 09:00
    due, days = 1_769_850_000_000, []
    for _ in range(4):
        due = int(told(claim_of(due, **fields))["at"] or 0)
        days.append(datetime.fromtimestamp(due / 1000, UTC).strftime("%d %b"))
    assert days == ["28 Feb", "31 Mar", "30 Apr", "31 May"]


@pytest.mark.parametrize(
    ("late_ms", "at", "missed"),
    [
        (0, HOUR, None),
        (HOUR - 1, HOUR, None),
        (HOUR, 2 * HOUR, "1"),
        (10 * HOUR + 1, 11 * HOUR, "10"),
    ],
)
def test_a_late_end_skips_what_has_passed(late_ms: int, at: int, missed: str | None) -> None:
    """The next due lies behind the end, on the grid; what lies between is counted."""
    found = told(claim_of(every="1h", anchor=NOW), now_ms=NOW + late_ms)
    assert (found["at"], found["missed"]) == (str(NOW + at), missed)


def test_a_moved_occurrence_moves_no_grid() -> None:
    """Also where no anchor is stored, as of tasks that were added with plain commands."""
    stored: list[dict[str, Any]] = [{}, {"anchor": NOW - 5 * HOUR}]
    for fields in stored:
        claim = claim_of(NOW - HOUR // 3, every="1h", grid=NOW, **fields)
        assert told(claim)["at"] == str(NOW + HOUR)


def test_a_long_gap_costs_nothing() -> None:
    """Ten years of every second are not counted one by one."""
    began = time.process_time()
    found = told(claim_of(every="1s", anchor=NOW), now_ms=NOW + 10 * 365 * 24 * HOUR)
    assert time.process_time() - began < 1
    assert found["missed"] == str(10 * 365 * 24 * 3600)


def test_max_runs_counts_the_run_that_ends() -> None:
    """And not one that was only planned."""
    fields: dict[str, Any] = {"every": "1h", "anchor": NOW, "max_runs": 3}
    assert told(claim_of(runs=1, **fields))["ends"] is None
    assert told(claim_of(runs=2, **fields))["ends"] == "max_runs"
    assert told(claim_of(runs=2, **fields), kind="plan")["ends"] is None
    assert told(claim_of(runs=3, **fields), kind="plan")["ends"] == "max_runs"


def test_a_ladder_moves_with_its_payload() -> None:
    """Another anchor by the predicate moves what is left of a series; none, and it is refused."""
    fields: dict[str, Any] = {"series": "-7d,-1d,0 start", "zone": "Europe/Madrid"}
    payload = b'{"start":"2026-04-01T09:00"}'
    claim = claim_of(ms("2026-03-25 09:00"), payload, **fields)
    assert told(claim)["at"] == str(ms("2026-03-31 09:00"))
    later = told(claim, Answer(patch={"start": "2026-05-01T09:00"}))
    assert later["at"] == str(ms("2026-04-24 09:00"))
    for patch in ({"start": None}, {"start": "soon"}, {"start": 5}):
        refused = told(claim, Answer(patch=patch))
        assert refused["at"] == str(ms("2026-03-31 09:00"))
        assert refused["payload"] is None
        assert "its patch was left out" in (refused["failed"] or "")
    last = claim_of(ms("2026-04-01 09:00"), payload, **fields)
    assert told(last)["ends"] == "series"


def test_a_ladder_that_moves_before_its_occurrence_is_run_whole() -> None:
    """One that was run before its time, and then moved to an earlier date: all that is ahead."""
    fields: dict[str, Any] = {"series": "-7d,-1d,0 start", "zone": "Europe/Madrid"}
    payload = b'{"start":"2026-04-01T09:00"}'
    first = claim_of(ms("2026-03-25 09:00"), payload, **fields)
    early = ms("2026-03-01 09:00")
    moved = told(first, Answer(patch={"start": "2026-03-20T09:00"}), now_ms=early)
    assert moved["at"] == str(ms("2026-03-13 09:00"))
    edited = first._replace(payload=b'{"start":"2026-03-20T09:00"}')
    assert told(edited, now_ms=early, kind="plan")["at"] == moved["at"]
    # Unmoved, what was run early stands for its instant.
    assert told(first, now_ms=early)["at"] == str(ms("2026-03-31 09:00"))


def test_a_patch_is_merged_and_bounded() -> None:
    """The stored payload is the base; one that is too large is left out."""
    claim = claim_of(payload=b'{"a":{"x":1,"y":[1,2]},"b":1}', every="1h", anchor=NOW)
    found = told(claim, Answer(patch={"a": {"y": [3], "x": None}, "b": {"c": 1}}))
    assert json.loads(found["payload"] or "") == {"a": {"y": [3]}, "b": {"c": 1}}
    assert found["digest"] == hashlib.sha1(claim.payload or b"").hexdigest()
    refused = told(claim, Answer(patch={"long": "x" * 300}))
    assert (refused["payload"], refused["at"]) == (None, str(NOW + HOUR))
    assert "at most 200 are allowed" in (refused["failed"] or "")


def test_fifty_rounds_of_an_object_changed_in_place() -> None:
    """A predicate that answers its own argument adds nothing at each round (B59)."""
    payload, sizes = b'{"list":[1,2,3],"deep":{"a":{"b":1}},"n":0}', []
    for number in range(50):
        own = json.loads(payload)
        own["n"] = number % 10
        own["list"].reverse()
        found = told(claim_of(payload=payload, every="1h", anchor=NOW), Answer(patch=own))
        payload = (found["payload"] or "").encode()
        sizes.append(len(payload))
    assert set(sizes) == {sizes[0]}
    assert json.loads(payload) == {"list": [1, 2, 3], "deep": {"a": {"b": 1}}, "n": 9}


@pytest.mark.parametrize(
    "fields",
    [
        {"every": "often"},
        {"every": "7d"},
        {"every": "7d", "zone": "Mars/Base"},
        {"every": "1h", "until": "soon"},
        {"every": "1h", "max_runs": "-1"},
        {"series": "x"},
        {"series": "-7d,0 start"},
        {"every": "0s"},
        {"every": "1h", "anchor": "9" * 40},
    ],
)
def test_a_rule_that_cannot_be_read_ends_the_series(fields: dict[str, Any]) -> None:
    """With a reason, and as dead, so that it is seen and can be begun again."""
    found = told(claim_of(NOW, **{"anchor": NOW, **fields}))
    assert (found.verdict.kind, found["ends"], found["at"]) == (VerdictKind.DEAD, "broken", None)
    assert found.verdict.reason.startswith("period: the series cannot go on: ")
    assert not found.verdict.counted


def test_what_is_not_periodic_any_more_is_told_so() -> None:
    """It was changed while it waited to be planned."""
    assert told(claim_of(over="planned"), kind="plan")["ends"] == "no longer periodic"


def test_only_the_last_verdict_ends_an_occurrence() -> None:
    """All others are waits within it; a one-off has none."""
    claim, once = claim_of(every="1h"), claim_of()
    for kind in VerdictKind:
        result = Verdict(b"x", 7, kind)
        assert ends_occurrence(claim, result) == (kind in ("done", "dead", "plan"))
        assert not ends_occurrence(once, result)
        assert not ends_occurrence(claim_of(schedule="daily"), result)


def test_a_lost_occurrence_is_dead() -> None:
    """One that was cancelled, or has only to be planned, is not."""
    lost = claim_of(every="1h", over="interrupted")._replace(interruptions=3)
    result = of_what_is_over(lost)
    assert (result.kind, result.counted) == (VerdictKind.DEAD, False)
    assert json.loads(result.detail)["message"] == "the worker was lost in 3 runs"
    for over in ("cancelled", "planned", "what a newer version writes"):
        assert of_what_is_over(claim_of(every="1h", over=over)).kind is VerdictKind.PLAN


def test_a_secret_in_an_error_is_masked() -> None:
    """What the predicate raised is stored as all errors are."""
    claim = claim_of(every="1h", anchor=NOW)
    said = answer(Raised(ValueError("hunter2")), NOW)
    result = Verdict(b"x", 7, VerdictKind.DONE)
    options: dict[str, Any] = {"now_ms": NOW, "max_payload": 99}
    found = Told(
        with_next(claim, result, said, mask=lambda text: text.replace("hunter2", "***"), **options)
    )
    assert "hunter2" not in found.verdict.told.decode()
    assert found["failed"] == "reschedule_if: ValueError: ***"


@pytest.mark.parametrize("before", [4_050, 4_060, 4_075, 4_083, 4_090])
def test_no_part_of_a_secret_is_left_where_its_text_was_cut(before: int) -> None:
    """Neither in the message nor in the traceback."""
    secret = "".join(chr(0x4E00 + index) for index in range(40))
    said = answer(Raised(ValueError("x" * before + secret + "y" * (16_370 - before % 50))), NOW)
    options: dict[str, Any] = {"now_ms": NOW, "max_payload": 99}
    result = Verdict(b"x", 7, VerdictKind.DONE)
    claim = claim_of(every="1h", anchor=NOW)
    found = with_next(claim, result, said, mask=lambda text: text.replace(secret, "***"), **options)
    error = json.loads(Told(found)["error"] or "")
    assert not set(secret) & set(error["message"] + error["traceback"])


class Odd(dict[str, Any]):
    """A dict of its own kind, which is one."""


class Hostile:
    """Not JSON, and its own text fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


def at(when: object) -> Answer:
    """The answer of Again at some time."""
    return answer(Returned(Again(at=when)), NOW)  # type: ignore[arg-type]


def test_what_an_answer_means() -> None:
    """True and {} go on, False and None stop, a dict is a patch, Again says when."""
    assert answer(Returned(True), NOW) == answer(Returned({}), NOW) == GOES_ON
    assert not answer(Returned(False), NOW).goes_on
    assert not answer(Returned(None), NOW).goes_on
    assert answer(Returned({"a": None}), NOW).patch == {"a": None}
    assert answer(Returned(Odd(a=1)), NOW).patch == {"a": 1}
    assert answer(Returned(Again()), NOW) == answer(Raised(Again(payload={})), NOW) == GOES_ON
    assert at("5m").at_ms == at(300).at_ms == at(timedelta(minutes=5)).at_ms == NOW + 300_000
    assert at(datetime.fromtimestamp(NOW / 1000 + 9, UTC)).at_ms == NOW + 9_000
    assert at(datetime(2000, 1, 1, tzinfo=UTC)).at_ms == NOW + 1_000, "soon, but no endless loop"


RUBBISH: list[tuple[Any, str]] = [
    (Returned(0), "it answered int"),
    (Returned(1), "it answered int"),
    (Returned("yes"), "it answered str"),
    (Returned([{}]), "it answered list"),
    (Returned(Hostile()), "it answered Hostile"),
    (Returned({"a": Hostile()}), "the patch"),
    (Returned({1: 2}), "not a text"),
    (Returned({"a": "\ud800"}), "surrogate"),
    (Returned(Retry()), "Retry, which is for handlers"),
    (Raised(Dead("x")), "Dead, which is for handlers"),
    (Returned(Again(at="tomorrow")), "Again: "),
    (Returned(Again(at=datetime(2027, 1, 1))), "at is a datetime without a time zone"),  # noqa: DTZ001
    (Returned(Again(at=-5)), "Again: "),
    (Returned(Again(payload="x")), "a payload of type str"),  # type: ignore[arg-type]
    (Raised(SystemExit(3)), "SystemExit: 3"),
    (Raised(KeyError("a")), "KeyError: 'a'"),
    (Failed({"kind": "killed", "message": "by SIGKILL"}), "killed: by SIGKILL"),
    (TimedOut(10_000), "no answer within 10s (reschedule_timeout)"),
    (GivenBack(), "the daemon stopped before there was an answer"),
]


@pytest.mark.parametrize(("ending", "words"), RUBBISH)
def test_what_cannot_be_followed(ending: Any, words: str) -> None:
    """The series goes on as it is, and the error says why."""
    said = answer(ending, NOW)
    assert (said.goes_on, said.at_ms, said.patch) == (True, None, None)
    assert said.error is not None
    assert said.error["kind"] == "reschedule_if"
    assert words in said.error["message"]
