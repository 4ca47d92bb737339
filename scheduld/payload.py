"""Payloads: JSON objects, encoded and decoded in one place.

The encoding is strict where JSON libraries are lenient: no NaN, no keys that are
not text, no lone surrogates, no silent `str()` of unknown objects.
"""

from __future__ import annotations

import json
import math
from typing import Any

from scheduld.errors import InvalidInput

MAX_DEPTH = 200
"""Deepest nesting of a payload or result."""
DEFAULT_MAX_BYTES = 256 * 1024


def _check(value: Any, depth: int, what: str) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{what} is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"{what} has the key {key!r}, which is not a text")
            _check(item, depth + 1, what)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{what} has a number that JSON cannot hold: {value}")
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item, depth + 1, what)


def encode_json(value: Any, *, what: str = "payload") -> bytes:
    """Encode a JSON value to compact UTF-8; raises InvalidInput for what JSON cannot hold."""
    _check(value, 1, what)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} has a lone surrogate, which is no UTF-8") from None
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(f"{what} cannot be stored as JSON: {exc}") from None


def encode(payload: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Encode a payload; raises InvalidInput unless it is a JSON object within `max_bytes`."""
    if not isinstance(payload, dict):
        raise InvalidInput(
            f"payload must be a JSON object, not {_kind(payload)}", hint='such as {"to": "a@b.c"}'
        )
    data = encode_json(payload)
    if len(data) > max_bytes:
        raise InvalidInput(
            f"payload has {len(data)} bytes, at most {max_bytes} are allowed (max_payload)"
        )
    return data


def decode(data: bytes | None) -> dict[str, Any]:
    """Decode a stored payload; None is `{}`.

    Raises InvalidInput for what is not a JSON object: bytes that are not UTF-8, broken
    JSON, NaN, nesting beyond the limit.
    """
    if data is None:
        return {}
    value = parse(data)
    if not isinstance(value, dict):
        raise InvalidInput(f"payload is not a JSON object but {_kind(value)}")
    return value


def parse(data: bytes | str) -> Any:
    """Parse one JSON text strictly; raises InvalidInput."""
    try:
        text = data.decode() if isinstance(data, bytes) else data
        value = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise InvalidInput("payload is not UTF-8") from None
    except RecursionError:
        raise InvalidInput(f"payload is nested deeper than {MAX_DEPTH}") from None
    except ValueError as exc:
        raise InvalidInput(f"payload is not JSON: {exc}") from None
    _check(value, 1, "payload")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _kind(value: Any) -> str:
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
    }
    return names.get(type(value), type(value).__name__)
