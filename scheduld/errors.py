"""Every error that scheduld raises on purpose.

All derive from `ScheduldError`. Each has a `kind` (stable, machine-readable),
an `exit_code` (what the command line ends with) and an optional `hint` that
says what would be right. The messages are one line and never hold a secret.
"""

from __future__ import annotations

from dataclasses import dataclass


class ScheduldError(Exception):
    """Base of all scheduld errors."""

    kind = "error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # for those who only see the traceback


class InvalidInput(ScheduldError, ValueError):
    """An id, a name, a payload or an option that can never be accepted as it is."""

    kind = "usage"
    exit_code = 2


class WhenError(InvalidInput):
    """A text or value that is no unambiguous instant or duration."""

    kind = "when"


class CronError(InvalidInput):
    """A cron expression that cannot be read, is none of its dialect, or can never fire."""

    kind = "cron"


class RuleBroken(CronError):
    """A rule whose next instant is not later than the last: park its schedule, do not ask again."""

    kind = "rule_broken"
    exit_code = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a config file: where it is and what would be right."""

    message: str
    file: str | None = None
    line: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        parts = [part for part in (place, self.path, self.message) if part]
        return ": ".join(parts)


class ConfigError(ScheduldError):
    """A config file that cannot be used; `problems` lists all that is wrong with it."""

    kind = "config"
    exit_code = 2

    def __init__(self, problems: list[Problem], *, hint: str | None = None) -> None:
        super().__init__("; ".join(str(problem) for problem in problems), hint=hint)
        self.problems = problems


class TaskExists(ScheduldError):
    """An add with `on_conflict="error"` met a kept record of the same id; `state` is its state."""

    kind = "exists"

    def __init__(self, message: str, *, state: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.state = state


class NotFound(ScheduldError):
    """There is no such task (any more)."""

    kind = "not_found"


class Conflict(ScheduldError):
    """The task is in a state that does not allow the operation."""

    kind = "conflict"


class Unreachable(ScheduldError):
    """Redis cannot be reached, or refused the call before doing anything of it."""

    kind = "unreachable"
    exit_code = 3


class Unusable(ScheduldError):
    """The server, its data or its folder cannot be used as it is; waiting does not help."""

    kind = "unusable"
    exit_code = 3


class OutcomeUnknown(ScheduldError):
    """The call was sent and its answer is lost: it may have been carried out or not.

    Repeating it with the same id and token is safe; `task_id` and `token` are set for adds.
    """

    kind = "outcome_unknown"
    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        task_id: str | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.task_id = task_id
        self.token = token
