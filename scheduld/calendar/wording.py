"""What a cron expression means, in one line for people."""

from __future__ import annotations

from datetime import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld.calendar.days import MonthDays
    from scheduld.calendar.expression import CronSpec

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_MOST_TIMES = 6
_MOST_SHOWN = 12


def explain(spec: CronSpec) -> str:
    """Say when an expression fires, in one line: "fires at 00:00 when the day is 13 OR a Friday".

    The OR and AND of the two day fields are spelled out, since they surprise people.
    """
    parts = ["fires", _time(spec), _days(spec.days)]
    if len(spec.months) < 12:
        names = [_MONTHS[month - 1] for month in spec.months]
        parts.append(f"in {_runs(spec.months, names, 'and')}")
    return " ".join(part for part in parts if part)


def _time(spec: CronSpec) -> str:
    hours, minutes, seconds = spec.hours, spec.minutes, spec.seconds
    if len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES:
        precision = "minutes" if seconds == (0,) else "seconds"
        times = [
            time(h, m, s).isoformat(precision) for h in hours for m in minutes for s in seconds
        ]
        return f"at {_joined(times, 'and')}"
    parts = []
    if seconds != (0,):
        parts.append(_unit(seconds, 60, "second"))
    if len(minutes) < 60 or not (parts and parts[0].startswith("every")):
        parts.append(_unit(minutes, 60, "minute"))
    if len(hours) < 24:
        parts.append(_unit(hours, 24, "hour"))
    elif parts[-1].startswith("minute"):
        parts.append("every hour")
    first, *rest = parts
    at = "" if first.startswith("every") else "at "
    text = at + first
    for part in rest:  # "of every hour", but ", every 2 hours"
        text += (", " if part.startswith("every") and part.endswith("s") else " of ") + part
    return text


def _unit(numbers: Sequence[int], size: int, name: str) -> str:
    if len(numbers) == size:
        return f"every {name}"
    step = numbers[1] - numbers[0] if len(numbers) > 1 else size
    # 0, 25 and 50 are no "every 25 minutes": 10 minutes lie between 50 and 0.
    if size % step == 0 and 1 < step < size and list(numbers) == list(range(0, size, step)):
        return f"every {step} {name}s"
    plural = "s" if len(numbers) > 1 else ""
    return f"{name}{plural} {_runs(numbers, [str(number) for number in numbers], 'and')}"


def _days(days: MonthDays) -> str:
    dates, weekdays = _dates(days), _weekdays(days)
    all_dates, all_weekdays = len(days.days) == 31, len(days.weekdays) == 7
    if (all_dates and all_weekdays) or (days.or_rule and (all_dates or all_weekdays)):
        return ""
    if days.or_rule:
        return f"when the day is {dates} OR {weekdays}"
    if all_dates:
        return f"when the day is {weekdays}"
    if all_weekdays:
        return f"when the day is {dates}"
    return f"when the day is {dates} AND {weekdays}"


def _dates(days: MonthDays) -> str:
    numbers = sorted(days.days)
    names = [str(number) for number in numbers]
    return _joined(_run_list(numbers, names) + ["the last of the month"] * days.last_day, "or")


def _weekdays(days: MonthDays) -> str:
    numbers = sorted(days.weekdays, key=lambda number: number or 7)  # weeks begin on Monday
    ranked = [number or 7 for number in numbers]
    runs = _run_list(ranked, [_WEEKDAYS[number] for number in numbers])
    found = [name if " to " in name else f"a {name}" for name in runs]
    found += [f"the last {_WEEKDAYS[number]}" for number in sorted(days.last_weekdays)]
    found += [f"the {_ORDINALS[n - 1]} {_WEEKDAYS[day]}" for day, n in sorted(days.nth_weekdays)]
    return _joined(found, "or")


def _runs(numbers: Sequence[int], names: Sequence[str], word: str) -> str:
    return _joined(_run_list(numbers, names), word)


def _run_list(numbers: Sequence[int], names: Sequence[str]) -> list[str]:
    """The names, three or more neighbours as "a to b"."""
    found: list[str] = []
    start = 0
    for at in range(len(numbers)):
        if at + 1 < len(numbers) and numbers[at + 1] == numbers[at] + 1:
            continue
        run = names[start : at + 1]
        found += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else list(run)
        start = at + 1
    return found


def _joined(texts: Sequence[str], word: str) -> str:
    if len(texts) > _MOST_SHOWN:
        return f"{', '.join(texts[:_MOST_SHOWN])} {word} {len(texts) - _MOST_SHOWN} more"
    *most, last = texts
    return f"{', '.join(most)} {word} {last}" if most else last
