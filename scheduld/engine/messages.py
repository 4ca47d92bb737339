"""What the daemon tells its workers, and how it says that one has died."""

from __future__ import annotations

import json
import logging
import signal
import sys
from typing import TYPE_CHECKING, Any

from scheduld.duration import format_ms
from scheduld.policies.endings import error_of
from scheduld.worker.channel import EXIT_CUT_OFF
from scheduld.worker.frames import framed, pack
from scheduld.worker.options import plain

if TYPE_CHECKING:
    from scheduld.engine.duty import Duty
    from scheduld.engine.isolation import Execution
    from scheduld.engine.workers import Death


def hello(duty: Duty) -> bytes:
    """Write the first message to each worker of a type."""
    kind = duty.kind
    return pack(
        {
            "path": sys.path,
            "level": logging.getLogger().getEffectiveLevel(),
            "type": kind.name,
            "handler": kind.handler,
            "predicate": kind.reschedule_if,
            "anchor": kind.anchor,
            "options": plain(kind.options),
            "limits": {
                "max_memory": kind.max_memory,
                "max_cpu_ms": kind.max_cpu_ms,
                "max_files": kind.max_files,
            },
        }
    )


def call(execution: Execution) -> bytes:
    """Write the call of a handler, or of a predicate; its end has the same number."""
    claim = execution.claim
    # The payload as it is stored: it was read, and found to be JSON.
    message = b'{"call":"%b","number":%d,"payload":%b' % (
        b"predicate" if execution.is_asked else b"handler",
        claim.fence,
        claim.payload or b"{}",
    )
    if execution.run is not None:
        told = {
            "id": claim.id,
            "attempt": claim.attempt,
            "fence": claim.fence,
            "due_ms": claim.due_ms,
            "tick_ms": claim.tick_ms,
            "schedule": claim.schedule,
        }
        message += b',"run":' + json.dumps(told).encode()
    return framed(message + b"}")


def death_error(death: Death, max_cpu_ms: int | None, *, has_begun: bool) -> dict[str, Any]:
    """Describe a run whose worker has died; `has_begun`: the handler was called."""
    if death.signal == signal.SIGXCPU and max_cpu_ms is not None and not death.why:
        limit = format_ms(max_cpu_ms)
        return error_of("cpu_limit", f"the run took more than {limit} of processor time (max_cpu)")
    words = f"the worker process {death.words}"
    if death.why or death.code == EXIT_CUT_OFF:
        kind = "worker"
    elif death.signal is not None:
        kind = "killed"
        if death.signal == signal.SIGKILL:
            words += ": by the kernel for want of memory, or by somebody"
    else:
        kind = "worker" if death.code is None else "exit"
    return error_of(kind, words if has_begun else f"{words}, before it could call the handler")
