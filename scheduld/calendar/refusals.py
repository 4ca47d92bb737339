"""What to say of a cron expression that is refused: what is wrong, and what to write instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scheduld.errors import CronError
from scheduld.names import printable

if TYPE_CHECKING:
    from scheduld.calendar.fields import Field

FIVE = 'write five fields: minute hour day month weekday, such as "0 7 * * mon-fri"'
SIX = 'write six fields: second minute hour day month weekday, such as "0 0 7 * * mon-fri"'
_EXTENDED = 'cron_dialect = "extended"'


def refuse(message: str, hint: str) -> CronError:
    """The error for one fault; `message` goes on after "cron expression: "."""
    return CronError(f"cron expression: {message}", hint=hint)


def shown(text: str) -> str:
    """A text of somebody else's, in quotes, cut to a length that a line can hold."""
    return repr(printable(text[:40])) + ("..." if len(text) > 40 else "")


def not_a_text(value: object) -> CronError:
    """Refuse what is no text."""
    return CronError(f"a cron expression is a text, not {type(value).__name__}", hint=FIVE)


def macro(text: str, aliases: tuple[str, ...]) -> CronError:
    """Refuse a word with @ that stands for no five fields."""
    word = text.lower().partition(" ")[0]
    if word == "@reboot":
        return refuse(
            "@reboot is not a time", "give the type `at_start`: a task that each replica adds"
        )
    if word == "@every":
        return refuse("@every is an interval", 'write every = "5m" instead of cron')
    return refuse(f"unknown {shown(text)}", f"use {', '.join(aliases)} or five fields")


def wrong_count(fields: list[str], *, extended: bool) -> CronError:
    """Refuse too few or too many fields."""
    count, wanted = len(fields), 6 if extended else 5
    message = f"{count} field{'s' * (count != 1)} where {wanted} are needed"
    if fields[0].upper().startswith(("CRON_TZ=", "TZ=")):
        return refuse("it has a time zone inside", "give the zone as `timezone`")
    if any(field.startswith("#") for field in fields):
        return refuse("it has a comment", "leave it out")
    if extended and count == 5:
        return refuse(message, f"{SIX}; for five fields leave out {_EXTENDED}")
    if extended:
        return refuse(message, SIX)
    if count == 6 and re.match(r"[12][0-9]{3}", fields[5]):
        return refuse(message, "years are not possible here: " + FIVE)
    if count == 6 and not re.search(r"[a-z]{4}|[=$.\\]", fields[5], re.IGNORECASE):
        return refuse(
            message,
            f"for seconds, which come first, set {_EXTENDED}; else leave out the sixth field",
        )
    if count == 7 and not re.search(r"[a-z]{4}", fields[6], re.IGNORECASE):
        return refuse(message, "seconds and years are not possible here: " + FIVE)
    if count > 5:
        return refuse(message, "no user and no command stand here: " + FIVE)
    return refuse(message, FIVE)


def no_number(text: str, whole: str, field: Field) -> CronError:
    """Refuse a number out of range, an unknown name, or a name in the wrong field."""
    said = f"{field.name} {shown(whole)}"
    numbers = f"{field.name}s go from {field.low} to {field.high}"
    if text.isdigit():
        midnight = "; midnight is hour 0" if field.name == "hour" and text == "24" else ""
        return refuse(f"{said}: {shown(text)} is out of range", numbers + midnight)
    if field.names:
        return refuse(
            f"{said}: {shown(text)} is no {field.name}",
            f"{numbers}, or {field.names[0]} to {field.names[-1]}",
        )
    return refuse(f"{said}: {shown(text)} is no number", numbers)


def step_from_number(low: int, step: str, field: Field) -> CronError:
    """Refuse `5/15`, which some read as one value and others as a range."""
    said = f"{field.name} '{low}/{step[:6]}' has a step without a range"
    high = field.high - (field.name == "weekday")
    if low >= high or not field.has_step(step):
        return refuse(said, f'write "{low}"')
    return refuse(said, f'write "{low}-{high}/{int(step)}"')


def wraps(term: str, low: int, high: int, step: int, field: Field) -> CronError:
    """Refuse a range that goes over the end of its field."""
    weekday = field.name == "weekday"
    first, rest = field.low + weekday, f"{low}-{field.high}" if low < field.high else f"{low}"
    if step > 1:
        numbers = range(low - field.low, high - field.low + field.size + 1, step)
        better = ",".join(str(field.low + number % field.size) for number in numbers)
    # As Sunday is 7 too, a range of weekdays can end with it.
    elif weekday and high == 0:
        better = rest
    else:
        better = f"{rest},{first}-{high}" if high > first else f"{rest},{first}"
    return refuse(f"{field.name} {shown(term)} goes over the end of its range", f'write "{better}"')


def bad_term(term: str, text: str, field: Field) -> CronError:
    """Refuse a term of a list that is none of `*`, `n`, `a-b` and these with a step."""
    said = f"{field.name} {shown(text)}"
    if not term:
        return refuse(f"{said} has an empty part", "separate values by one comma")
    if "?" in term:
        return refuse(f"{said}: ? is not known", "write * instead")
    if re.search(r"[0-9]w|^w|lw", term):
        return refuse(f"{said}: W is not known", "name the day, or a weekday such as mon-fri")
    if "#" in term or re.fullmatch(r"(?:[0-9]+|[a-z]{3})?l(?:-[0-9]+)?", term):
        return _marks(term, said, field)
    if re.match(r"h(?:\(|/|$)", term):
        return refuse(f"{said}: H is not known", "name the value; `jitter` spreads schedules")
    if re.match(r"r(?:\(|/|$)", term):
        return refuse(f"{said}: R is not known, it would differ at each start", "name the value")
    if term.startswith("@"):
        return refuse(f"{said} is no field", "an @ word stands alone")
    if term.startswith("/"):
        better = f"*/{int(term[1:])}" if field.has_step(term[1:]) else "*"
        return refuse(f"{said} has a step without a range", f'write "{better}"')
    if (word := re.match(r"[a-z]{4,}", term)) and word[0][:3] in field.names:
        return refuse(f"{said}: names have three letters", f'write "{word[0][:3]}"')
    if word or re.fullmatch(r"[a-z]+", term):
        return no_number(term, text, field)
    return refuse(
        f"{said}: {shown(term)} is no value",
        "use *, a number, a range a-b, a list with commas, and a step as in */5 or a-b/5",
    )


def _marks(term: str, said: str, field: Field) -> CronError:
    if field.name not in {"day", "weekday"}:
        return refuse(f"{said}: L and # stand for days only", "use numbers")
    if field.name == "day":
        hint = f"for the last day write L with {_EXTENDED}"
    elif term == "l":
        hint = f"write 6 for Saturday; for the last Saturday 6L with {_EXTENDED}"
    else:
        hint = f"write 5L for the last Friday, 5#2 for the second, with {_EXTENDED}"
    return refuse(f"{said}: L and # are not known in this place or dialect", hint)


def never(detail: str) -> CronError:
    """Refuse what no date will ever match."""
    return refuse(
        f"never fires: {detail}",
        "check day and month; both day fields must match if one of them begins with *",
    )
