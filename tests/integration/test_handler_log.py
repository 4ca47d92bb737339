"""The handler `log`: what it writes, through the logging it would have in a daemon."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from scheduld.handlers.contract import Run
from scheduld.handlers.log import make
from scheduld.handlers.options import BadOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = Run(type="hello", id="h-1", attempt=1, fence=7, due=datetime(2026, 12, 24, 8, tzinfo=UTC))


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Collects what is logged, rendered as key=value text with nothing escaped by the renderer."""
    stream = io.StringIO()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            lambda _, __, event: " ".join(f"{key}={value}" for key, value in event.items()),
        ],
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    yield stream
    structlog.reset_defaults()


async def write(payload: dict[str, Any], **options: Any) -> Any:
    """Run the handler once."""
    return await make(options).call(payload, RUN)


async def test_the_message_is_logged(lines: io.StringIO) -> None:
    """The message is the line; the other values are not told, only their keys."""
    assert await write({"message": "hello ñ", "password": "hunter2"}) is None
    text = lines.getvalue()
    for part in ("event=hello ñ", "type=hello", "id=h-1", "keys=message password", "level=info"):
        assert part in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"message": "a\nforged line\r\n\x1b[31mred\u2028x\x85y"},
        {"message": {"deep": ["\n"]}},
        {"message": None},
        {"a\nb": 1, "\ud800": 2},
        {"message": "\ud800"},
        {"message": "x" * 100_000},
    ],
)
async def test_one_line_whatever_the_payload_holds(
    lines: io.StringIO, payload: dict[str, Any]
) -> None:
    """A payload can neither forge a line nor a terminal sequence, nor flood the log."""
    await write(payload)
    text = lines.getvalue()
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    assert text[:-1].isprintable()
    assert len(text) < 5_000
    text.encode()


async def test_the_level_can_be_chosen(lines: io.StringIO) -> None:
    """Option `level` sets the level of the line."""
    await write({}, level="warning")
    assert "level=warning" in lines.getvalue()


def test_faulty_options_are_refused() -> None:
    """An unknown level and an unknown option are both told."""
    with pytest.raises(BadOptions) as caught:
        make({"level": "loud", "levle": "info"})
    assert len(caught.value.problems) == 2
    assert "'level'" in caught.value.problems[0]
