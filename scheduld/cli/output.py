"""What commands print: texts and JSON on stdout, notes and errors on stderr, one line each."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

from scheduld.errors import OutcomeUnknown, ScheduldError
from scheduld.names import printable
from scheduld.observe.masking import current

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class OutputLost(ScheduldError):
    """Standard output cannot be written, for another reason than that nobody reads it."""

    kind = "output"


class RepeatSafely(OutcomeUnknown):
    """An outcome that is unknown, and the complete command line to repeat safely."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message, hint=f"to repeat it safely: {command}")
        self.command = command


def say(text: str) -> None:
    """Print lines on stdout; raises BrokenPipeError if nobody reads, OutputLost on a full disk."""
    say_all([text])


def say_all(lines: Iterable[str]) -> None:
    """Print lines as they come, without a write for each; errors as of `say`."""
    for line in lines:
        _written(line)
    if sys.stdout is not None:
        with _telling_loss():
            sys.stdout.flush()


def _written(line: str) -> None:
    if sys.stdout is None:  # closed by who started us
        return
    with _telling_loss():
        sys.stdout.write(line + "\n")


@contextlib.contextmanager
def _telling_loss() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        # What is left in the buffer would fail once more at the end of the process.
        with contextlib.suppress(OSError):
            sys.stdout.close()
        raise OutputLost(f"the output cannot be written: {exc.strerror}") from None


def say_json(value: Any) -> None:
    """Print a value as one line of JSON, in ASCII: valid in any encoding, safe on any terminal."""
    say(json.dumps(value))


@contextlib.contextmanager
def telling_done(done: str) -> Iterator[None]:
    """Print what a command has done: if that cannot be, it says that `done` all the same."""
    try:
        yield
    except OutputLost as exc:
        raise OutputLost(f"{done}, but {exc.message}", hint="do not repeat it") from None


def note(text: str) -> None:
    """Tell people something beside the output: one line on stderr."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def report(error: ScheduldError, *, as_json: bool) -> None:
    """Print an error, in words or as JSON, with known secrets masked."""
    mask = current().values
    message, hint = mask(error.message), error.hint
    if hint and not isinstance(error, RepeatSafely):
        hint = mask(hint)  # a command to repeat must stay what it was, and holds no secret URL
    if as_json:
        told = {"kind": error.kind, "message": printable(message), "hint": hint}
        note(json.dumps({"error": told}))
    elif isinstance(error, RepeatSafely):
        # Without brackets around it, the command can be copied as it stands.
        note(f"scheduld: {printable(message)}; {hint}")
    else:
        note(printable(f"scheduld: {message}" + (f" ({hint})" if hint else "")))


def shell_words(words: Sequence[str]) -> str:
    """Join words to a command line for a shell, on one line whatever they hold."""
    return " ".join(_shell_word(word) for word in words)


def _shell_word(text: str) -> str:
    if all(char.isprintable() for char in text):
        return shlex.quote(text)
    return "$'" + "".join(_escaped(char) for char in text) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    return char if char.isprintable() else "".join(f"\\{byte:03o}" for byte in char.encode())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out cells in columns that are as wide as they need; control characters escaped."""
    cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = (
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
