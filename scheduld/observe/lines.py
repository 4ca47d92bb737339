"""One record as one line: bounded, masked, and free of what could forge another line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scheduld.names import printable
from scheduld.observe.masking import HIDDEN

if TYPE_CHECKING:
    from scheduld.observe.masking import Masker

VALUE_LIMIT = 4_000
"""Characters of one text."""
TRACE_LIMIT = 16_000
"""Characters of a traceback; of a longer one the end is kept, which names what happened."""
RECORD_LIMIT = 32_000
"""Characters of a record, before some of them are escaped."""
LINE_LIMIT = 48_000
"""Bytes of a line, as the journal cuts longer ones."""
_LIMITS = (RECORD_LIMIT, 7_000, 2_500)
ITEMS_LIMIT = 50
"""Items of one list or object."""
_DEEPEST = 6
_KEY_LIMIT = 100
_LEAST = 200
_SIZE = 8
"""Characters that a number, or the brackets of a list, count for."""
_MARGIN = 256
_LARGEST_INT = 2**63
TRACES = ("exception", "stack")
_FIRST = ("timestamp", "level", "event", "logger")
_OURS = frozenset(_FIRST[:2])
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}
_QUOTED = frozenset(" \"'=,")


class Cleaner:
    """Makes the fields of one record plain: JSON values, none too long, none a secret."""

    def __init__(self, masker: Masker, limit: int = RECORD_LIMIT) -> None:
        self._masker = masker
        self._left = limit
        self._spare = limit // 4

    def record(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return plain fields; a value that cannot be read says so, and nothing is raised."""
        # The traceback comes last: what else a record holds must not be lost to its length.
        traces = {key: fields[key] for key in TRACES if key in fields}
        others = {key: value for key, value in _ordered(fields).items() if key not in traces}
        # Who searches the log needs these two, even if somebody's password is "info".
        plain = {key: others.pop(key) for key in _OURS if isinstance(others.get(key), str)}
        # Of a record that is too long every field is told, if there are not too many as well.
        plain |= self._mapping(others, _DEEPEST, math.inf, -self._spare)
        for key, value in traces.items():
            plain[key] = self._trace(value if isinstance(value, str) else _shown(value))
        return plain

    def _value(self, value: Any, depth: int) -> Any:
        self._left -= _SIZE
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and -_LARGEST_INT < value < _LARGEST_INT:
            return int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, bytes | bytearray):
            return self._text(value[: VALUE_LIMIT * 2].decode("utf-8", "backslashreplace"))
        if isinstance(value, Mapping):
            return self._mapping(value, depth - 1, ITEMS_LIMIT) if depth else "{...}"
        if isinstance(value, list | tuple | set | frozenset):
            return self._items(list(value), depth - 1) if depth else "[...]"
        return self._text(_shown(value))

    def _mapping(
        self, value: Mapping[Any, Any], depth: int, limit: float, least: int = 0
    ) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, item in list(value.items()):
            if len(plain) >= limit or self._left <= least:
                plain["..."] = f"{len(value) - len(plain)} more"
                break
            name = self._cut(key if isinstance(key, str) else _shown(key), _KEY_LIMIT)
            hidden = self._masker.hides(key, item)
            plain[name] = HIDDEN if hidden else self._safely(item, depth)
        return plain

    def _items(self, items: list[Any], depth: int) -> list[Any]:
        plain: list[Any] = []
        for item in items:
            if len(plain) >= ITEMS_LIMIT or self._left <= 0:
                plain.append(f"... {len(items) - len(plain)} more")
                break
            plain.append(self._safely(self._masker.pair(item), depth))
        return plain

    def _safely(self, item: Any, depth: int) -> Any:
        try:
            return self._value(item, depth)
        except BaseException:  # noqa: BLE001 - a value's own methods may raise anything
            return "(cannot be shown)"

    def _text(self, text: str) -> str:
        return self._cut(text, max(min(VALUE_LIMIT, self._left), _LEAST))

    def _cut(self, text: str, limit: int) -> str:
        """Mask, then shorten; a secret at the cut is cut off with all that is near it."""
        size = len(text)
        if size > limit:
            margin = max(_MARGIN, self._masker.longest)
            head = self._masker.text(text[: limit + margin])
            text = f"{head[:-margin][:limit]}... ({size} characters)"
        else:
            text = self._masker.text(text)
        self._left -= len(text)
        return _utf8(text)

    def _trace(self, text: str) -> str:
        size, text = len(text), text.rstrip("\n")
        limit = max(min(TRACE_LIMIT, self._left), _LEAST)
        if size > limit:
            margin = max(_MARGIN, self._masker.longest)
            tail = self._masker.text(text[-limit - margin :])
            kept = tail[min(margin, len(tail)) :][-limit:]
            text = f"({size} characters) ...{kept}"
        else:
            text = self._masker.text(text)
        return _utf8(text)


def _shown(value: object) -> str:
    try:
        return str(value) if isinstance(value, int) else repr(value)
    except BaseException:  # noqa: BLE001 - a value's own methods may raise anything
        return f"({type(value).__name__} that cannot be shown)"


def _utf8(text: str) -> str:
    # Lone surrogates are no UTF-8, and no JSON that all readers take.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def json_line(fields: Mapping[str, Any]) -> str:
    """Write plain fields as one line of JSON, all ASCII: valid in any encoding."""
    # JSON leaves DEL as it is, which some terminals act on.
    return json.dumps(_ordered(fields)).replace("\x7f", "\\u007f")


def text_line(fields: Mapping[str, Any], *, colours: bool = False) -> str:
    """Write plain fields as one line for people, with what could forge another escaped."""
    rest = dict(fields)
    stamp, level, event, logger = (printable(str(rest.pop(name, ""))) for name in _FIRST)
    label = f"{level:8}"
    if colours and level in _COLOURS:
        label = f"\x1b[{_COLOURS[level]}m{label}\x1b[0m"
    pairs = [f"{_word(name)}={_word(value)}" for name, value in rest.items()]
    return " ".join([stamp, label, f"{logger}:" if logger else "", event, *pairs])


def _word(value: Any) -> str:
    if isinstance(value, str):
        is_quoted = not value or not _QUOTED.isdisjoint(value)
        return printable(json.dumps(value, ensure_ascii=False) if is_quoted else value)
    return printable(json.dumps(value, ensure_ascii=False))


def line(render: Render, masker: Masker, fields: Mapping[str, Any]) -> str:
    """Write the fields of a record as one line of at most LINE_LIMIT bytes.

    A text that is escaped grows up to twelve times: then less of the record is told.
    """
    for limit in _LIMITS:
        text = render(Cleaner(masker, limit).record(fields))
        if len(text if text.isascii() else text.encode()) <= LINE_LIMIT:
            break
    return text


def _ordered(fields: Mapping[str, Any]) -> dict[str, Any]:
    first = {name: fields[name] for name in _FIRST if name in fields}
    return {**first, **fields}


Render = Callable[[Mapping[str, Any]], str]
