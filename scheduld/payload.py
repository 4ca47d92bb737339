"""Payloads: JSON objects, encoded and decoded in one place.

The encoding is strict where JSON libraries are lenient: no NaN, no keys that are
not text, no lone surrogates, no silent `str()` of unknown objects.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from scheduld.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 200
"""Deepest nesting of a payload or result."""
DEFAULT_MAX_BYTES = 256 * 1024
_SCALARS = frozenset((str, int, bool, type(None)))


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


def _is_flat(value: dict[Any, Any]) -> bool:
    """Whether an object is one that needs no `_check`, and that a copy of it is all of it."""
    for key, item in value.items():
        kind = type(item)
        if type(key) is not str or (
            kind not in _SCALARS and not (kind is float and math.isfinite(item))
        ):
            return False
    return True


def encode_json(value: Any, *, what: str = "payload") -> bytes:
    """Encode a JSON value to compact UTF-8; raises InvalidInput for what JSON cannot hold."""
    if not (type(value) is dict and _is_flat(value)):
        _check(value, 1, what)
    return _written(value, what)


def _written(value: Any, what: str) -> bytes:
    try:
        return _to_text(value).encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} has a lone surrogate, which is no UTF-8") from None
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInput(f"{what} cannot be stored as JSON: {exc}") from None


def encode(payload: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
    """Encode a payload; raises InvalidInput unless it is a JSON object within `max_bytes`."""
    data, _ = _encoded(payload, max_bytes)
    return data


def snapshot(payload: Any, *, max_bytes: int = DEFAULT_MAX_BYTES) -> tuple[bytes, dict[str, Any]]:
    """Encode a payload, and give what `decode` would make of it; errors as of `encode`."""
    data, is_flat = _encoded(payload, max_bytes)
    # Of most payloads a copy is just that, at a tenth of the price.
    return data, payload.copy() if is_flat else _from_text(data.decode())


def _encoded(payload: Any, max_bytes: int) -> tuple[bytes, bool]:
    """The bytes, and whether a copy of the payload is all that they hold."""
    is_flat = type(payload) is dict and _is_flat(payload)
    if not is_flat:
        if not isinstance(payload, dict):
            kind = _kind(payload)
            hint = 'such as {"to": "a@b.c"}'
            raise InvalidInput(f"payload must be a JSON object, not {kind}", hint=hint)
        _check(payload, 1, "payload")
    data = _written(payload, "payload")
    if len(data) > max_bytes:
        raise InvalidInput(
            f"payload has {len(data)} bytes, at most {max_bytes} are allowed (max_payload)"
        )
    return data, is_flat


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
        value = _from_text(text)
    except UnicodeDecodeError:
        raise InvalidInput("payload is not UTF-8") from None
    except RecursionError:
        raise InvalidInput(f"payload is nested deeper than {MAX_DEPTH}") from None
    except ValueError as exc:
        raise InvalidInput(f"payload is not JSON: {exc}") from None
    if not (type(value) is dict and _is_flat(value)):
        _check(value, 1, "payload")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _encoder() -> Callable[[Any], str]:
    """Make what writes JSON texts: once, as json.dumps would for every call.

    Circles are not looked for: `_check` refuses them as too deep.
    """
    strict = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        # What JSONEncoder.encode makes anew at each call, at three times the price of its use.
        write = make(
            None,
            strict.default,
            json.encoder.encode_basestring,
            None,
            strict.key_separator,
            strict.item_separator,
            strict.sort_keys,
            strict.skipkeys,
            strict.allow_nan,
        )
        write({"a": 1}, 0)
    except TypeError:
        return strict.encode
    return lambda value: "".join(write(value, 0))


_to_text = _encoder()
_from_text = json.JSONDecoder(parse_constant=_refuse_constant).decode


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
