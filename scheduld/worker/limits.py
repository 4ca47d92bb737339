"""Limits of one run: soft ones, set before it and taken back after it."""

from __future__ import annotations

import math
import resource
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATM = "/proc/self/statm"
_CHANGEABLE = tuple(
    getattr(resource, f"RLIMIT_{name}")
    for name in ("AS", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC", "STACK")
)


class Limits(TypedDict):
    """What a run may use: bytes of address space, ms of processor time, open files."""

    max_memory: int | None
    max_cpu_ms: int | None
    max_files: int | None


def no_core_dumps() -> None:
    """Write no memory to disk when a handler crashes."""
    with suppress(OSError, ValueError):  # a sandbox may forbid it, and will have its own limit
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Set the limits, and restore what was there.

    Only soft limits: a hard one could not be raised again for the next run. Raises MemoryError
    if the process has more memory already.
    """
    wanted = _wanted(limits)
    if not wanted:
        yield
        return
    before = {kind: resource.getrlimit(kind) for kind in wanted}
    try:
        for kind, value in wanted.items():
            hard = before[kind][1]
            soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (soft, hard))
        yield
    finally:
        for kind, pair in before.items():
            # The handler may have lowered the hard one for ever: that is not how the run ended.
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, pair)


def current() -> list[tuple[int, int]]:
    """The limits that a handler might change for the runs after it, soft and hard."""
    return [resource.getrlimit(kind) for kind in _CHANGEABLE]


def _wanted(limits: Limits) -> dict[int, int]:
    wanted = {}
    if (memory := limits["max_memory"]) is not None:
        _check_room(memory)
        wanted[resource.RLIMIT_AS] = memory
    if (cpu_ms := limits["max_cpu_ms"]) is not None:
        # The limit counts from the start of the process, and in whole seconds.
        used = resource.getrusage(resource.RUSAGE_SELF)
        wanted[resource.RLIMIT_CPU] = math.ceil(used.ru_utime + used.ru_stime + cpu_ms / 1000)
    if (files := limits["max_files"]) is not None:
        wanted[resource.RLIMIT_NOFILE] = files
    return wanted


def _check_room(memory: int) -> None:
    if (used := address_space()) >= memory:
        raise MemoryError(
            f"the worker has {used >> 20} MB of address space before the run begins: "
            f"max_memory of {memory >> 20} MB is too little"
        )


def room(limits: Limits) -> int:
    """Bytes of address space that a run may still take; 0 without a limit."""
    memory = limits["max_memory"]
    return 0 if memory is None else memory - address_space()


def address_space() -> int:
    """Bytes of address space of this process; 0 where the system does not tell."""
    return _statm(0)


def resident() -> int:
    """Bytes of memory that this process has now, or had at most where that is not told."""
    return _statm(1) or peak()


def peak() -> int:
    """Bytes of memory that this process had at most."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _statm(place: int) -> int:
    try:
        with open(_STATM, "rb") as file:
            return int(file.read().split()[place]) * resource.getpagesize()
    except OSError:
        return 0
