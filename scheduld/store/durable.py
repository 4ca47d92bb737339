"""Adds that are answered only when they are stored beyond the memory of one server.

The call, a write and a wait travel together on one connection: the server counts as confirmed
what that connection has written. The write is there for a repeated add, which writes nothing
itself, and would be confirmed at once whatever became of the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from scheduld.errors import InvalidInput, OutcomeUnknown, ScheduldError
from scheduld.store.trouble import ServerError, from_reply, is_missing_script
from scheduld.store.wire import command, is_late, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduld import clock
    from scheduld.store.calls import Call
    from scheduld.store.wire import Command, Conversation

_SLACK_MS = 500
_HINTS = {
    "disk": "is its disk slow? A repeat with the same id and token is safe",
    "replica": "is a replica connected? A repeat with the same id and token is safe",
}
_WORDS = {"disk": "on disk", "replica": "by a replica"}
PROBE: Command = ("WAITAOF", 1, 0, 1)
"""Answered at once by a server that can confirm what is on its disk."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Where a task must be stored before its add is answered."""

    where: Literal["disk", "replica"]

    def commands(self, call: Call[Any], timeout_ms: float) -> list[Command]:
        """The write and the wait that follow a call; the answer comes before the timeout."""
        wait_ms = int(max(timeout_ms - _SLACK_MS, timeout_ms / 2))
        meta = call.keys[4]
        wait: Command = ("WAIT", 1, wait_ms)
        if self.where == "disk":
            wait = ("WAITAOF", 1, 0, wait_ms)
        return [("HINCRBY", meta, "confirmed", 1), wait]

    def doubt(self, write: Any, count: Any) -> OutcomeUnknown | None:
        """Say why what was written may be lost again, from the two replies; None if it is not."""
        if isinstance(write, ServerError):
            count = write
        if isinstance(count, list):
            count = count[0]
        if isinstance(count, int) and count >= 1:
            return None
        why = f" ({from_reply(count).message})" if isinstance(count, ServerError) else ""
        return OutcomeUnknown(
            f"stored in the memory of Redis, but not confirmed {_WORDS[self.where]} in time{why}",
            hint=_HINTS[self.where],
        )


def refusal(error: ScheduldError) -> InvalidInput:
    """Explain why a server cannot confirm what is on its disk, from its answer to PROBE."""
    if "unknown command" in error.message.lower():
        why = 'durable = "disk" needs Redis 7.2 or newer, or Valkey: this server has no WAITAOF'
    elif "appendonly" in error.message:
        why = 'durable = "disk" needs the append-only file: set appendonly yes in the server'
    else:
        why = f'durable = "disk" cannot be kept: {error.message}'
    return InvalidInput(why, hint='or set durable to "memory" or "replica"')


def confirmed(
    calls: Sequence[Call[Any]], server: clock.ServerClock, timeout_ms: float, confirm: Confirm
) -> Conversation[list[tuple[Any, OutcomeUnknown | None]]]:
    """Carry calls out one by one; ends after the first error or doubt. Results as of Confirmed."""
    results: list[tuple[Any, OutcomeUnknown | None]] = []
    for call in calls:
        for last_try in (False, False, True):
            sent = [command(call, server, timeout_ms), *confirm.commands(call, timeout_ms)]
            answer, write, count = yield sent
            if is_missing_script(answer) and not last_try:
                yield [("SCRIPT", "LOAD", call.script.source)]
            elif not is_late(answer) or last_try:
                break
            else:
                read(call, answer, server)  # it tells the server's time
        result = read(call, answer, server)
        is_error = isinstance(result, ScheduldError)
        results.append((result, None if is_error else confirm.doubt(write, count)))
        if is_error or results[-1][1]:
            break
    return results
