"""What a run tells on its way: its progress, and lines of a log. Limits and forms, no I/O."""

from __future__ import annotations

import json
from typing import Any

from scheduld.errors import InvalidInput
from scheduld.payload import encode_json, parse

PROGRESS_LIMIT = 4 * 1024
"""Most bytes of a progress value, as JSON."""
LINE_LIMIT = 2_000
"""Most characters of one line."""
LOG_LINES = 200
"""Most lines kept with a task: the last ones ..."""
LOG_BYTES = 16 * 1024
"""... within so many bytes."""
_SURE = (LOG_BYTES - 100) // 12
"""So many characters fit into that whatever they are: of some JSON makes 12 bytes."""


def progress_text(value: Any) -> str:
    """Write a progress value as JSON; raises TypeError or ValueError."""
    try:
        data = encode_json(value, what="progress")
    except InvalidInput as error:
        raise TypeError(
            f"{error.message}: it must be a JSON value of at most {PROGRESS_LIMIT} bytes"
        ) from None
    if len(data) > PROGRESS_LIMIT:
        raise ValueError(f"progress has {len(data)} bytes, at most {PROGRESS_LIMIT} are kept")
    return data.decode()


def log_text(text: Any) -> str:
    """Return a line of the log, cut to its limit; raises TypeError for what is no text."""
    if not isinstance(text, str):
        raise TypeError(f"run.log takes a text, not {type(text).__name__}")
    return text if len(text) <= LINE_LIMIT else f"{text[:LINE_LIMIT]}..."


def line(at_ms: int, text: str) -> str:
    """Write one line as it is stored: a JSON object in ASCII, so without any line break.

    A text of many characters that JSON writes longer is cut until it fits.
    """
    stored = json.dumps({"at_ms": at_ms, "text": text})
    if len(stored) >= LOG_BYTES:
        stored = json.dumps({"at_ms": at_ms, "text": f"{text[:_SURE]}..."})
    return stored


def lines(stored: str) -> list[dict[str, Any]]:
    """Read stored lines; what is none is left out."""
    found = []
    for one in stored.split("\n"):
        try:
            value = parse(one)
        except InvalidInput:
            continue
        if isinstance(value, dict):
            found.append({"at_ms": value.get("at_ms"), "text": value.get("text")})
    return found
