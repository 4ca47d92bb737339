"""Built-in handler `command`: runs a program, never a shell, with the payload on its stdin."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduld.errors import InvalidInput, ScheduldError
from scheduld.handlers.contract import Handler, Run
from scheduld.handlers.options import OptionReader
from scheduld.handlers.process import Ended, run_process
from scheduld.names import printable
from scheduld.outcomes import Dead
from scheduld.payload import encode_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""All that a program sees of the daemon's environment: the rest may hold secrets."""
LONGEST_VALUE = 64 * 1024
"""Bytes; a longer scalar is only on stdin, not in the environment (the kernel takes 128 KB)."""
_ERROR_CHARS = 3_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CommandFailed(ScheduldError):
    """The program could not be started, ended with another exit code than 0, or was killed."""

    kind = "command_failed"


def make(options: Mapping[str, Any]) -> Handler:
    """Build the handler from `argv` (required), `env` and `cwd`; raises BadOptions."""
    reader = OptionReader(options, known=("argv", "env", "cwd"))
    argv = reader.texts("argv", example='["/usr/bin/rsync", "-a"]')
    env = reader.table("env")
    cwd = reader.folder("cwd", example="/var/lib/app")
    _check_env(reader, env)
    program = _find(reader, argv, env)
    reader.finish()
    command = _Command((program, *argv[1:]), env, cwd or None)
    return Handler(call=command.run, is_async=True, takes_run=True)


def _check_env(reader: OptionReader, env: dict[str, str]) -> None:
    for name in env:
        if not _VARIABLE.fullmatch(name):
            reader.wrong(f"env.{name}", "is no name of a variable: use A-Z a-z 0-9 _")
        elif name.startswith("SCHEDULD_"):
            reader.wrong(f"env.{name}", "is taken: SCHEDULD_ names are set for each run")


def _find(reader: OptionReader, argv: list[str], env: dict[str, str]) -> str:
    """Absolute path of the program, looked up once: a run does not depend on where it stands."""
    if not argv:
        return ""
    if "/" in argv[0] and not os.path.isabs(argv[0]):
        reader.wrong("argv", "must start with an absolute path, or a bare name found in PATH")
        return ""
    found = shutil.which(argv[0], path=env.get("PATH"))
    if found is None:
        where = "is not an executable file" if "/" in argv[0] else "is not found in PATH"
        reader.wrong("argv", f"starts with {argv[0]!r}, which {where}")
        return ""
    # Not resolved: a symlink (busybox, a venv's python) must stay one.
    return os.path.abspath(found)


@dataclass(frozen=True, slots=True)
class _Command:
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None

    async def run(self, payload: dict[str, Any], run: Run) -> dict[str, Any]:
        """Run the program once; the end of its output is the result."""
        stdin = _stdin(payload)
        env = self._environment(payload, run)
        try:
            ended = await run_process(self.argv, env=env, cwd=self.cwd, stdin=stdin)
        except OSError as exc:
            raise CommandFailed(f"cannot start {self.argv[0]}: {exc.strerror or exc}") from exc
        if ended.returncode:
            raise CommandFailed(_failure(ended))
        result: dict[str, Any] = {"exit_code": 0, "output": ended.output}
        return result | ({"output_dropped_bytes": ended.dropped} if ended.dropped else {})

    def _environment(self, payload: dict[str, Any], run: Run) -> dict[str, str]:
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return {**kept, **self.env, **_about(run), **_scalars(payload)}


def _about(run: Run) -> dict[str, str]:
    told = {
        "TYPE": run.type,
        "ID": run.id,
        "ATTEMPT": str(run.attempt),
        "FENCE": str(run.fence),
        "DUE": _instant(run.due),
        "TICK": _instant(run.tick) if run.tick else None,
        "SCHEDULE": run.schedule,
    }
    return {f"SCHEDULD_{name}": value for name, value in told.items() if value is not None}


def _instant(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _scalars(payload: dict[str, Any]) -> dict[str, str]:
    """Top-level scalars as variables; two keys of one name are refused, none is preferred."""
    found: dict[str, str] = {}
    origin: dict[str, str] = {}
    for key, value in payload.items():
        if isinstance(value, dict | list):
            continue
        name = "SCHEDULD_PAYLOAD_" + re.sub(r"[^A-Z0-9_]", "_", key.upper())
        if name in origin:
            raise Dead(f"payload keys {origin[name]!r} and {key!r} are both {name}")
        origin[name] = key
        text = _scalar(key, value)
        if len(text.encode()) <= LONGEST_VALUE:
            found[name] = text
    return found


def _scalar(key: str, value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    if "\0" in text:
        raise Dead(f"payload {key!r} has a NUL, which no environment can hold")
    return text


def _stdin(payload: dict[str, Any]) -> bytes:
    try:
        return encode_json(payload)
    except InvalidInput as exc:
        raise Dead(exc.message) from exc


def _failure(ended: Ended) -> str:
    code = ended.returncode
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        what = f"killed by {names.get(-code, f'signal {-code}')}"
    else:
        what = f"exit code {code}"
    tail = printable(ended.output.strip())[-_ERROR_CHARS:]
    return f"{what}: {tail}" if tail else f"{what}, no output"
