"""The parser: what it reads, what it refuses and with which words, and how long it takes."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduld import CronError, next_ticks
from scheduld.calendar.expression import explain, parse

if TYPE_CHECKING:
    from scheduld.schedule import CronDialect

# First five ticks in UTC after Thursday, 1 January 2026, 00:00; found with a paper calendar.
FIRST_FIVE = {
    "* * * * *": "01-01 00:01|01-01 00:02|01-01 00:03|01-01 00:04|01-01 00:05",
    "*/15 * * * *": "01-01 00:15|01-01 00:30|01-01 00:45|01-01 01:00|01-01 01:15",
    "*/25 * * * *": "01-01 00:25|01-01 00:50|01-01 01:00|01-01 01:25|01-01 01:50",
    "*/59 * * * *": "01-01 00:59|01-01 01:00|01-01 01:59|01-01 02:00|01-01 02:59",
    "*/60 * * * *": "01-01 01:00|01-01 02:00|01-01 03:00|01-01 04:00|01-01 05:00",
    "5-20/5 3 * * *": "01-01 03:05|01-01 03:10|01-01 03:15|01-01 03:20|01-02 03:05",
    "0-10/20 3 * * *": "01-01 03:00|01-02 03:00|01-03 03:00|01-04 03:00|01-05 03:00",
    "7,3,5 0 * * *": "01-01 00:03|01-01 00:05|01-01 00:07|01-02 00:03|01-02 00:05",
    "0 */6 * * *": "01-01 06:00|01-01 12:00|01-01 18:00|01-02 00:00|01-02 06:00",
    "0 9-11 * * *": "01-01 09:00|01-01 10:00|01-01 11:00|01-02 09:00|01-02 10:00",
    "30 23 * * *": "01-01 23:30|01-02 23:30|01-03 23:30|01-04 23:30|01-05 23:30",
    "0 7 * * mon-fri": "01-01 07:00|01-02 07:00|01-05 07:00|01-06 07:00|01-07 07:00",
    "0 7 * * 6,7": "01-03 07:00|01-04 07:00|01-10 07:00|01-11 07:00|01-17 07:00",
    "0 0 * * 0": "01-04 00:00|01-11 00:00|01-18 00:00|01-25 00:00|02-01 00:00",
    "0 0 * * 7": "01-04 00:00|01-11 00:00|01-18 00:00|01-25 00:00|02-01 00:00",
    "0 0 * * 5-7": "01-02 00:00|01-03 00:00|01-04 00:00|01-09 00:00|01-10 00:00",
    "0 0 * * */3": "01-03 00:00|01-04 00:00|01-07 00:00|01-10 00:00|01-11 00:00",
    "0 12 1 * *": "01-01 12:00|02-01 12:00|03-01 12:00|04-01 12:00|05-01 12:00",
    "0 12 31 * *": "01-31 12:00|03-31 12:00|05-31 12:00|07-31 12:00|08-31 12:00",
    "0 12 29 2 *": "2028 02-29 12:00|2032 02-29 12:00|2036 02-29 12:00"
    "|2040 02-29 12:00|2044 02-29 12:00",
    "0 0 1 jan,JUL *": "07-01 00:00|2027 01-01 00:00|2027 07-01 00:00"
    "|2028 01-01 00:00|2028 07-01 00:00",
    "0 0 */10 * *": "01-11 00:00|01-21 00:00|01-31 00:00|02-01 00:00|02-11 00:00",
    "0 0 13 * fri": "01-02 00:00|01-09 00:00|01-13 00:00|01-16 00:00|01-23 00:00",
    "0 0 */13 * fri": "02-27 00:00|03-27 00:00|05-01 00:00|08-14 00:00|11-27 00:00",
    "0 0 1,15 * *": "01-15 00:00|02-01 00:00|02-15 00:00|03-01 00:00|03-15 00:00",
    "0 8 1-7 * 1": "01-01 08:00|01-02 08:00|01-03 08:00|01-04 08:00|01-05 08:00",
    "@hourly": "01-01 01:00|01-01 02:00|01-01 03:00|01-01 04:00|01-01 05:00",
    "@weekly": "01-04 00:00|01-11 00:00|01-18 00:00|01-25 00:00|02-01 00:00",
    "@monthly": "02-01 00:00|03-01 00:00|04-01 00:00|05-01 00:00|06-01 00:00",
    "@annually": "2027 01-01 00:00|2028 01-01 00:00|2029 01-01 00:00"
    "|2030 01-01 00:00|2031 01-01 00:00",
    " \t5\t5  * *\t* ": "01-01 05:05|01-02 05:05|01-03 05:05|01-04 05:05|01-05 05:05",
}


@pytest.mark.parametrize("expr", FIRST_FIVE)
def test_first_five(expr: str) -> None:
    """An expression gives the five ticks that a paper calendar gives."""
    found = islice(next_ticks(expr, timezone="UTC", after=datetime(2026, 1, 1, tzinfo=UTC)), 5)
    texts = [tick.strftime("%Y %m-%d %H:%M").removeprefix("2026 ") for tick in found]
    assert "|".join(texts) == FIRST_FIVE[expr]


REFUSED: list[tuple[Any, str, str]] = [
    (None, "not NoneType", "five fields"),
    (b"* * * * *", "not bytes", "five fields"),
    ("", "empty", "five fields"),
    (" \t ", "empty", "five fields"),
    ("* * * *", "4 fields where 5 are needed", "five fields"),
    ("0 0 12 * * *", "6 fields where 5", "extended"),
    ("0 0 12 * * ? 2026", "7 fields where 5", "years"),
    ("0 0 1 1 * 2026", "6 fields where 5", "years"),
    ("0 0 * * * root /bin/true", "7 fields where 5", "command"),
    ("0 0 * * * # nightly", "comment", "leave it out"),
    ("CRON_TZ=UTC 0 0 * * *", "time zone inside", "`timezone`"),
    ("0 0 ? * *", "? is not known", "*"),
    ("0 0 L * *", "day 'L'", "extended"),
    ("0 0 15W * *", "W is not known", "weekday"),
    ("0 0 LW * *", "W is not known", "weekday"),
    ("0 0 * * 5L", "weekday '5L'", "extended"),
    ("0 0 * * 5#2", "weekday '5#2'", "extended"),
    ("H H * * *", "H is not known", "jitter"),
    ("H(0-29)/10 * * * *", "H is not known", "jitter"),
    ("R R * * *", "differ at each start", "name the value"),
    ("@reboot", "no", "at_start"),
    ("@every 5m", "interval", 'every = "5m"'),
    ("@fortnightly", "unknown '@fortnightly'", "@weekly"),
    ("30/15 * * * *", "step without a range", '"30-59/15"'),
    ("0 0 * * 1/2", "step without a range", '"1-6/2"'),
    ("5/0 * * * *", "step without a range", '"5"'),
    ("/5 * * * *", "step without a range", '"*/5"'),
    ("/0005 * * * *", "step without a range", '"*/5"'),
    ("0 0 /59 * *", "step without a range", '"*"'),
    ("0 0 * * 4/46", "step without a range", '"4"'),
    ("0 20-4 * * *", "goes over the end", '"20-23,0-4"'),
    ("0 22-4/2 * * *", "goes over the end", '"22,0,2,4"'),
    ("0 0 28-3/2 * *", "goes over the end", '"28,30,1,3"'),
    ("0 0 * * fri-tue/2", "goes over the end", '"5,0,2"'),
    ("0 0 * * sat-tue", "goes over the end", '"6-7,1-2"'),
    ("0 0 * * fri-sun", "goes over the end", '"5-7"'),
    ("0 0 * nov-jan *", "goes over the end", '"11-12,1"'),
    ("*/61 * * * *", "larger than its range", "up to 60"),
    ("*/100 * * * *", "larger than its range", "every"),
    ("0 */25 * * *", "larger than its range", "up to 24"),
    ("0 0 * * */8", "larger than its range", "up to 7"),
    ("*/0 * * * *", "step of 0", "1 or more"),
    ("*/00 * * * *", "step of 0", "1 or more"),
    ("60 * * * *", "'60' is out of range", "0 to 59"),
    ("0 24 * * *", "'24' is out of range", "midnight is hour 0"),
    ("0 0 0 * *", "'0' is out of range", "1 to 31"),
    ("0 0 * 13 *", "'13' is out of range", "1 to 12"),
    ("0 0 * * 8", "'8' is out of range", "0 to 7"),
    ("0 0 * * 1-9", "'9' is out of range", "0 to 7"),
    ("jan * * * *", "no number", "0 to 59"),
    ("0 0 * mon *", "'mon' is no month", "jan to dec"),
    ("0 0 * * jan", "'jan' is no weekday", "sun to sat"),
    ("0 0 * * monday", "three letters", '"mon"'),
    ("0 0 * september *", "three letters", '"sep"'),
    ("1,,2 * * * *", "empty part", "comma"),
    (", * * * *", "empty part", "comma"),
    ("-5 * * * *", "no value", "a-b"),
    ("+5 * * * *", "no value", "a-b"),
    ("1.5 * * * *", "no value", "a-b"),
    ("1-2-3 * * * *", "no value", "a-b"),
    ("*-5 * * * *", "no value", "a-b"),
    ("1-* * * * *", "no value", "a-b"),
    ("~ * * * *", "no value", "a-b"),
    ("0 0 @daily * *", "no field", "alone"),
    ("\u0665 * * * *", "not ASCII", "ASCII"),
    ("0 0 * * \uff15", "not ASCII", "ASCII"),
    ("0 0 * * \ud800", "not ASCII", "ASCII"),
    ("0 5 * * *\n", "control", "one line"),
    ("0 5 * *\n*", "control", "one line"),
    ("0 5 * * *\x1b[2J", "control", "one line"),
    ("0\x0b5 * * *", "control", "one line"),
    ("1" * 5_000 + " * * * *", "longer than 1000", "ranges"),
    ("9" * 900 + " * * * *", "out of range", "0 to 59"),
    ("*/" + "9" * 900 + " * * * *", "larger than its range", "up to 60"),
    ("0 0 31 9 *", "no day 31 in month 9", "begins with *"),
    ("0 0 30 2 *", "no day 30 in month 2", "begins with *"),
    ("0 0 31 2,4,6,9,11 */2", "no day 31", "begins with *"),
]


@pytest.mark.parametrize(("expr", "fault", "hint"), REFUSED)
def test_refused(expr: Any, fault: str, hint: str) -> None:
    """What is no cron expression is refused in one line that names the fault, with a way out."""
    with pytest.raises(CronError) as caught:
        parse(expr)
    error = caught.value
    assert fault in error.message
    assert hint in (error.hint or "")
    assert error.exit_code == 2
    assert error.message.isprintable()
    assert len(error.message) < 300


def test_what_hints_suggest_is_accepted() -> None:
    """What a message tells to write instead can be written, in whatever field."""
    assert parse("0 0 0 L * *", "extended").days.last_day
    suggested = 0
    for place, size in enumerate((60, 24, 31, 12, 7)):
        for low, high, step in product((1, 5, size - 1, size), (1, 4), ("", "/3", "/60")):
            for term in (f"{low}-{high}{step}", f"{low}{step}", step):
                fields = ["0", "0", "*", "*", "*"]
                fields[place] = term
                try:
                    parse(" ".join(fields))
                except CronError as error:
                    hint = error.hint or ""
                    if hint.startswith('write "'):
                        fields[place] = hint.split('"')[1]
                        parse(" ".join(fields))
                        suggested += 1
    assert suggested > 100


@pytest.mark.parametrize(
    ("expr", "dialect", "canonical"),
    [
        ("0 7 * * MON-FRI", "vixie", "0 7 * * 1-5"),
        ("00 07 */1 1-1 7", "vixie", "0 7 * 1 0"),
        ("5-5/3 1-5/1 * JAN,feb *", "vixie", "5 1-5 * 1,2 *"),
        ("0 0 * * 5-7", "vixie", "0 0 * * 5-7"),
        ("@Yearly", "vixie", "0 0 1 1 *"),
        ("@hourly", "extended", "0 0 * * * *"),
        ("*/5 0 0 l * FRIL,7#2", "extended", "*/5 0 0 L * 5L,0#2"),
    ],
)
def test_the_canonical_text_reads_back(expr: str, dialect: CronDialect, canonical: str) -> None:
    """Spellings of the same have one text, and it is read as the same."""
    spec = parse(expr, dialect)
    assert str(spec) == canonical
    assert parse(canonical, dialect) == spec


def test_what_begins_with_a_star_decides() -> None:
    """Only the first character counts, for the rule of the days as for wildcard jobs."""
    for expr, wild, either in [
        ("0 0 1 * 1", False, True),
        ("0 0 */2 * 1", False, False),
        ("0 0 1 * */2", False, False),
        ("0 0 1-31 * 0-7", False, True),
        ("0 0 1,* * 1", False, True),
        ("*/5 0 * * *", True, False),
        ("0 */2 * * *", True, False),
        ("0-59 0-23/2 * * *", False, False),
        ("5,* 0 * * *", False, False),
    ]:
        spec = parse(expr)
        assert (spec.wild, spec.or_rule) == (wild, either), expr
    assert not parse("* 0 2 * * *", "extended").wild


def test_the_extended_dialect_has_its_own_limits() -> None:
    """Six fields, seconds first; marks only where they mean something."""
    for expr, fault in [
        ("0 7 * * *", "5 fields where 6"),
        ("0 0 0 7 * * *", "7 fields where 6"),
        ("60 * * * * *", "second '60'"),
        ("0 0 0 L-3 * *", "day 'L-3'"),
        ("0 0 0 * * L", "weekday 'L'"),
        ("0 0 0 * * 5#6", "no week of a month"),
        ("0 0 0 * * 5#0", "no week of a month"),
        ("0 0 0 * * 8L", "weekday '8L'"),
        ("0 0 L * * *", "hour 'L'"),
        ("0 0 0 15W * *", "W is not known"),
        ("0 0 0 */20 * 5#2", "never fires"),
    ]:
        with pytest.raises(CronError, match=fault):
            parse(expr, "extended")


@pytest.mark.parametrize(
    ("expr", "dialect", "told"),
    [
        ("0 0 13 * 5", "vixie", "fires at 00:00 when the day is 13 OR a Friday"),
        ("0 0 */15 * 2", "vixie", "fires at 00:00 when the day is 1, 16 or 31 AND a Tuesday"),
        ("0 7 * * mon-fri", "vixie", "fires at 07:00 when the day is Monday to Friday"),
        ("0 0 1-31 * 4", "vixie", "fires at 00:00"),
        ("*/15 * * * *", "vixie", "fires every 15 minutes"),
        ("*/25 * * * *", "vixie", "fires at minutes 0, 25 and 50 of every hour"),
        ("0 */2 * * *", "vixie", "fires at minute 0, every 2 hours"),
        ("* 9-17 * 1 *", "vixie", "fires every minute of hours 9 to 17 in January"),
        ("0 12 1 6-8 *", "vixie", "fires at 12:00 when the day is 1 in June to August"),
        ("*/10 * * * * *", "extended", "fires every 10 seconds"),
        ("*/10 * 3 * * *", "extended", "fires every 10 seconds of hour 3"),
        ("5 * * * * *", "extended", "fires at second 5 of every minute"),
        ("5 * 3 * * *", "extended", "fires at second 5 of every minute of hour 3"),
        ("5 */2 * * * *", "extended", "fires at second 5, every 2 minutes"),
        (
            "0 0 9 L * 1#1",
            "extended",
            "fires at 09:00 when the day is the last of the month OR the first Monday",
        ),
    ],
)
def test_explained(expr: str, dialect: CronDialect, told: str) -> None:
    """People are told what an expression means, above all when the day fields are OR-ed."""
    assert explain(parse(expr, dialect)) == told


_SIGNS = "0123456789*/-,#LWHR?@ \t\njanmofrisu"


@settings(max_examples=300)
@given(
    st.text(_SIGNS, max_size=40)
    | st.text(max_size=60)
    | st.binary(max_size=40).map(lambda data: data.decode("latin-1"))
)
def test_only_cron_errors_escape(text: str) -> None:
    """Any text is either read or refused with a CronError."""
    dialects: tuple[CronDialect, ...] = ("vixie", "extended")
    for dialect in dialects:
        try:
            spec = parse(text, dialect)
        except CronError:
            continue
        else:
            assert parse(str(spec), dialect) == spec
            assert explain(spec).startswith("fires ")


def test_no_text_takes_long() -> None:
    """The longest and the rarest are read or refused within 50 ms."""
    dice = random.Random(5)
    texts = ["1," * 480 + "1 * * * *", "0 0 31 2 *", "0 0 29 2 */7", "*/1," * 240 + "1 * * * *"]
    texts += ["0 0 30,31 2 " + "*/2," * 230 + "1", "@" * 1_000, "/" * 1_000, "0 " * 499, "a-" * 490]
    texts += ["".join(dice.choices(_SIGNS, k=1_000)) for _ in range(50)]
    for text in texts:
        best = 1.0
        for salt in range(3):  # the best of three: the machine may be busy
            before = time.process_time()
            with suppress(CronError):
                parse(text + " " * salt)
            best = min(best, time.process_time() - before)
        assert best < 0.05, text[:50]
