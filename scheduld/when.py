"""One-off instants: the texts of `--at`, datetimes of the API, and how an instant is told.

Only forms with exactly one reading are accepted. A wall-clock time that a clock change
skips or repeats is refused, since there is a person to ask; schedules have rules instead.
Instants are handled as time since the epoch: two datetimes of one zone would compare and
subtract by the wall clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from scheduld.clock import wall_ms
from scheduld.duration import UNITS_MS, in_words
from scheduld.errors import WhenError
from scheduld.misread import FORMS, explain
from scheduld.names import printable
from scheduld.timezones import as_zone, first_change
from scheduld.timezones import load_zone as load_zone  # where callers look for it

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(2201, 1, 1, tzinfo=UTC) - _EPOCH
_MS = timedelta(milliseconds=1)
_DAY = timedelta(days=1)
_SLACK = timedelta(seconds=1)
_END_MS = _END // _MS
_LONGEST_TEXT = 100

_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_SECONDS = r":[0-5][0-9]"
_DATED = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]"
    rf"({_CLOCK}(?:{_SECONDS}(?:\.[0-9]{{1,6}})?)?)"
    rf"(Z| ?UTC|[+-]{_CLOCK})?"
)
_NAMED_DAY = re.compile(rf"(today|tomorrow) ({_CLOCK}(?:{_SECONDS})?)")
_ELAPSED = re.compile(r"\+(?:[0-9]+[smhdw])+")
_EPOCH_SECONDS = re.compile(r"@([0-9]{1,11})")


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked: the text as shown in messages, and what it is read against."""

    shown: str
    zone: tzinfo | None
    now: timedelta

    def refuse(self, fault: str, hint: str) -> WhenError:
        return WhenError(f"{self.shown} {fault}", hint=hint)


def parse_when(
    text: str,
    *,
    timezone: str | tzinfo | None = None,
    now: datetime | None = None,
    allow_past: bool = False,
) -> datetime:
    """Read a WHEN text as an instant, in UTC, on a whole millisecond (finer is rounded up).

    Accepted are `2026-12-24T09:00[:SS[.ffffff]]` (or a blank for the T) with `Z`, `UTC` or
    `+HH:MM`, or without them in `timezone`; `today HH:MM[:SS]` and `tomorrow HH:MM[:SS]` on the
    calendar of `timezone`; `+2h15m`, elapsed time from `now`; `@N`, seconds since the epoch.
    `timezone` is an IANA name or a tzinfo, `now` an aware datetime (default: this host's clock).

    Raises WhenError for all else: more than 1 s in the past unless `allow_past`, after 2200,
    skipped or repeated by a clock change. The hint says what would be right.
    """
    if not isinstance(text, str):
        raise WhenError(f"a time is a text, not {type(text).__name__}", hint=FORMS)
    question = _Question(_shown(text), as_zone(timezone), _now(now))
    return _EPOCH + _settle(_read(text.strip(" \t"), question), question, allow_past) * _MS


def instant_ms(
    value: str | datetime,
    *,
    timezone: str | tzinfo | None = None,
    now: datetime | None = None,
    allow_past: bool = False,
) -> int:
    """Read a WHEN text or a datetime as ms since the epoch; limits and errors of `parse_when`.

    An aware datetime is the instant Python says it is. A naive one is read in `timezone`
    like a text without offset, its `fold` ignored, and refused if there is none.
    """
    if isinstance(value, str):
        instant = parse_when(value, timezone=timezone, now=now, allow_past=allow_past)
        return (instant - _EPOCH) // _MS
    if not isinstance(value, datetime):
        raise WhenError(f"a time is a text or a datetime, not {type(value).__name__}", hint=FORMS)
    since = _since_epoch(value)
    zone = as_zone(timezone)
    if since is not None and now is None:
        # The common case; all others can take the time to say what is wrong.
        ms = -(-since // _MS)
        if 0 <= ms < _END_MS and (allow_past or ms >= wall_ms() - _SLACK // _MS):
            return ms
    question = _Question(f"datetime {value}", zone, _now(now))
    if since is None:
        since = _localise(value.replace(tzinfo=None), question)
    return _settle(since, question, allow_past)


def describe(instant_ms: int, zone: str | tzinfo | None, now_ms: int) -> str:
    """Tell an instant (ms since the epoch) in `zone`, in UTC, and how far it is from `now_ms`.

    Without a zone: in UTC and how far. Such as "2026-07-04T17:00:00Z, in 3d 2h".
    """
    known = as_zone(zone)
    distance = in_words(instant_ms - now_ms)
    try:
        instant = _EPOCH + timedelta(milliseconds=instant_ms)
        local = f"{_iso(instant.astimezone(known))} ({known}), " if known else ""
    except OverflowError:  # a score somebody wrote into Redis, outside the calendar
        return f"{instant_ms} ms after 1970-01-01T00:00:00Z, {distance}"
    return f"{local}{_utc_text(instant)}, {distance}"


def describe_shortly(instant_ms: int, zone: str | tzinfo | None) -> str:
    """Tell an instant in `zone`, or without one in UTC, and nothing else."""
    known = as_zone(zone)
    try:
        instant = _EPOCH + timedelta(milliseconds=instant_ms)
        return _iso(instant.astimezone(known)) if known else _utc_text(instant)
    except OverflowError:  # as in `describe`
        return f"{instant_ms} ms after 1970-01-01T00:00:00Z"


def _iso(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds" if instant.microsecond else "seconds")


def _utc_text(instant: datetime) -> str:
    return _iso(instant).removesuffix("+00:00") + "Z"


def _shown(text: str) -> str:
    return repr(printable(text[:60])) + ("..." if len(text) > 60 else "")


def _since_epoch(value: datetime) -> timedelta | None:
    """Exact time since the epoch; None for a naive datetime."""
    try:
        return None if value.utcoffset() is None else value - _EPOCH
    except (TypeError, ValueError, NotImplementedError):
        raise WhenError(f"the tzinfo of datetime {value.replace(tzinfo=None)} is broken") from None


def _now(now: object) -> timedelta:
    if now is None:
        return timedelta(milliseconds=wall_ms())
    since = _since_epoch(now) if isinstance(now, datetime) else None
    if since is None or not timedelta() <= since < _END:
        raise WhenError("`now` must be an aware datetime between 1970 and 2200")
    return since


def _settle(since: timedelta, question: _Question, allow_past: bool) -> int:
    """Round up to whole ms, and hold the limits against the result."""
    ms = -(-since // _MS)
    if not timedelta() <= ms * _MS < _END:
        raise question.refuse("is not between 1970 and 2200", "use a year up to 2200")
    if ms * _MS < question.now - _SLACK and not allow_past:
        told = in_words(ms - question.now // _MS)
        raise question.refuse(
            f"is past: {_utc_text(_EPOCH + ms * _MS)} was {told}",
            "use a later time, --now to run at once, or --allow-past",
        )
    return ms


def _read(text: str, question: _Question) -> timedelta:
    if len(text) > _LONGEST_TEXT:
        raise question.refuse(f"is longer than {_LONGEST_TEXT} characters", FORMS)
    if not text.isascii():
        raise question.refuse("has a character that is not ASCII", FORMS)
    if match := _DATED.fullmatch(text):
        return _read_dated(question, *match.groups())
    if match := _NAMED_DAY.fullmatch(text):
        return _read_named_day(match[1], match[2], question)
    if _ELAPSED.fullmatch(text):
        return _read_elapsed(text, question)
    if match := _EPOCH_SECONDS.fullmatch(text):
        return timedelta(seconds=int(match[1]))
    raise question.refuse(*explain(text))


def _read_dated(question: _Question, day: str, clock: str, suffix: str | None) -> timedelta:
    offset = suffix if suffix and suffix[0] in "+-" else "+00:00"
    try:
        value = datetime.fromisoformat(f"{day}T{clock}{offset}")
    except ValueError:
        raise question.refuse(f"has no real date: there is no {day}", FORMS) from None
    return value - _EPOCH if suffix else _localise(value.replace(tzinfo=None), question)


def _read_named_day(word: str, clock: str, question: _Question) -> timedelta:
    if question.zone is None:
        raise question.refuse(
            "has no time zone", "name one: --timezone Europe/Madrid, or `timezone` in the config"
        )
    today = (_EPOCH + question.now).astimezone(question.zone).date()
    day = today + _DAY if word == "tomorrow" else today
    wall = datetime.fromisoformat(f"{day}T{clock}")
    return _localise(wall, question)


def _read_elapsed(text: str, question: _Question) -> timedelta:
    parts = re.findall(r"([0-9]+)([a-z])", text)
    units = [unit for _, unit in parts]
    if len(set(units)) < len(units):
        raise question.refuse("has a unit twice", 'use each unit once, such as "+2h15m"')
    ms = sum(int(number) * UNITS_MS[unit] for number, unit in parts)
    # Beyond the end in any case, and within what a timedelta can hold.
    return question.now + min(ms, _END // _MS) * _MS


def _localise(wall: datetime, question: _Question) -> timedelta:
    """Find the one instant at which the clocks of the zone show `wall`."""
    zone = question.zone
    if zone is None:
        raise question.refuse(
            "has no time zone",
            f"write {wall.isoformat()}Z or an offset such as {wall.isoformat()}+01:00, or name "
            "the zone: --timezone Europe/Madrid, or `timezone` in the config",
        )
    if not -_DAY <= wall.replace(tzinfo=UTC) - _EPOCH <= _END + _DAY:
        raise question.refuse("is not between 1970 and 2200", "use a year up to 2200")
    # Where a change skips `wall`, both folds miss it; where one repeats it, both hit.
    tries = [wall.replace(tzinfo=zone, fold=fold) - _EPOCH for fold in (0, 1)]
    hits = sorted({since for since in tries if _wall(since, zone) == wall})
    if len(hits) == 1:
        return hits[0]
    raise _twice(hits, zone, question) if hits else _never(tries, zone, question)


def _local(since: timedelta, zone: tzinfo) -> datetime:
    return (_EPOCH + since).astimezone(zone)


def _wall(since: timedelta, zone: tzinfo) -> datetime:
    return _local(since, zone).replace(tzinfo=None)


def _twice(hits: list[timedelta], zone: tzinfo, question: _Question) -> WhenError:
    first, second = (_local(since, zone).isoformat() for since in hits)
    return question.refuse(
        f"happens twice in {zone}: the clock is set back", f"write {first} (the first) or {second}"
    )


def _never(tries: list[timedelta], zone: tzinfo, question: _Question) -> WhenError:
    second = timedelta(seconds=1)
    change = first_change(min(tries) // second, -(-max(tries) // second), zone) * second
    last, first = _local(change - _SLACK, zone), _local(change, zone)
    return question.refuse(
        f"does not exist in {zone}: the clock is set forward",
        f"the nearest times are {last.isoformat()} and {first.isoformat()}",
    )
