"""The payload of `add`: from an option, a file or stdin, with KEY=VALUE and KEY:=JSON over it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from scheduld import payload as codec
from scheduld.cli.completing import files
from scheduld.errors import InvalidInput
from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LARGEST_FILE = 16 * 1024 * 1024
"""Most bytes that are read of a file or of stdin: four times the largest `max_payload`."""
SHORT_PAYLOAD = 8192
"""A longer one is not printed in a command to repeat, in characters."""
STDIN = "-"


def payload_options(
    meaning: str = "A JSON object.", file: str = 'File with a JSON object; "-" is stdin.'
) -> Callable[[Any], Any]:
    """Declare --payload and --payload-file, with their help texts."""

    def declared(command: Any) -> Any:
        from_file = click.option("--payload-file", metavar="FILE", shell_complete=files, help=file)
        return click.option("--payload", metavar="JSON", help=meaning)(from_file(command))

    return declared


@dataclass(frozen=True, slots=True)
class Collected:
    """A payload, and whether stdin, which cannot be read twice, was a part of it."""

    payload: dict[str, Any]
    from_stdin: bool


def collect(entries: Sequence[str], text: str | None, file: str | None) -> Collected:
    """Put the payload of a command line together; raises InvalidInput."""
    pairs = [entry for entry in entries if entry != STDIN]
    if len(entries) > len(pairs):
        if file not in (None, STDIN) or len(entries) > len(pairs) + 1:
            raise InvalidInput(
                "the payload is given twice", hint='one of --payload, --payload-file and "-"'
            )
        file = STDIN
    if text is not None and file is not None:
        raise InvalidInput(
            "the payload is given twice", hint='one of --payload, --payload-file and "-"'
        )
    # Entries first: what is wrong there is told before anyone types a payload.
    over = _merged(pairs)
    return Collected({**_base(text, file), **over}, from_stdin=file == STDIN)


def _base(text: str | None, file: str | None) -> dict[str, Any]:
    if text is not None:
        return _object(text, "--payload")
    if file is None:
        return {}
    name = "stdin" if file == STDIN else f"file {printable(file)}"
    return _object(_decoded(_content(file, name), name), name)


def _content(file: str, name: str) -> bytes:
    """Read a file, a pipe or stdin, up to a bound."""
    try:
        if file != STDIN:
            with open(file, "rb") as opened:
                data = opened.read(LARGEST_FILE + 1)
        elif sys.stdin is None:
            raise InvalidInput("stdin is closed", hint="pipe the payload in")
        else:
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
    except OSError as exc:
        raise InvalidInput(f"{name} cannot be read: {exc.strerror}") from None
    except ValueError as exc:
        raise InvalidInput(f"{name} cannot be read: {exc}") from None
    if len(data) > LARGEST_FILE:
        raise InvalidInput(f"{name} is larger than {LARGEST_FILE // 1024 // 1024} MB")
    return data


def _decoded(data: bytes, name: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput(f"{name} is UTF-16", hint="save it as UTF-8")
    try:
        # Editors of some systems put a mark in front, which JSON does not know.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise InvalidInput(
            f"{name} is not UTF-8: byte 0x{data[exc.start]:02x} in line {line}",
            hint="save it as UTF-8",
        ) from None


def _object(text: str, name: str) -> dict[str, Any]:
    value = _json(text, name)
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} is not a JSON object", hint='such as {"to": "a@b.c"}')
    return value


def _json(text: str, name: str) -> Any:
    try:
        return codec.parse(text)
    except InvalidInput as exc:
        hint = None if text.strip() else "it is empty"
        raise InvalidInput(f"{name}: {exc.message.removeprefix('payload ')}", hint=hint) from None


def _merged(pairs: Sequence[str]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for pair in pairs:
        key, value = _pair(pair)
        if key in merged:
            raise InvalidInput(f"the key {key!r} is given twice")
        merged[key] = value
    return merged


def _pair(text: str) -> tuple[str, Any]:
    left, equals, right = text.partition("=")
    is_json = left.endswith(":")
    key = left.removesuffix(":") if is_json else left
    if not equals or not key:
        raise InvalidInput(
            f"{text[:60]!r} is neither KEY=VALUE nor KEY:=JSON",
            hint="such as to=ana@example.com; a value with blanks needs quotes",
        )
    if key != key.strip():
        raise InvalidInput(f"the key {key[:60]!r} has blanks around it", hint="no blanks at the =")
    if not is_json:
        return key, right
    try:
        return key, codec.parse(right)
    except InvalidInput as exc:
        reason = exc.message.removeprefix("payload ")
        raise InvalidInput(f"{key}:= {reason}", hint=f"{key}=... takes a text") from None
