"""One record, one line: whatever ids, errors and foreign records contain."""

from __future__ import annotations

import io
import json
import logging
import logging.config
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduld.config.settings import LogSettings
from scheduld.observe import masking
from scheduld.observe.lines import (
    LINE_LIMIT,
    RECORD_LIMIT,
    VALUE_LIMIT,
    Cleaner,
    json_line,
    line,
    text_line,
)
from scheduld.observe.logs import catch_strays, configure
from scheduld.observe.masking import HIDDEN, Masker

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "correct-horse-battery"
HOSTILE = [
    "done\n2026-01-01 INFO task x done",
    "a\rb",
    "\x1b[2J\x1b[31m",
    "\u2028\u2029\u0085\x0b\x0c\x1c",
    "\u202eevil\u2066\u200f",
    "\ud800\udfff",
    "\x00\x07\x7f\x9b31m",
]


class Rude:
    """A value whose own methods fail."""

    def __repr__(self) -> str:
        raise SystemExit(3)

    __str__ = __repr__


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture
def logging_set_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave logging, structlog and the masker of this process as they were."""
    root, was, handlers = logging.getLogger(), structlog.get_config(), logging.getLogger().handlers
    level, raises, kept = root.level, logging.raiseExceptions, list(handlers)
    hooks = threading.excepthook, sys.unraisablehook
    monkeypatch.setattr(masking, "_current", Masker(["iban"], [SECRET]))
    yield
    root.handlers[:] = kept
    root.setLevel(level)
    logging.raiseExceptions = raises
    logging.captureWarnings(False)
    threading.excepthook, sys.unraisablehook = hooks
    structlog.configure(**was)


@pytest.fixture
def stream(logging_set_up: None) -> io.StringIO:
    """Where JSON lines of level debug go."""
    stream = io.StringIO()
    configure(LogSettings(format="json"), stream, verbose=True)
    return stream


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    """Read what was logged."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", ["json", "text"])
def test_nothing_forges_a_line(logging_set_up: None, text: str, form: Any) -> None:
    """In event, keys, values, arguments, logger names and errors, ours and foreign."""
    stream = io.StringIO()
    configure(LogSettings(format=form), stream)
    structlog.get_logger(text).error(text, task=text, many={text: [text]}, **{text: 1})
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger(text).exception("%s " + text, text, extra={"task": text})
    written = stream.getvalue()
    assert len(written.splitlines()) == 2
    assert all(char.isprintable() or char == "\n" for char in written)
    written.encode()
    if form == "json":
        assert written.isascii()
        assert records(stream)[0]["level"] == "error"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=20,
    )
)
def test_any_value_becomes_one_valid_line(value: Any) -> None:
    """JSON that a strict reader takes, and one printable line of text."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    plain = Cleaner(Masker()).record({"event": "x", "value": value, "level": "info"})
    line = json_line(plain)
    assert line.isascii()
    assert line.isprintable()
    json.loads(line, parse_constant=refuse)
    assert text_line(plain).isprintable()


def test_secrets_are_masked_wherever_they_stand(stream: io.StringIO) -> None:
    """In events, arguments, nested values, keys, extras, tracebacks and causes."""
    log, foreign = structlog.get_logger("a"), logging.getLogger("b")
    log.info(f"x {SECRET}", a=[SECRET], b={"c": {"IBAN": "E-1", SECRET: 1}}, password="E-2")
    log.info("got %s and %s", {"iban": "E-3"}, SECRET)
    foreign.info("got %(iban)s", {"iban": "E-4"})
    foreign.info(
        "got %s %s", {"a": [{"token": "E-5"}]}, f"redis://u:E-6{SECRET}@h", extra={"iban": "E-7"}
    )
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError("password='E-8'") from error
    except ValueError:
        foreign.exception("failed")
        log.exception("failed")
    written = stream.getvalue()
    assert len(records(stream)) == 6
    assert SECRET not in written
    assert "E-" not in written
    assert "redis://u:***@h" in written
    assert "KeyError: '***'" in written


def test_a_traceback_is_one_line_and_whole(stream: io.StringIO) -> None:
    """Read back from the JSON it has its line ends."""
    try:
        raise ValueError("no luck")
    except ValueError:
        structlog.get_logger("a").exception("failed")
    (record,) = records(stream)
    assert record["exception"].startswith("Traceback (most recent call last):\n")
    assert record["exception"].endswith("ValueError: no luck")


@pytest.mark.parametrize("count", [VALUE_LIMIT, VALUE_LIMIT + 1, 5_000_000])
def test_long_values_are_cut_and_say_so(count: int) -> None:
    """A value keeps its beginning, and tells how long it was."""
    value = Cleaner(Masker()).record({"a": "x" * count})["a"]
    assert len(value) < VALUE_LIMIT + 40
    assert (f"({count} characters)" in value) is (count > VALUE_LIMIT)


def test_a_record_is_bounded() -> None:
    """Many long values, deep and cyclic ones, and a long traceback make one line of < 48 KB."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    fields = {f"k{index}": "x" * 100_000 for index in range(10)}
    many = {"list": list(range(100_000)), "map": {index: index for index in range(100_000)}}
    trace = "line\n" * 100_000 + "ValueError: the end"
    plain = Cleaner(Masker()).record({**many, **fields, "c": cyclic, "exception": trace})
    assert len(json_line(plain)) < RECORD_LIMIT + 12_000
    assert plain["list"][-1] == "... 99950 more"
    assert plain["map"]["..."] == "99950 more"
    assert plain["exception"].endswith("ValueError: the end")


@pytest.mark.parametrize(
    "fields",
    [
        {f"k{index}": "\u00e9" * 4_000 for index in range(10)},
        {f"k{index}": "\U0001f600" * 4_000 for index in range(10)},
        {f"k{index}": "\x01" * 4_000 for index in range(10)},
        {f"k{index}": "x" * 300 for index in range(2_000)},
        {f"k{index}": 2**62 for index in range(20_000)},
        {"nested": [[["x" * 10] * 50] * 50] * 50},
        {"numbers": [[[[[2**62] * 50] * 50] * 50] * 50] * 50},
        {"empty": [[[[[[]] * 50] * 50] * 50] * 50] * 50},
        {"exception": "\U0001f600\n" * 20_000, "other": "\u00e9" * 4_000},
    ],
    ids=lambda fields: next(iter(fields)),
)
@pytest.mark.parametrize("render", [json_line, text_line])
def test_a_line_is_bounded(fields: dict[str, Any], render: Any) -> None:
    """No record makes a line that the journal would cut, or takes long; its beginning stays."""
    began = time.process_time()
    text = line(render, Masker(), {"event": "it broke", "level": "error", "task": "a/b", **fields})
    assert len(text.encode()) <= LINE_LIMIT
    assert time.process_time() - began < 0.5
    assert "it broke" in text
    assert "a/b" in text


def test_level_and_time_are_never_masked() -> None:
    """Who filters by them finds the record, even if a password is "info"."""
    fields = {"level": "info", "timestamp": "2026-11-30T20:00:00Z", "event": "for your info"}
    told = Cleaner(Masker(secrets=["info", "2026"])).record(fields)
    assert told == fields | {"event": f"for your {HIDDEN}"}


def test_headers_in_a_list_are_masked(stream: io.StringIO) -> None:
    """Headers as libraries hold them: pairs in a list, of texts or bytes."""
    pairs = [("Authorization", "Basic YW5h"), ("Accept", "*/*")]
    raw = [(name.encode(), value.encode()) for name, value in pairs]
    logging.getLogger("lib").info("sent %s", pairs, extra={"headers": raw, "map": dict(raw)})
    logging.getLogger("lib").info("%s of %s", "password", "YW5h")  # no pair: two arguments
    first, second = stream.getvalue().splitlines()
    assert "YW5h" not in first
    assert "*/*" in first
    assert json.loads(second)["event"] == "password of YW5h"


@given(before=st.integers(VALUE_LIMIT - 60, VALUE_LIMIT + 400), size=st.integers(8, 300))
@settings(max_examples=60)
def test_no_part_of_a_secret_is_left_at_a_cut(before: int, size: int) -> None:
    """Wherever a long value is cut, at its end or (tracebacks) at its beginning."""
    secret = "".join(chr(0x4E00 + index) for index in range(size))
    cleaner = Cleaner(Masker(secrets=[secret]))
    shown = cleaner.record({"a": "x" * before + secret + "y" * 6_000})["a"]
    assert not set(secret) & set(shown)
    cleaner = Cleaner(Masker(secrets=[secret]))
    end = "y" * (before + 12_000)
    shown = cleaner.record({"exception": "x" * 30_000 + secret + end})["exception"]
    assert not set(secret) & set(shown)


def test_records_that_cannot_be_read_cost_no_work(logging_set_up: None) -> None:
    """Wrong arguments and values that raise leave a line each, and raise nothing."""
    stream = io.StringIO()
    configure(None, stream)  # here, and so without pytest's own log handler, which would raise
    foreign = logging.getLogger("b")
    foreign.info("%d %s", "a")
    foreign.info(Rude())
    foreign.info("x", extra={"value": Rude()})
    structlog.get_logger("a").info("x", value=Rude(), number=float("nan"), large=10**6000)
    first, second, third, fourth = records(stream)
    assert (first["event"], first["args"]) == ("%d %s", ["a"])
    assert "cannot be" in second["event"] or "could not" in second["event"]
    assert third["value"] == "(Rude that cannot be shown)"
    assert (fourth["value"], fourth["number"]) == (third["value"], "nan")


@pytest.mark.parametrize(
    ("form", "is_terminal", "begins"),
    [("auto", True, "2"), ("auto", False, "{"), ("json", True, "{"), ("text", False, "2")],
)
def test_the_format(
    logging_set_up: None, form: Any, is_terminal: bool, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` is text on a terminal and JSON elsewhere; colours on a terminal alone."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal() if is_terminal else io.StringIO()
    configure(LogSettings(format=form), stream)
    structlog.get_logger("a").warning("hello there", task="t/x y", n=1)
    line = stream.getvalue()
    assert line.startswith(begins)
    assert ("\x1b[" in line) is (is_terminal and begins == "2")
    if begins == "2":
        assert line.endswith(' a: hello there task="t/x y" n=1\n')


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_declined(
    logging_set_up: None, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """By NO_COLOR, and by a terminal that knows none."""
    monkeypatch.setenv(name, value)
    stream = Terminal()
    configure(LogSettings(), stream)
    structlog.get_logger("a").warning("hello")
    assert "\x1b" not in stream.getvalue()


def test_the_level(logging_set_up: None) -> None:
    """Of the settings, for foreign records too; verbose goes before."""
    for verbose, expected in ((False, ["w", "w"]), (True, ["d", "i", "w", "d", "i", "w"])):
        stream = io.StringIO()
        configure(LogSettings(level="warning"), stream, verbose=verbose)
        for log in (structlog.get_logger("a"), logging.getLogger("b")):
            log.debug("d")
            log.info("i")
            log.warning("w")
        assert [record["event"] for record in records(stream)] == expected


def test_handlers_cannot_silence_the_daemon(logging_set_up: None) -> None:
    """What frameworks do to `logging` when they are set up does not reach the daemon's lines."""
    known = [item for item in logging.root.manager.loggerDict.values() if hasattr(item, "disabled")]
    were_disabled = [logger.disabled for logger in known]
    stream = io.StringIO()
    configure(None, stream)
    log = structlog.get_logger("scheduld.daemon")
    log.info("before")
    try:
        logging.config.dictConfig({"version": 1, "root": {"handlers": [], "level": "CRITICAL"}})
        logging.basicConfig(force=True, stream=io.StringIO(), level="CRITICAL")
        logging.disable()
        logging.getLogger("scheduld.daemon").disabled = True
        for new in (log, structlog.get_logger("scheduld.run")):
            new.info("after", value=SECRET)
    finally:
        logging.disable(logging.NOTSET)
        logging.getLogger("scheduld.daemon").disabled = False
        for logger, was_disabled in zip(known, were_disabled, strict=True):
            logger.disabled = was_disabled
    assert [(line["event"], line.get("value")) for line in records(stream)] == [
        ("before", None),
        ("after", HIDDEN),
        ("after", HIDDEN),
    ]


def test_what_python_would_print_is_logged(stream: io.StringIO) -> None:
    """Warnings, and errors that end threads or finalizers: one line each, masked."""

    class Last:
        def __del__(self) -> None:
            raise ValueError(SECRET)

    def fail() -> None:
        raise ValueError(f"in a thread {SECRET}")

    catch_strays()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn(f"old {SECRET}", stacklevel=1)
        logging.captureWarnings(False)
    thread = threading.Thread(target=fail, name="worker-7")
    thread.start()
    thread.join()
    Last()
    warned, ended, lost = records(stream)
    assert "old ***" in warned["event"]
    assert (ended["thread"], "in a thread ***" in ended["exception"]) == ("worker-7", True)
    assert "ValueError: ***" in lost["exception"]
    assert HIDDEN in stream.getvalue()
