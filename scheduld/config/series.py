"""The ladder of a task type: keys `series` and `anchor`, in the model and for clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduld.config.faults import BadValue, wrong_type
from scheduld.errors import InvalidInput
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduld.calendar.period import Series
    from scheduld.config.report import Report

_HINT = 'such as ["-7d", "-1d", "0"]'
_LONGEST_KEY = 200
_ALONE = {
    "series": ("needs anchor", 'the key of the payload that it is around: anchor = "starts_at"'),
    "anchor": ("needs series", f"the offsets around it: series = {_HINT[8:]}"),
}


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a series, in the order of time."""

    kind = "array of offsets"

    def __call__(self, value: object) -> tuple[str, ...]:
        """Return the offsets as canonical texts."""
        # Types with a series are few: client commands start faster without the calendar.
        from scheduld.calendar.ladder import parse_offsets

        if not isinstance(value, list | tuple):
            raise wrong_type("an array of offsets", value)
        for item in value:
            if not isinstance(item, str):
                raise wrong_type("an array of texts", item)
        try:
            return tuple(parse_offsets(value).texts)
        except InvalidInput as exc:
            generic = f"is no series of offsets; {_HINT}"
            raise BadValue(exc.message, hint=exc.hint or _HINT, generic=generic) from None


@dataclass(frozen=True, slots=True)
class PayloadKey:
    """The name of a key of payloads."""

    kind = "key of payloads"

    def __call__(self, value: object) -> str:
        """Return the key."""
        if not isinstance(value, str):
            raise wrong_type("a text", value)
        if not value.strip():
            raise BadValue("is empty")
        if value != printable(value) or len(value) > _LONGEST_KEY:
            raise BadValue(f"must be one line of up to {_LONGEST_KEY} characters")
        return value


OFFSETS = Offsets()
PAYLOAD_KEY = PayloadKey()


def lonely(series: object, anchor: object) -> Iterator[tuple[str, BadValue]]:
    """Yield the fault of one of the two keys that stands without the other."""
    for key, is_alone in (
        ("series", series and anchor is None),
        ("anchor", anchor is not None and not series),
    ):
        if is_alone:
            message, hint = _ALONE[key]
            yield key, BadValue(message, hint=hint)


def client_series(report: Report, types: object) -> dict[str, Series]:
    """Read the ladders of the types of a file; what is wrong with one goes to the report.

    Nothing else of a type matters to a client. Passing over a broken one would add at once, and
    once, what was to come at its times.
    """
    found: dict[str, Series] = {}
    for name, data in types.items() if isinstance(types, dict) else ():
        if isinstance(data, dict) and not data.keys().isdisjoint(("series", "anchor")):
            series = _read(report, name, data)
            if series is not None:
                found[name] = series
    return found


def _read(report: Report, name: str, data: Mapping[str, object]) -> Series | None:
    from scheduld.calendar.period import Series

    place = ("types", name)
    given = {key: report.filled(data.get(key), (*place, key)) for key in ("series", "anchor")}
    values: dict[str, object] = {}
    for key, parser in (("series", OFFSETS), ("anchor", PAYLOAD_KEY)):
        if given[key] is None:
            continue
        try:
            values[key] = parser(given[key])
        except BadValue as exc:
            report.bad((*place, key), exc)
            return None
    for key, fault in lonely(values.get("series"), values.get("anchor")):
        report.bad((*place, key), fault)
        return None
    offsets, anchor = values["series"], values["anchor"]
    assert isinstance(offsets, tuple)  # noqa: S101 - what its parser returns
    return Series(offsets, str(anchor))
